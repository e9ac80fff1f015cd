//! Holds one bit for each value of many vectors, to select the vectors that are worth comparing in full while reading little
//! memory.
//!
//! A bit is the sign of a value, after a random rotation unless the values are already spread evenly. The product of a query
//! and a vector y is estimated as the product of the query and the signs of y, times |y|^2 / (sum of |y_i|). This is exact
//! for y itself, and unbiased for other queries (RaBitQ, Gao and Long, 2024, section 3.2). The query keeps more than its
//! signs (section 3.3): each of its values becomes an odd integer from -7 to 7, which is a sum of signs times 1, 2 and 4. So
//! three counts of common bits give its product with the signs of a row.
//!
//! The error of an estimate grows with the lengths of both vectors. So callers subtract the mean of all vectors, which is a large
//! part of most embeddings, from vectors and queries, and pass the contribution of the mean as an offset with each vector.

use std::borrow::Cow;

use multiversion::multiversion;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// Number of rows whose bits are interleaved and compared at once, each in a lane of a vector register.
const LANES: usize = 16;
/// Number of bits in a word.
const WORD: usize = u64::BITS as usize;
/// Number of signs of each value of the query. Their weights are 1, 2 and 4.
const PLANES: usize = 3;
/// The largest integer of the query: the sum of these weights.
const LARGEST: f32 = 7.0;
/// The largest integer stands for this many standard deviations of the query's values. Few values are larger.
const REACH: f32 = 2.5;

/// The bits of vectors.
#[derive(Debug)]
pub struct Signs {
    /// Number of bits of a row, a multiple of `WORD`.
    bits: usize,
    /// Whether vectors are rotated first.
    rotates: bool,
    rows: usize,
    /// For each group of `LANES` rows, `bits / WORD` entries. Each has one word of every row.
    words: Vec<[u64; LANES]>,
    groups: Vec<Group>,
}

/// The additional data of `LANES` rows that estimates need. It is zero for missing rows.
#[derive(Debug, Clone, Default)]
struct Group {
    /// Number of bits that are set.
    set: [u32; LANES],
    /// The factor of the product of the query and the signs.
    factor: [f32; LANES],
    /// The offset to add.
    offset: [f32; LANES],
}

/// A query as integers.
struct Planes {
    /// The signs of each weight, word by word.
    words: Vec<[u64; PLANES]>,
    /// The value that the integer 1 stands for.
    step: f32,
}

impl Signs {
    /// Creates an empty set of signs for any vectors.
    pub fn new(dimension: usize) -> Self {
        Self { bits: dimension.next_power_of_two().max(WORD), rotates: true, rows: 0, words: Vec::new(), groups: Vec::new() }
    }

    /// Creates an empty set of signs for vectors that need no rotation, because none of their values is usually larger than
    /// the others. The dimension must be a multiple of 64.
    pub fn unrotated(dimension: usize) -> Self {
        Self { bits: dimension, rotates: false, ..Self::new(dimension) }
    }

    /// Sets a row to a vector. The row must exist or be the next one. `offset` is added to its products with any query.
    pub fn set(&mut self, row: usize, values: &[f32], offset: f32) {
        let rotated = self.rotated(values);
        if row / LANES == self.groups.len() {
            self.groups.push(Group::default());
            self.words.resize(self.groups.len() * self.bits / WORD, [0; LANES]);
        }
        self.rows = self.rows.max(row + 1);
        let lane = row % LANES;
        let mut set = 0;
        for (word, values) in self.words_mut(row).iter_mut().zip(rotated.chunks_exact(WORD)) {
            word[lane] = bits_of(values, |value| value > 0.0);
            set += word[lane].count_ones();
        }
        let (squares, sum) =
            rotated.iter().fold((0.0, 0.0), |(squares, sum), value| (squares + value * value, sum + value.abs()));
        // Each of the two rotations makes vectors longer by the root of `bits`.
        let scale = if self.rotates { (self.bits * self.bits) as f32 } else { 1.0 };
        let factor = if sum > 0.0 { squares / sum / scale } else { 0.0 };
        let group = &mut self.groups[row / LANES];
        (group.set[lane], group.factor[lane], group.offset[lane]) = (set, factor, offset);
    }

