//! Metrics of ranked lists with relevance judgments: nDCG, recall, reciprocal rank and success, as reported by TREC and BEIR.
//! `judged` reads the judgments, `runs` the ranked lists of other programs.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::retrieval::mean;
use crate::domain::Language;

/// Cutoff of all metrics except recall@100.
pub const DEPTH: usize = 10;
/// Cutoff of recall@100, and the number of hits to request.
pub const DEPTH_MAX: usize = 100;

/// A query, or a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// Its id, unique in its file.
    pub id: String,
    /// The title of a document, if it has one.
    pub title: Option<String>,
    /// Its language, if the file names it.
    pub language: Option<Language>,
    /// The text; empty for a document of BEIR that has neither a title nor a text.
    pub text: String,
}

/// Gains of relevant documents by id, each above 0, higher for more relevant ones.
pub type Gains = HashMap<String, f64>;

/// Queries, documents and relevance judgments.
#[derive(Debug, Clone, PartialEq)]
pub struct TestCollection {
    /// Queries.
    pub queries: Vec<Item>,
    /// Documents.
    pub documents: Vec<Item>,
    /// The relevant documents by query id. A query without any is missing.
    pub gains: HashMap<String, Gains>,
}

/// The metrics of one list, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Scores {
    /// Normalized discounted cumulative gain of the first ten.
    pub ndcg_at_10: f64,
    /// Relevant documents among the first ten, divided by the number of relevant documents or ten, whichever is smaller.
    pub recall_at_10: f64,
    /// Relevant documents among the first hundred, divided by the number of relevant documents or a hundred, whichever is
    /// smaller.
    pub recall_at_100: f64,
    /// Reciprocal rank of the first relevant document, 0 if it is not among the first ten.
    pub mrr_at_10: f64,
    /// 100 if the first document is relevant.
    pub success_at_1: f64,
}

/// Means over queries, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct MeanScores {
    /// Number of queries.
    pub queries: usize,
    /// The means.
    #[serde(flatten)]
    pub scores: Scores,
}

/// Evaluates one ranked list of ids, given the gains of the relevant documents. There must be at least one.
pub fn score_ranking<'a>(ranked: impl IntoIterator<Item = &'a str>, gains: &Gains) -> Scores {
    let discount = |rank: usize| 1.0 / ((rank + 2) as f64).log2();
    let (mut gained, mut found, mut found_deep, mut first) = (0.0, 0, 0, None);
    for (rank, id) in ranked.into_iter().take(DEPTH_MAX).enumerate() {
        let Some(gain) = gains.get(id) else { continue };
        found_deep += 1;
        if rank < DEPTH {
            gained += gain * discount(rank);
            found += 1;
            first.get_or_insert(rank);
        }
    }
    let mut best: Vec<f64> = gains.values().copied().collect();
    best.sort_by(|a, b| b.total_cmp(a));
    let ideal: f64 = best.iter().take(DEPTH).enumerate().map(|(rank, gain)| gain * discount(rank)).sum();
    let share = |part: f64, of: f64| if of > 0.0 { 100.0 * part / of } else { 0.0 };
    Scores {
        ndcg_at_10: share(gained, ideal),
        recall_at_10: share(f64::from(found), gains.len().min(DEPTH) as f64),
        recall_at_100: share(f64::from(found_deep), gains.len().min(DEPTH_MAX) as f64),
        mrr_at_10: first.map_or(0.0, |rank| 100.0 / (rank + 1) as f64),
        success_at_1: if first == Some(0) { 100.0 } else { 0.0 },
    }
}

impl Scores {
    /// The metrics with their names, in the order of table columns.
    pub fn by_metric(&self) -> [(&'static str, f64); 5] {
        [
            ("ndcg_at_10", self.ndcg_at_10),
            ("recall_at_10", self.recall_at_10),
            ("recall_at_100", self.recall_at_100),
            ("mrr_at_10", self.mrr_at_10),
            ("success_at_1", self.success_at_1),
        ]
    }
}

impl MeanScores {
    /// Computes the means over the scores of queries.
    pub fn of(scores: &[Scores]) -> Self {
        let of = |measure: fn(&Scores) -> f64| mean(scores.iter().map(measure));
        let scores_mean = Scores {
            ndcg_at_10: of(|scores| scores.ndcg_at_10),
            recall_at_10: of(|scores| scores.recall_at_10),
            recall_at_100: of(|scores| scores.recall_at_100),
            mrr_at_10: of(|scores| scores.mrr_at_10),
            success_at_1: of(|scores| scores.success_at_1),
        };
        Self { queries: scores.len(), scores: scores_mean }
    }

    /// Computes the means by group, such as the query's language.
    pub fn by_group<K: Ord>(scores: impl IntoIterator<Item = (K, Scores)>) -> BTreeMap<K, Self> {
        let mut groups: BTreeMap<K, Vec<Scores>> = BTreeMap::new();
        for (key, score) in scores {
            groups.entry(key).or_default().push(score);
        }
        groups.into_iter().map(|(key, scores)| (key, Self::of(&scores))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gains(gains: &[(&str, f64)]) -> Gains {
        gains.iter().map(|(id, gain)| ((*id).to_owned(), *gain)).collect()
    }

    #[track_caller]
    fn near(got: f64, expect: f64) {
        assert!((got - expect).abs() < 1e-9, "{got} is not {expect}");
    }

    #[test]
    fn ranking_scores_match_a_hand_calculation() {
        // Ranks 2 and 4 are relevant with gains 1 and 3; one with gain 2 is missing.
        // DCG = 1 / log2(3) + 3 / log2(5); the ideal 3 / log2(2) + 2 / log2(3) + 1 / log2(4).
        let score = score_ranking(["x", "a", "y", "b"], &gains(&[("a", 1.0), ("b", 3.0), ("c", 2.0)]));
        let (log_3, log_5) = (3.0_f64.log2(), 5.0_f64.log2());
        near(score.ndcg_at_10, 100.0 * (1.0 / log_3 + 3.0 / log_5) / (3.0 + 2.0 / log_3 + 0.5));
        near(score.recall_at_10, 200.0 / 3.0);
        near(score.recall_at_100, 200.0 / 3.0);
        near(score.mrr_at_10, 50.0);
        near(score.success_at_1, 0.0);
        near(score_ranking(["c"], &gains(&[("c", 2.0), ("a", 2.0)])).success_at_1, 100.0);
    }

    #[test]
    fn only_recall_at_100_looks_beyond_the_first_ten_results() {
        let ids: Vec<String> = (0..120).map(|number| number.to_string()).collect();
        let ranking = || ids.iter().map(String::as_str);
        let all: Gains = ids.iter().take(12).map(|id| (id.clone(), 1.0)).collect();
        let score = score_ranking(ranking(), &all);
        assert_eq!(score.by_metric().map(|(_, value)| value), [100.0; 5]);
        let last = score_ranking(ranking(), &gains(&[("10", 1.0), ("100", 1.0)]));
        assert_eq!(last, Scores { recall_at_100: 50.0, ..Scores::default() });
    }

    #[test]
    fn mean_scores_are_computed_per_group() {
        let score = |ndcg_at_10| Scores { ndcg_at_10, ..Scores::default() };
        let groups = MeanScores::by_group([("de", score(100.0)), ("ja", score(30.0)), ("de", score(50.0))]);
        let means = (groups["de"].queries, groups["de"].scores.ndcg_at_10, groups["ja"].scores.ndcg_at_10);
        assert_eq!(means, (2, 75.0, 30.0));
    }
}
