//! Retrieval for question answering: the rank of the correct passage among all passages of its language.
//!
//! Files `retrieval.xx-yy.tsv`, one pair per line, `question in language xx<TAB>passage in language yy`; xx may equal yy. A
//! question is compared with the distinct passages of all files with the same yy.
//!
//! Passages are ranked by the cosine of embeddings (`dense`), by late interaction if the encoder has a token table (`late`),
//! and by the mean of both after each has been standardized over the passages (`both`).

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::encoder::SentenceEncoder;
use super::error::EvaluationError;
use super::flores::ENGLISH;
use super::lines;
use super::retrieval::mean;

/// Rank cutoff of the MRR.
const DEPTH: usize = 10;
/// Number of questions to score at a time, to limit memory.
const BLOCK: usize = 1_024;

/// The results, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PassagesReport {
    /// By languages, `xx-yy`.
    pub pairs: BTreeMap<String, PassagesScore>,
    /// Mean over pairs within one language.
    pub same_language: RankingMetrics,
    /// Mean over pairs of two languages.
    pub across: RankingMetrics,
    /// Mean over pairs of English and another language.
    pub with_english: RankingMetrics,
}

/// One pair of languages.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PassagesScore {
    /// Number of questions.
    pub questions: usize,
    /// Number of passages.
    pub passages: usize,
    /// The ranks of the correct passages.
    pub ranked: RankingMetrics,
}

/// The measures of each ranking; `None` if the encoder does not support it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RankingMetrics {
    /// By embeddings.
    pub dense: RankMetrics,
    /// By late interaction.
    pub late: Option<RankMetrics>,
    /// By both.
    pub both: Option<RankMetrics>,
}

/// Measures of the ranks of the correct passages, in percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RankMetrics {
    /// Share of questions whose first passage is correct.
    pub p_at_1: f64,
    /// Mean reciprocal rank of the correct passage, 0 if it is not among the first ten.
    pub mrr_at_10: f64,
}

/// The question–passage pairs of one file.
#[derive(Debug, Clone)]
pub struct File {
    /// Its languages, `xx-yy`.
    pub pair: String,
    /// The questions.
    pub questions: Vec<String>,
    /// The index of the correct passage in the pool, for each question.
    pub answers: Vec<usize>,
}

/// The passages of one language and their questions.
#[derive(Debug, Clone, Default)]
pub struct Pool {
    /// The distinct passages of all files.
    pub passages: Vec<String>,
    /// The files.
    pub files: Vec<File>,
}

/// Reads every file in `folder` into pools by the passages' language, with at most the first `questions_max` questions of each
/// file.
pub fn pools(folder: &Path, questions_max: usize) -> Result<BTreeMap<String, Pool>, EvaluationError> {
    let mut pools: BTreeMap<String, (Pool, HashMap<String, usize>)> = BTreeMap::new();
    for name in lines::names(folder)? {
        let Some(pair) = name.strip_prefix("retrieval.").and_then(|rest| rest.strip_suffix(".tsv")) else { continue };
        let Some((_, language)) = pair.split_once('-') else { continue };
        let (Pool { passages, files }, numbers) = pools.entry(language.to_owned()).or_default();
        let mut file = File { pair: pair.to_owned(), questions: Vec::new(), answers: Vec::new() };
        for [question, passage] in lines::rows(&folder.join(&name), ["question", "passage"])? {
            let number = *numbers.entry(passage.clone()).or_insert_with(|| {
                passages.push(passage);
                passages.len() - 1
            });
            if file.questions.len() < questions_max {
                file.questions.push(question);
                file.answers.push(number);
            }
        }
        files.push(file);
    }
    Ok(pools.into_iter().map(|(language, (pool, _))| (language, pool)).collect())
}

