//! Exact nearest neighbors between two sets, in both directions: compares every sentence of one set with every sentence of the
//! other, block by block. Each comparison serves both sentences. Up to hundreds of thousands of sentences in the smaller set,
//! this takes less time than searching a graph.
//!
//! Most pairs are only compared by rounded values (`super::rounded`): if even the largest possible cosine of two rounded
//! embeddings is too small for both sentences, the pair is skipped. The cosines of all other pairs are computed from the exact
//! values, so the result is the same as comparing all pairs exactly. Cosines come from matrix products until all sentences of
//! two blocks have neighbors, and where so many sentences are similar that rounding saves nothing.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeError};

use super::error::check_range;
use super::neighbors::NEIGHBORS_MAX;
use super::rounded::{Rounded, RoundedRows};
use super::{MiningError, NeighborLists};
use crate::domain::embedding::dot;

/// Sentences per block: two blocks and their products fit into the caches of a core.
pub const BLOCK_SENTENCES: usize = 512;
/// Number of products or cosines to test together, so that the compiler can use vector instructions.
const LANES: usize = 16;
/// The cost of computing one pair exactly, relative to one cosine of a matrix product.
const EXACT_PAIR_COST: usize = 8;
/// Number of blocks to compare without rounding after it has saved nothing, before trying it again.
const BLOCKS_WITHOUT_ROUNDING: usize = 64;

/// The embeddings of up to `BLOCK_SENTENCES` sentences.
pub struct Block {
    dimension: usize,
    /// [sentences]
    numbers: Vec<u32>,
    /// [sentences, dimension] Of unit length, or zero.
    values: Vec<f32>,
    rounded: Rounded,
}

/// For each sentence of a block, the nearest neighbors in another set found so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest {
    per_query: usize,
    /// [sentences] The number of neighbors found.
    counts: Vec<u8>,
    /// [sentences, per_query] Nearest first; lower numbers first for equal cosines.
    found: Vec<(u32, f32)>,
    /// [sentences] The minimum cosine of a new neighbor.
    thresholds: Vec<f32>,
    /// Number of sentences with fewer than `per_query` neighbors.
    unfilled: usize,
}

/// A block that is compared with many others.
pub struct Comparison<'b> {
    block: &'b Block,
    rows: RoundedRows,
    /// Buffer for cosines, [sentences, sentences of another block].
    cosines: Vec<f32>,
    /// Buffer for the minimum products of the sentences of another block.
    products_min: Vec<i32>,
    /// Whether to skip pairs by their rounded values.
    rounds: bool,
    /// Number of blocks to compare before trying rounding again.
    unrounded_next: usize,
}

impl Block {
    /// Creates a block from embeddings of any length and the numbers of their sentences.
    pub fn new<'e>(dimension: usize, embeddings: impl Iterator<Item = (u32, &'e [f32])>) -> Result<Self, MiningError> {
        let (mut numbers, mut values) = (Vec::new(), Vec::new());
        for (number, embedding) in embeddings {
            check_range("dimension", embedding.len(), dimension, dimension)?;
            let length = embedding.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            let scale = if length > 0.0 { length.recip() } else { 0.0 };
            numbers.push(number);
            values.extend(embedding.iter().map(|value| (f64::from(*value) * scale) as f32));
        }
        let rounded = Rounded::new(dimension, &values)?;
        Ok(Self { dimension, numbers, values, rounded })
    }

    /// Returns the bytes per sentence for this dimension.
    pub fn bytes(dimension: usize) -> u64 {
        let (number, value, rounded) = (4, 4, 1);
        number + dimension as u64 * (value + rounded)
    }

    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// Computes the cosines of all its sentences with all of another block, [sentences, sentences of the other], as a matrix
    /// product. Overwrites `buffer`.
    fn cosines<'r>(&self, other: &Self, buffer: &'r mut Vec<f32>) -> Result<&'r [f32], MiningError> {
        check_range("dimension", other.dimension, self.dimension, self.dimension)?;
        buffer.resize(self.len() * other.len(), 0.0);
        self.multiply(other, buffer).map_err(|_| MiningError::Shape)?;
        Ok(buffer)
    }

    fn multiply(&self, other: &Self, buffer: &mut [f32]) -> Result<(), ShapeError> {
        let values = ArrayView2::from_shape((self.len(), self.dimension), self.values.as_slice())?;
        let others = ArrayView2::from_shape((other.len(), self.dimension), other.values.as_slice())?;
        let mut product = ArrayViewMut2::from_shape((self.len(), other.len()), buffer)?;
        general_mat_mul(1.0, &values, &others.t(), 0.0, &mut product);
        Ok(())
    }

    fn row(&self, position: usize) -> &[f32] {
        &self.values[position * self.dimension..(position + 1) * self.dimension]
    }
}

