//! Semantic textual similarity: Spearman's rank correlation between the cosine of two sentences and human similarity scores.
//! EMS does not report it; it is the metric of the STS shared tasks since SemEval-2017, task 1.
//!
//! Files `sts.xx-yy.tsv` (or `sts.xx-xx.tsv`), one pair per line: `score<TAB>xx sentence<TAB>yy sentence`. A higher score means
//! more similar.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::encoder::SentenceEncoder;
use super::error::EvaluationError;
use super::lines;
use super::retrieval::mean;

/// The results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StsReport {
    /// By the part of the file name between `sts.` and `.tsv`.
    pub pairs: BTreeMap<String, StsScore>,
    /// Mean of the correlations.
    pub mean: f64,
}

/// The correlation of one file.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StsScore {
    /// Number of sentence pairs.
    pub pairs: usize,
    /// Spearman's rank correlation times 100; equal values share the mean of their ranks.
    pub spearman: f64,
}

/// Evaluates every file in `folder`. Returns `None` if there are none.
pub fn measure(folder: &Path, encoder: &mut dyn SentenceEncoder) -> Result<Option<StsReport>, EvaluationError> {
    let mut pairs = BTreeMap::new();
    for name in lines::names(folder)? {
        let Some(pair) = name.strip_prefix("sts.").and_then(|rest| rest.strip_suffix(".tsv")) else { continue };
        pairs.insert(pair.to_owned(), measure_file(&folder.join(&name), encoder)?);
    }
    let mean = mean(pairs.values().map(|score: &StsScore| score.spearman));
    Ok((!pairs.is_empty()).then_some(StsReport { pairs, mean }))
}

fn measure_file(path: &Path, encoder: &mut dyn SentenceEncoder) -> Result<StsScore, EvaluationError> {
    let (mut gold, mut first, mut second) = (Vec::new(), Vec::new(), Vec::new());
    for (number, [score, left, right]) in
        lines::rows(path, ["score", "first sentence", "second sentence"])?.into_iter().enumerate()
    {
        let value = score.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        gold.push(value.ok_or_else(|| lines::field_error(path, number + 1, "score", "a number", &score))?);
        first.push(left);
        second.push(right);
    }
    let (left, right) = (encoder.encode(&first)?, encoder.encode(&second)?);
    let dot = |(a, b): (&[f32], &[f32])| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let cosines: Vec<f64> = left.rows().zip(right.rows()).map(dot).collect();
    let correlation = spearman(&cosines, &gold).ok_or_else(|| EvaluationError::Content {
        path: path.to_owned(),
        problem: "expected scores and cosines that are not all the same".to_owned(),
    })?;
    Ok(StsScore { pairs: gold.len(), spearman: 100.0 * correlation })
}

/// Computes Spearman's rank correlation, which is Pearson's correlation of the ranks. Returns `None` if all values of one side
/// are equal.
pub fn spearman(first: &[f64], second: &[f64]) -> Option<f64> {
    pearson(&ranks(first), &ranks(second))
}

/// Returns the rank of each value, from 1; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for group in order.chunk_by(|&a, &b| values[a] == values[b]) {
        // The ranks of the group are start + 1 to start + group length.
        let shared = start as f64 + (group.len() + 1) as f64 / 2.0;
        group.iter().for_each(|&value| ranks[value] = shared);
        start += group.len();
    }
    ranks
}

fn pearson(first: &[f64], second: &[f64]) -> Option<f64> {
    let (first_mean, second_mean) = (mean(first.iter().copied()), mean(second.iter().copied()));
    let (mut together, mut first_square, mut second_square) = (0.0, 0.0, 0.0);
    for (a, b) in first.iter().zip(second) {
        let (a, b) = (a - first_mean, b - second_mean);
        together += a * b;
        first_square += a * a;
        second_square += b * b;
    }
    let spread = (first_square * second_square).sqrt();
    (spread > 0.0).then(|| together / spread)
}

impl fmt::Display for StsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "STS, Spearman's rank correlation times 100:\n")?;
        writeln!(f, "| file      | correlation | pairs |")?;
        writeln!(f, "|-----------|------------:|------:|")?;
        for (name, score) in &self.pairs {
            writeln!(f, "| {name:9} | {:>11.2} | {:>5} |", score.spearman, score.pairs)?;
        }
        writeln!(f, "\n- STS, mean of {} file(s): {:.2}", self.pairs.len(), self.mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evaluation::test_encoders::measure_files;

    fn measure_file(content: &str) -> Result<Option<StsReport>, EvaluationError> {
        measure_files(&[("sts.en-de.tsv", content)], measure)
    }

    #[test]
    fn equal_values_share_their_mean_rank() {
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0, 3.0]), [4.0, 1.0, 4.0, 2.0, 4.0]);
        assert_eq!(ranks(&[0.0, -0.0]), [1.5, 1.5]);
    }

    #[test]
    fn spearman_correlations_match_a_hand_calculation() {
        // Ranks 1 2 3 4 and 1 3 2 4: differences 0 1 1 0, so 1 - 6 * 2 / (4 * 15) = 0.8.
        assert!((spearman(&[0.1, 0.2, 0.3, 9.0], &[-5.0, 7.0, 6.0, 8.0]).unwrap() - 0.8).abs() < 1e-12);
        // Ranks 1 2 3 4 and 1 2.5 2.5 4. Deviations -1.5 -0.5 0.5 1.5 and -1.5 0 0 1.5: 4.5 / sqrt(5 * 4.5) = 0.9486833.
        assert!((spearman(&[1.0, 2.0, 3.0, 4.0], &[0.0, 2.0, 2.0, 5.0]).unwrap() - 0.948_683_298).abs() < 1e-9);
        assert_eq!(spearman(&[1.0, 2.0], &[5.0, 5.0]), None);
    }

    #[test]
    fn cosines_are_rank_correlated_with_the_scores() {
        // Cosines of 0, 60 and 90 degrees: 1, 0.5, 0. The scores have the same order but for the last two:
        // ranks 3 2 1 and 3 1 2, so 1 - 6 * 2 / (3 * 8) = 0.5.
        let report = measure_file("5\t10\t10\n1.5\t0\t60\n2\t0\t90\n").unwrap().unwrap();
        assert_eq!(report.pairs["en-de"].pairs, 3);
        assert!((report.pairs["en-de"].spearman - 50.0).abs() < 1e-9 && (report.mean - 50.0).abs() < 1e-9);
    }

    #[test]
    fn constant_scores_are_refused() {
        let error = measure_file("5\t1\t2\n5\t1\t9\n").unwrap_err().to_string();
        assert!(error.contains("scores and cosines that are not all the same"), "{error}");
    }
}