/// Evaluates every file in `folder`, with at most the first `questions_max` questions of each. Returns `None` if there are no
/// files.
pub fn measure(
    folder: &Path,
    questions_max: usize,
    encoder: &mut dyn SentenceEncoder,
) -> Result<Option<PassagesReport>, EvaluationError> {
    let pools = pools(folder, questions_max)?;
    let mut pairs = BTreeMap::new();
    for Pool { passages, files } in pools.into_values() {
        let embeddings = encoder.encode(&passages)?;
        for file in files {
            let mut ranks = [Vec::new(), Vec::new(), Vec::new()];
            for (questions, answers) in file.questions.chunks(BLOCK).zip(file.answers.chunks(BLOCK)) {
                let dense = cosines(&encoder.encode_questions(questions)?, &embeddings);
                let late = encoder.late_scores(questions, &passages)?;
                for (row, &answer) in answers.iter().enumerate() {
                    let part = |scores: &[f32]| scores[row * passages.len()..][..passages.len()].to_vec();
                    let dense = part(&dense);
                    ranks[0].push(rank(&dense, answer));
                    if let Some(late) = &late {
                        let late = part(late);
                        ranks[1].push(rank(&late, answer));
                        let both: Vec<f32> = standardized(&dense).zip(standardized(&late)).map(|(a, b)| a + b).collect();
                        ranks[2].push(rank(&both, answer));
                    }
                }
            }
            let [dense, late, both] = ranks.map(|ranks| (!ranks.is_empty()).then(|| RankMetrics::of(&ranks)));
            let ranked = RankingMetrics { dense: dense.unwrap_or_default(), late, both };
            pairs.insert(file.pair, PassagesScore { questions: file.questions.len(), passages: passages.len(), ranked });
        }
    }
    Ok((!pairs.is_empty()).then(|| PassagesReport::of(pairs)))
}

/// [queries, passages]
fn cosines(queries: &super::Embeddings, passages: &super::Embeddings) -> Vec<f32> {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    queries.rows().flat_map(|query| passages.rows().map(move |passage| dot(query, passage))).collect()
}

/// Returns the rank of `answer`, from 1. The correct passage comes last among equal scores, so that ties are never counted as
/// found.
fn rank(scores: &[f32], answer: usize) -> usize {
    let score_of_answer = scores[answer];
    1 + scores.iter().enumerate().filter(|(number, score)| *number != answer && **score >= score_of_answer).count()
}

/// Standardizes scores: subtracts their mean and divides by their standard deviation.
fn standardized(scores: &[f32]) -> impl Iterator<Item = f32> {
    let count = scores.len().max(1) as f32;
    let mean = scores.iter().sum::<f32>() / count;
    let deviation = (scores.iter().map(|score| (score - mean).powi(2)).sum::<f32>() / count).sqrt().max(1e-9);
    scores.iter().map(move |score| (score - mean) / deviation)
}

impl RankMetrics {
    fn of(ranks: &[usize]) -> Self {
        let percent = |value: &dyn Fn(usize) -> f64| 100.0 * mean(ranks.iter().map(|&rank| value(rank)));
        Self {
            p_at_1: percent(&|rank| f64::from(u8::from(rank == 1))),
            mrr_at_10: percent(&|rank| if rank <= DEPTH { 1.0 / rank as f64 } else { 0.0 }),
        }
    }

    fn mean(ranks: &[Self]) -> Self {
        Self { p_at_1: mean(ranks.iter().map(|ranks| ranks.p_at_1)), mrr_at_10: mean(ranks.iter().map(|ranks| ranks.mrr_at_10)) }
    }
}

impl PassagesReport {
    fn of(pairs: BTreeMap<String, PassagesScore>) -> Self {
        let among = |counts: &dyn Fn(&str, &str) -> bool| {
            let chosen =
                pairs.iter().filter(|(pair, _)| pair.split_once('-').is_some_and(|(query, passage)| counts(query, passage)));
            let chosen: Vec<RankingMetrics> = chosen.map(|(_, score)| score.ranked).collect();
            let by = |ranks_of: &dyn Fn(&RankingMetrics) -> Option<RankMetrics>| {
                let ranks: Vec<RankMetrics> = chosen.iter().filter_map(ranks_of).collect();
                (!ranks.is_empty()).then(|| RankMetrics::mean(&ranks))
            };
            RankingMetrics {
                dense: by(&|ranked| Some(ranked.dense)).unwrap_or_default(),
                late: by(&|ranked| ranked.late),
                both: by(&|ranked| ranked.both),
            }
        };
        Self {
            same_language: among(&|query, passage| query == passage),
            across: among(&|query, passage| query != passage),
            with_english: among(&|query, passage| query != passage && (query == ENGLISH || passage == ENGLISH)),
            pairs,
        }
    }
}

