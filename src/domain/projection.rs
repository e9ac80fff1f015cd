//! Projections: the documents of a collection as points on a plane.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::names::names;
use super::{Language, timestamps};

/// What is subtracted from the embeddings before they are put on a plane. `none`: nothing. `language`: the mean of the embeddings
/// of the document's language, so that documents of one topic are near each other whatever their languages.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ProjectionCenterName)]
pub enum ProjectionCenter {
    /// Nothing.
    #[default]
    None,
    /// The mean of the document's language.
    Language,
}

names!(ProjectionCenter { None = "none", Language = "language" });

impl std::fmt::Display for ProjectionCenter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// What to project, and how. The catalog keeps it as the request of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProjectionRequest {
    /// What is subtracted first.
    pub center: ProjectionCenter,
    /// Points at most; of more documents some are drawn.
    pub documents_max: usize,
    /// Neighbors of each document that are to stay near it.
    pub neighbors: usize,
}

/// A projection without its points.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = ProjectionInfo)]
pub struct ProjectionSummary {
    /// What was subtracted from the embeddings.
    pub center: ProjectionCenter,
    /// Points in it, deleted documents among them.
    pub documents: u64,
    /// Whether some documents were drawn, because there were more than it may have.
    pub sampled: bool,
    /// Documents that the collection had when it was computed.
    pub collection_documents: u64,
    /// When it was computed.
    // In milliseconds since the Unix epoch.
    #[serde(rename = "created_at", serialize_with = "timestamps::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at_ms: i64,
    /// The model of the embeddings; omitted when they are vectors of the caller's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Whether documents were changed since.
    pub stale: bool,
}

/// A projection: points on a plane, as columns. A place in `ids`, `x`, `y`, `language` and `value` stands for one document.
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
    /// Whether documents were changed since.
    pub stale: bool,
    /// The documents, without those that were deleted since.
    pub ids: Vec<String>,
    /// Across, -1 to 1.
    pub x: Vec<f32>,
    /// Up, -1 to 1, in the same scale as `x`; the longer side of all points fills that range.
    pub y: Vec<f32>,
    /// The languages of the documents, the most frequent one first.
    #[schema(value_type = Vec<String>)]
    pub languages: Vec<Language>,
    /// The place of each document's language in `languages`; -1 for a document without one.
    pub language: Vec<i32>,
    /// The most frequent values of the field that was asked for, as text, at most 19; omitted when none was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 19)]
    pub values: Option<Vec<String>>,
    /// The place of each document's value in `values`; -1 for a document with another value or none. Omitted when no field was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Vec<i32>>,
}
