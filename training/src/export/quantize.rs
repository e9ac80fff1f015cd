//! Symmetric int8 quantization of weights with one scale per row: a token of a table, an output channel of a matrix.
//!
//! A scale is the largest absolute value of its row over 127, so zero stays zero and -128 is never used.

const QUANTIZED_MAX: f32 = 127.0;

/// Rows of int8, each with its scale.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantizedRows {
    /// [rows, width]
    pub values: Vec<i8>,
    /// [rows]
    pub scales: Vec<f32>,
}

/// Quantizes rows of `width` values.
pub fn quantize_rows(values: &[f32], width: usize) -> QuantizedRows {
    let mut rows = QuantizedRows { values: Vec::with_capacity(values.len()), scales: Vec::new() };
    for row in values.chunks_exact(width) {
        let scale = scale_of(row);
        rows.values.extend(row.iter().map(|&value| quantize(value, scale)));
        rows.scales.push(scale);
    }
    rows
}

fn scale_of(values: &[f32]) -> f32 {
    let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    // Any scale represents zeros exactly.
    if largest == 0.0 { 1.0 } else { largest / QUANTIZED_MAX }
}

fn quantize(value: f32, scale: f32) -> i8 {
    (value / scale).round().clamp(-QUANTIZED_MAX, QUANTIZED_MAX) as i8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_its_own_scale() {
        let rows = quantize_rows(&[127.0, -63.4, 0.0, 254.0, 2.0, -254.0], 3);
        assert_eq!(rows.values, [127, -63, 0, 127, 1, -127]);
        assert_eq!(rows.scales, [1.0, 2.0]);
    }

    #[test]
    fn a_row_of_zeros_stays_zero() {
        assert_eq!(quantize_rows(&[0.0; 2], 2), QuantizedRows { values: vec![0; 2], scales: vec![1.0] });
    }

    #[test]
    fn dequantized_values_are_within_half_a_step() {
        let values: Vec<f32> = (0..64).map(|i| (i as f32 * 0.37).sin()).collect();
        let rows = quantize_rows(&values, 16);
        for (index, value) in values.iter().enumerate() {
            let scale = rows.scales[index / 16];
            assert!((f32::from(rows.values[index]) * scale - value).abs() <= scale * 0.5001);
        }
    }
}
