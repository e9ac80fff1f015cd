//! Projections: the documents of a collection as points on a plane.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names::names;
use super::{Language, timestamps};

/// What is subtracted from the embeddings before they are projected. `none`: nothing. `language`: the mean embedding of the
/// document's language, so that documents about the same topic are near each other, whatever their languages.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProjectionCenterName)]
#[expect(missing_docs, reason = "the text above says what the variants are")]
pub enum ProjectionCenter {
    #[default]
    None,
    Language,
}

names!(ProjectionCenter { None = "none", Language = "language" });

impl std::fmt::Display for ProjectionCenter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What to project, and how. The catalog stores it in the request of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectionRequest {
    /// What is subtracted from the embeddings.
    pub center: ProjectionCenter,
    /// Maximum points; of a larger collection, only a sample of the documents is projected.
    pub documents_max: usize,
    /// How many nearest neighbors should stay near each document.
    pub neighbors: usize,
}

/// A projection without its points.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = ProjectionInfo)]
pub struct ProjectionSummary {
    /// What was subtracted from the embeddings.
    pub center: ProjectionCenter,
    /// Number of points, including those of documents that were deleted since.
    pub documents: u64,
    /// Whether the points are a sample, because the collection had more documents than the maximum.
    pub sampled: bool,
    /// Number of documents in the collection when it was computed.
    pub collection_documents: u64,
    /// When it was computed.
    // In milliseconds since the Unix epoch.
    #[serde(rename = "created_at", serialize_with = "timestamps::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at_ms: i64,
    /// The model that made the embeddings; omitted if the caller sends vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether embeddings were added, changed or deleted since.
    pub stale: bool,
}

/// A projection: points on a plane, in columns. Values at the same index in `ids`, `x`, `y`, `language` and `value` belong to
/// the same document.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = ProjectionPoints)]
pub struct Projection {
    /// What was subtracted from the embeddings.
    pub center: ProjectionCenter,
    /// When it was computed.
    // In milliseconds since the Unix epoch.
    #[serde(rename = "created_at", serialize_with = "timestamps::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at_ms: i64,
    /// Whether embeddings were added, changed or deleted since.
    pub stale: bool,
    /// The ids of the documents, except those deleted since.
    pub ids: Vec<String>,
    /// Horizontal coordinates, -1 to 1.
    pub x: Vec<f32>,
    /// Vertical coordinates, -1 to 1, increasing upwards, on the same scale as `x`; the longer dimension spans the whole range.
    pub y: Vec<f32>,
    /// The languages of the documents, the most frequent one first.
    #[schema(value_type = Vec<String>)]
    pub languages: Vec<Language>,
    /// Index in `languages` of each document's language; -1 for a document without one.
    pub language: Vec<i32>,
    /// The most frequent values of the requested field, as text, at most 19; omitted if no field was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 19)]
    pub values: Option<Vec<String>>,
    /// Index in `values` of each document's value; -1 for a document with another value or none. Omitted if no field was
    /// requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Vec<i32>>,
}
