//! A passage near a query, and the order of all lists of them.

use std::cmp::Ordering;

use crate::domain::PassageId;

/// A neighbor of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Neighbor {
    /// The passage.
    pub passage: PassageId,
    /// By the index's metric, higher is nearer.
    pub score: f32,
}

/// The order of every list of neighbors: the higher score first, and by lower key for equal scores.
pub(super) fn nearer_first(a: &Neighbor, b: &Neighbor) -> Ordering {
    b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage))
}
