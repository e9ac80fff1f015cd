//! What an index is made with.

use crate::domain::{HnswSettings, Metric, Quantization};

/// What an index is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexParameters {
    /// Values per embedding.
    pub dimension: usize,
    /// How embeddings are compared.
    pub metric: Metric,
    /// How values are kept.
    pub quantization: Quantization,
    /// Neighbors per node (M).
    pub connectivity: usize,
    /// Candidates while adding (ef construction).
    pub expansion_add: usize,
    /// Candidates while searching (ef).
    pub expansion_search: usize,
}

impl IndexParameters {
    /// Puts them together.
    pub fn of(dimension: usize, metric: Metric, quantization: Quantization, hnsw: HnswSettings) -> Self {
        let HnswSettings { connectivity, expansion_add, expansion_search } = hnsw;
        Self { dimension, metric, quantization, connectivity, expansion_add, expansion_search }
    }
}
