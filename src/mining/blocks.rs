//! The nearest neighbors of two sets both ways by comparing every sentence of one with every one of the other, block by block. The
//! cosines of two blocks are one product of matrices, with all that the processor has for it, and each serves both of its
//! sentences. This is exact, and up to tens of thousands of sentences on the smaller side it takes less time than walking a graph.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeError};

use super::MiningError;
use super::error::within;
use super::neighbors::NEIGHBORS_MAX;

/// Sentences of a block: two blocks and their cosines stay in the caches of a core.
pub const BLOCK_SENTENCES: usize = 512;
/// Cosines that are looked at together, so that the compiler may use vector instructions.
const LANES: usize = 16;

/// Embeddings of some sentences.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    dimension: usize,
    /// [sentences]
    numbers: Vec<u32>,
    /// [sentences, dimension] Of unit length, or zero.
    values: Vec<f32>,
}

/// The nearest of another set that were found so far for each sentence of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Nearest {
    per_query: usize,
    /// [sentences] How many are known.
    counts: Vec<u8>,
    /// [sentences, per_query] Nearest first, of equally near ones the lower number first.
    found: Vec<(u32, f32)>,
    /// [sentences] The cosine that another one must reach.
    bars: Vec<f32>,
}

impl Block {
    /// Takes embeddings of any length with the numbers of their sentences.
    pub fn new<'e>(dimension: usize, embeddings: impl Iterator<Item = (u32, &'e [f32])>) -> Result<Self, MiningError> {
        let (mut numbers, mut values) = (Vec::new(), Vec::new());
        for (number, embedding) in embeddings {
            within("dimension", embedding.len(), dimension, dimension)?;
            let length = embedding.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
            let scale = if length > 0.0 { length.recip() } else { 0.0 };
            numbers.push(number);
            values.extend(embedding.iter().map(|value| (f64::from(*value) * scale) as f32));
        }
        Ok(Self { dimension, numbers, values })
    }

    /// How many sentences it has.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The numbers of its sentences.
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// The cosines of all its sentences with all of another block, [sentences, sentences of the other]. They are written into
    /// `room`, whatever it held.
    pub fn cosines<'r>(&self, other: &Self, room: &'r mut Vec<f32>) -> Result<&'r [f32], MiningError> {
        within("dimension", other.dimension, self.dimension, self.dimension)?;
        room.resize(self.len() * other.len(), 0.0);
        self.multiply(other, room).map_err(|_| MiningError::Shape)?;
        Ok(room)
    }

    fn multiply(&self, other: &Self, room: &mut [f32]) -> Result<(), ShapeError> {
        let one = ArrayView2::from_shape((self.len(), self.dimension), self.values.as_slice())?;
        let two = ArrayView2::from_shape((other.len(), self.dimension), other.values.as_slice())?;
        let mut product = ArrayViewMut2::from_shape((self.len(), other.len()), room)?;
        general_mat_mul(1.0, &one, &two.t(), 0.0, &mut product);
        Ok(())
    }
}

impl Nearest {
    /// None known yet, with room for `per_query` (1 to 255) of each of `sentences`.
    pub fn new(sentences: usize, per_query: usize) -> Result<Self, MiningError> {
        within("neighbors", per_query, 1, NEIGHBORS_MAX)?;
        Ok(Self {
            per_query,
            counts: vec![0; sentences],
            found: vec![(0, 0.0); sentences * per_query],
            bars: vec![f32::NEG_INFINITY; sentences],
        })
    }

    /// The nearest known of the sentence at a place of the block: (number, cosine).
    pub fn of(&self, place: usize) -> &[(u32, f32)] {
        let begin = place * self.per_query;
        &self.found[begin..begin + usize::from(self.counts[place])]
    }

    fn offer(&mut self, place: usize, number: u32, cosine: f32) {
        let farther = |known: &(u32, f32)| known.1 < cosine || (known.1 == cosine && known.0 > number);
        let at = self.of(place).partition_point(|known| !farther(known));
        if at == self.per_query {
            return;
        }
        let count = (usize::from(self.counts[place]) + 1).min(self.per_query);
        let found = &mut self.found[place * self.per_query..][..count];
        found.copy_within(at..count - 1, at + 1);
        found[at] = (number, cosine);
        self.counts[place] = count as u8;
        if count == self.per_query {
            self.bars[place] = found[count - 1].1;
        }
    }
}

