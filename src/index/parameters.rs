//! The parameters of an index.

use crate::domain::{HnswSettings, Metric, Quantization};

/// The parameters of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexParameters {
    /// Values per embedding.
    pub dimension: usize,
    /// How embeddings are compared.
    pub metric: Metric,
    /// How values are stored.
    pub quantization: Quantization,
    /// Neighbors per node.
    pub m: usize,
    /// Candidates while building.
    pub ef_construction: usize,
    /// Candidates while searching.
    pub ef_search: usize,
}

impl IndexParameters {
    /// Combines them.
    pub fn of(dimension: usize, metric: Metric, quantization: Quantization, hnsw: HnswSettings) -> Self {
        let HnswSettings { m, ef_construction, ef_search } = hnsw;
        Self { dimension, metric, quantization, m, ef_construction, ef_search }
    }
}
