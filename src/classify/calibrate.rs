//! Calibrated probabilities: temperature scaling (Guo et al., 2017, "On calibration of modern neural networks",
//! section 4.2), and the calibration error.

use super::{ClassifyError, TargetKind, Targets};
use crate::domain::{Calibration, CalibrationBin};

/// Range of temperatures to search. Cosines need one near 0.05, logits of a network one near 1.
const TEMPERATURE_MIN: f64 = 1e-3;
const TEMPERATURE_MAX: f64 = 1e2;
/// Steps of golden-section search: they narrow the whole range to a relative 10⁻⁷.
const STEPS: usize = 40;

/// Finds the temperature with the lowest mean negative log likelihood of `targets`, given the scores of validation examples
/// before any temperature (logits or cosines, [examples, labels]). For label sets, each label of each example counts as one
/// prediction.
///
/// Returns `None` if there is no optimum: there are no examples, or the likelihood grows monotonically toward one end of the
/// range 0.001 to 100. If all predictions are correct, every lower temperature is better: a validation set without errors gives
/// no information about confidence, so the caller keeps its temperature.
pub fn fit_temperature(scores: &[f32], targets: Targets<'_>, labels: usize) -> Result<Option<f32>, ClassifyError> {
    targets.check(labels)?;
    let expected = targets.len() * labels;
    if scores.len() != expected {
        return Err(ClassifyError::Length { what: "scores", expected, got: scores.len() });
    }
    if let Some(index) = scores.iter().position(|score| !score.is_finite()) {
        return Err(ClassifyError::NotFinite { example: index / labels });
    }
    if scores.is_empty() {
        return Ok(None);
    }
    let loss = |log_temperature: f64| mean_loss(scores, targets, labels, log_temperature.exp());
    let (min, max) = (TEMPERATURE_MIN.ln(), TEMPERATURE_MAX.ln());
    let best = golden_section(loss, min, max);
    let (found, margin) = (loss(best), 1e-9);
    // The loss is convex in 1 / temperature, so a minimum lies inside if both ends are worse.
    let inside = found + margin < loss(min) && found + margin < loss(max);
    Ok(inside.then(|| best.exp() as f32))
}

/// Compares the confidence of predictions with their correctness, as in a reliability diagram. Each answer is (confidence,
/// correct).
///
/// The `bins` bins (at least 1) have equal width; a confidence on a boundary belongs to the lower bin. The expected calibration
/// error (Guo et al., 2017, equation 3) is the mean difference between confidence and accuracy over bins, weighted by their
/// examples. All numbers are 0 without examples.
pub fn reliability(answers: impl IntoIterator<Item = (f32, bool)>, bins: usize) -> Result<Calibration, ClassifyError> {
    if bins == 0 {
        return Err(ClassifyError::Parameter { name: "bins", expected: "at least 1".to_owned(), got: bins.to_string() });
    }
    let mut sums = vec![(0_usize, 0.0_f64, 0_usize); bins];
    let mut all = 0_usize;
    for (example, (confidence, right)) in answers.into_iter().enumerate() {
        if !(0.0..=1.0).contains(&confidence) {
            let expected = "0 to 1 for each answer".to_owned();
            let got = format!("{confidence} for answer {example}");
            return Err(ClassifyError::Parameter { name: "confidence", expected, got });
        }
        let bin = ((f64::from(confidence) * bins as f64).ceil() as usize).clamp(1, bins) - 1;
        let sum = &mut sums[bin];
        *sum = (sum.0 + 1, sum.1 + f64::from(confidence), sum.2 + usize::from(right));
        all += 1;
    }
    let mean = |sum: f64, count: usize| if count == 0 { 0.0 } else { sum / count as f64 };
    let bin = |(examples, confidence, right)| CalibrationBin {
        examples,
        confidence: mean(confidence, examples),
        accuracy: mean(right as f64, examples),
    };
    let bins: Vec<CalibrationBin> = sums.into_iter().map(bin).collect();
    let expected_error = mean(bins.iter().map(|bin| bin.examples as f64 * (bin.confidence - bin.accuracy).abs()).sum(), all);
    Ok(Calibration { expected_error, bins })
}