    /// Removes a row. The last one takes its place.
    pub fn swap_remove(&mut self, row: usize) {
        let last = self.rows - 1;
        let (from, to) = (last % LANES, row % LANES);
        let moved: Vec<u64> = self.words_mut(last).iter().map(|word| word[from]).collect();
        self.words_mut(row).iter_mut().zip(moved).for_each(|(word, moved)| word[to] = moved);
        let Group { set, factor, offset } = self.groups[last / LANES].clone();
        let group = &mut self.groups[row / LANES];
        (group.set[to], group.factor[to], group.offset[to]) = (set[from], factor[from], offset[from]);
        self.rows = last;
        self.groups.truncate(last.div_ceil(LANES));
        self.words.truncate(self.groups.len() * self.bits / WORD);
    }

    /// Estimates the product of a query with each row, plus the offset of the row.
    pub fn estimates(&self, query: &[f32]) -> Vec<f32> {
        let planes = self.planes(query);
        let mut estimates = vec![0.0; self.groups.len() * LANES];
        estimate(&self.words, &self.groups, &planes, &mut estimates);
        estimates.truncate(self.rows);
        estimates
    }

    /// Returns the rows whose estimated product with a query, plus the offset of the row, is at least `min`, in order.
    pub fn at_least(&self, query: &[f32], min: f32) -> Vec<usize> {
        let mut found = Vec::new();
        at_least(&self.words, &self.groups, &self.planes(query), min, &mut found);
        // The last group may have missing rows.
        found.retain(|row| *row < self.rows);
        found
    }

    fn planes(&self, query: &[f32]) -> Planes {
        let rotated = self.rotated(query);
        let deviation = (rotated.iter().map(|value| value * value).sum::<f32>() / self.bits as f32).sqrt();
        let step = (REACH * deviation / LARGEST).max(f32::MIN_POSITIVE);
        // 0 to 7 for the odd integers from -7 to 7.
        let number = |value: &f32| ((value / step + LARGEST + 1.0) / 2.0).clamp(0.0, LARGEST) as u8;
        let numbers: Vec<u8> = rotated.iter().map(number).collect();
        let planes = |numbers: &[u8]| std::array::from_fn(|plane| bits_of(numbers, |number| number >> plane & 1 == 1));
        Planes { words: numbers.chunks_exact(WORD).map(planes).collect(), step }
    }

    fn rotated<'v>(&self, values: &'v [f32]) -> Cow<'v, [f32]> {
        if self.rotates { Cow::Owned(rotated(values, self.bits)) } else { Cow::Borrowed(values) }
    }

    fn words_mut(&mut self, row: usize) -> &mut [[u64; LANES]] {
        let words = self.bits / WORD;
        &mut self.words[row / LANES * words..][..words]
    }
}

/// Computes the estimates of all rows. Compiled several times, for processors that count the bits of several words at once and
/// for those that do not.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx512vpopcntdq",
    "x86_64+avx2+fma+popcnt",
    "x86_64+popcnt",
    "aarch64+neon",
))]
fn estimate(words: &[[u64; LANES]], groups: &[Group], planes: &Planes, estimates: &mut [f32]) {
    let products = Products::of(planes);
    for ((words, group), estimates) in words.chunks_exact(planes.words.len()).zip(groups).zip(estimates.as_chunks_mut().0) {
        products.estimate(words, group, estimates);
    }
}

/// Finds the rows whose estimates are at least `min`. Compiled like `estimate`.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512dq+avx512vpopcntdq",
    "x86_64+avx2+fma+popcnt",
    "x86_64+popcnt",
    "aarch64+neon",
))]
fn at_least(words: &[[u64; LANES]], groups: &[Group], planes: &Planes, min: f32, found: &mut Vec<usize>) {
    let products = Products::of(planes);
    let mut estimates = [0.0; LANES];
    for ((words, group), first) in words.chunks_exact(planes.words.len()).zip(groups).zip((0..).step_by(LANES)) {
        products.estimate(words, group, &mut estimates);
        // Avoids a branch for each row, because most groups have none.
        if estimates.iter().fold(false, |any, estimate| any | (*estimate >= min)) {
            found.extend((first..).zip(estimates).filter(|(_, estimate)| *estimate >= min).map(|(row, _)| row));
        }
    }
}

