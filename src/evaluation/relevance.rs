//! How good ranked lists of documents are, given which documents are relevant to which query: nDCG, recall and the reciprocal rank,
//! as TREC and BEIR report them.
//!
//! Three files of tab-separated fields. `queries.tsv` and `documents.tsv`: `id<TAB>language<TAB>text`, the language an ISO 639-1 code.
//! `qrels.tsv`: `query id<TAB>document id<TAB>gain`, the gain a number above 0, higher for more relevant; what has no line is not
//! relevant. Each query has at least one relevant document.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::EvaluationError;
use super::lines;
use super::retrieval::mean;
use crate::domain::Language;

/// Documents of a list that are looked at.
pub const DEPTH: usize = 10;

/// A text with its id and language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its id, unlike all others of its file.
    pub id: String,
    /// Its language.
    pub language: Language,
    /// The text.
    pub text: String,
}

/// What is asked, what is searched, and what is to be found.
#[derive(Debug, Clone, PartialEq)]
pub struct Relevance {
    /// Queries.
    pub queries: Vec<Item>,
    /// Documents.
    pub documents: Vec<Item>,
    /// By query id, the gain of each relevant document by its id.
    pub gains: HashMap<String, HashMap<String, f64>>,
}

/// Means over queries, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct RelevanceScore {
    /// Queries that these are means of.
    pub queries: usize,
    /// Normalized discounted cumulative gain of the first ten.
    pub ndcg_at_10: f64,
    /// Share of the relevant documents, of at most ten, that is among the first ten.
    pub recall_at_10: f64,
    /// One over the rank of the first relevant document, 0 when it is not among the first ten.
    pub mrr_at_10: f64,
}

/// Reads the three files in `folder`.
pub fn read(folder: &Path) -> Result<Relevance, EvaluationError> {
    let (queries_path, documents_path, gains_path) =
        (folder.join("queries.tsv"), folder.join("documents.tsv"), folder.join("qrels.tsv"));
    let (queries, query_lines) = read_items(&queries_path)?;
    let (documents, document_lines) = read_items(&documents_path)?;
    let mut gains: HashMap<String, HashMap<String, f64>> = HashMap::new();
    for (at, [query, document, gain]) in lines::rows(&gains_path, ["query id", "document id", "gain"])?.into_iter().enumerate() {
        let wrong = |field, expected: &str, got: &str| lines::field(&gains_path, at + 1, field, expected, got);
        if !query_lines.contains_key(&query) {
            return Err(wrong("query id", "an id of queries.tsv", &query));
        }
        if !document_lines.contains_key(&document) {
            return Err(wrong("document id", "an id of documents.tsv", &document));
        }
        let value = gain.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
        let value = value.ok_or_else(|| wrong("gain", "a number above 0", &gain))?;
        if gains.entry(query.clone()).or_default().insert(document.clone(), value).is_some() {
            return Err(wrong("document id", "each document once per query", &document));
        }
    }
    if let Some(query) = queries.iter().find(|query| !gains.contains_key(&query.id)) {
        let problem = format!("expected a relevant document of each query, got none of {}", query.id);
        return Err(EvaluationError::Content { path: gains_path, problem });
    }
    Ok(Relevance { queries, documents, gains })
}

/// Texts, and the line of each id.
fn read_items(path: &Path) -> Result<(Vec<Item>, HashMap<String, usize>), EvaluationError> {
    let (mut items, mut known) = (Vec::new(), HashMap::new());
    for (at, [id, code, text]) in lines::rows(path, ["id", "language", "text"])?.into_iter().enumerate() {
        let wrong = |field, expected: &str, got: &str| lines::field(path, at + 1, field, expected, got);
        let language =
            Language::parse(&code).ok_or_else(|| wrong("language", "the ISO 639-1 code of a known language", &code))?;
        if let Some(earlier) = known.insert(id.clone(), at + 1) {
            return Err(wrong("id", "an id of its own", &format!("{id}, as in line {earlier}")));
        }
        items.push(Item { id, language, text });
    }
    Ok((items, known))
}

/// Judges one ranked list of ids against the gains of the relevant documents, of which there must be one.
pub fn judge<'a>(ranked: impl IntoIterator<Item = &'a str>, gains: &HashMap<String, f64>) -> RelevanceScore {
    let discount = |rank: usize| 1.0 / ((rank + 2) as f64).log2();
    let (mut gained, mut found, mut reciprocal) = (0.0, 0, 0.0);
    for (rank, id) in ranked.into_iter().take(DEPTH).enumerate() {
        if let Some(gain) = gains.get(id) {
            gained += gain * discount(rank);
            found += 1;
            if reciprocal == 0.0 {
                reciprocal = 1.0 / (rank + 1) as f64;
            }
        }
    }
    let mut best: Vec<f64> = gains.values().copied().collect();
    best.sort_by(|a, b| b.total_cmp(a));
    let ideal: f64 = best.iter().take(DEPTH).enumerate().map(|(rank, gain)| gain * discount(rank)).sum();
    let share = |part: f64, of: f64| if of > 0.0 { 100.0 * part / of } else { 0.0 };
    RelevanceScore {
        queries: 1,
        ndcg_at_10: share(gained, ideal),
        recall_at_10: share(f64::from(found), gains.len().min(DEPTH) as f64),
        mrr_at_10: 100.0 * reciprocal,
    }
}

