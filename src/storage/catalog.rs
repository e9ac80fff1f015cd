//! Tells the two catalogs apart. `CatalogStorage` has what they have in common.

use std::any::Any;

use super::postgres::PostgresCatalog;
use crate::store::{Catalog, CatalogStorage};

impl dyn CatalogStorage {
    /// Returns the catalog in the data directory, if this is one.
    pub fn embedded(&self) -> Option<&Catalog> {
        (self as &dyn Any).downcast_ref()
    }

    /// Returns the catalog on a database server, if this is one. Other servers change it, too.
    pub fn shared(&self) -> Option<&PostgresCatalog> {
        (self as &dyn Any).downcast_ref()
    }
}
