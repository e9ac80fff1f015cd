//! Similarity of texts in meaning.

use serde::Serialize;
use utoipa::ToSchema;

/// How similar two texts are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct PairSimilarity {
    /// Cosine similarity, -1 to 1; higher is more similar.
    #[schema(minimum = -1, maximum = 1)]
    pub score: f32,
    /// True if one of the two was longer than the model reads, so that its end was ignored; omitted otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// How similar every text of one set is to every text of the other.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SimilarityMatrix {
    /// One row for each text of `first`, with its cosine similarity to each text of `second`.
    pub scores: Vec<Vec<f32>>,
    /// Positions in `first` of texts that were longer than the model reads; omitted if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub first_truncated: Vec<usize>,
    /// The same for `second`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub second_truncated: Vec<usize>,
}
