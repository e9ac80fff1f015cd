//! What can go wrong when embeddings are compared.

use crate::domain::CollectionName;
use crate::index::IndexError;
use crate::store::StoreError;

/// Why the nearest passages cannot be told.
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
        /// Passages done.
        done: u64,
        /// Passages in all.
        total: u64,
    },
}
