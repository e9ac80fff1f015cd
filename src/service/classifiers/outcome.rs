//! The result of training, for every kind.

use super::error::ClassifierError;
use crate::classify::reliability;
use crate::domain::TrainingReport;

/// Number of bins of the calibration error.
pub(super) const BINS: usize = 10;

/// The result of training.
pub(super) struct Outcome {
    pub(super) report: TrainingReport,
    pub(super) weights: Option<Vec<u8>>,
}

/// Returns the expected calibration error, or `None` without examples.
pub(super) fn calibration_error(probabilities: &[f32], classes: &[u32], labels: usize) -> Result<Option<f64>, ClassifierError> {
    if classes.is_empty() {
        return Ok(None);
    }
    let answers = probabilities.chunks_exact(labels).zip(classes).map(|(row, class)| {
        let best = crate::classify::knn::highest(row).unwrap_or_default();
        (row[best as usize].clamp(0.0, 1.0), best == *class)
    });
    Ok(Some(reliability(answers, BINS)?.expected_error))
}
