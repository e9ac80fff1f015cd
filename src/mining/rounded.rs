//! Embeddings quantized to 8-bit integers, and bounds on the cosines of the exact embeddings from the products of the integers.
//!
//! Let x = s q + d for an embedding x, its integers q, the step s of its block and the rounding error d. For unit vectors x and
//! y, x y = s t q r + d y + (s q) e, so by Cauchy–Schwarz it differs from s t q r by at most |d| + |e| (1 + |d|). If that
//! product plus this bound is below a cosine, so is x y.
//!
//! NumKong computes the products, as in the index: 64 at a time with VNNI, a matrix at a time with AMX.

use numkong::{PackedMatrix, Tensor, available, cap, configure_thread};

use super::MiningError;

/// The largest integer. Its square times the largest dimension fits into an i32.
const LARGEST: f32 = 127.0;
/// Rows of a block to multiply at once, so that their products stay in the nearest caches.
const ROWS_PER_PART: usize = 64;

/// A block of rounded embeddings, packed as the right operand of a product.
pub(super) struct Rounded {
    columns: PackedMatrix<i8>,
    scale: Scale,
}

/// A block of rounded embeddings as the left operand of a product. For one thread.
pub(super) struct RoundedRows {
    /// Parts of `ROWS_PER_PART` rows; the last one has the remaining rows.
    parts: Vec<Tensor<i8>>,
    scale: Scale,
    /// Buffer for the products of a part.
    buffer: Option<Tensor<i32>>,
    /// Whether this machine can compute integer products.
    pub(super) usable: bool,
}

/// The scale of a block's integers.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    /// The value of the integer 1.
    step: f64,
    /// The largest norm of an embedding's rounding error.
    error: f64,
}

/// Bounds the cosine by the product of the integers of two blocks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bound {
    /// The cosine that corresponds to a product of 1.
    step: f64,
    /// How much a cosine may exceed the one that corresponds to its product.
    error: f64,
}

impl Rounded {
    /// Rounds embeddings, [sentences, dimension], of unit length or zero.
    pub(super) fn new(dimension: usize, values: &[f32]) -> Result<Self, MiningError> {
        let (integers, scale) = round(dimension, values);
        let rows =
            Tensor::<i8>::try_from_slice(&integers, &[integers.len() / dimension, dimension]).map_err(MiningError::rounded)?;
        Ok(Self { columns: PackedMatrix::try_pack(&rows).map_err(MiningError::rounded)?, scale })
    }
}

impl RoundedRows {
    /// Rounds embeddings, [sentences, dimension], of unit length or zero.
    pub(super) fn new(dimension: usize, values: &[f32]) -> Result<Self, MiningError> {
        // If the system denies the AMX registers, products that need them must not run.
        let usable = available() & (cap::SAPPHIREAMX | cap::GRANITEAMX) == 0 || configure_thread();
        let (integers, scale) = round(dimension, values);
        let part = |rows: &[i8]| Tensor::try_from_slice(rows, &[rows.len() / dimension, dimension]);
        let parts =
            integers.chunks(ROWS_PER_PART * dimension).map(part).collect::<Result<_, _>>().map_err(MiningError::rounded)?;
        Ok(Self { parts, scale, buffer: None, usable })
    }

    /// Returns the bound for products with these columns.
    pub(super) fn bound(&self, other: &Rounded) -> Bound {
        // The possible error of f32 arithmetic: norms that are not exactly 1, and sums of many rounded values.
        let arithmetic = other.columns.dims().1 as f64 * f64::from(f32::EPSILON);
        let (one, other) = (self.scale, other.scale);
        Bound { step: one.step * other.step, error: one.error + other.error * (1.0 + one.error) + arithmetic }
    }

    pub(super) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Returns the first row of a part, and the products of its rows with all columns, [rows, columns].
    pub(super) fn products(&mut self, part: usize, other: &Rounded) -> Result<(usize, &[i32]), MiningError> {
        let rows = &self.parts[part];
        let shape = [rows.shape()[0], other.columns.dims().0];
        let buffer = match self.buffer.take().filter(|buffer| buffer.shape() == shape) {
            Some(buffer) => buffer,
            None => Tensor::try_full(&shape, 0).map_err(MiningError::rounded)?,
        };
        let buffer = self.buffer.insert(buffer);
        rows.try_dots_packed_into(&other.columns, buffer).map_err(MiningError::rounded)?;
        Ok((part * ROWS_PER_PART, buffer.as_slice()))
    }
}

