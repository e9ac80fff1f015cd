//! The index, which finds the nearest neighbors of an embedding with usearch. It is a cache: everything in it can be rebuilt
//! from the store. No usearch type leaves this module.

mod engine;
mod near_duplicates;
mod nearest;
mod permits;
mod scan;

pub mod error;
pub mod hnsw;
pub mod snapshot;

pub use error::IndexError;
pub use hnsw::{Compared, Index};
pub use nearest::{Neighbor, nearer_first, search_exact};
pub use scan::Among;
pub use snapshot::{is_saved, load, save, saved_sequence};

use crate::domain::{HnswSettings, Metric, Quantization};

/// What determines an index besides its passages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexParameters {
    pub dimension: usize,
    pub metric: Metric,
    pub quantization: Quantization,
    pub hnsw: HnswSettings,
}

impl IndexParameters {
    /// Returns these parameters with the default settings of the graph.
    pub fn new(dimension: usize, metric: Metric, quantization: Quantization) -> Self {
        Self { dimension, metric, quantization, hnsw: HnswSettings::default() }
    }
}
