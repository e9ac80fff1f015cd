//! Errors of comparing embeddings.

use crate::domain::CollectionName;
use crate::index::IndexError;
use crate::store::StoreError;

/// Why the nearest passages could not be found.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Reading rows failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The index failed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The collection is still recovering.
    #[error("the collection {collection} is recovering, {done} of {total} passages are ready")]
    Recovering {
        /// The collection.
        collection: CollectionName,
        /// Number of passages done.
        done: u64,
        /// Total number of passages.
        total: u64,
    },
}
