//! Keeps this server in sync with a catalog that several servers share. Collections, aliases and keys are cached in memory, and
//! other servers may change them.
//!
//! Each request first calls `Service::sync_catalog`. After that, the memory is at least as new as the catalog was when the
//! request arrived. A change goes through `State::change_catalog`, which checks it against the memory. The catalog accepts the
//! change only if the memory is up to date.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::error::Error;
use super::state::{BrokenCollection, CatalogCheck, CollectionEntry, Service, State};
use crate::domain::{Collection, CollectionId, chain, with_causes};
use crate::service::open_collection::OpenCollection;
use crate::storage::{CatalogNames, CatalogPart, PostgresCatalog};
use crate::store::{StoreError, system_clock};

/// Maximum number of attempts at a change while other servers change the same part of the catalog.
const ATTEMPTS_MAX: u32 = 1_000;

impl Service {
    /// Reads what other servers acknowledged before this call.
    pub async fn sync_catalog(&self) -> Result<(), Error> {
        if self.state.catalog.shared().is_none() {
            return Ok(());
        }
        let arrived = Instant::now();
        let mut last_check = self.state.catalog_sync.last_check.lock().await;
        if let Some(check) = last_check.as_ref().filter(|check| check.started >= arrived) {
            return check.failure.clone().map_or(Ok(()), |failure| Err(failure.into()));
        }
        let started = Instant::now();
        let synced = self.state.run(|state| state.catch_up()).await;
        let failure = match &synced {
            Ok(()) => None,
            Err(Error::Store(error)) => Some(error.clone()),
            Err(_) => return synced,
        };
        *last_check = Some(CatalogCheck { started, failure });
        synced
    }

    /// Brings this server's collections up to date with the catalog, including those that replaced others.
    pub(super) async fn sync_names(&self) -> Result<(), Error> {
        self.sync_catalog().await?;
        // A change of this server may be in the catalog, but not in memory yet.
        let waited = self.state.run(|state| {
            drop(state.catalog_sync.parts[CatalogPart::Names as usize].applying.lock());
            Ok(())
        });
        waited.await
    }

    /// Returns the time by the clock that decides which documents have expired, in milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        self.state.now_ms()
    }
}

impl State {
    /// Returns the time of the clock that decides which documents have expired: the database server's, if there is one.
    pub(super) fn now_ms(&self) -> i64 {
        self.catalog.shared().map_or_else(system_clock, PostgresCatalog::now_ms)
    }

    /// Like `now_ms`, but asks the database server, for background work: `now_ms` counts from what the last request read.
    /// Blocks.
    pub(super) fn read_clock(&self) -> Result<i64, Error> {
        Ok(self.catalog.shared().map_or_else(|| Ok(system_clock()), PostgresCatalog::read_clock)?)
    }