impl Bound {
    /// Returns the smallest product whose cosine may reach this one, or a value up to two lower.
    pub(super) fn product_min(self, cosine: f32) -> i32 {
        // Truncated toward zero and reduced by one, it is never too large. Values outside the range of i32 saturate: no product
        // reaches the maximum, and all reach the minimum.
        (((f64::from(cosine) - self.error) / self.step) as i32).saturating_sub(1)
    }
}

/// Returns the integers of embeddings, [sentences, dimension], with one step for all of them.
fn round(dimension: usize, values: &[f32]) -> (Vec<i8>, Scale) {
    let largest = values.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let step = if largest > 0.0 { largest / LARGEST } else { 1.0 };
    let per_step = step.recip();
    // Shifted to 1 to 255, so that truncation rounds to the nearest integer.
    let above_zero = |value: &f32| (value * per_step + 128.5) as u8;
    let integers: Vec<i8> = values.iter().map(|value| above_zero(value).wrapping_sub(128).cast_signed()).collect();
    let error = |(values, integers): (&[f32], &[i8])| {
        let rest = |(value, integer): (&f32, &i8)| (value - step * f32::from(*integer)).powi(2);
        f64::from(values.iter().zip(integers).map(rest).sum::<f32>()).sqrt()
    };
    let error = values.chunks_exact(dimension).zip(integers.chunks_exact(dimension)).map(error).fold(0.0, f64::max);
    (integers, Scale { step: f64::from(step), error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::embedding::dot;
    use proptest::prelude::{any, prop, prop_assert, proptest};

    fn unit(mut row: Vec<f32>) -> Vec<f32> {
        let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        row.iter_mut().for_each(|value| *value /= if length > 0.0 { length } else { 1.0 });
        row
    }

    #[test]
    fn rounding_and_its_error_match_hand_computed_values() {
        // The step is 0.8 / 127. 0.6 is 95.25 steps, so the error is 0.25. 0.1 is 15.875 steps, so the error is 0.125.
        let (integers, scale) = round(2, &[0.6, 0.8, 0.1, 0.0]);
        assert_eq!(integers, [95, 127, 16, 0]);
        assert!((scale.step - 0.8 / 127.0).abs() < 1e-9 && (scale.error - 0.25 * 0.8 / 127.0).abs() < 1e-7, "{scale:?}");
        assert_eq!(round(2, &[0.0, 0.0]), (vec![0, 0], Scale { step: 1.0, error: 0.0 }));
    }

    #[test]
    fn the_parts_of_the_products_cover_every_row() {
        let ones = vec![1.0; ROWS_PER_PART * 2 + 3];
        let (mut rows, columns) = (RoundedRows::new(1, &ones).unwrap(), Rounded::new(1, &[1.0, -0.25]).unwrap());
        let mut seen = 0;
        for part in 0..rows.parts() {
            let (begin, products) = rows.products(part, &columns).unwrap();
            assert_eq!(begin, seen);
            assert!(products.chunks(2).all(|pair| pair == [127 * 127, 127 * -32]), "{products:?}");
            seen += products.len() / 2;
        }
        assert_eq!(seen, ones.len());
    }

    #[test]
    fn the_bound_saturates_at_the_i32_range() {
        let bound = Bound { step: 0.25, error: 0.25 };
        assert_eq!(
            (bound.product_min(f32::NEG_INFINITY), bound.product_min(0.9), bound.product_min(f32::INFINITY)),
            (i32::MIN, 1, i32::MAX - 1)
        );
    }

    proptest! {
        #[test]
        fn the_bound_never_exceeds_the_actual_product(
            pairs in prop::collection::vec((prop::collection::vec(-1.0_f32..1.0, 37), any::<bool>(), -0.2_f32..0.2), 1..80),
        ) {
            let firsts: Vec<Vec<f32>> = pairs.iter().map(|(row, _, _)| unit(row.clone())).collect();
            let near = |(row, spread, by): &(Vec<f32>, bool, f32)| {
                unit(row.iter().enumerate().map(|(index, value)| if *spread || index == 3 { value + by } else { *value }).collect())
            };
            let seconds: Vec<Vec<f32>> = pairs.iter().map(near).collect();
            let (mut rows, columns) = (RoundedRows::new(37, &firsts.concat()).unwrap(), Rounded::new(37, &seconds.concat()).unwrap());
            let bound = rows.bound(&columns);
            for part in 0..rows.parts() {
                let (begin, products) = rows.products(part, &columns).unwrap();
                for (row, products) in products.chunks(seconds.len()).enumerate() {
                    for (second, product) in seconds.iter().zip(products) {
                        prop_assert!(*product >= bound.product_min(dot(&firsts[begin + row], second)));
                    }
                }
            }
        }
    }
}
