//! What can go wrong with projections.

use crate::domain::{Code, CollectionName, JobId, ProjectionCenter};

/// An error of projections.
#[derive(Debug, thiserror::Error)]
pub enum ProjectionError {
    /// None was computed.
    #[error(
        "collection {collection} has no projection with center {center}: POST /v1/collections/{collection}/projections computes one"
    )]
    NotFound {
        /// The collection.
        collection: CollectionName,
        /// What would be subtracted.
        center: ProjectionCenter,
    },
    /// A plane of so few points says nothing.
    #[error("a projection needs at least {expected} documents with embeddings, collection {collection} has {got}")]
    TooFewDocuments {
        /// The collection.
        collection: CollectionName,
        /// The least.
        expected: usize,
        /// What there is.
        got: usize,
    },
    /// Another job computes the same.
    #[error("job {job} computes the projection of collection {collection} with center {center} already")]
    AlreadyRunning {
        /// The collection.
        collection: CollectionName,
        /// What is subtracted.
        center: ProjectionCenter,
        /// The job.
        job: JobId,
    },
}

impl ProjectionError {
    /// The code that the wire sends.
    pub fn code(&self) -> Code {
        match self {
            Self::NotFound { .. } => Code::ProjectionNotFound,
            Self::TooFewDocuments { .. } => Code::TooFewDocuments,
            Self::AlreadyRunning { .. } => Code::JobRunning,
        }
    }
}