impl RelevanceScore {
    /// The means of the scores of single queries.
    pub fn mean(scores: &[Self]) -> Self {
        Self {
            queries: scores.len(),
            ndcg_at_10: mean(scores.iter().map(|score| score.ndcg_at_10)),
            recall_at_10: mean(scores.iter().map(|score| score.recall_at_10)),
            mrr_at_10: mean(scores.iter().map(|score| score.mrr_at_10)),
        }
    }

    /// The means by group, such as the language of the query.
    pub fn by<K: Ord>(scores: impl IntoIterator<Item = (K, Self)>) -> BTreeMap<K, Self> {
        let mut groups: BTreeMap<K, Vec<Self>> = BTreeMap::new();
        for (key, score) in scores {
            groups.entry(key).or_default().push(score);
        }
        groups.into_iter().map(|(key, scores)| (key, Self::mean(&scores))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gains(gains: &[(&str, f64)]) -> HashMap<String, f64> {
        gains.iter().map(|(id, gain)| ((*id).to_owned(), *gain)).collect()
    }

    #[track_caller]
    fn near(got: f64, expect: f64) {
        assert!((got - expect).abs() < 1e-9, "{got} is not {expect}");
    }

    #[test]
    fn a_list_is_judged_as_worked_by_hand() {
        // Ranks 2 and 4 are relevant with gains 1 and 3; one with gain 2 is missing.
        // DCG = 1 / log2(3) + 3 / log2(5); the ideal 3 / log2(2) + 2 / log2(3) + 1 / log2(4).
        let score = judge(["x", "a", "y", "b"], &gains(&[("a", 1.0), ("b", 3.0), ("c", 2.0)]));
        let (log_3, log_5) = (3.0_f64.log2(), 5.0_f64.log2());
        near(score.ndcg_at_10, 100.0 * (1.0 / log_3 + 3.0 / log_5) / (3.0 + 2.0 / log_3 + 0.5));
        near(score.recall_at_10, 200.0 / 3.0);
        near(score.mrr_at_10, 50.0);
    }

    #[test]
    fn only_the_first_ten_count_and_more_than_ten_cannot_be_found() {
        let ids: Vec<String> = (0..12).map(|number| number.to_string()).collect();
        let all: HashMap<String, f64> = ids.iter().map(|id| (id.clone(), 1.0)).collect();
        let score = judge(ids.iter().map(String::as_str), &all);
        assert_eq!((score.ndcg_at_10, score.recall_at_10, score.mrr_at_10), (100.0, 100.0, 100.0));
        let last = judge(ids.iter().map(String::as_str), &gains(&[("10", 1.0)]));
        assert_eq!((last.ndcg_at_10, last.recall_at_10, last.mrr_at_10), (0.0, 0.0, 0.0));
    }

    #[test]
    fn means_are_of_groups() {
        let score = |ndcg_at_10| RelevanceScore { queries: 1, ndcg_at_10, ..RelevanceScore::default() };
        let groups = RelevanceScore::by([("de", score(100.0)), ("ja", score(30.0)), ("de", score(50.0))]);
        assert_eq!((groups["de"].queries, groups["de"].ndcg_at_10, groups["ja"].ndcg_at_10), (2, 75.0, 30.0));
    }

    fn read_files(files: [&str; 3]) -> Result<Relevance, EvaluationError> {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in ["queries.tsv", "documents.tsv", "qrels.tsv"].into_iter().zip(files) {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        read(folder.path())
    }

    #[test]
    fn files_are_read() {
        let read = read_files(["q\tde\tRegen\n", "d\tja\t雨が降る。\ne\tde\tSonne\n", "q\td\t2\n"]).unwrap();
        assert_eq!((read.queries[0].language.code(), read.documents[0].text.as_str()), ("de", "雨が降る。"));
        assert_eq!(read.gains["q"], gains(&[("d", 2.0)]));
    }

    #[test]
    fn a_line_that_does_not_fit_is_named() {
        let (queries, documents) = ("q\tde\tRegen\n", "d\tja\t雨が降る。\n");
        for (files, expect) in [
            (
                ["q\txx\tRegen\n", documents, "q\td\t1\n"],
                "queries.tsv:1: language: expected the ISO 639-1 code of a known language, got xx",
            ),
            (
                [queries, "d\tja\t雨\nd\tja\t雪\n", "q\td\t1\n"],
                "documents.tsv:2: id: expected an id of its own, got d, as in line 1",
            ),
            ([queries, documents, "q\td\t1\nz\td\t1\n"], "qrels.tsv:2: query id: expected an id of queries.tsv, got z"),
            ([queries, documents, "q\tz\t1\n"], "qrels.tsv:1: document id: expected an id of documents.tsv, got z"),
            ([queries, documents, "q\td\t0\n"], "qrels.tsv:1: gain: expected a number above 0, got 0"),
            (
                [queries, documents, "q\td\t1\nq\td\t2\n"],
                "qrels.tsv:2: document id: expected each document once per query, got d",
            ),
            (["q\tde\tRegen\nr\tfr\tpluie\n", documents, "q\td\t1\n"], "got none of r"),
        ] {
            let error = read_files(files).unwrap_err().to_string();
            assert!(error.ends_with(expect), "{error}");
        }
    }
}
