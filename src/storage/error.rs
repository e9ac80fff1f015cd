//! Errors of comparing embeddings.

use crate::domain::CollectionName;
use crate::index::IndexError;
use crate::store::StoreError;

/// Why the nearest passages could not be found.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error("collection {collection} is recovering: {done} of {total} passages are ready")]
    Recovering {
        collection: CollectionName,
        /// Number of passages done.
        done: u64,
        /// Total number of passages.
        total: u64,
    },
}