/// The part of the products with a query that is the same for all rows.
struct Products<'p> {
    planes: &'p Planes,
    /// The product with a row without any set bit.
    alone: f32,
}

impl<'p> Products<'p> {
    #[inline(always)]
    fn of(planes: &'p Planes) -> Self {
        let weighted = |[one, two, four]: [u32; PLANES]| one + 2 * two + 4 * four;
        let in_query: u32 = planes.words.iter().map(|planes| weighted(planes.map(u64::count_ones))).sum();
        Self { planes, alone: LARGEST * (planes.words.len() * WORD) as f32 - 2.0 * in_query as f32 }
    }

    /// Estimates the products with the rows of a group: products of integers that are sums of signs, from the number of bits set
    /// in either and in both.
    #[inline(always)]
    fn estimate(&self, words: &[[u64; LANES]], group: &Group, estimates: &mut [f32; LANES]) {
        let mut common = [0_u64; LANES];
        // Without `array::map`, whose calls are not always inlined and are then compiled without the wide registers.
        for (rows, [one, two, four]) in words.iter().zip(&self.planes.words) {
            for lane in 0..LANES {
                common[lane] += u64::from((rows[lane] & one).count_ones())
                    + 2 * u64::from((rows[lane] & two).count_ones())
                    + 4 * u64::from((rows[lane] & four).count_ones());
            }
        }
        for lane in 0..LANES {
            let product = self.alone - 2.0 * LARGEST * group.set[lane] as f32 + 4.0 * common[lane] as u32 as f32;
            // A product that is not a number counts as the greatest, so that its row is compared.
            estimates[lane] = (group.factor[lane] * self.planes.step * product + group.offset[lane]).min(f32::MAX);
        }
    }
}

/// Returns a word with one bit for each of `WORD` values.
fn bits_of<T: Copy>(values: &[T], is_set: impl Fn(T) -> bool) -> u64 {
    values.iter().fold(0, |word, &value| word << 1 | u64::from(is_set(value)))
}

/// Returns the values after a pseudorandom rotation, which is always the same: twice, flips signs and applies Hadamard's
/// transform. Not scaled. [bits]
fn rotated(values: &[f32], bits: usize) -> Vec<f32> {
    let mut rotated = values.to_vec();
    rotated.resize(bits, 0.0);
    let mut random = SplitMix64::seed_from_u64(0);
    for _ in 0..2 {
        for part in rotated.chunks_mut(u64::BITS as usize) {
            let flips = random.next_u64();
            for (bit, value) in part.iter_mut().enumerate() {
                *value = f32::from_bits(value.to_bits() ^ ((flips >> bit) as u32 & 1) << 31);
            }
        }
        transform(&mut rotated);
    }
    rotated
}

