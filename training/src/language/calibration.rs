//! Calibrated confidence: one temperature (Guo et al., On calibration of modern neural networks, 2017).

use dragoman::text::LanguageHead;

use crate::eval::language::calibration_error;

/// The results on held-out texts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibrated {
    /// The temperature.
    pub temperature: f32,
    /// Number of texts.
    pub texts: usize,
    /// Accuracy, 0 to 1.
    pub accuracy: f64,
    /// Expected calibration error, 0 to 1, before applying the temperature.
    pub error_before: f64,
    /// Expected calibration error after applying it.
    pub error: f64,
}

/// Finds the temperature of `head` with the lowest negative log-likelihood of `texts`, given as rows and the label's column.
pub fn calibrate(head: &LanguageHead, texts: &[(&[u32], usize)]) -> Calibrated {
    let mut plain = head.clone();
    plain.temperature = 1.0;
    let scored: Vec<(Vec<f32>, usize)> =
        texts.iter().filter_map(|(rows, label)| Some((plain.scores_of_rows(rows)?, *label))).collect();
    let temperature = best_temperature(&scored);
    let outcomes = |temperature: f32| -> Vec<(f64, bool)> {
        scored.iter().map(|(scores, label)| outcome(scores, *label, temperature)).collect()
    };
    let (before, after) = (outcomes(1.0), outcomes(temperature));
    let right = after.iter().filter(|(_, right)| *right).count();
    Calibrated {
        temperature,
        texts: scored.len(),
        accuracy: right as f64 / scored.len().max(1) as f64,
        error_before: calibration_error(&before),
        error: calibration_error(&after),
    }
}

fn outcome(scores: &[f32], label: usize, temperature: f32) -> (f64, bool) {
    let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0);
    let sum: f64 = scores.iter().map(|score| f64::from((score - scores[best]) / temperature).exp()).sum();
    (1.0 / sum, best == label)
}

fn loss(scored: &[(Vec<f32>, usize)], temperature: f32) -> f64 {
    let of = |(scores, label): &(Vec<f32>, usize)| {
        let max = scores.iter().copied().fold(f32::MIN, f32::max);
        let sum: f64 = scores.iter().map(|score| f64::from((score - max) / temperature).exp()).sum();
        sum.ln() - f64::from((scores[*label] - max) / temperature)
    };
    scored.iter().map(of).sum()
}

/// Golden-section search over the logarithm of the temperature, between 1/20 and 20. The loss is convex in its inverse, so
/// there is one minimum.
fn best_temperature(scored: &[(Vec<f32>, usize)]) -> f32 {
    if scored.is_empty() {
        return 1.0;
    }
    let ratio = (5.0_f32.sqrt() - 1.0) / 2.0;
    let (mut low, mut high) = (-3.0_f32, 3.0_f32);
    for _ in 0..30 {
        let (a, b) = (high - ratio * (high - low), low + ratio * (high - low));
        if loss(scored, a.exp()) < loss(scored, b.exp()) { high = b } else { low = a }
    }
    ((low + high) / 2.0).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_temperature_makes_confidence_match_accuracy() {
        // Scores (4, 0) are correct three times in four: e^(4/T) / (e^(4/T) + 1) = 3/4 for T = 4 / ln 3 = 3.641.
        let scored: Vec<(Vec<f32>, usize)> = [0, 0, 0, 1].into_iter().map(|label| (vec![4.0, 0.0], label)).collect();
        let temperature = best_temperature(&scored);
        assert!((temperature - 3.641).abs() < 0.01, "{temperature}");
        let outcomes: Vec<_> = scored.iter().map(|(scores, label)| outcome(scores, *label, temperature)).collect();
        assert!(calibration_error(&outcomes) < 1e-3);
    }
}
