//! Passages near a query and their order, a list that collects the nearest and never grows far beyond its limit, and exact
//! search.

use std::cmp::Ordering;

use crate::domain::{Embedding, Metric, PassageId};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    pub passage: PassageId,
    /// The score by the index's metric. Higher is nearer.
    pub score: f32,
}

/// The order of every list of neighbors: higher scores first, and among equal scores lower keys first.
pub fn nearer_first(a: &Neighbor, b: &Neighbor) -> Ordering {
    b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage))
}

/// Returns the `limit` nearest of `items`, nearest first. Among equal scores, the lower key comes first. All items must have
/// the query's dimension, and under cosine unit length. It is the reference in recall tests, and searches the few rows that match
/// a selective filter.
pub fn search_exact<'a>(
    metric: Metric,
    items: impl Iterator<Item = (PassageId, &'a Embedding)>,
    query: &Embedding,
    limit: usize,
) -> Vec<Neighbor> {
    let mut nearest = Nearest::new(limit);
    items.for_each(|(passage, embedding)| nearest.offer(passage.0, metric.score(query, embedding)));
    nearest.into_sorted()
}

/// Keeps the nearest `limit` of the passages offered.
#[derive(Debug)]
pub(super) struct Nearest {
    pub(super) limit: usize,
    found: Vec<Neighbor>,
    /// A lower score than this cannot be among the nearest.
    floor: f32,
}

impl Nearest {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, found: Vec::new(), floor: f32::NEG_INFINITY }
    }

    /// Whether a passage with this score could be among the nearest.
    pub(super) fn wants(&self, score: f32) -> bool {
        score >= self.floor
    }

    pub(super) fn offer(&mut self, key: u64, score: f32) {
        if !self.wants(score) {
            return;
        }
        self.found.push(Neighbor { passage: PassageId(key), score });
        if self.found.len() >= self.limit.saturating_mul(2).max(64) {
            self.shrink();
        }
    }

    /// Returns all of them, nearest first.
    pub(super) fn into_sorted(mut self) -> Vec<Neighbor> {
        self.shrink();
        self.found.sort_unstable_by(nearer_first);
        self.found
    }

    fn shrink(&mut self) {
        if self.limit == 0 {
            self.found.clear();
        } else if self.found.len() >= self.limit {
            let (_, last, _) = self.found.select_nth_unstable_by(self.limit - 1, nearer_first);
            self.floor = last.score;
            self.found.truncate(self.limit);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_nearest_whatever_the_insertion_order() {
        for step in [1u64, 7, 389] {
            let mut nearest = Nearest::new(10);
            for round in 0..1_000 {
                let key = round * step % 1_000;
                nearest.offer(key, -(key as f32));
            }
            let found: Vec<_> = nearest.into_sorted().iter().map(|neighbor| neighbor.passage.0).collect();
            assert_eq!(found, (0..10).collect::<Vec<_>>());
        }
    }

    #[test]
    fn ties_are_ordered_by_key() {
        let mut nearest = Nearest::new(2);
        [9, 7, 8].into_iter().for_each(|key| nearest.offer(key, 1.0));
        assert_eq!(nearest.into_sorted().iter().map(|neighbor| neighbor.passage.0).collect::<Vec<_>>(), [7, 8]);
    }

    #[test]
    fn a_limit_of_zero_keeps_nothing() {
        let mut nearest = Nearest::new(0);
        (0..200).for_each(|key| nearest.offer(key, 1.0));
        assert!(nearest.into_sorted().is_empty());
    }
}
