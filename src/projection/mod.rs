//! Points on a plane for vectors: what is near among the vectors is near on the plane. Pure computation: where vectors come from,
//! threads and files belong to others.
//!
//! `vectors` holds them and takes each group's mean away where that is asked, `components` finds the plane on which they spread
//! most, `neighbors` the nearest of each by comparing all with all. `graph` and `layout` are UMAP (McInnes, Healy and Melville,
//! 2018, arXiv 1802.03426): a fuzzy graph of the neighbors, and its points moved, from that plane on, until near ones are near.
//! The same vectors give the same points, whatever the number of threads that compare them.

pub mod components;
pub mod graph;
pub mod layout;
pub mod neighbors;
#[cfg(test)]
mod tests;
pub mod vectors;

pub use components::principal_plane;
pub use graph::FuzzyGraph;
pub use layout::{Layout, epochs};
pub use neighbors::Neighborhood;
pub use vectors::Vectors;

/// A place on the plane.
pub type Point = [f32; 2];

/// Bytes of memory that all steps need at their height, for so many vectors with so many neighbors each.
pub fn bytes_needed(vectors: u64, dimension: u64, neighbors: u64) -> u64 {
    // The values, and rounded to a byte; then the neighbors, found from both sides, and their lists.
    let (values, lists) = (dimension.saturating_mul(5), neighbors.saturating_mul(24).saturating_add(32));
    vectors.saturating_mul(values.saturating_add(lists))
}