/// Applies Hadamard's transform in place. The number of values must be a power of two.
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

    fn values(number: u64, dimension: usize) -> Vec<f32> {
        crate::vectors::test_values(number + 1, dimension)
    }

    fn product(a: &[f32], b: &[f32]) -> f32 {
        a.iter().zip(b).map(|(a, b)| a * b).sum()
    }

    fn filled(rows: u64, dimension: usize) -> Signs {
        let mut signs = Signs::new(dimension);
        (0..rows).for_each(|row| signs.set(row as usize, &values(row, dimension), row as f32));
        signs
    }

    #[test]
    fn estimates_match_the_formula() {
        let (signs, query) = (filled(700, 100), values(9_999, 100));
        let rotated_query = rotated(&query, 128);
        let step = 2.5 / 7.0 * (product(&rotated_query, &rotated_query) / 128.0).sqrt();
        let rounded: Vec<f32> = rotated_query
            .iter()
            .map(|value| step * (2.0 * ((value / step + 8.0) / 2.0).floor() - 7.0).clamp(-7.0, 7.0))
            .collect();
        let estimates = signs.estimates(&query);
        assert_eq!(estimates.len(), 700);
        for (row, estimate) in estimates.iter().enumerate() {
            let values = rotated(&values(row as u64, 100), 128);
            let signs: Vec<f32> = values.iter().map(|value| value.signum()).collect();
            let factor = product(&values, &values) / product(&values, &signs) / (128.0 * 128.0);
            let expect = factor * product(&rounded, &signs) + row as f32;
            assert!((estimate - expect).abs() < 1e-3, "{row}: {estimate}, expected {expect}");
        }
    }

    #[test]
    fn estimates_are_close_to_the_exact_products() {
        let (signs, query) = (filled(600, 256), values(7, 256));
        let estimates = signs.estimates(&query);
        let wrong = |row: u64| estimates[row as usize] - row as f32 - product(&values(row, 256), &query);
        let length = product(&query, &query);
        let mean = (0..600).map(wrong).sum::<f32>() / 600.0;
        let deviation = ((0..600).map(|row| wrong(row).powi(2)).sum::<f32>() / 600.0).sqrt();
        assert!(mean.abs() < 0.01 * length && deviation < 0.06 * length, "{mean} and {deviation} of {length}");
        assert!(wrong(7).abs() < 0.06 * length, "{}", wrong(7));
    }

    #[test]
    fn at_least_returns_the_rows_whose_estimate_reaches_the_minimum() {
        let (signs, query) = (filled(601, 256), values(7, 256));
        let estimates = signs.estimates(&query);
        for min in [f32::NEG_INFINITY, 300.0, 599.5, f32::INFINITY] {
            let expect: Vec<usize> = (0..601).filter(|row| estimates[*row] >= min).collect();
            assert_eq!(signs.at_least(&query, min), expect, "{min}");
        }
    }

    #[test]
    fn unrotated_estimates_are_close_for_evenly_spread_values() {
        let (mut signs, query) = (Signs::unrotated(192), values(7, 192));
        (0..100).for_each(|row| signs.set(row, &values(row as u64, 192), 0.0));
        let length = product(&query, &query);
        for (row, estimate) in (0..).zip(signs.estimates(&query)) {
            let exact = product(&values(row, 192), &query);
            assert!((estimate - exact).abs() < 0.3 * length, "{row}: {estimate} for {exact} of {length}");
        }
    }

    #[test]
    fn the_estimate_of_a_zero_vector_is_its_offset() {
        let mut signs = Signs::new(64);
        signs.set(0, &[0.0; 64], 0.25);
        assert_eq!((signs.estimates(&values(1, 64)), signs.estimates(&[0.0; 64])), (vec![0.25], vec![0.25]));
    }

    #[test]
    fn an_overflowing_estimate_is_capped_at_the_largest_float() {
        let mut signs = Signs::new(64);
        signs.set(0, &[1e30; 64], 0.0);
        signs.set(1, &[1.0; 64], 0.0);
        let estimates = signs.estimates(&[1.0; 64]);
        assert!(estimates[0] == f32::MAX && estimates[1] < f32::MAX, "{estimates:?}");
    }

    #[test]
    fn removing_a_row_moves_the_last_row_into_its_place() {
        let (mut signs, query) = (filled(513, 64), values(3, 64));
        let before = signs.estimates(&query);
        signs.swap_remove(5);
        let after = signs.estimates(&query);
        assert_eq!((after.len(), after[5], &after[6..]), (512, before[512], &before[6..512]));
        assert_eq!(signs.groups.len(), 512 / LANES);
        signs.swap_remove(511);
        assert_eq!(signs.estimates(&query), after[..511]);
        signs.set(511, &values(511, 64), 511.0);
        assert_eq!(signs.estimates(&query)[511], before[511]);
    }

    #[test]
    fn rotation_preserves_products_and_spreads_single_values() {
        let (a, b) = (values(1, 100), values(2, 100));
        let product_of_rotated = product(&rotated(&a, 128), &rotated(&b, 128)) / 128.0_f32.powi(2);
        assert!((product_of_rotated - product(&a, &b)).abs() < 1e-3);
        let one = rotated(&[1.0], 128);
        assert!(one.iter().all(|value| value.abs() < 50.0), "a single value spreads over all: {one:?}");
    }
}
