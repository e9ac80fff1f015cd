//! Projects vectors onto a plane so that near vectors have near points. Pure computation: the caller reads the vectors, starts
//! threads and writes files.
//!
//! `vectors` stores the vectors and optionally subtracts each group's mean, `components` finds the principal plane, and
//! `neighbors` finds nearest neighbors by comparing all pairs. `graph` and `layout` are UMAP (McInnes, Healy and Melville,
//! 2018, arXiv 1802.03426): a fuzzy graph of the neighbors, and its layout, which starts from the principal plane. The same
//! vectors give the same points, for any number of threads.

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

pub type Point = [f32; 2];

/// Returns the peak memory of all steps in bytes.
pub fn bytes_needed(vectors: u64, dimension: u64, neighbors: u64) -> u64 {
    // Each value takes 4 bytes, and 1 when rounded. Then there are the neighbors found in both directions, and their lists.
    let (values, lists) = (dimension.saturating_mul(5), neighbors.saturating_mul(24).saturating_add(32));
    vectors.saturating_mul(values.saturating_add(lists))
}
