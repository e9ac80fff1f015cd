//! How a collection compares and indexes embeddings. Everything but `ef_search` is fixed at creation.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Embedding;
use super::embedding::{dot, squared_distance};
use super::names::names;

/// How two embeddings are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MetricName)]
pub enum Metric {
    /// Cosine similarity, -1 to 1. Embeddings are scaled to unit length.
    #[default]
    Cosine,
    /// Dot product.
    Dot,
    /// The negative Euclidean distance: 0 for equal embeddings.
    L2,
}

/// How the index stores values. The database stores them at full precision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = QuantizationName)]
pub enum Quantization {
    /// Four bytes per value, without rounding.
    F32,
    /// Two bytes per value, with the range of f32 and three significant digits.
    Bf16,
    /// Two bytes per value, up to 65,504, with four significant digits.
    F16,
    /// One byte per value, scaled by the largest value. Only with cosine.
    I8,
    /// One bit per value: its sign. Only with cosine.
    B1,
}

/// Parameters of the index, an HNSW graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = HnswInfo)]
pub struct HnswSettings {
    /// Neighbors per node.
    // Twice as many in the lowest layer.
    #[schema(minimum = 4, maximum = 128)]
    pub m: usize,
    /// Candidates considered while building.
    #[schema(minimum = 8, maximum = 4096)]
    pub ef_construction: usize,
    /// Candidates considered while searching.
    #[schema(minimum = 8, maximum = 4096)]
    pub ef_search: usize,
}

/// Limits of `HnswSettings::m`.
pub const M: std::ops::RangeInclusive<usize> = 4..=128;
/// Limits of `HnswSettings::ef_construction` and `ef_search`.
pub const EF: std::ops::RangeInclusive<usize> = 8..=4_096;
/// Limits of the dimension of callers' vectors.
pub const DIMENSION: std::ops::RangeInclusive<usize> = 1..=8_192;
/// Limits of `SearchMode::Full::candidates`.
pub const CANDIDATES: std::ops::RangeInclusive<usize> = 10..=10_000;
/// Default of `SearchMode::Full::candidates`.
pub const CANDIDATES_DEFAULT: usize = 50;
/// Limits of oversampling.
pub const OVERSAMPLING: std::ops::RangeInclusive<f32> = 1.0..=64.0;

impl Default for HnswSettings {
    /// Defaults that give a recall@10 above 0.95.
    fn default() -> Self {
        Self { m: 16, ef_construction: 128, ef_search: 96 }
    }
}

names!(Metric { Cosine = "cosine", Dot = "dot", L2 = "l2" });

impl Metric {
    /// How similar two embeddings are: higher is always nearer. For cosine both must have unit length.
    pub fn score(self, a: &Embedding, b: &Embedding) -> f32 {
        self.score_values(a.as_slice(), b.as_slice())
    }

    /// The same as `score`, for slices.
    pub fn score_values(self, a: &[f32], b: &[f32]) -> f32 {
        match self {
            Self::Cosine => dot(a, b).clamp(-1.0, 1.0),
            Self::Dot => dot(a, b),
            // Not `-0.0` for equal embeddings.
            Self::L2 => 0.0 - squared_distance(a, b).sqrt(),
        }
    }
}

names!(Quantization { F32 = "f32", Bf16 = "bf16", F16 = "f16", I8 = "i8", B1 = "b1" });

impl Quantization {
    /// The default quantization. For cosine one byte per value: with oversampling, recall is no lower than with two bytes, it
    /// takes half the memory, and documents are added faster.
    pub fn usual(metric: Metric) -> Self {
        match metric {
            Metric::Cosine => Self::I8,
            Metric::Dot | Metric::L2 => Self::F16,
        }
    }

    /// Whether it keeps only directions, so that only cosine works.
    pub fn needs_cosine(self) -> bool {
        matches!(self, Self::I8 | Self::B1)
    }

    /// Whether it is so coarse that scores must be recomputed from the database.
    pub fn is_coarse(self) -> bool {
        matches!(self, Self::I8 | Self::B1)
    }

    /// Whether its scores are only rough estimates, with unbounded errors.
    pub fn keeps_signs_only(self) -> bool {
        self == Self::B1
    }

    /// The largest value that it can store. With cosine no value exceeds one.
    pub fn value_max(self) -> f32 {
        match self {
            Self::F16 => 65_504.0,
            // The squared distance of two embeddings of such values, at the largest dimension, still fits into an f32.
            Self::F32 | Self::Bf16 | Self::I8 | Self::B1 => 1e16,
        }
    }

    /// Default number of candidates per requested neighbor to rescore with their stored embeddings. At one, the scores of the
    /// index are accurate enough.
    pub fn oversampling(self) -> f32 {
        match self {
            Self::F32 | Self::Bf16 | Self::F16 => 1.0,
            Self::I8 => 2.0,
            Self::B1 => 8.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_quantization_supports_its_metric() {
        assert!(Metric::ALL.into_iter().all(|metric| metric == Metric::Cosine || !Quantization::usual(metric).needs_cosine()));
    }

    #[test]
    fn a_higher_score_is_nearer_under_every_metric() {
        let unscaled = |values: [f32; 2]| Embedding::unscaled(values.to_vec()).unwrap();
        let (query, near, far) = (unscaled([1.0, 0.0]), unscaled([0.8, 0.6]), unscaled([0.0, 1.0]));
        for metric in Metric::ALL {
            assert!(metric.score(&query, &near) > metric.score(&query, &far), "{metric:?}");
        }
        assert_eq!(Metric::L2.score(&query, &query).to_bits(), 0.0_f32.to_bits());
        assert_eq!(Metric::Dot.score(&unscaled([2.0, 0.0]), &unscaled([3.0, 5.0])), 6.0);
    }
}
