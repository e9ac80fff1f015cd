//! Changes settings of a collection: its description, search width and default languages, which the catalog has, and its metadata
//! indexes, which are stored with its documents.
//!
//! A change of both happens as a whole or not at all. On a database server it is one transaction. A data directory has two
//! databases, so the transaction that changes the indexes also stores the rest of the change, and another one changes the
//! catalog. If the process ends between the two, the next start changes the catalog.

use std::sync::Arc;

use super::view;
use crate::domain::{Collection, CollectionChange, CollectionView, MetadataPath, with_causes};
use crate::service::error::Error;
use crate::service::handle::CollectionHandle;
use crate::service::open_collection::OpenCollection;
use crate::service::state::State;
use crate::storage::{CatalogPart, Postgres};
use crate::store::{DocumentStore, StoreError};

impl CollectionHandle {
    /// Changes a collection durably and returns it. Creating a metadata index on a large collection takes a while. In the
    /// meantime, its other writes wait. On a database server, requests that create, replace or delete any collection through
    /// this server wait as well: a deletion would wait there for this change, which would wait here for the deletion.
    pub async fn change(&self, change: CollectionChange) -> Result<CollectionView, Error> {
        self.service.check_running()?;
        let state = Arc::clone(&self.service.state);
        let (has_indexes, rest) = (change.metadata_indexes.is_some(), without_indexes(&change));
        // On a database server, other servers learn of new indexes from the catalog.
        let only_indexes = has_indexes && rest == CollectionChange::default() && !self.open().is_shared();
        // Both are held until the end of the change, even if the caller goes away.
        let changing = loop {
            let collection = self.open();
            let changing = Arc::clone(&collection.changing).lock_owned().await;
            // It may have been replaced in the meantime.
            if Arc::ptr_eq(&collection, &self.open()) {
                break changing;
            }
        };
        let naming = match self.open().is_shared() {
            true => Some(Arc::clone(&state.names_lock).lock_owned().await),
            false => None,
        };
        let locks = Arc::new((changing, naming));
        let work = move |collection: &Arc<OpenCollection>| {
            let _locks = &locks;
            match &change.metadata_indexes {
                Some(paths) if only_indexes => {
                    state.check_emergency_space()?;
                    collection.store.set_metadata_indexes(paths.clone())?;
                }
                _ => state.change(collection, &change)?,
            }
            let current = state.current_collection(collection)?;
            view(&current)
        };
        if has_indexes { Ok(self.write(work).await?.1) } else { self.open().run(work).await }
    }
}

/// Returns a collection's row of the catalog, completed by a change of which only the first part was stored. Blocks.
pub(in crate::service) fn complete(mut row: Collection, store: &DocumentStore) -> Result<Collection, StoreError> {
    // `finish_change` logs that the rest cannot be read.
    if let Some(rest) = store.unfinished_change()?.and_then(|rest| serde_json::from_str(&rest).ok()) {
        row.change(rest);
    }
    Ok(row)
}

/// Returns the part of a change that the catalog has.
fn without_indexes(change: &CollectionChange) -> CollectionChange {
    CollectionChange { metadata_indexes: None, ..change.clone() }
}

impl State {
    /// The caller holds the collection's `changing`. Blocks.
    fn change(&self, collection: &Arc<OpenCollection>, change: &CollectionChange) -> Result<(), Error> {
        self.finish_change(collection)?;
        let update = |row: &Collection| -> Result<bool, Error> { Ok(self.catalog.update(row)?) };
        let Some(paths) = change.metadata_indexes.clone() else { return self.change_row(collection, change, update) };
        self.check_emergency_space()?;
        match collection.server() {
            Some(server) => self.change_on_server(server, collection, change, paths),
            None => self.change_in_two_parts(collection, change, paths, update),
        }
    }

    /// Changes the catalog's row of a collection, in the catalog by `update` and in memory.
    fn change_row(
        &self,
        collection: &Arc<OpenCollection>,
        change: &CollectionChange,
        mut update: impl FnMut(&Collection) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.change_catalog(CatalogPart::Names, || {
            // It may have been replaced in the meantime.
            let collection = self.current_collection(collection)?;
            let mut row = collection.current();
            row.change(change.clone());
            if !update(&row)? {
                return Err(Error::CollectionNotFound { name: row.name });
            }
            collection.set_current(row);
            Ok(())
        })
    }

    fn change_on_server(
        &self,
        server: &Postgres,
        collection: &Arc<OpenCollection>,
        change: &CollectionChange,
        paths: Vec<MetadataPath>,
    ) -> Result<(), Error> {
        let Some(catalog) = self.catalog.shared() else { return Err(StoreError::Closed.into()) };
        let mut blocked = server.block_writes()?;
        let set = server.declare_metadata_indexes(&mut blocked, paths)?;
        self.change_row(collection, change, |row| {
            let is_there = catalog.update_and_commit(&mut blocked, row)?;
            if is_there {
                server.refresh_metadata_indexes(set.clone());
            }
            Ok(is_there)
        })
    }

    fn change_in_two_parts(
        &self,
        collection: &Arc<OpenCollection>,
        change: &CollectionChange,
        paths: Vec<MetadataPath>,
        update: impl FnMut(&Collection) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let store = &collection.embedded()?.store;
        let rest = without_indexes(change);
        let before = store.metadata_indexes();
        // Serializing text and numbers to JSON cannot fail.
        store.set_metadata_indexes_of_change(paths, Some(serde_json::to_string(&rest).unwrap_or_default()))?;
        // The catalog's part always survives power loss, so this one must, too.
        let changed = store.sync().map_err(Error::from).and_then(|()| self.change_row(collection, &rest, update));
        let ended = match &changed {
            Ok(()) => store.finish_change(),
            Err(_) if collection.is_deleted() => Ok(()),
            Err(_) => store.set_metadata_indexes_of_change(before, None),
        };
        if let Err(error) = ended {
            let error = with_causes(&error);
            tracing::warn!(collection = %collection.row.name, error, "cannot finish a change; the next change of the catalog or the next start does it");
        }
        changed
    }

    /// Applies the rest of a change of which only the first part was stored. The caller holds the collection's `changing`, or the
    /// collection is not listed yet. Blocks.
    pub(in crate::service) fn finish_change(&self, collection: &Arc<OpenCollection>) -> Result<(), Error> {
        let Ok(embedded) = collection.embedded() else { return Ok(()) };
        let rest = match embedded.store.unfinished_change() {
            Err(error) if error.is_damage() => {
                collection.record_damage(&error);
                None
            }
            found => found?,
        };
        let Some(rest) = rest else { return Ok(()) };
        match serde_json::from_str(&rest) {
            Ok(rest) => {
                self.change_row(collection, &rest, |row| Ok(self.catalog.update(row)?))?;
                tracing::info!(collection = %collection.row.name, "finished a change that was interrupted");
            }
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(collection = %collection.row.name, error, "the rest of an interrupted change cannot be read");
            }
        }
        Ok(embedded.store.finish_change()?)
    }
}