/// Takes the `cosines` of two blocks into the nearest of both, but for pairs that `skip` holds of, by their numbers.
pub fn take_in(
    cosines: &[f32],
    (first, of_first): (&Block, &mut Nearest),
    (second, of_second): (&Block, &mut Nearest),
    skip: impl Fn(u32, u32) -> bool,
) {
    if second.is_empty() {
        return;
    }
    for (place, row) in cosines.chunks_exact(second.len()).enumerate() {
        let number = first.numbers[place];
        for (part, cosines) in row.chunks(LANES).enumerate() {
            let begin = part * LANES;
            let mut good = above(cosines, of_first.bars[place], &of_second.bars[begin..begin + cosines.len()]);
            while good != 0 {
                let lane = good.trailing_zeros() as usize;
                good &= good - 1;
                let (cosine, other) = (cosines[lane], second.numbers[begin + lane]);
                if !skip(number, other) {
                    if cosine >= of_first.bars[place] {
                        of_first.offer(place, other, cosine);
                    }
                    if cosine >= of_second.bars[begin + lane] {
                        of_second.offer(begin + lane, number, cosine);
                    }
                }
            }
        }
    }
}

/// A bit for each cosine that reaches one of the two bars.
fn above(cosines: &[f32], bar: f32, bars: &[f32]) -> u32 {
    if let (Ok(cosines), Ok(bars)) = (<&[f32; LANES]>::try_from(cosines), <&[f32; LANES]>::try_from(bars)) {
        // Nearly always there is none. Asked so, that takes some vector instructions.
        let mut any = false;
        for lane in 0..LANES {
            any |= cosines[lane] >= if bars[lane] < bar { bars[lane] } else { bar };
        }
        if !any {
            return 0;
        }
    }
    let bit = |(lane, (cosine, other)): (usize, (&f32, &f32))| u32::from(*cosine >= other.min(bar)) << lane;
    cosines.iter().zip(bars).enumerate().map(bit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop, prop_assert, proptest};

    fn block(dimension: usize, rows: &[Vec<f32>]) -> Block {
        Block::new(dimension, (0..).zip(rows.iter().map(Vec::as_slice))).unwrap()
    }

    #[test]
    fn cosines_are_those_of_the_directions() {
        let one = block(2, &[vec![3.0, 4.0], vec![0.0, 0.0]]);
        let other = block(2, &[vec![10.0, 0.0], vec![-3.0, -4.0], vec![0.3, 0.4]]);
        let mut room = vec![7.0; 1];
        let cosines = one.cosines(&other, &mut room).unwrap();
        let expect = [0.6, -1.0, 1.0, 0.0, 0.0, 0.0];
        assert!(cosines.iter().zip(expect).all(|(cosine, expect)| (cosine - expect).abs() < 1e-6), "{cosines:?}");
    }

    #[test]
    fn of_equally_near_ones_the_lower_numbers_stay_whatever_their_order() {
        for order in [[3, 1, 2, 0], [0, 1, 2, 3], [2, 3, 0, 1]] {
            let mut nearest = Nearest::new(1, 2).unwrap();
            order.iter().for_each(|number| nearest.offer(0, *number, 0.5));
            assert_eq!(nearest.of(0), [(0, 0.5), (1, 0.5)]);
            nearest.offer(0, 9, 0.75);
            assert_eq!(nearest.of(0), [(9, 0.75), (0, 0.5)]);
        }
    }

    #[test]
    fn a_block_takes_embeddings_of_its_dimension_alone() {
        let rows = [vec![1.0, 2.0, 3.0]];
        assert!(Block::new(2, (0..).zip(rows.iter().map(Vec::as_slice))).is_err());
        let (one, other) = (block(3, &rows), block(1, &[vec![1.0]]));
        assert!(one.cosines(&other, &mut Vec::new()).is_err());
        assert!(Nearest::new(1, 0).is_err());
    }

    proptest! {
        #[test]
        fn blocks_find_what_sorting_all_cosines_finds(
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
            let mut room = Vec::new();
            for (one, of_one) in &mut ones {
                for (other, of_other) in &mut others {
                    let cosines = one.cosines(other, &mut room).unwrap();
                    take_in(cosines, (one, of_one), (other, of_other), skip);
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
                for (place, number) in one.numbers().iter().enumerate() {
                    let wanted = (0..second.len() as u32).filter(|other| !skip(*number, *other));
                    prop_assert!(check(of_one.of(place), wanted.map(|other| cosine(*number, other)).collect()));
                }
            }
            for (other, of_other) in &others {
                for (place, number) in other.numbers().iter().enumerate() {
                    let wanted = (0..first.len() as u32).filter(|one| !skip(*one, *number));
                    prop_assert!(check(of_other.of(place), wanted.map(|one| cosine(one, *number)).collect()));
                }
            }
        }
    }
}
