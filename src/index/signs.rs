//! A bit for each value of many vectors, to choose with little reading which of them to compare whole.
//!
//! A bit is the sign of a value after a random rotation. The product of a query and a vector y is estimated by that of the query and
//! the signs of y, times |y|^2 / (sum of |y_i|): exact for the vector itself, and without bias for others (RaBitQ, Gao and Long,
//! 2024, section 3.2). The query keeps more than its signs (section 3.3): each of its values becomes an odd integer from -7 to 7,
//! which is a sum of signs times 1, 2 and 4. So three counts of common bits give its product with the signs of a row.
//!
//! The error of an estimate grows with the lengths of both. So vectors and queries come without the mean of all vectors, which
//! most embeddings have much of in common, and what the mean of the query adds comes beside each vector.

use numkong::{PackedMatrix, Tensor, TensorError, u1x8};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Rows whose bits are compared at once, so that they stay in the nearest caches.
const ROWS_PER_BLOCK: usize = 512;
/// Minimum bits of a row.
const BITS_MIN: usize = 64;
/// The weights of the query's signs: 1, 2 and 4.
const PLANES: usize = 3;
/// The largest integer of the query: the sum of these weights.
const LARGEST: f32 = 7.0;
/// Standard deviations of the query's values that the largest integer stands for. Few values are beyond.
const REACH: f32 = 2.5;

/// The bits of vectors.
#[derive(Debug)]
pub(super) struct Signs {
    /// A power of two.
    bits: usize,
    /// Each of `ROWS_PER_BLOCK` rows.
    blocks: Vec<Tensor<u1x8>>,
    rows: Vec<Row>,
}

/// What estimates need besides the bits.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// How many bits are set.
    set: u16,
    /// What the product of the query and the signs is multiplied by.
    factor: f32,
    /// What is added.
    offset: f32,
}

/// A query's integers.
struct Planes {
    /// The signs of each weight, [planes, bits].
    signs: Tensor<u1x8>,
    /// The value of 1.
    step: f32,
}

impl Signs {
    /// No rows yet.
    pub(super) fn new(dimension: usize) -> Self {
        Self { bits: dimension.next_power_of_two().max(BITS_MIN), blocks: Vec::new(), rows: Vec::new() }
    }

    /// These with a vector for a row, one that is there or the next one, and what to add to its products with any query.
    pub(super) fn with(mut self, row: usize, values: &[f32], offset: f32) -> Result<Self, TensorError> {
        let rotated = rotated(values, self.bits);
        if row / ROWS_PER_BLOCK == self.blocks.len() {
            self.blocks.push(Tensor::try_full(&[ROWS_PER_BLOCK, self.bits], u1x8(0))?);
        }
        let mut set = 0;
        for (byte, values) in self.row_mut(row).iter_mut().zip(rotated.chunks_exact(8)) {
            *byte = signs(values, |value| value > 0.0);
            set += byte.0.count_ones() as u16;
        }
        let (squares, sum) =
            rotated.iter().fold((0.0, 0.0), |(squares, sum), value| (squares + value * value, sum + value.abs()));
        // Each of the two rotations makes vectors longer by the root of `bits`.
        let factor = if sum > 0.0 { squares / sum / (self.bits * self.bits) as f32 } else { 0.0 };
        let new = Row { set, factor, offset };
        match self.rows.get_mut(row) {
            Some(own) => *own = new,
            None => self.rows.push(new),
        }
        Ok(self)
    }

    /// Removes a row; the last one takes its place.
    pub(super) fn swap_remove(&mut self, row: usize) {
        let last = self.rows.len() - 1;
        let (block, place) = (&self.blocks[last / ROWS_PER_BLOCK], last % ROWS_PER_BLOCK);
        let moved = block.as_slice()[place * self.bits / 8..][..self.bits / 8].to_vec();
        self.row_mut(row).copy_from_slice(&moved);
        self.rows.swap_remove(row);
        self.blocks.truncate(last.div_ceil(ROWS_PER_BLOCK));
    }