impl<'b> Comparison<'b> {
    /// Prepares to compare a block with others of the same dimension.
    pub fn new(block: &'b Block) -> Result<Self, MiningError> {
        let rows = RoundedRows::new(block.dimension, &block.values)?;
        Ok(Self { block, rounds: rows.usable, rows, cosines: Vec::new(), products_min: Vec::new(), unrounded_next: 0 })
    }

    /// Computes all cosines by matrix products, which gives the same result more slowly.
    pub fn without_rounding(self) -> Self {
        Self { rounds: false, ..self }
    }

    /// Compares the block with another one and updates the nearest neighbors of both. Leaves out pairs for which `skip` returns
    /// true, given their numbers (in this block, in the other).
    pub fn compare_with(
        &mut self,
        nearest: &mut Nearest,
        (other, of_other): (&Block, &mut Nearest),
        skip: impl Fn(u32, u32) -> bool,
    ) -> Result<(), MiningError> {
        check_range("dimension", other.dimension, self.block.dimension, self.block.dimension)?;
        if self.block.is_empty() || other.is_empty() {
            return Ok(());
        }
        let mut pairs = Pairs { one: (self.block, nearest), other: (other, of_other), skip, exact_pairs: 0 };
        self.unrounded_next = self.unrounded_next.saturating_sub(1);
        if !self.rounds || self.unrounded_next > 0 || pairs.one.1.unfilled > 0 || pairs.other.1.unfilled > 0 {
            let cosines = self.block.cosines(other, &mut self.cosines)?;
            pairs.take_cosines(cosines);
            return Ok(());
        }
        pairs.take_rounded(&mut self.rows, &mut self.products_min)?;
        if pairs.exact_pairs * EXACT_PAIR_COST > self.block.len() * other.len() {
            self.unrounded_next = BLOCKS_WITHOUT_ROUNDING;
        }
        Ok(())
    }
}

/// The state of a comparison of two blocks.
struct Pairs<'p, F> {
    one: (&'p Block, &'p mut Nearest),
    other: (&'p Block, &'p mut Nearest),
    skip: F,
    /// Number of pairs whose cosine was computed from the exact values.
    exact_pairs: usize,
}