impl fmt::Display for PassagesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Questions among the passages of a language, MRR@10 (P@1) in percent:\n")?;
        writeln!(f, "| languages     | dense         | late          | both          | questions | passages |")?;
        writeln!(f, "|---------------|--------------:|--------------:|--------------:|----------:|---------:|")?;
        let cell = |ranks: Option<RankMetrics>| {
            ranks.map_or_else(|| "-".to_owned(), |ranks| format!("{:.1} ({:.1})", ranks.mrr_at_10, ranks.p_at_1))
        };
        let mut row = |name: &str, ranked: &RankingMetrics, counts: (String, String)| {
            let (dense, late, both) = (cell(Some(ranked.dense)), cell(ranked.late), cell(ranked.both));
            writeln!(f, "| {name:13} | {dense:>13} | {late:>13} | {both:>13} | {:>9} | {:>8} |", counts.0, counts.1)
        };
        for (pair, score) in &self.pairs {
            row(pair, &score.ranked, (score.questions.to_string(), score.passages.to_string()))?;
        }
        for (name, ranked) in
            [("same language", &self.same_language), ("across", &self.across), ("with English", &self.with_english)]
        {
            row(name, ranked, ("-".to_owned(), "-".to_owned()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::Embeddings;
    use crate::evaluation::test_encoders::with_files;

    /// Embeds `x y ...` by its first two numbers. Its late-interaction score is the number of shared words.
    struct Numbers;

    impl SentenceEncoder for Numbers {
        fn encode(&mut self, texts: &[String]) -> Result<Embeddings, EvaluationError> {
            let first = |text: &String| text.split(' ').take(2).map(|value| value.parse::<f32>().unwrap()).collect::<Vec<_>>();
            Embeddings::normalized(texts.iter().flat_map(first).collect(), 2)
        }

        fn late_scores(&mut self, questions: &[String], passages: &[String]) -> Result<Option<Vec<f32>>, EvaluationError> {
            let shared = |a: &str, b: &str| a.split(' ').filter(|word| b.split(' ').any(|other| other == *word)).count() as f32;
            Ok(Some(questions.iter().flat_map(|q| passages.iter().map(move |p| shared(q, p))).collect()))
        }
    }

    fn measure_files(files: &[(&str, &str)], questions_max: usize) -> Option<PassagesReport> {
        with_files(files, |folder| measure(folder, questions_max, &mut Numbers)).unwrap()
    }

    #[test]
    fn questions_are_ranked_against_all_passages_of_the_language() {
        // The passage of "1 0" is at an angle to it; the passage of the other file is nearer.
        let files = [("retrieval.de-en.tsv", "1 0\t2 1\n"), ("retrieval.en-en.tsv", "1 0 a\t3 0\n0 1\t0 2\n")];
        let report = measure_files(&files, 10).unwrap();
        let german = report.pairs["de-en"];
        assert_eq!((german.questions, german.passages), (1, 3));
        assert_eq!(german.ranked.dense, RankMetrics { p_at_1: 0.0, mrr_at_10: 50.0 });
        assert_eq!(report.same_language.dense, RankMetrics { p_at_1: 100.0, mrr_at_10: 100.0 });
        assert_eq!((report.across, report.with_english), (german.ranked, german.ranked));
    }

    #[test]
    fn late_interaction_and_combined_rankings_are_reported() {
        // By cosine, three passages are slightly better than the correct one; by shared words, the last one is.
        let rows = "1 0 a b c d\t4 3 a b c\n1 0\t9 2\n1 0\t7 3\n1 0\t3 2\n1 0\t-3 5 a b c d\n";
        let ranked = measure_files(&[("retrieval.en-en.tsv", rows)], 1).unwrap().pairs["en-en"].ranked;
        let [dense, late, both] = [Some(ranked.dense), ranked.late, ranked.both].map(|ranks| ranks.unwrap().mrr_at_10);
        assert_eq!((dense, late, both), (25.0, 50.0, 100.0));
    }

    #[test]
    fn tied_scores_rank_the_correct_passage_last() {
        assert_eq!((rank(&[0.5, 0.5, 0.1], 0), rank(&[0.5, 0.5, 0.1], 1), rank(&[0.5, 0.6, 0.1], 1)), (2, 2, 1));
    }
}