    /// About the product of a query with each row, and what is added to it.
    pub(super) fn estimates(&self, query: &[f32]) -> Result<Vec<f32>, TensorError> {
        let Planes { signs, step } = self.planes(query)?;
        let in_plane = |plane: &[u1x8]| plane.iter().map(|byte| byte.0.count_ones()).sum::<u32>();
        let weighted = |counts: &[u32]| (counts[0] + 2 * counts[1] + 4 * counts[2]) as f32;
        let in_planes: Vec<u32> = signs.as_slice().chunks_exact(self.bits / 8).map(in_plane).collect();
        // Of integers that are sums of signs, from the bits set in either and in both.
        let alone = LARGEST * self.bits as f32 - 2.0 * weighted(&in_planes);
        let planes = PackedMatrix::try_pack(&signs)?;
        let mut common = Tensor::<u32>::try_full(&[ROWS_PER_BLOCK, PLANES], 0)?;
        let mut estimates = Vec::with_capacity(self.rows.len());
        for (block, rows) in self.blocks.iter().zip(self.rows.chunks(ROWS_PER_BLOCK)) {
            block.try_dots_packed_into(&planes, &mut common)?;
            let each = common.as_slice().chunks_exact(PLANES).zip(rows);
            estimates.extend(each.map(|(common, row)| {
                let product = alone - 2.0 * LARGEST * f32::from(row.set) + 4.0 * weighted(common);
                row.factor * step * product + row.offset
            }));
        }
        Ok(estimates)
    }

    fn planes(&self, query: &[f32]) -> Result<Planes, TensorError> {
        let rotated = rotated(query, self.bits);
        let deviation = (rotated.iter().map(|value| value * value).sum::<f32>() / self.bits as f32).sqrt();
        let step = (REACH * deviation / LARGEST).max(f32::MIN_POSITIVE);
        // 0 to 7 for the odd integers from -7 to 7.
        let number = |value: &f32| ((value / step + LARGEST + 1.0) / 2.0).clamp(0.0, LARGEST) as u8;
        let numbers: Vec<u8> = rotated.iter().map(number).collect();
        let mut planes = Tensor::<u1x8>::try_full(&[PLANES, self.bits], u1x8(0))?;
        for (plane, row) in planes.as_mut_slice().chunks_exact_mut(self.bits / 8).enumerate() {
            for (byte, numbers) in row.iter_mut().zip(numbers.chunks_exact(8)) {
                *byte = signs(numbers, |number| number >> plane & 1 == 1);
            }
        }
        Ok(Planes { signs: planes, step })
    }

    fn row_mut(&mut self, row: usize) -> &mut [u1x8] {
        let (block, place) = (row / ROWS_PER_BLOCK, row % ROWS_PER_BLOCK);
        &mut self.blocks[block].as_mut_slice()[place * self.bits / 8..][..self.bits / 8]
    }
}

/// A byte of a bit for each of eight values.
fn signs<T: Copy>(values: &[T], is_set: impl Fn(T) -> bool) -> u1x8 {
    u1x8(values.iter().fold(0, |byte, &value| byte << 1 | u8::from(is_set(value))))
}

/// Values rotated at random, the same way each time: signs flipped and Hadamard's transform, twice. Not scaled. [bits]
fn rotated(values: &[f32], bits: usize) -> Vec<f32> {
    let mut rotated = values.to_vec();
    rotated.resize(bits, 0.0);
    let mut random = SplitMix64::seed_from_u64(0);
    for _ in 0..2 {
        for part in rotated.chunks_mut(u64::BITS as usize) {
            let flips = random.next_u64();
            for (place, value) in part.iter_mut().enumerate() {
                *value = f32::from_bits(value.to_bits() ^ ((flips >> place) as u32 & 1) << 31);
            }
        }
        transform(&mut rotated);
    }
    rotated
}

