//! Vectors in blocks, and centering: subtracts the mean of each group from its vectors, so that what a group has in common does
//! not separate it from others. With languages as groups, the remainder represents topics.

use std::collections::BTreeMap;

use crate::mining::BLOCK_SENTENCES;

/// Minimum size of a group for its mean to be used; for smaller groups, the mean of all vectors is subtracted.
const GROUP_MIN: usize = 5;
/// A vector that is shorter than this after centering consists of rounding errors and has no direction.
const LENGTH_MIN: f64 = 1e-4;

/// Vectors of unit length, or zero if they have no direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Vectors {
    dimension: usize,
    /// [rows, dimension] each; all but the last have `BLOCK_SENTENCES` rows.
    blocks: Vec<Vec<f32>>,
    len: usize,
}

/// A sum of vectors and their number.
struct Sum {
    values: Vec<f64>,
    members: usize,
}

impl Vectors {
    /// Creates an empty set. `dimension` must not be 0.
    pub fn new(dimension: usize) -> Self {
        debug_assert!(dimension > 0, "a vector has values");
        Self { dimension, blocks: Vec::new(), len: 0 }
    }

    /// Adds a vector of any length.
    pub fn push(&mut self, vector: &[f32]) {
        debug_assert_eq!(vector.len(), self.dimension, "all vectors have one dimension");
        if self.len.is_multiple_of(BLOCK_SENTENCES) {
            self.blocks.push(Vec::with_capacity(BLOCK_SENTENCES * self.dimension));
        }
        if let Some(block) = self.blocks.last_mut() {
            let begin = block.len();
            block.extend_from_slice(vector);
            normalize(&mut block[begin..], 0.0);
            self.len += 1;
        }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// Subtracts the mean of its group from each vector, and scales the result to unit length. `groups` has a group for each
    /// vector.
    pub fn center(&mut self, groups: &[u32]) {
        let mut sums: BTreeMap<u32, Sum> = BTreeMap::new();
        let mut all = Sum::new(self.dimension);
        for (row, group) in self.rows().zip(groups) {
            sums.entry(*group).or_insert_with(|| Sum::new(self.dimension)).add(row);
            all.add(row);
        }
        let all = all.mean();
        let mean = |sum: Sum| if sum.members < GROUP_MIN { all.clone() } else { sum.mean() };
        let means: BTreeMap<u32, Vec<f32>> = sums.into_iter().map(|(group, sum)| (group, mean(sum))).collect();
        let dimension = self.dimension;
        let rows = self.blocks.iter_mut().flat_map(|block| block.chunks_exact_mut(dimension));
        for (row, group) in rows.zip(groups) {
            let mean = means.get(group).unwrap_or(&all);
            row.iter_mut().zip(mean).for_each(|(value, mean)| *value -= mean);
            normalize(row, LENGTH_MIN);
        }
    }

    /// The values by block: [rows, dimension] each.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &[f32]> {
        self.blocks.iter().map(Vec::as_slice)
    }

    pub(super) fn into_blocks(self) -> impl Iterator<Item = Vec<f32>> {
        self.blocks.into_iter()
    }

    fn rows(&self) -> impl Iterator<Item = &[f32]> {
        self.blocks.iter().flat_map(|block| block.chunks_exact(self.dimension))
    }
}

impl Sum {
    fn new(dimension: usize) -> Self {
        Self { values: vec![0.0; dimension], members: 0 }
    }

    fn add(&mut self, row: &[f32]) {
        self.values.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
        self.members += 1;
    }

    fn mean(self) -> Vec<f32> {
        let members = self.members.max(1) as f64;
        self.values.into_iter().map(|sum| (sum / members) as f32).collect()
    }
}

/// Scales to unit length. A vector not longer than `length_min` becomes zero.
fn normalize(row: &mut [f32], length_min: f64) {
    let length = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    let scale = if length > length_min { length.recip() } else { 0.0 };
    row.iter_mut().for_each(|value| *value = (f64::from(*value) * scale) as f32);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rows: &[&[f32]]) -> Vectors {
        let mut vectors = Vectors::new(rows[0].len());
        rows.iter().for_each(|row| vectors.push(row));
        vectors
    }

    #[test]
    fn vectors_are_split_into_blocks_and_normalized() {
        let mut vectors = Vectors::new(2);
        for _ in 0..BLOCK_SENTENCES + 3 {
            vectors.push(&[3.0, 4.0]);
        }
        vectors.push(&[0.0, 0.0]);
        let rows: Vec<usize> = vectors.blocks().map(|block| block.len() / 2).collect();
        assert_eq!((vectors.len(), rows), (BLOCK_SENTENCES + 4, vec![BLOCK_SENTENCES, 4]));
        assert_eq!(vectors.rows().next(), Some(&[0.6, 0.8][..]));
        assert_eq!(vectors.rows().last(), Some(&[0.0, 0.0][..]));
    }

    #[test]
    fn centering_removes_the_group_mean() {
        // Two groups of six vectors on opposite sides along the first axis, with the same six topics.
        let topics: [[f32; 3]; 6] =
            [[0.5, 0.0, 0.0], [-0.5, 0.0, 0.0], [0.0, 0.5, 0.0], [0.0, -0.5, 0.0], [0.0, 0.0, 0.5], [0.0, 0.0, -0.5]];
        let of_group = |offset: f32| topics.map(|topic| [offset, topic[0], topic[1], topic[2]]);
        let rows: Vec<[f32; 4]> = of_group(1.0).into_iter().chain(of_group(-1.0)).collect();
        let mut vectors = of(&rows.iter().map(|row| &row[..]).collect::<Vec<_>>());
        vectors.center(&[7, 7, 7, 7, 7, 7, 9, 9, 9, 9, 9, 9]);
        let rows: Vec<&[f32]> = vectors.rows().collect();
        for (one, other) in rows[..6].iter().zip(&rows[6..]) {
            assert!(one.iter().zip(*other).all(|(one, other)| (one - other).abs() < 1e-6), "{one:?} {other:?}");
            assert!(one[0].abs() < 1e-6 && (one.iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-6);
        }
        for group in [&rows[..6], &rows[6..]] {
            let mean = |axis: usize| group.iter().map(|row| row[axis]).sum::<f32>() / 6.0;
            assert!((0..4).all(|axis| mean(axis).abs() < 1e-6));
        }
    }

    #[test]
    fn small_groups_use_the_overall_mean_and_equal_vectors_become_zero() {
        let mut vectors = of(&[&[1.0, 0.0], &[0.0, 1.0]]);
        vectors.center(&[1, 2]);
        let half = 0.5_f32.sqrt();
        let expect = [[half, -half], [-half, half]];
        for (row, expect) in vectors.rows().zip(expect) {
            assert!(row.iter().zip(expect).all(|(value, expect)| (value - expect).abs() < 1e-6), "{row:?}");
        }
        let mut equal = of(&[&[0.3, 0.7][..]; 8]);
        equal.center(&[1; 8]);
        assert!(equal.rows().all(|row| row == [0.0, 0.0]));
    }
}