impl<F: Fn(u32, u32) -> bool> Pairs<'_, F> {
    fn take_cosines(&mut self, cosines: &[f32]) {
        // The possible difference between a matrix product and a sum in another order.
        let slack = self.one.0.dimension as f32 * f32::EPSILON;
        for (position, row) in cosines.chunks_exact(self.other.0.len()).enumerate() {
            for (part, cosines) in row.chunks(LANES).enumerate() {
                let begin = part * LANES;
                let thresholds = &self.other.1.thresholds[begin..begin + cosines.len()];
                let mut good = reaching_mask(cosines, self.one.1.thresholds[position] - slack, thresholds, slack);
                while good != 0 {
                    self.compare_exactly(position, begin + good.trailing_zeros() as usize);
                    good &= good - 1;
                }
            }
        }
    }

    fn take_rounded(&mut self, rows: &mut RoundedRows, minimums_of_other: &mut Vec<i32>) -> Result<(), MiningError> {
        let bound = rows.bound(&self.other.0.rounded);
        minimums_of_other.clear();
        minimums_of_other.extend(self.other.1.thresholds.iter().map(|bar| bound.product_min(*bar)));
        for part in 0..rows.parts() {
            let (begin, products) = rows.products(part, &self.other.0.rounded)?;
            for (row, products) in products.chunks_exact(self.other.0.len()).enumerate() {
                let position = begin + row;
                let mut min = bound.product_min(self.one.1.thresholds[position]);
                for (part, products) in products.chunks(LANES).enumerate() {
                    let begin = part * LANES;
                    let mut good = reaching_mask(products, min, &minimums_of_other[begin..begin + products.len()], 0);
                    if good == 0 {
                        continue;
                    }
                    while good != 0 {
                        let other_position = begin + good.trailing_zeros() as usize;
                        good &= good - 1;
                        self.compare_exactly(position, other_position);
                        minimums_of_other[other_position] = bound.product_min(self.other.1.thresholds[other_position]);
                    }
                    min = bound.product_min(self.one.1.thresholds[position]);
                }
            }
        }
        Ok(())
    }

    /// Computes the exact cosine of a pair and offers it to both sentences. All stored cosines are computed here, so they do
    /// not depend on how the pair was found.
    fn compare_exactly(&mut self, position: usize, other_position: usize) {
        let (first, second) = (self.one.0.numbers[position], self.other.0.numbers[other_position]);
        self.exact_pairs += 1;
        if (self.skip)(first, second) {
            return;
        }
        let cosine = dot(self.one.0.row(position), self.other.0.row(other_position));
        if cosine >= self.one.1.thresholds[position] {
            self.one.1.offer(position, second, cosine);
        }
        if cosine >= self.other.1.thresholds[other_position] {
            self.other.1.offer(other_position, first, cosine);
        }
    }
}

/// Returns a bit mask of the scores that reach the common threshold `bar`, or their own threshold in `thresholds` within `slack`.
fn reaching_mask<T: Copy + PartialOrd + std::ops::Sub<Output = T>>(scores: &[T], bar: T, thresholds: &[T], slack: T) -> u32 {
    let reaches = |score: T, threshold: T| (score >= bar) | (score >= threshold - slack);
    if let (Ok(scores), Ok(thresholds)) = (<&[T; LANES]>::try_from(scores), <&[T; LANES]>::try_from(thresholds)) {
        // Usually no score reaches a threshold. This test compiles to a few vector instructions.
        let mut any = false;
        for lane in 0..LANES {
            any |= reaches(scores[lane], thresholds[lane]);
        }
        if !any {
            return 0;
        }
    }
    let bit = |(lane, (score, threshold)): (usize, (&T, &T))| u32::from(reaches(*score, *threshold)) << lane;
    scores.iter().zip(thresholds).enumerate().map(bit).sum()
}

impl Nearest {
    /// Creates an empty list, with capacity for `per_query` (1 to 255) neighbors of each of `sentences`.
    pub fn new(sentences: usize, per_query: usize) -> Result<Self, MiningError> {
        check_range("neighbors", per_query, 1, NEIGHBORS_MAX)?;
        Ok(Self {
            per_query,
            counts: vec![0; sentences],
            found: vec![(0, 0.0); sentences * per_query],
            thresholds: vec![f32::NEG_INFINITY; sentences],
            unfilled: sentences,
        })
    }

    /// Returns the nearest neighbors found for the sentence at a position of the block: (number, cosine).
    pub fn of(&self, position: usize) -> &[(u32, f32)] {
        let begin = position * self.per_query;
        &self.found[begin..begin + usize::from(self.counts[position])]
    }

    /// Puts the neighbors found into `lists`. `numbers` are those of the block's sentences.
    pub fn put_into(&self, lists: &mut NeighborLists, numbers: impl IntoIterator<Item = u32>) -> Result<(), MiningError> {
        let found = (0..self.counts.len()).map(|position| self.of(position));
        numbers.into_iter().zip(found).try_for_each(|(number, found)| lists.put(number, found))
    }

