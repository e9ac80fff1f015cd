//! How near texts are in meaning.

use serde::Serialize;
use utoipa::ToSchema;

/// How near two texts are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, ToSchema)]
pub struct PairSimilarity {
    /// Cosine similarity, -1 to 1, higher is nearer.
    #[schema(minimum = -1, maximum = 1)]
    pub score: f32,
    /// True when one of the two was longer than what the model reads, so that its end had no influence; omitted otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub truncated: bool,
}

/// How near every text of one set is to every text of the other.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct SimilarityMatrix {
    /// A row for each text of `first`, in it the cosine similarity with each text of `second`.
    pub scores: Vec<Vec<f32>>,
    /// Places in `first` of texts that were longer than what the model reads; omitted when there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub first_truncated: Vec<usize>,
    /// The same of `second`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    pub second_truncated: Vec<usize>,
}
