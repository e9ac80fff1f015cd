//! The parameters of an index.

use crate::domain::{HnswSettings, Metric, Quantization};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexParameters {
    pub dimension: usize,
    pub metric: Metric,
    pub quantization: Quantization,
    /// Number of neighbors per node.
    pub m: usize,
    /// Number of candidates while building.
    pub ef_construction: usize,
    /// Number of candidates while searching.
    pub ef_search: usize,
}

impl IndexParameters {
    pub fn of(dimension: usize, metric: Metric, quantization: Quantization, hnsw: HnswSettings) -> Self {
        let HnswSettings { m, ef_construction, ef_search } = hnsw;
        Self { dimension, metric, quantization, m, ef_construction, ef_search }
    }
}
