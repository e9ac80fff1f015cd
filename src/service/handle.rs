//! The handle of a collection that a request works on, looked up once by name or alias.
//!
//! The module of each resource adds its methods to it.

use std::sync::Arc;

use super::error::Error;
use super::state::Service;
use crate::domain::{Collection, CollectionName};
use crate::service::open_collection::OpenCollection;

/// A collection that a request works on.
///
/// It keeps referring to the collection that was found, even if the name or the alias changes in the meantime. Once the
/// collection is deleted, every use fails with `CollectionNotFound`. After re-embedding, new operations work on the
/// replacement, and after a restore on the restored collection. If that has another model or other vectors, or is deleted as
/// well, reads go on with the collection that was found. Writes then fail with `CollectionReplaced` or `CollectionNotFound`.
#[derive(Clone)]
pub struct CollectionHandle {
    pub(super) service: Service,
    pub(super) found: Arc<OpenCollection>,
    /// The name in the request: the collection's own name or an alias.
    pub(super) name: CollectionName,
}

impl Service {
    /// Finds a collection by its own name or an alias.
    pub fn collection(&self, name: &CollectionName) -> Result<CollectionHandle, Error> {
        Ok(CollectionHandle { service: self.clone(), found: self.state.collection(name)?, name: name.clone() })
    }
}

impl CollectionHandle {
    pub fn row(&self) -> Collection {
        self.open().current()
    }

    /// Returns the collection, or what has replaced it. If no replacement can be used, returns the collection as it was before
    /// the restore.
    pub(super) fn open(&self) -> Arc<OpenCollection> {
        self.service.state.current_collection(&self.found).unwrap_or_else(|_| self.found.reembedded())
    }
}