/// Hadamard's transform in place, of a power of two of values.
fn transform(values: &mut [f32]) {
    let mut half = 1;
    while half < values.len() {
        for pair in values.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (low, high) in low.iter_mut().zip(high) {
                (*low, *high) = (*low + *high, *low - *high);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of no pattern.
    fn values(number: u64, dimension: usize) -> Vec<f32> {
        let mut state = (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
        };
        (0..dimension).map(|_| next()).collect()
    }

    fn product(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn filled(rows: u64, dimension: usize) -> Signs {
        let with = |signs: Signs, row: u64| signs.with(row as usize, &values(row, dimension), row as f32).unwrap();
        (0..rows).fold(Signs::new(dimension), with)
    }

    #[test]
    fn an_estimate_is_that_of_the_formula() {
        let (signs, query) = (filled(700, 100), values(9_999, 100));
        let asked = rotated(&query, 128);
        let step = 2.5 / 7.0 * (product(&asked, &asked) / 128.0).sqrt();
        let rounded: Vec<f32> =
            asked.iter().map(|value| step * (2.0 * ((value / step + 8.0) / 2.0).floor() - 7.0).clamp(-7.0, 7.0)).collect();
        let estimates = signs.estimates(&query).unwrap();
        assert_eq!(estimates.len(), 700);
        for (row, estimate) in estimates.iter().enumerate() {
            let own = rotated(&values(row as u64, 100), 128);
            let signs: Vec<f32> = own.iter().map(|value| value.signum()).collect();
            let factor = product(&own, &own) / product(&own, &signs) / (128.0 * 128.0);
            let expect = factor * product(&rounded, &signs) + row as f32;
            assert!((estimate - expect).abs() < 1e-3, "{row}: {estimate}, expected {expect}");
        }
    }

    #[test]
    fn estimates_are_near_the_products() {
        let (signs, query) = (filled(600, 256), values(7, 256));
        let estimates = signs.estimates(&query).unwrap();
        let wrong = |row: u64| estimates[row as usize] - row as f32 - product(&values(row, 256), &query);
        let length = product(&query, &query);
        let mean = (0..600).map(wrong).sum::<f32>() / 600.0;
        let deviation = ((0..600).map(|row| wrong(row).powi(2)).sum::<f32>() / 600.0).sqrt();
        assert!(mean.abs() < 0.01 * length && deviation < 0.06 * length, "{mean} and {deviation} of {length}");
        assert!(wrong(7).abs() < 0.06 * length, "{}", wrong(7));
    }

    #[test]
    fn a_vector_of_zeros_has_what_is_added_to_it() {
        let signs = Signs::new(64).with(0, &[0.0; 64], 0.25).unwrap();
        assert_eq!((signs.estimates(&values(1, 64)).unwrap(), signs.estimates(&[0.0; 64]).unwrap()), (vec![0.25], vec![0.25]));
    }

    #[test]
    fn the_last_row_takes_the_place_of_a_removed_one() {
        let (mut signs, query) = (filled(513, 64), values(3, 64));
        let before = signs.estimates(&query).unwrap();
        signs.swap_remove(5);
        let after = signs.estimates(&query).unwrap();
        assert_eq!((after.len(), after[5], &after[6..]), (512, before[512], &before[6..512]));
        assert_eq!(signs.blocks.len(), 1);
        signs.swap_remove(511);
        assert_eq!(signs.estimates(&query).unwrap(), after[..511]);
        let signs = signs.with(511, &values(511, 64), 511.0).unwrap();
        assert_eq!(signs.estimates(&query).unwrap()[511], before[511]);
    }

    #[test]
    fn a_rotation_keeps_angles() {
        let (a, b) = (values(1, 100), values(2, 100));
        let turned = product(&rotated(&a, 128), &rotated(&b, 128)) / 128.0_f32.powi(2);
        assert!((turned - product(&a, &b)).abs() < 1e-3);
        let one = rotated(&[1.0], 128);
        assert!(one.iter().all(|value| value.abs() < 50.0), "a single value spreads over all: {one:?}");
    }
}