/// Turns scores into probabilities that sum to 1.
pub(super) fn softmax(scores: &mut [f32]) {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    scores.iter_mut().for_each(|score| *score = (*score - highest).exp());
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// The loss of an example with these scores, given the sum of its labels' scores: for one class, the cross-entropy of the softmax;
/// for label sets, the sum of the binary cross-entropies of the sigmoids.
pub(super) fn loss(target_kind: TargetKind, scores: impl Iterator<Item = f64> + Clone, target: f64) -> f64 {
    match target_kind {
        TargetKind::Class => log_sum_exp(scores) - target,
        TargetKind::LabelSet => scores.map(softplus).sum::<f64>() - target,
    }
}

/// ln Σ eˣ.
fn log_sum_exp(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let highest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    highest + values.map(|x| (x - highest).exp()).sum::<f64>().ln()
}

/// ln(1 + eˣ).
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn mean_loss(scores: &[f32], targets: Targets<'_>, labels: usize, temperature: f64) -> f64 {
    let mut sum = 0.0;
    for (example, row) in scores.chunks_exact(labels).enumerate() {
        let target = targets.of(example).iter().map(|label| f64::from(row[*label as usize]) / temperature).sum::<f64>();
        let scaled = row.iter().map(|score| f64::from(*score) / temperature);
        sum += loss(targets.target_kind(), scaled, target);
    }
    let counted = match targets.target_kind() {
        TargetKind::Class => targets.len(),
        TargetKind::LabelSet => scores.len(),
    };
    sum / counted as f64
}

/// Returns the position of the minimum of a unimodal function.
fn golden_section(value: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    let shrink = (5.0_f64.sqrt() - 1.0) / 2.0;
    let mut inner = [high - shrink * (high - low), low + shrink * (high - low)];
    let mut values = inner.map(&value);
    for _ in 0..STEPS {
        if values[0] < values[1] {
            high = inner[1];
            inner = [high - shrink * (high - low), inner[0]];
            values = [value(inner[0]), values[0]];
        } else {
            low = inner[0];
            inner = [inner[1], low + shrink * (high - low)];
            values = [values[1], value(inner[1])];
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fitted_temperature_makes_confidence_equal_accuracy() {
        // Four predictions, each with logits 2 and 0, of which three are correct: the optimum is e^(2 / T) = 3, so T = 2 / ln
        // 3; the loss is -(3 ln 3/4 + ln 1/4) / 4 = 0.562335. At T = 1: ln(1 + e^-2) + 2 / 4 = 0.626928.
        let (scores, targets) = ([2.0, 0.0].repeat(4), Targets::Classes(&[0, 0, 1, 0]));
        let fit = fit_temperature(&scores, targets, 2).unwrap().unwrap();
        assert!((fit - 2.0 / 3.0_f32.ln()).abs() < 1e-4, "{fit}");
        let (before, after) = (mean_loss(&scores, targets, 2, 1.0), mean_loss(&scores, targets, 2, f64::from(fit)));
        assert!((before - 0.626_928).abs() < 1e-5 && (after - 0.562_335).abs() < 1e-5, "{before} {after}");
    }

    #[test]
    fn fitting_cosines_returns_a_temperature_below_one() {
        // The margin is 0.1 and three of four are correct: T = 0.1 / ln 3.
        let fit = fit_temperature(&[0.5, 0.4].repeat(4), Targets::Classes(&[0, 0, 1, 0]), 2).unwrap().unwrap();
        assert!((fit - 0.1 / 3.0_f32.ln()).abs() < 1e-5, "{fit}");
    }

    #[test]
    fn label_set_calibration_counts_every_label() {
        // Four labels, each with logit 2, of which three are true: sigmoid(2 / T) = 3/4.
        let sets = [vec![0, 1], vec![1]];
        let fit = fit_temperature(&[2.0; 4], Targets::LabelSets(&sets), 2).unwrap().unwrap();
        assert!((fit - 2.0 / 3.0_f32.ln()).abs() < 1e-4, "{fit}");
    }

    #[test]
    fn returns_no_temperature_when_none_is_optimal() {
        let fit = |scores: &[f32], classes: &[u32]| fit_temperature(scores, Targets::Classes(classes), 2).unwrap();
        assert_eq!(fit(&[], &[]), None);
        // All correct, all wrong, and no difference between the scores.
        assert_eq!(fit(&[2.0, 0.0, 0.0, 1.0], &[0, 1]), None);
        assert_eq!(fit(&[2.0, 0.0, 0.0, 1.0], &[1, 0]), None);
        assert_eq!(fit(&[1.0, 1.0], &[0]), None);
    }

    #[test]
    fn invalid_scores_and_labels_are_refused() {
        let fit = |scores: &[f32], classes: &[u32]| fit_temperature(scores, Targets::Classes(classes), 2).unwrap_err();
        assert_eq!(fit(&[1.0], &[0]), ClassifyError::Length { what: "scores", expected: 2, got: 1 });
        assert_eq!(fit(&[1.0, 0.0, f32::NAN, 0.0], &[0, 0]), ClassifyError::NotFinite { example: 1 });
        assert_eq!(fit(&[1.0, 0.0], &[2]), ClassifyError::Label { example: 0, got: 2, labels: 2 });
    }

    #[test]
    fn the_expected_calibration_error_matches_a_hand_calculation() {
        // Two bins. Lower: 0.3 wrong and 0.5 correct, confidence 0.4, accuracy 0.5: off by 0.1. Upper: 0.9, 0.9 and 0.6, one
        // correct, confidence 0.8, accuracy 1/3: off by 0.466667. Expected (2 · 0.1 + 3 · 0.466667) / 5 = 0.32.
        let answers = [(0.3, false), (0.5, true), (0.9, true), (0.9, false), (0.6, false)];
        let found = reliability(answers, 2).unwrap();
        assert_eq!(found.bins.iter().map(|bin| bin.examples).collect::<Vec<_>>(), [2, 3]);
        assert!((found.expected_error - 0.32).abs() < 1e-6, "{found:?}");
        assert_eq!(reliability([], 10).unwrap().expected_error, 0.0);
        assert_eq!(reliability([(0.0, false), (1.0, true)], 10).unwrap().expected_error, 0.0);
        assert!(reliability([], 0).is_err() && reliability([(1.5, true)], 2).is_err());
    }
}
