//! A bit for each value of many vectors, to choose with little reading which of them to compare whole.
//!
//! A bit is the sign of a value of the vector after the mean of all is subtracted and the rest is rotated at random. Two vectors
//! differ in a bit with a probability that is their angle over pi (Charikar, 2002, section 3), whatever their values are. The query
//! keeps more than its signs: each value becomes an odd integer from -7 to 7, which is a sum of signs times 1, 2 and 4. So three
//! counts of common bits give the product of the query and the signs of a row, in the manner of RaBitQ (Gao and Long, 2024,
//! section 3.3).

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
    /// Of the vectors that the bits were made for at first.
    mean: Vec<f32>,
    /// A power of two.
    bits: usize,
    /// Each of `ROWS_PER_BLOCK` rows.
    blocks: Vec<Tensor<u1x8>>,
    /// How many bits of each row are set.
    set: Vec<u16>,
}

impl Signs {
    /// No rows yet.
    pub(super) fn new(mean: Vec<f32>) -> Self {
        let bits = mean.len().next_power_of_two().max(BITS_MIN);
        Self { mean, bits, blocks: Vec::new(), set: Vec::new() }
    }

    /// These with the bits of a row: of one that is there, or of the next one.
    pub(super) fn with(mut self, row: usize, values: &[f32]) -> Result<Self, TensorError> {
        let centered = values.iter().zip(&self.mean).map(|(value, mean)| value - mean);
        let rotated = rotated(centered, self.bits);
        if row / ROWS_PER_BLOCK == self.blocks.len() {
            self.blocks.push(Tensor::try_full(&[ROWS_PER_BLOCK, self.bits], u1x8(0))?);
        }
        let mut set = 0;
        for (byte, values) in self.row_mut(row).iter_mut().zip(rotated.chunks_exact(8)) {
            *byte = signs(values, |value| value > 0.0);
            set += byte.0.count_ones() as u16;
        }
        match self.set.get_mut(row) {
            Some(own) => *own = set,
            None => self.set.push(set),
        }
        Ok(self)
    }

    /// Removes a row; the last one takes its place.
    pub(super) fn swap_remove(&mut self, row: usize) {
        let last = self.set.len() - 1;
        let (block, place) = (&self.blocks[last / ROWS_PER_BLOCK], last % ROWS_PER_BLOCK);
        let moved = block.as_slice()[place * self.bits / 8..][..self.bits / 8].to_vec();
        self.row_mut(row).copy_from_slice(&moved);
        self.set.swap_remove(row);
        self.blocks.truncate(last.div_ceil(ROWS_PER_BLOCK));
    }

    /// How far each row is from the query: the weighted number of different bits, from 0 to `distance_max`.
    pub(super) fn distances(&self, query: &[f32]) -> Result<Vec<u32>, TensorError> {
        let planes = self.planes(query)?;
        let in_plane = |plane: &[u1x8]| plane.iter().map(|byte| byte.0.count_ones()).sum::<u32>();
        let weighted = |counts: &[u32]| counts[0] + 2 * counts[1] + 4 * counts[2];
        let in_planes: Vec<u32> = planes.as_slice().chunks_exact(self.bits / 8).map(in_plane).collect();
        let in_planes = weighted(&in_planes);
        let planes = PackedMatrix::try_pack(&planes)?;
        let mut common = Tensor::<u32>::try_full(&[ROWS_PER_BLOCK, PLANES], 0)?;
        let mut distances = Vec::with_capacity(self.set.len());
        for (block, set) in self.blocks.iter().zip(self.set.chunks(ROWS_PER_BLOCK)) {
            block.try_dots_packed_into(&planes, &mut common)?;
            // Bits that are set in one of the two alone differ.
            let rows = common.as_slice().chunks_exact(PLANES).zip(set);
            distances.extend(rows.map(|(common, set)| in_planes + LARGEST as u32 * u32::from(*set) - 2 * weighted(common)));
        }
        Ok(distances)
    }

