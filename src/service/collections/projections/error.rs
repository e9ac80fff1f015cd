//! Errors of projections.

use crate::domain::{Code, CollectionName, JobId, ProjectionCenter};

#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    #[error(
        "collection {collection} has no projection with center {center}: POST /v1/collections/{collection}/projections computes one"
    )]
    NotFound { collection: CollectionName, center: ProjectionCenter },
    #[error("a projection needs at least {expected} documents with embeddings, but collection {collection} has {got}")]
    TooFewDocuments { collection: CollectionName, expected: usize, got: usize },
    #[error("job {job} is already computing the projection of collection {collection} with center {center}")]
    AlreadyRunning { collection: CollectionName, center: ProjectionCenter, job: JobId },
}

impl ProjectionError {
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::ProjectionNotFound,
            Self::TooFewDocuments { .. } => Code::TooFewDocuments,
            Self::AlreadyRunning { .. } => Code::JobRunning,
        }
    }
}