    fn offer(&mut self, position: usize, number: u32, cosine: f32) {
        let farther = |known: &(u32, f32)| known.1 < cosine || (known.1 == cosine && known.0 > number);
        let rank = self.of(position).partition_point(|known| !farther(known));
        if rank == self.per_query {
            return;
        }
        let known = usize::from(self.counts[position]);
        let count = (known + 1).min(self.per_query);
        let found = &mut self.found[position * self.per_query..][..count];
        found.copy_within(rank..count - 1, rank + 1);
        found[rank] = (number, cosine);
        self.counts[position] = count as u8;
        if count == self.per_query {
            self.thresholds[position] = found[count - 1].1;
            self.unfilled -= usize::from(known < count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, proptest};

    fn block(dimension: usize, rows: &[Vec<f32>]) -> Block {
        Block::new(dimension, (0..).zip(rows.iter().map(Vec::as_slice))).unwrap()
    }

    #[test]
    fn cosines_do_not_depend_on_vector_length() {
        let one = block(2, &[vec![3.0, 4.0], vec![0.0, 0.0]]);
        let other = block(2, &[vec![10.0, 0.0], vec![-3.0, -4.0], vec![0.3, 0.4]]);
        let mut buffer = vec![7.0; 1];
        let cosines = one.cosines(&other, &mut buffer).unwrap();
        let expect = [0.6, -1.0, 1.0, 0.0, 0.0, 0.0];
        assert!(cosines.iter().zip(expect).all(|(cosine, expect)| (cosine - expect).abs() < 1e-6), "{cosines:?}");
    }

    #[test]
    fn ties_keep_the_lowest_numbers_in_any_insertion_order() {
        for order in [[3, 1, 2, 0], [0, 1, 2, 3], [2, 3, 0, 1]] {
            let mut nearest = Nearest::new(1, 2).unwrap();
            order.iter().for_each(|number| nearest.offer(0, *number, 0.5));
            assert_eq!(nearest.of(0), [(0, 0.5), (1, 0.5)]);
            nearest.offer(0, 9, 0.75);
            assert_eq!(nearest.of(0), [(9, 0.75), (0, 0.5)]);
        }
    }

    #[test]
    fn mismatched_dimensions_and_zero_neighbors_are_refused() {
        let rows = [vec![1.0, 2.0, 3.0]];
        assert!(Block::new(2, (0..).zip(rows.iter().map(Vec::as_slice))).is_err());
        let (one, other) = (block(3, &rows), block(1, &[vec![1.0]]));
        assert!(one.cosines(&other, &mut Vec::new()).is_err());
        let (mut of_one, mut of_other) = (Nearest::new(1, 1).unwrap(), Nearest::new(1, 1).unwrap());
        assert!(Comparison::new(&one).unwrap().compare_with(&mut of_one, (&other, &mut of_other), |_, _| false).is_err());
        assert!(Nearest::new(1, 0).is_err());
    }

    #[test]
    fn comparing_with_an_empty_block_changes_no_neighbors() {
        let (none, one) = (block(2, &[]), block(2, &[vec![1.0, 0.0]]));
        let (mut of_none, mut of_one) = (Nearest::new(0, 1).unwrap(), Nearest::new(1, 1).unwrap());
        of_one.offer(0, 7, 0.5);
        Comparison::new(&none).unwrap().compare_with(&mut of_none, (&one, &mut of_one), |_, _| false).unwrap();
        Comparison::new(&one).unwrap().compare_with(&mut of_one, (&none, &mut of_none), |_, _| false).unwrap();
        assert_eq!(of_one.of(0), [(7, 0.5)]);
    }

    /// A few near-duplicates among many others: rounding skips most pairs, but must not lose any of these.
    #[test]
    fn rounding_does_not_change_the_neighbors_found() {
        let row = |number: usize, copy: usize| {
            let mut state = number as u64 + 1;
            let mut random = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
            };
            (0..48).map(|index| random() + (copy * index) as f32 * 1e-3).collect::<Vec<f32>>()
        };
        let firsts: Vec<_> = (0..1_000).map(|number| row(number, 0)).collect();
        let seconds: Vec<_> = (0..1_200).map(|number| row(number * 7 % 1_200, number % 4)).collect();
        let found = |rounds: bool| {
            let blocks = |rows: &[Vec<f32>]| -> Vec<(Block, Nearest)> {
                rows.chunks(200).map(|part| (block(48, part), Nearest::new(part.len(), 2).unwrap())).collect()
            };
            let (mut ones, mut others) = (blocks(&firsts), blocks(&seconds));
            let mut spared = 0;
            for (one, of_one) in &mut ones {
                let comparison = Comparison::new(one).unwrap();
                let mut comparison = if rounds { comparison } else { comparison.without_rounding() };
                for (other, of_other) in &mut others {
                    comparison.compare_with(of_one, (other, of_other), |_, _| false).unwrap();
                    spared += usize::from(comparison.rounds && comparison.unrounded_next == 0);
                }
            }
            assert_eq!(spared > 10, rounds, "{spared}");
            let nearest = |blocks: Vec<(Block, Nearest)>| blocks.into_iter().map(|(_, nearest)| nearest).collect::<Vec<_>>();
            (nearest(ones), nearest(others))
        };
        assert_eq!(found(true), found(false));
    }

    proptest! {
        #[test]
        fn blocks_find_the_same_top_cosines_as_exhaustive_comparison(
            rows in prop::collection::vec(prop::collection::vec(-1.0_f32..1.0, 3), 2..60),
            split in 0_usize..60,
            parts in (1_usize..20, 1_usize..40),
            per_query in 1_usize..5,
            skipped in 0_u32..40,
        ) {
            let (first, second) = rows.split_at(split.min(rows.len()));
            let skip = |one: u32, other: u32| one == skipped && other.is_multiple_of(2);
            let parted = |rows: &[Vec<f32>], size: usize| -> Vec<(Block, Nearest)> {
                let numbered: Vec<(u32, &[f32])> = (0..).zip(rows.iter().map(Vec::as_slice)).collect();
                let made = |part: &[(u32, &[f32])]| {
                    (Block::new(3, part.iter().copied()).unwrap(), Nearest::new(part.len(), per_query).unwrap())
                };
                numbered.chunks(size).map(made).collect()
            };
            let (mut ones, mut others) = (parted(first, parts.0), parted(second, parts.1));
            for (one, of_one) in &mut ones {
                let mut comparison = Comparison::new(one).unwrap();
                for (other, of_other) in &mut others {
                    comparison.compare_with(of_one, (other, of_other), skip).unwrap();
                }
            }
            let all = |rows: &[Vec<f32>]| block(3, rows);
            let cosine = |one: u32, other: u32| {
                let (one, other) = (all(&first[one as usize..=one as usize]), all(&second[other as usize..=other as usize]));
                one.values.iter().zip(&other.values).map(|(a, b)| a * b).sum::<f32>()
            };
            let check = |found: &[(u32, f32)], mut expect: Vec<f32>| {
                expect.sort_by(|a, b| b.total_cmp(a));
                expect.truncate(per_query);
                found.len() == expect.len() && found.iter().zip(expect).all(|(found, expect)| (found.1 - expect).abs() < 1e-5)
            };
            for (one, of_one) in &ones {
                for (position, number) in one.numbers().iter().enumerate() {
                    let wanted = (0..second.len() as u32).filter(|other| !skip(*number, *other));
                    prop_assert!(check(of_one.of(position), wanted.map(|other| cosine(*number, other)).collect()));
                }
            }
            for (other, of_other) in &others {
                for (position, number) in other.numbers().iter().enumerate() {
                    let wanted = (0..first.len() as u32).filter(|candidate| !skip(*candidate, *number));
                    prop_assert!(check(of_other.of(position), wanted.map(|candidate| cosine(candidate, *number)).collect()));
                }
            }
        }
    }
}