    /// The largest possible distance.
    pub(super) fn distance_max(&self) -> usize {
        LARGEST as usize * self.bits
    }

    /// The signs of the query's integers. The mean is not subtracted: it would add the same to the products with all rows.
    fn planes(&self, query: &[f32]) -> Result<Tensor<u1x8>, TensorError> {
        let rotated = rotated(query.iter().copied(), self.bits);
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
        Ok(planes)
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
fn rotated(values: impl Iterator<Item = f32>, bits: usize) -> Vec<f32> {
    let mut rotated: Vec<f32> = values.collect();
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

    fn filled(rows: u64, dimension: usize) -> Signs {
        let empty = Signs::new(vec![0.0; dimension]);
        (0..rows).fold(empty, |signs, row| signs.with(row as usize, &values(row, dimension)).unwrap())
    }

    #[test]
    fn a_distance_is_the_product_of_the_query_s_integers_and_the_signs() {
        let (signs, query) = (filled(700, 100), values(9_999, 100));
        let asked = rotated(query.iter().copied(), 128);
        let deviation = (asked.iter().map(|value| value * value).sum::<f32>() / 128.0).sqrt();
        let integer = |value: &f32| {
            let odd = 2.0 * ((value * 7.0 / (2.5 * deviation) + 8.0) / 2.0).floor() - 7.0;
            odd.clamp(-7.0, 7.0)
        };
        let distances = signs.distances(&query).unwrap();
        assert_eq!(distances.len(), 700);
        for (row, distance) in distances.iter().enumerate() {
            let own = rotated(values(row as u64, 100).into_iter(), 128);
            let product: f32 = asked.iter().map(integer).zip(&own).map(|(integer, own)| integer * own.signum()).sum();
            assert_eq!(*distance as f32, (7.0 * 128.0 - product) / 2.0, "{row}");
        }
    }

    #[test]
    fn the_nearer_a_row_is_the_fewer_bits_differ() {
        let query = values(7, 256);
        let mixed = |share: f32| -> Vec<f32> {
            values(12_345, 256).iter().zip(&query).map(|(other, own)| share * own + (1.0 - share) * other).collect()
        };
        let shares = [0.0, 0.3, 0.6, 0.9].into_iter().enumerate();
        let signs = shares.fold(filled(600, 256), |signs, (row, share)| signs.with(row, &mixed(share)).unwrap());
        let distances = signs.distances(&query).unwrap();
        assert!(distances[..4].is_sorted_by(|far, near| far > near), "{:?}", &distances[..4]);
        let nearest = (0..600).min_by_key(|row| distances[*row]);
        assert!([Some(3), Some(7)].contains(&nearest), "{nearest:?}");
        assert!(distances.iter().all(|distance| *distance as usize <= signs.distance_max()));
    }

    #[test]
    fn the_last_row_takes_the_place_of_a_removed_one() {
        let (mut signs, query) = (filled(513, 64), values(3, 64));
        let before = signs.distances(&query).unwrap();
        signs.swap_remove(5);
        let after = signs.distances(&query).unwrap();
        assert_eq!((after.len(), after[5], &after[6..]), (512, before[512], &before[6..512]));
        assert_eq!(signs.blocks.len(), 1);
        signs.swap_remove(511);
        assert_eq!(signs.distances(&query).unwrap(), after[..511]);
        let signs = signs.with(511, &values(511, 64)).unwrap();
        assert_eq!(signs.distances(&query).unwrap()[511], before[511]);
    }

    #[test]
    fn a_rotation_keeps_angles() {
        let product = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
        let (a, b) = (values(1, 100), values(2, 100));
        let (turned_a, turned_b) = (rotated(a.iter().copied(), 128), rotated(b.iter().copied(), 128));
        let scale = 128.0_f32.powi(2);
        assert!((product(&turned_a, &turned_b) / scale - product(&a, &b)).abs() < 1e-3);
        let one = rotated(std::iter::once(1.0), 128);
        assert!(one.iter().all(|value| value.abs() < 50.0), "a single value spreads over all: {one:?}");
    }
}
