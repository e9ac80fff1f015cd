//! A collection that a request works on: looked up once, by its own name or an alias.
//!
//! The rooms of the resources add its methods.

use std::sync::Arc;

use super::error::Error;
use super::state::Service;
use crate::domain::{Collection, CollectionName};
use crate::service::open_collection::OpenCollection;

/// A collection that a request works on.
///
/// It stays what was found, whatever becomes of the name or the alias: when the collection is deleted, every use says that there
/// is none. When it was embedded anew meanwhile, what begins after that is done on what took its place.
#[derive(Clone)]
pub struct CollectionHandle {
    pub(super) service: Service,
    pub(super) found: Arc<OpenCollection>,
    /// As the caller said it: its own name or an alias.
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

    /// The collection, or what took its place by now.
    pub(super) fn open(&self) -> Arc<OpenCollection> {
        self.found.latest()
    }
}
