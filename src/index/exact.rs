//! Exact search. It is the reference in recall tests, and searches the few rows that match a selective filter.

use super::Neighbor;
use super::nearest::Nearest;
use crate::domain::{Embedding, Metric, PassageId};

/// Returns the `limit` nearest of `items`, nearest first. Among equal scores, the lower key comes first. All items must have
/// the query's dimension, and under cosine unit length.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(items: &[(u64, [f32; 2])], query: [f32; 2], limit: usize, expect: &[u64]) {
        let embed = |values: [f32; 2]| Embedding::normalized(values.to_vec()).unwrap();
        let items: Vec<_> = items.iter().map(|&(key, values)| (PassageId(key), embed(values))).collect();
        let found = search_exact(Metric::Cosine, items.iter().map(|(key, embedding)| (*key, embedding)), &embed(query), limit);
        assert_eq!(found.iter().map(|neighbor| neighbor.passage.0).collect::<Vec<_>>(), expect);
    }

    const CROSS: &[(u64, [f32; 2])] = &[(4, [0.0, 1.0]), (3, [-1.0, 0.0]), (2, [1.0, 0.1]), (1, [1.0, 0.0])];

    #[test]
    fn the_nearest_comes_first() {
        check(CROSS, [1.0, 0.0], 4, &[1, 2, 4, 3]);
    }

    #[test]
    fn returns_at_most_the_limit() {
        check(CROSS, [1.0, 0.0], 2, &[1, 2]);
        check(CROSS, [1.0, 0.0], 0, &[]);
    }

    #[test]
    fn a_limit_beyond_the_items_returns_all_of_them() {
        check(CROSS, [-1.0, 0.0], 100, &[3, 4, 2, 1]);
        check(&[], [-1.0, 0.0], 100, &[]);
    }

    #[test]
    fn ties_are_ordered_by_key() {
        check(&[(9, [1.0, 0.0]), (7, [1.0, 0.0]), (8, [1.0, 0.0])], [1.0, 0.0], 2, &[7, 8]);
    }
}
