//! Exact nearest neighbors within one set of vectors: compares each pair once (`crate::mining::blocks`). This takes seconds for
//! as many vectors as a map can show. The collection's index cannot be used because it does not contain centered vectors.

use parking_lot::Mutex;

use super::Vectors;
use crate::mining::{Block, Comparison, MiningError, Nearest, NeighborLists};

/// Finds the neighbors of all vectors, in parts that can be compared in parallel.
pub struct Neighborhood {
    per_query: usize,
    vectors: usize,
    /// Each part, with the neighbors found while comparing earlier parts with it.
    parts: Vec<(Block, Mutex<Nearest>)>,
}

impl Neighborhood {
    /// Prepares to find `neighbors` neighbors of each vector, or all others if there are fewer.
    pub fn new(vectors: Vectors, neighbors: usize) -> Result<Self, MiningError> {
        let (count, dimension) = (vectors.len(), vectors.dimension());
        let per_query = neighbors.min(count.saturating_sub(1)).max(1);
        let mut parts = Vec::new();
        let mut number = 0_u32;
        for rows in vectors.into_blocks() {
            let block = Block::new(dimension, (number..).zip(rows.chunks_exact(dimension)))?;
            number += block.len() as u32;
            let nearest = Nearest::new(block.len(), per_query)?;
            parts.push((block, Mutex::new(nearest)));
        }
        Ok(Self { per_query, vectors: count, parts })
    }

    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Compares the vectors of a part with each other and with those of all later parts. Returns the neighbors found for this
    /// part.
    pub fn compare(&self, part: usize) -> Result<Nearest, MiningError> {
        let (block, _) = &self.parts[part];
        let mut nearest = Nearest::new(block.len(), self.per_query)?;
        let mut mirrored = nearest.clone();
        let mut comparison = Comparison::new(block)?;
        comparison.compare_with(&mut nearest, (block, &mut mirrored), |one, other| one == other)?;
        for (other, found) in &self.parts[part + 1..] {
            comparison.compare_with(&mut nearest, (other, &mut found.lock()), |_, _| false)?;
        }
        Ok(nearest)
    }

    /// Returns the neighbors of all vectors. `found` contains the results of `compare`, in the order of the parts.
    pub fn lists(self, found: Vec<Nearest>) -> Result<NeighborLists, MiningError> {
        let mut lists = NeighborLists::new(self.vectors, self.vectors, self.per_query)?;
        let mut both = Vec::with_capacity(2 * self.per_query);
        for ((block, before), behind) in self.parts.into_iter().zip(found) {
            let before = before.into_inner();
            for (row, number) in block.numbers().iter().enumerate() {
                both.clear();
                both.extend_from_slice(before.of(row));
                both.extend_from_slice(behind.of(row));
                lists.put(*number, &both)?;
            }
        }
        Ok(lists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::random::Random;
    use crate::domain::embedding::dot;
    use crate::mining::BLOCK_SENTENCES;

    #[test]
    fn neighbors_across_parts_match_exhaustive_comparison() {
        let (count, dimension, per_query) = (2 * BLOCK_SENTENCES + 70, 12, 7);
        let mut random = Random::new(4);
        let mut vectors = Vectors::new(dimension);
        for _ in 0..count {
            let row: Vec<f32> = (0..dimension).map(|_| random.within(1.0)).collect();
            vectors.push(&row);
        }
        let rows: Vec<Vec<f32>> = vectors.blocks().flat_map(|block| block.chunks_exact(dimension)).map(<[f32]>::to_vec).collect();
        let neighborhood = Neighborhood::new(vectors, per_query).unwrap();
        assert_eq!(neighborhood.parts(), 3);
        // Parts can be compared in any order; this starts with the last.
        let mut found: Vec<Nearest> = (0..3).rev().map(|part| neighborhood.compare(part).unwrap()).collect();
        found.reverse();
        let lists = neighborhood.lists(found).unwrap();
        for number in (0..count).step_by(37) {
            let mut expect: Vec<f32> =
                (0..count).filter(|other| *other != number).map(|other| dot(&rows[number], &rows[other])).collect();
            expect.sort_unstable_by(|a, b| b.total_cmp(a));
            let got: Vec<f32> = lists.of(number).map(|(_, cosine)| cosine).collect();
            assert_eq!(got.len(), per_query);
            assert!(got.iter().zip(&expect).all(|(got, expect)| (got - expect).abs() < 1e-6), "{number}: {got:?} {expect:?}");
            assert!(lists.of(number).all(|(other, _)| other as usize != number));
        }
    }

    #[test]
    fn with_few_vectors_all_others_are_neighbors() {
        let mut vectors = Vectors::new(2);
        (0..4).for_each(|n| vectors.push(&[1.0, n as f32]));
        let neighborhood = Neighborhood::new(vectors, 100).unwrap();
        let found = vec![neighborhood.compare(0).unwrap()];
        let lists = neighborhood.lists(found).unwrap();
        assert_eq!(lists.of(0).map(|(other, _)| other).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(lists.of(3).map(|(other, _)| other).collect::<Vec<_>>(), [2, 1, 0]);
    }
}
