//! The nearest neighbors of each sentence of one set in another set, in compact arrays: 8 bytes per neighbor and one per
//! sentence.

use super::MiningError;
use super::error::{check_below, check_range};

/// Maximum sentences per set: their numbers have 32 bits.
pub(super) const SENTENCES_MAX: usize = u32::MAX as usize;
/// Maximum neighbors per sentence.
pub(super) const NEIGHBORS_MAX: usize = 255;

/// The nearest neighbors of each sentence, nearest first; lower numbers first for equal cosines.
#[derive(Debug, Clone, PartialEq)]
pub struct NeighborLists {
    per_query: usize,
    others: usize,
    /// [queries] The number of neighbors of each.
    counts: Vec<u8>,
    /// [queries, per_query] Their numbers and cosines.
    found: Vec<(u32, f32)>,
}

impl NeighborLists {
    /// Creates empty lists for `per_query` neighbors (1 to 255) of each of `queries` sentences among `others` sentences.
    /// Allocates all memory at once.
    pub fn new(queries: usize, others: usize, per_query: usize) -> Result<Self, MiningError> {
        check_range("sentences", queries, 0, SENTENCES_MAX)?;
        check_range("sentences", others, 0, SENTENCES_MAX)?;
        check_range("neighbors", per_query, 1, NEIGHBORS_MAX)?;
        Ok(Self { per_query, others, counts: vec![0; queries], found: vec![(0, 0.0); queries * per_query] })
    }

    /// Bytes that `new` takes.
    pub fn bytes(queries: u64, per_query: u64) -> u64 {
        queries.saturating_mul(per_query.saturating_mul(8).saturating_add(1))
    }

    /// Stores the neighbors (number, cosine) of sentence number `query`, in any order. Keeps the nearest `per_query`, and
    /// replaces earlier ones. A sentence that was never stored has no neighbors.
    pub fn put(&mut self, query: u32, neighbors: &[(u32, f32)]) -> Result<(), MiningError> {
        check_below("query", query, self.counts.len())?;
        let mut sorted = neighbors.to_vec();
        sorted.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        for &(neighbor, cosine) in &sorted {
            check_below("neighbor", neighbor, self.others)?;
            if !cosine.is_finite() {
                return Err(MiningError::NotFinite { first: query, second: neighbor });
            }
        }
        let mut numbers: Vec<u32> = sorted.iter().map(|(neighbor, _)| *neighbor).collect();
        numbers.sort_unstable();
        if let Some(twice) = numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(MiningError::Repeated { query, neighbor: twice[0] });
        }
        sorted.truncate(self.per_query);
        self.found[query as usize * self.per_query..][..sorted.len()].copy_from_slice(&sorted);
        self.counts[query as usize] = sorted.len() as u8;
        Ok(())
    }

    /// The number of query sentences.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The size of the set that contains the neighbors.
    pub fn others(&self) -> usize {
        self.others
    }

    pub fn neighbor_count(&self) -> usize {
        self.counts.iter().map(|count| usize::from(*count)).sum()
    }

    /// Returns the neighbors (number, cosine) of sentence number `query`, nearest first. `query` must be below `len`.
    pub fn of(&self, query: usize) -> impl ExactSizeIterator<Item = (u32, f32)> {
        self.found[query * self.per_query..][..usize::from(self.counts[query])].iter().copied()
    }

    /// Returns the mean cosine of the neighbors of sentence number `query`, or 0 if it has none.
    pub fn mean_cosine(&self, query: usize) -> f64 {
        let neighbors = self.of(query);
        let count = neighbors.len().max(1);
        neighbors.map(|(_, cosine)| f64::from(cosine)).sum::<f64>() / count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn put_keeps_the_nearest_neighbors_in_descending_order() {
        let mut lists = NeighborLists::new(2, 9, 3).unwrap();
        lists.put(1, &[(4, 0.5), (8, 0.9), (2, 0.5), (6, -0.1)]).unwrap();
        assert_eq!(lists.of(1).collect::<Vec<_>>(), [(8, 0.9), (2, 0.5), (4, 0.5)]);
        assert!((lists.mean_cosine(1) - 1.9 / 3.0).abs() < 1e-7);
        assert_eq!((lists.of(0).len(), lists.mean_cosine(0)), (0, 0.0));
        lists.put(1, &[(3, 0.25)]).unwrap();
        assert_eq!((lists.of(1).collect::<Vec<_>>(), lists.mean_cosine(1)), (vec![(3, 0.25)], 0.25));
        assert_eq!((lists.len(), lists.others(), lists.neighbor_count()), (2, 9, 1));
    }

    #[test]
    fn invalid_neighbors_are_refused_and_change_nothing() {
        let mut lists = NeighborLists::new(2, 3, 2).unwrap();
        lists.put(0, &[(1, 0.5)]).unwrap();
        let before = lists.clone();
        let mut check = |query, neighbors: &[(u32, f32)], expect: &str| {
            assert_eq!(lists.put(query, neighbors).unwrap_err().to_string(), expect);
            assert_eq!(lists, before);
        };
        check(2, &[], "query: expected less than 2, got 2");
        check(0, &[(0, 0.1), (3, 0.1)], "neighbor: expected less than 3, got 3");
        check(0, &[(2, f32::NAN)], "the score of 0 and 2 is not finite");
        check(0, &[(2, 0.4), (1, 0.3), (2, 0.2)], "sentence 0 lists neighbor 2 twice");
        assert_eq!(NeighborLists::new(1, 1, 0).unwrap_err().to_string(), "neighbors: expected 1 to 255, got 0");
    }

    #[test]
    fn an_empty_set_accepts_no_neighbors() {
        let mut lists = NeighborLists::new(1, 0, 4).unwrap();
        lists.put(0, &[]).unwrap();
        assert!(lists.put(0, &[(0, 0.5)]).is_err());
        assert!(NeighborLists::new(0, 1, 4).unwrap().put(0, &[]).is_err());
    }
}

/// Neighbor lists for the tests of this folder.
#[cfg(test)]
pub(super) mod tests_support {
    use super::NeighborLists;

    /// Returns the `per_query` nearest in both directions, given all cosines [first, second].
    pub fn both_ways(cosines: &[&[f32]], per_query: usize) -> (NeighborLists, NeighborLists) {
        let (first, second) = (cosines.len(), cosines[0].len());
        let mut forward = NeighborLists::new(first, second, per_query).unwrap();
        let mut backward = NeighborLists::new(second, first, per_query).unwrap();
        for (query, row) in cosines.iter().enumerate() {
            let row: Vec<(u32, f32)> = (0..).zip(row.iter().copied()).collect();
            forward.put(query as u32, &row).unwrap();
        }
        for query in 0..second {
            let column: Vec<(u32, f32)> = (0..).zip(cosines.iter().map(|row| row[query])).collect();
            backward.put(query as u32, &column).unwrap();
        }
        (forward, backward)
    }
}
