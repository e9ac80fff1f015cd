//! Retrieval among many candidates: EMS (2024), section V-D, table X. P@1 of 2,000 queries among 200,000 sentences of another
//! language, with margin scoring (`crate::mining`). Each query has one translation among the candidates.
//!
//! Files `candidates.xx-yy.xx` (queries in language xx) and `candidates.xx-yy.yy` (candidates in language yy), one sentence per
//! line: line n of the candidates translates line n of the queries. The candidates may and should have additional lines.
//! Queries beyond the requested number are ignored. The other direction needs another pair of files.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::encoder::SentenceEncoder;
use super::error::EvaluationError;
use super::lines;
use super::neighbors::bidirectional_neighbors;
use super::retrieval::mean;
use crate::mining::margin::NEIGHBORS;
use crate::mining::{Margin, MarginScores};

/// Number of queries in the paper.
pub const QUERIES: usize = 2_000;

/// The results, in percent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CandidatesReport {
    /// By language pair, with the queries' language first.
    pub pairs: BTreeMap<String, CandidatesScore>,
    /// Mean P@1 by margin score.
    pub mean: f64,
}

/// P@1 of one pair of files, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CandidatesScore {
    /// Number of queries.
    pub queries: usize,
    /// Number of candidates.
    pub candidates: usize,
    /// P@1 if the four nearest are re-ranked by margin score.
    pub by_margin: f64,
    /// P@1 of the nearest by cosine.
    pub by_cosine: f64,
}

/// Evaluates every pair of files in `folder` with at most `queries` queries. Returns `None` if there are no files.
pub fn measure(
    folder: &Path,
    queries: usize,
    encoder: &mut dyn SentenceEncoder,
) -> Result<Option<CandidatesReport>, EvaluationError> {
    let mut pairs = BTreeMap::new();
    for name in lines::names(folder)? {
        let Some((pair, language)) = name.strip_prefix("candidates.").and_then(|rest| rest.rsplit_once('.')) else { continue };
        let Some((first, second)) = pair.split_once('-').filter(|(first, _)| *first == language) else { continue };
        let other = folder.join(format!("candidates.{first}-{second}.{second}"));
        pairs.insert(pair.to_owned(), measure_pair(&folder.join(&name), &other, queries, encoder)?);
    }
    let mean = mean(pairs.values().map(|score: &CandidatesScore| score.by_margin));
    Ok((!pairs.is_empty()).then_some(CandidatesReport { pairs, mean }))
}

fn measure_pair(
    first: &Path,
    second: &Path,
    queries: usize,
    encoder: &mut dyn SentenceEncoder,
) -> Result<CandidatesScore, EvaluationError> {
    let mut sentences = lines::sentences(first)?;
    sentences.truncate(queries);
    let candidates = lines::sentences(second)?;
    if candidates.len() < sentences.len() {
        let problem =
            format!("expected one translation for each of the {} queries, got {} lines", sentences.len(), candidates.len());
        return Err(EvaluationError::Content { path: second.to_owned(), problem });
    }
    let (forward, backward) = bidirectional_neighbors(&encoder.encode(&sentences)?, &encoder.encode(&candidates)?, NEIGHBORS)?;
    let percent = |right: usize| 100.0 * right as f64 / sentences.len() as f64;
    let nearest =
        (0..sentences.len()).filter(|&query| forward.of(query).next().is_some_and(|(found, _)| found as usize == query));
    let scores = MarginScores::new(&forward, &backward, Margin::Ratio)?;
    Ok(CandidatesScore {
        queries: sentences.len(),
        candidates: candidates.len(),
        by_cosine: percent(nearest.count()),
        by_margin: percent(scores.best_forward().filter(|pair| pair.first == pair.second).count()),
    })
}

impl fmt::Display for CandidatesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Retrieval among many candidates, P@1 in percent:\n")?;
        writeln!(f, "| pair  | by margin | by cosine | queries | candidates |")?;
        writeln!(f, "|-------|----------:|----------:|--------:|-----------:|")?;
        for (pair, score) in &self.pairs {
            let (margin, cosine) = (score.by_margin, score.by_cosine);
            writeln!(f, "| {pair:5} | {margin:>9.2} | {cosine:>9.2} | {:>7} | {:>10} |", score.queries, score.candidates)?;
        }
        writeln!(f, "\n- candidates, {} pairs: mean by margin {:.2}", self.pairs.len(), self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::Embeddings;
    use crate::evaluation::test_encoders::with_files;

    /// Embeds a sentence `cos sin` as that direction.
    struct Directions;

    impl SentenceEncoder for Directions {
        fn encode(&mut self, texts: &[String]) -> Result<Embeddings, EvaluationError> {
            let values = texts.iter().flat_map(|text| text.split(' ').map(|value| value.parse::<f32>().unwrap()));
            Embeddings::normalized(values.collect(), 2)
        }
    }

    fn measure_files(files: &[(&str, &str)], queries: usize) -> Result<Option<CandidatesReport>, EvaluationError> {
        with_files(files, |folder| measure(folder, queries, &mut Directions))
    }

    #[test]
    fn margin_finds_translations_that_a_hub_hides_from_cosine() {
        // The third query is beyond the requested two.
        //                 b0=(0.96,0.28)  b1=(0.6,0.8)   mean
        // a0=(0.8,0.6)        0.936           0.96       0.948
        // a1=(0.6,0.8)        0.8             1          0.9
        // mean                0.868           0.98
        // By cosine, both find b1. By margin, a0 finds b0: 0.936 / ((0.948 + 0.868) / 2) = 1.031 before
        // b1: 0.96 / ((0.948 + 0.98) / 2) = 0.996, and a1 finds b1: 1 / ((0.9 + 0.98) / 2) = 1.064 before b0: 0.905.
        let files = [("candidates.de-en.de", "0.8 0.6\n0.6 0.8\n0.28 0.96\n"), ("candidates.de-en.en", "0.96 0.28\n0.6 0.8\n")];
        let report = measure_files(&files, 2).unwrap().unwrap();
        assert_eq!(report.pairs["de-en"], CandidatesScore { queries: 2, candidates: 2, by_margin: 100.0, by_cosine: 50.0 });
        assert_eq!(report.mean, 100.0);
    }

    #[test]
    fn extra_candidates_compete_with_the_translations() {
        // The third candidate equals the second query, but the second candidate is its translation.
        let files = [("candidates.fr-en.fr", "1 0\n0 1\n"), ("candidates.fr-en.en", "1 0\n0.8 0.6\n0 1\n")];
        let report = measure_files(&files, QUERIES).unwrap().unwrap();
        let score = report.pairs["fr-en"];
        assert_eq!((score.queries, score.candidates, score.by_cosine, score.by_margin), (2, 3, 50.0, 50.0));
    }
}
