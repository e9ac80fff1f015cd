//! A passage near a query, and the sort order of neighbors.

use std::cmp::Ordering;

use crate::domain::PassageId;

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
