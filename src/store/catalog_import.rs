//! Imports the content of another catalog: collections with their aliases, and keys. `classifiers` imports classifiers.

use super::aliases::point_alias;
use super::catalog_session::values;
use super::catalog_storage::{CatalogStorage, Within};
use super::collections::insert_all;
use super::{StoreError, StoredKey, keys};
use crate::domain::{Alias, Collection};

/// The content of a catalog without classifiers and jobs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CatalogContents {
    pub collections: Vec<Collection>,
    pub aliases: Vec<Alias>,
    pub keys: Vec<StoredKey>,
}

impl dyn CatalogStorage {
    /// Adds the content of another catalog, all or nothing. The documents of its collections must already be here. Keys that
    /// already exist here stay as they are. Fails with `StoreError::CollectionExists` if a collection here has the name of a
    /// new collection or alias, and with `StoreError::AliasExists` if an alias here has the name of a new collection.
    pub fn import_contents(&self, contents: &CatalogContents) -> Result<(), StoreError> {
        self.run_in(Within::Transaction, "importing a catalog", |session| {
            for Collection { name, .. } in &contents.collections {
                if session.has_row("select 1 from dragoman.aliases where name = $1", values![name.as_str()])? {
                    return Err(StoreError::AliasExists { name: name.clone() });
                }
            }
            insert_all(session, &contents.collections)?;
            for Alias { name, collection } in &contents.aliases {
                if let Some(row) = contents.collections.iter().find(|row| row.name == *collection) {
                    point_alias(session, name, &row.id, false)?;
                }
            }
            for stored in &contents.keys {
                let known = "select 1 from dragoman.api_keys where id = $1";
                if !session.has_row(known, values![stored.key.id.as_str()])? {
                    keys::insert(session, stored)?;
                }
            }
            Ok(())
        })
    }
}
