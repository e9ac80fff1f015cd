//! Hard negatives mined with the model itself: draws more rows than a run needs and takes those that a finished stage's token
//! table places near each other. A sentence's negatives are then about the same topic as its translation.

use std::cmp::Ordering;

/// Rows at least this similar (cosine) to the first one are left out, because they may be translations of it too.
const DUPLICATE_COSINE_MIN: f32 = 0.9;

/// Mines hard negatives.
#[derive(Debug, Clone)]
pub struct Miner {
    table: Vec<f32>,
    dimension: usize,
    /// Rows to draw for each row of a run.
    pub pool: usize,
}

impl Miner {
    /// Mines with a token table. [vocabulary x dimension]
    pub fn new(table: Vec<f32>, dimension: usize, pool: usize) -> Self {
        Self { table, dimension, pool }
    }

    /// The positions of texts, given by their token ids, in descending order of their cosine with the first, which comes first
    /// itself. Texts that may have the same meaning are left out.
    pub fn nearest_to_first(&self, texts: &[Vec<u16>]) -> Vec<usize> {
        let bags: Vec<Vec<f32>> = texts.iter().map(|ids| self.bag(ids)).collect();
        let Some(first) = bags.first() else { return Vec::new() };
        let cosine = |bag: &Vec<f32>| bag.iter().zip(first).map(|(a, b)| a * b).sum::<f32>();
        let mut others: Vec<(f32, usize)> = (1..bags.len()).map(|index| (cosine(&bags[index]), index)).collect();
        others.retain(|(cosine, _)| *cosine < DUPLICATE_COSINE_MIN);
        others.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap_or(Ordering::Equal).then(a.1.cmp(&b.1)));
        std::iter::once(0).chain(others.into_iter().map(|(_, index)| index)).collect()
    }

    /// The direction of the sum of a text's token vectors.
    fn bag(&self, ids: &[u16]) -> Vec<f32> {
        let mut sum = vec![0.0f32; self.dimension];
        for &id in ids {
            let row = &self.table[usize::from(id) * self.dimension..][..self.dimension];
            sum.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        let norm = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        if norm > 0.0 {
            sum.iter_mut().for_each(|value| *value /= norm);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_to_first_sorts_by_cosine_and_drops_near_duplicates() {
        // Directions of the tokens: 0°, 90°, 45°.
        let half = 0.5f32.sqrt();
        let miner = Miner::new(vec![1.0, 0.0, 0.0, 1.0, half, half], 2, 4);
        // Cosines with the first: 0 for 90°, 0.71 for 45°, 0.92 for 22.5°, 1 for the same token twice.
        let texts = [vec![0], vec![1], vec![2], vec![0, 2], vec![0, 0]];
        assert_eq!(miner.nearest_to_first(&texts), [0, 2, 1]);
        assert_eq!(miner.nearest_to_first(&[]), [0usize; 0]);
    }
}
