//! The handle of a collection that a request works on, looked up once by name or alias.
//!
//! The rooms of the resources add its methods.

use std::sync::Arc;

use super::error::Error;
use super::state::Service;
use crate::domain::{Collection, CollectionName};
use crate::service::open_collection::OpenCollection;

/// A collection that a request works on.
///
/// It keeps the collection that was found, whatever becomes of the name or the alias. Once the collection is deleted, every use
/// fails with `CollectionNotFound`. After re-embedding, new operations work on the replacement.
#[derive(Clone)]
pub struct CollectionHandle {
    pub(super) service: Service,
    pub(super) found: Arc<OpenCollection>,
    /// The name in the request: its own or an alias.
    pub(super) name: CollectionName,
}

impl Service {
    /// Finds a collection by its own name or an alias.
    pub fn collection(&self, name: &CollectionName) -> Result<CollectionHandle, Error> {
        Ok(CollectionHandle { service: self.clone(), found: self.state.collection(name)?, name: name.clone() })
    }
}

impl CollectionHandle {
    /// Its settings as they are now.
    pub fn row(&self) -> Collection {
        self.open().current()
    }

    /// The collection, or its replacement.
    pub(super) fn open(&self) -> Arc<OpenCollection> {
        self.found.latest()
    }
}
