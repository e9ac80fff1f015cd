//! Finds the ranges of activations of an int8 graph, by running the fp32 graph on sample texts.
//!
//! Ranges are fixed at export, one per matrix product. Ranges computed at run time over a batch would make a text's embedding
//! depend on the other texts in its batch. Values outside a range are clipped; the range is the share of the observed one that
//! gives the lowest mean squared error after quantization.

use std::collections::BTreeMap;

use dragoman::text::Tokenizer;
use prost::Message as _;

use super::golden;
use super::onnx::observed_graph;
use super::weights::EncoderWeights;
use crate::error::Error;
use crate::eval::OnnxEncoder;
use crate::eval::encoder::tokenize;

/// One in this many observed values is sampled for the search; coprime to every layer's width.
const SAMPLE_STEP: usize = 7;
/// Shares of the observed range to try, in percent.
const KEPT_PERCENT: std::ops::RangeInclusive<u8> = 30..=100;
const STEP_PERCENT: usize = 5;
const LEVELS: f32 = 255.0;

/// How the activations before one matrix product are quantized to unsigned bytes: byte = round(value / scale) + zero point,
/// within 0 to 255.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Difference between neighboring byte values.
    pub scale: f32,
    /// The byte of 0.
    pub zero_point: u8,
}

/// Ranges by the name of the matrix product.
pub type Ranges = BTreeMap<String, Range>;

/// Runs the fp32 encoder on `texts`, real sentences in all relevant languages; without any, on the golden texts.
pub fn calibrate(weights: &EncoderWeights, tokenizer: &Tokenizer, texts: &[String]) -> Result<Ranges, Error> {
    if weights.shape.layers == 0 {
        return Ok(Ranges::new());
    }
    let golden = golden::texts();
    let texts = if texts.is_empty() { &golden } else { texts };
    let (graph, observed) = observed_graph(weights)?;
    let mut encoder = OnnxEncoder::from_bytes(&graph.encode_to_vec(), 0)?;
    let mut samples: BTreeMap<&str, Vec<f32>> = BTreeMap::new();
    for text in tokenize(tokenizer, texts, weights.shape.tokens_max)? {
        // One text at a time, because padding has activations too, which affect no embedding.
        encoder.run_with_observer(&text, |name, values| {
            if let Some((product, _)) = observed.iter().find(|(_, input)| input == name) {
                samples.entry(product).or_default().extend(values.iter().step_by(SAMPLE_STEP));
            }
        })?;
    }
    let ranges: Ranges = samples.into_iter().map(|(product, values)| (product.to_owned(), range_of(&values))).collect();
    if ranges.len() < observed.len() {
        return Err(Error::Setting { setting: "calibration texts", problem: "expected at least one text, got none".to_owned() });
    }
    Ok(ranges)
}

/// The range around 0 that restores `values` with the lowest mean squared error. Shrinks first the upper end and then the lower
/// end, because activations are skewed.
fn range_of(values: &[f32]) -> Range {
    let (low, high) = values.iter().fold((0.0_f32, 0.0_f32), |(low, high), &value| (low.min(value), high.max(value)));
    let high = best_part(high, |high| squared_error(values, range_between(low, high)));
    let low = best_part(low, |low| squared_error(values, range_between(low, high)));
    range_between(low, high)
}

/// The share of `end` with the lowest `error`; of several, the largest.
fn best_part(end: f32, error: impl Fn(f32) -> f64) -> f32 {
    let mut best = (end, error(end));
    for percent in KEPT_PERCENT.rev().step_by(STEP_PERCENT) {
        let bound = end * f32::from(percent) / 100.0;
        let error = error(bound);
        if error < best.1 {
            best = (bound, error);
        }
    }
    best.0
}

fn range_between(low: f32, high: f32) -> Range {
    let scale = (high - low) / LEVELS;
    if scale <= 0.0 {
        return Range { scale: 1.0, zero_point: 0 };
    }
    Range { scale, zero_point: (-low / scale).round() as u8 }
}

fn squared_error(values: &[f32], range: Range) -> f64 {
    let zero = f32::from(range.zero_point);
    let error = |value: f32| {
        let byte = ((value / range.scale).round_ties_even() + zero).clamp(0.0, LEVELS);
        f64::from((byte - zero) * range.scale - value).powi(2)
    };
    values.iter().map(|&value| error(value)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_covers_both_ends_and_represents_zero() {
        assert_eq!(range_between(-1.0, 1.55), Range { scale: 0.01, zero_point: 100 });
        assert_eq!(range_between(0.0, 510.0), Range { scale: 2.0, zero_point: 0 });
    }

    #[test]
    fn evenly_spread_values_keep_their_whole_range() {
        let values: Vec<f32> = (0..=510).map(|step| step as f32 / 255.0 - 1.0).collect();
        let range = range_of(&values);
        assert!((range.scale - 2.0 / 255.0).abs() < 1e-6, "{range:?}");
    }

    #[test]
    fn a_single_outlier_is_clipped() {
        let mut values: Vec<f32> = (0..300_000).map(|step| (step % 2_001) as f32 / 1_000.0 - 1.0).collect();
        values.push(2.0);
        assert!(range_of(&values).scale < 2.5 / 255.0);
    }

    #[test]
    fn all_zero_values_have_a_valid_range() {
        assert_eq!(range_of(&[0.0; 3]), Range { scale: 1.0, zero_point: 0 });
    }
}