    /// Brings the memory up to date with the catalog. Blocks.
    pub(super) fn catch_up(&self) -> Result<(), Error> {
        let Some(catalog) = self.catalog.shared() else { return Ok(()) };
        let seen = catalog.versions()?;
        for part in CatalogPart::ALL {
            let sync_state = &self.catalog_sync.parts[part as usize];
            if sync_state.version.load(Ordering::SeqCst) == seen.of(part) {
                continue;
            }
            let _applying = sync_state.applying.lock();
            // This server may have changed it in the meantime. A version may also be lower than the known one: a replica that has
            // become the primary may lack the last changes.
            let version = catalog.versions()?.of(part);
            if sync_state.version.load(Ordering::SeqCst) == version {
                continue;
            }
            self.check_running()?;
            match part {
                CatalogPart::Names => self.apply_names(catalog)?,
                CatalogPart::Keys => self.keyring.reload(catalog)?,
                // Nothing to do: they are read when they are used.
                CatalogPart::Classifiers => (),
            }
            catalog.set_known_version(part, version);
            sync_state.version.store(version, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Changes a part of the catalog together with the memory. `change` checks the memory and then changes both. It runs again if
    /// another server changed that part of the catalog in the meantime. Fails if the data directory is gone. Blocks.
    pub(super) fn change_catalog<T>(&self, part: CatalogPart, mut change: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let sync_state = &self.catalog_sync.parts[part as usize];
        let mut attempts = 0;
        self.check_directory()?;
        loop {
            self.catch_up()?;
            attempts += 1;
            let _applying = sync_state.applying.lock();
            match change() {
                Err(Error::Store(StoreError::CatalogChanged)) if attempts < ATTEMPTS_MAX => (),
                changed => {
                    if let Some(catalog) = self.catalog.shared().filter(|_| changed.is_ok()) {
                        sync_state.version.store(catalog.known_version(part), Ordering::SeqCst);
                    }
                    return changed;
                }
            }
        }
    }

    /// Whether another server has changed a part of the catalog, and this server has not read the change yet. Blocks.
    pub(super) fn is_behind(&self, part: CatalogPart) -> Result<bool, Error> {
        let Some(catalog) = self.catalog.shared() else { return Ok(false) };
        Ok(catalog.versions()?.of(part) != catalog.known_version(part))
    }

    /// Waits for running changes of the memory to finish. While the server is stopping, nothing changes the memory after this.
    /// Blocks.
    pub(super) fn wait_for_catalog_sync(&self) {
        self.catalog_sync.parts.iter().for_each(|sync_state| drop(sync_state.applying.lock()));
    }

    /// Records the versions of the catalog that were read at start-up.
    pub(super) fn record_catalog_versions(&self) {
        let Some(catalog) = self.catalog.shared() else { return };
        for part in CatalogPart::ALL {
            self.catalog_sync.parts[part as usize].version.store(catalog.known_version(part), Ordering::SeqCst);
        }
    }

    /// Opens new collections, closes deleted ones, and updates rows, metadata indexes and aliases that changed.
    fn apply_names(&self, catalog: &PostgresCatalog) -> Result<(), Error> {
        let CatalogNames { collections, aliases, replaced, mut metadata_indexes } = catalog.names()?;
        let ids: HashMap<_, _> = collections.iter().map(|row| (row.id.clone(), row.name.clone())).collect();
        let mut added = Vec::new();
        for row in collections {
            let indexes = metadata_indexes.remove(&row.id).unwrap_or_default();
            let known = self.collections.read().get(&row.name).filter(|entry| entry.row().id == row.id).cloned();
            match known {
                Some(CollectionEntry::Open(collection)) => {
                    if collection.current() != row {
                        collection.set_current(row);
                    }
                    if let Some(server) = collection.server() {
                        server.refresh_metadata_indexes(indexes);
                    }
                }
                Some(CollectionEntry::Broken(_)) => (),
                None => added.extend(self.open_found(row)?),
            }
        }
        let is_current = |row: &Collection| ids.get(&row.id) == Some(&row.name);
        // This order keeps every name resolvable: add the new collections, switch the aliases, then remove the old collections.
        let mut removed: Vec<CollectionEntry> = Vec::new();
        {
            let mut collections = self.collections.write();
            for entry in &added {
                removed.extend(collections.insert(entry.row().name.clone(), entry.clone()));
            }
        }
        *self.aliases.write() = aliases.into_iter().map(|alias| (alias.name, alias.collection)).collect();
        removed.extend(self.collections.write().extract_if(.., |_, entry| !is_current(entry.row())).map(|(_, entry)| entry));
        added.iter().filter_map(CollectionEntry::open).for_each(|collection| self.start_worker(collection));
        for collection in removed.iter().filter_map(CollectionEntry::open) {
            match self.successor(&replaced, &collection.row.id) {
                Some(next) => {
                    tracing::info!(collection = %next.row.name, id = %next.row.id, "collection re-embedded by another server");
                    self.redirect_writes(collection, &next);
                }
                None => self.close_deleted(Arc::clone(collection)),
            }
        }
        Ok(())
    }

    /// Returns the open collection that replaced the collection `id`, after one or more replacements.
    fn successor(&self, replaced: &HashMap<CollectionId, CollectionId>, id: &CollectionId) -> Option<Arc<OpenCollection>> {
        let mut next = replaced.get(id)?;
        while let Some(later) = replaced.get(next) {
            next = later;
        }
        self.collection_by_id(&next.0)
    }

    /// Waits until this server has the replacement of a collection that another server has replaced.
    pub(super) async fn find_replacement(self: &Arc<Self>, old: &OpenCollection) -> Result<(), Error> {
        self.run(|state| state.catch_up()).await?;
        if old.is_deleted() {
            return Err(old.not_found());
        }
        if old.replacement.get().is_some() { Ok(()) } else { Err(StoreError::Replaced.into()) }
    }

    /// Opens a collection that another server created. Returns `None` if it has been deleted again.
    fn open_found(&self, row: Collection) -> Result<Option<CollectionEntry>, Error> {
        let folder = self.collections_dir().join(&row.id.0);
        match self.open_collection(row.clone(), &folder) {
            Ok(collection) => Ok(Some(CollectionEntry::Open(Arc::new(collection)))),
            Err(Error::Store(StoreError::Closed)) => Ok(None),
            Err(Error::Store(error)) if error.is_damage() => {
                tracing::error!(collection = %row.name, problem = chain(&error), "a damaged collection stays closed");
                Ok(Some(CollectionEntry::Broken(Arc::new(BrokenCollection { row, error }))))
            }
            Err(error) => Err(error),
        }
    }

    fn close_deleted(&self, collection: Arc<OpenCollection>) {
        tracing::info!(collection = %collection.row.name, id = %collection.row.id, "collection deleted through another server");
        // Requests that still hold the collection must see that it is deleted.
        collection.mark_deleted();
        // Closing waits for writes, which must not delay the synchronization, so it runs on a separate thread.
        self.runtime.spawn_blocking(move || {
            if let Err(error) = collection.destroy() {
                let (collection, error) = (&collection.row.name, with_causes(&error));
                tracing::warn!(%collection, error, "cannot remove a deleted collection's folder; the next start tries again");
            }
        });
    }
}
