//! Creates, lists, reads, changes and deletes collections.

pub mod aliases;
pub(super) mod changing;
pub mod projections;
pub(super) mod reembedding;
mod retiring;

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use super::blocking::blocking;
use super::error::Error;
use super::folders::{AtPath, COLLECTIONS_DIR, sync_dir};
use super::state::{CollectionEntry, Service, State};
use crate::domain::{
    Caller, Collection, CollectionCounts, CollectionId, CollectionModel, CollectionName, CollectionView, MetadataPath,
    NewCollection, NewSource, Page, PassageBounds, RequestKey, with_causes,
};
use crate::index::{self, Index};
use crate::new_id::new_uuid;
use crate::service::folders::orphaned;
use crate::service::open_collection::worker::Worker;
use crate::service::open_collection::{Applied, OpenCollection};
use crate::storage::{CatalogPart, Postgres};
use crate::store::{DocumentStore, StoreError, StoreOptions, TermsOf, system_clock as now_ms};

/// Maximum number of connections that read one collection at once.
const READERS_MAX: usize = 6;

impl Service {
    /// Creates a collection.
    ///
    /// Makes the folder and the database first, then the catalog's row. A crash in between leaves a folder without a row, which
    /// the next start removes. A repeated request returns the collection that the first one created, in its current state.
    pub async fn create_collection(&self, new: NewCollection, request: Option<RequestKey>) -> Result<CollectionView, Error> {
        self.check_running()?;
        let (model, dimension) = self.resolve_source(new.source)?;
        let adjacent = PassageBounds::adjacent(self.model().tokens_max);
        let passages = model.is_some().then(|| new.passages.unwrap_or(adjacent));
        let row = Collection {
            id: CollectionId(new_uuid().to_string()),
            name: new.name,
            description: new.description,
            model,
            dimension,
            metric: new.metric,
            quantization: new.quantization,
            hnsw: new.hnsw,
            passages,
            default_languages: new.default_languages,
            created_at_ms: now_ms(),
        };
        self.state.with_names_locked(move |state| state.create(row, new.metadata_indexes, request.as_ref())).await
    }

    /// Lists the collections that the caller may see, by name. Also returns the last name on the page if there is a next page.
    ///
    /// A key that is restricted to an alias may not use the collection's own name, so the collection is listed under the alias.
    pub async fn list_collections(
        &self,
        page: Page<CollectionName>,
        caller: &Caller,
    ) -> Result<(Vec<CollectionView>, Option<CollectionName>), Error> {
        let after = page.after.map_or(Bound::Unbounded, Bound::Excluded);
        let size = page.limit.saturating_add(1);
        let mut found: BTreeMap<CollectionName, CollectionEntry> = {
            let collections = self.state.collections.read();
            let rest = collections.range((after.clone(), Bound::Unbounded)).filter(|(name, _)| caller.may_access(name));
            rest.take(size).map(|(name, entry)| (name.clone(), entry.clone())).collect()
        };
        for alias in self.aliases_of_restricted(caller, after, size) {
            // The alias may have been deleted in the meantime.
            if let Ok(collection) = self.state.find(&alias) {
                found.insert(alias, collection);
            }
        }
        let more = found.len() > page.limit;
        let next = if more { found.keys().take(page.limit).next_back().cloned() } else { None };
        let views = blocking(move || {
            let mut views = Vec::with_capacity(found.len().min(page.limit));
            for (name, entry) in found.into_iter().take(page.limit) {
                let mut view = match entry {
                    CollectionEntry::Broken(broken) => broken.view(),
                    CollectionEntry::Open(collection) => match view(&collection) {
                        Ok(view) => view,
                        Err(error) if collection.failed_by_deletion(&error) => continue,
                        Err(error) => return Err(error),
                    },
                };
                view.collection.name = name;
                views.push(view);
            }
            Ok(views)
        });
        Ok((views.await?, next))
    }

    pub async fn get_collection(&self, name: &CollectionName) -> Result<CollectionView, Error> {
        match self.state.find(name)? {
            CollectionEntry::Open(collection) => collection.read(|collection| view(collection)).await,
            CollectionEntry::Broken(broken) => Ok(broken.view()),
        }
    }

    /// Returns the model and the dimension of a new collection.
    fn resolve_source(&self, source: NewSource) -> Result<(Option<CollectionModel>, usize), Error> {
        let loaded = self.model();
        match source {
            NewSource::OwnVectors(dimension) => Ok((None, dimension)),
            NewSource::Model(Some(requested)) if requested != loaded.name => {
                Err(Error::UnknownModel { requested, loaded: loaded.name.clone() })
            }
            NewSource::Model(_) => Ok((Some(loaded.into()), loaded.dimension)),
        }
    }

    /// Deletes a collection and everything in it.
    ///
    /// Deletes the catalog's row first. A crash after that leaves a folder without a row, which the next start removes. Closing
    /// a database that is locked or whose disk is slow takes long, so other collections can be created and deleted meanwhile.
    pub async fn delete_collection(&self, name: &CollectionName) -> Result<(), Error> {
        self.check_running()?;
        let name = name.clone();
        let naming = Arc::clone(&self.state.names_lock).lock_owned().await;
        // Runs to its end even if the caller goes away.
        let deleting = self.state.run(move |state| {
            let deleted = state.delete(&name);
            drop(naming);
            let (deleted, state) = (deleted?, Arc::clone(state));
            Ok(tokio::task::spawn_blocking(move || state.remove_deleted(deleted)))
        });
        Ok(deleting.await?.await?)
    }
}

impl State {
    pub(crate) fn collections_dir(&self) -> std::path::PathBuf {
        self.data_dir.join(COLLECTIONS_DIR)
    }

    /// Returns the collection that an earlier request with this key created. Fails with `StoreError::CatalogChanged` if another
    /// server created it so recently that this one does not know it yet.
    fn created_before(&self, request: Option<&RequestKey>) -> Result<Option<CollectionView>, Error> {
        let Some(request) = request else { return Ok(None) };
        let Some(id) = self.catalog.find_created_by(request, now_ms())? else { return Ok(None) };
        match self.find_by_id(&id) {
            Some(CollectionEntry::Open(collection)) => view(&collection).map(Some),
            Some(CollectionEntry::Broken(broken)) => Ok(Some(broken.view())),
            None if self.is_behind(CatalogPart::Names)? => Err(StoreError::CatalogChanged.into()),
            None => Err(Error::CreatedAndGone { key: request.key().to_owned() }),
        }
    }

    fn create(
        &self,
        row: Collection,
        metadata_indexes: Vec<MetadataPath>,
        request: Option<&RequestKey>,
    ) -> Result<CollectionView, Error> {
        let check = || {
            let before = self.created_before(request)?;
            if before.is_none() { self.check_new_name(&row.name).map(|()| None) } else { Ok(before) }
        };
        if let Some(before) = self.change_catalog(CatalogPart::Names, check)? {
            return Ok(before);
        }
        self.check_emergency_space()?;
        let (id, folder) = (row.id.0.clone(), self.collections_dir().join(&row.id.0));
        let created = self.create_in(row, &folder, metadata_indexes, request);
        if self.find_by_id(&id).is_none() {
            // If this fails, the next start removes it.
            let _ = std::fs::remove_dir_all(&folder);
        }
        created
    }

    /// Refuses a name that is taken, or another collection when the maximum is reached.
    fn check_new_name(&self, name: &CollectionName) -> Result<(), Error> {
        if let Some(collection) = self.resolve_alias(name) {
            return Err(Error::AliasExists { name: name.clone(), collection });
        }
        let collections = self.collections.read();
        if collections.contains_key(name) {
            return Err(Error::CollectionExists { name: name.clone() });
        }
        let limit = self.limits.collections_max;
        if collections.len() >= limit { Err(Error::TooManyCollections { limit }) } else { Ok(()) }
    }

    fn create_in(
        &self,
        row: Collection,
        folder: &Path,
        metadata_indexes: Vec<MetadataPath>,
        request: Option<&RequestKey>,
    ) -> Result<CollectionView, Error> {
        std::fs::create_dir(folder).at(folder)?;
        let collection = Arc::new(self.make_collection(row, folder)?);
        if !metadata_indexes.is_empty() {
            collection.store.set_metadata_indexes(metadata_indexes)?;
        }
        sync_dir(folder).and_then(|()| sync_dir(&self.collections_dir())).at(folder)?;
        if collection.embedded().is_ok() {
            collection.install(Index::create(&collection.index_parameters())?, Applied::default());
            collection.finish_recovery()?;
        }
        let named = self.change_catalog(CatalogPart::Names, || self.register(&collection, request));
        if !matches!(named, Ok(None)) {
            collection.discard();
        }
        if let Some(before) = named? {
            return Ok(before);
        }
        self.start_worker(&collection);
        tracing::info!(collection = %collection.row.name, id = %collection.row.id, "collection created");
        view(&collection)
    }

    /// Registers a new collection under its name, unless another server executed the same request in the meantime.
    fn register(&self, collection: &Arc<OpenCollection>, request: Option<&RequestKey>) -> Result<Option<CollectionView>, Error> {
        if let Some(before) = self.created_before(request)? {
            return Ok(Some(before));
        }
        let row = &collection.row;
        self.check_new_name(&row.name)?;
        self.catalog.create(row, request).map_err(|error| match error {
            StoreError::CollectionExists { .. } => Error::CollectionExists { name: row.name.clone() },
            other => other.into(),
        })?;
        self.collections.write().insert(row.name.clone(), CollectionEntry::Open(Arc::clone(collection)));
        Ok(None)
    }

    fn delete(&self, name: &CollectionName) -> Result<CollectionEntry, Error> {
        self.change_catalog(CatalogPart::Names, || self.emergency_space.retry_on_full_disk(|| self.unregister(name)))
    }

    /// Closes a collection that the catalog no longer has, and removes its folder. Blocks.
    fn remove_deleted(&self, deleted: CollectionEntry) {
        match deleted {
            CollectionEntry::Open(collection) => {
                let name = &collection.row.name;
                tracing::info!(collection = %name, id = %collection.row.id, "collection deleted");
                if let Err(error) = collection.destroy() {
                    let (collection, error) = (name, with_causes(&error));
                    tracing::warn!(%collection, error, "cannot remove a deleted collection's folder; the next start tries again");
                }
            }
            CollectionEntry::Broken(broken) => {
                tracing::info!(collection = %broken.row.name, id = %broken.row.id, "deleted a damaged collection");
                self.remove_broken_folder(&broken.row);
            }
        }
        // The collection is deleted even if the disk has no room for this.
        let _ = self.reserve_emergency_space();
    }

    /// Removes a collection from the catalog and returns it.
    fn unregister(&self, name: &CollectionName) -> Result<CollectionEntry, Error> {
        if let Some(collection) = self.resolve_alias(name) {
            return Err(Error::AliasExists { name: name.clone(), collection });
        }
        let entry = self.collections.read().get(name).cloned();
        let entry = entry.ok_or_else(|| Error::CollectionNotFound { name: name.clone() })?;
        let folder = self.collections_dir().join(&entry.row().id.0);
        orphaned::with_garbage_marks(&[folder], || Ok(self.catalog.delete(name)?))?;
        self.collections.write().remove(name);
        if let Some(collection) = entry.open() {
            collection.mark_deleted();
        }
        self.aliases.write().retain(|_, target| target != name);
        Ok(entry)
    }

    /// Removes the folder of a collection that could not be opened and is no longer in the catalog.
    pub(crate) fn remove_broken_folder(&self, row: &Collection) {
        let folder = self.collections_dir().join(&row.id.0);
        if let Err(error) = orphaned::remove(&folder) {
            let (folder, error) = (folder.display(), with_causes(&error));
            tracing::warn!(%folder, error, "cannot remove a deleted collection's folder; the next start tries again");
        }
    }

    /// Opens the database of an existing collection, without recovering its index. A saved index that is newer than the
    /// database proves that changes were lost; in that case this fails and leaves both unchanged.
    pub(crate) fn open_collection(&self, row: Collection, folder: &Path) -> Result<OpenCollection, Error> {
        if let Some(server) = &self.server {
            let store = Postgres::open_existing(server, &row, self.terms_of(), self.limits.write_queue_max)?;
            return self.open_on_server(store, row, folder);
        }
        let store = DocumentStore::open_existing(folder, &self.store_options(), index::saved_sequence(folder))?;
        self.open_with_store(row, folder, store)
    }

    /// Creates the database of a new collection in its empty folder.
    pub(crate) fn make_collection(&self, row: Collection, folder: &Path) -> Result<OpenCollection, Error> {
        if let Some(server) = &self.server {
            let store = Postgres::open(server, &row, self.terms_of(), self.limits.write_queue_max)?;
            return self.open_on_server(store, row, folder);
        }
        let store = DocumentStore::open(folder, &self.store_options())?;
        self.open_with_store(row, folder, store)
    }

    /// Opens the collection that an earlier attempt created in this folder, or creates it. On a database server, its rows may
    /// exist although this server has no folder for it.
    pub(crate) fn open_or_make(&self, row: Collection, folder: &Path, has_folder: bool) -> Result<OpenCollection, Error> {
        let is_there = has_folder && self.server.is_none();
        if is_there { self.open_collection(row, folder) } else { self.make_collection(row, folder) }
    }

    /// Removes the remains of a collection that is not in the catalog: its folder, and its rows on a database server. Blocks.
    pub(crate) fn remove_unlisted(&self, id: &CollectionId) -> Result<(), Error> {
        let folder = self.collections_dir().join(&id.0);
        let removed = orphaned::remove(&folder).at(&folder);
        if let Some(server) = &self.server {
            Postgres::remove_unlisted(server, id)?;
        }
        removed
    }

    pub(crate) fn terms_of(&self) -> TermsOf {
        let embedder = self.embedder.clone();
        let rules = embedder.word_rules();
        TermsOf::new(move |text, language| embedder.passage_terms(text, language)).with_vocabulary(rules)
    }

    fn store_options(&self) -> StoreOptions {
        let write_queue_max = self.limits.write_queue_max;
        let slots = Some(Arc::clone(&self.open_databases));
        StoreOptions { power_safe: self.power_safe, write_queue_max, readers_max: READERS_MAX, terms_of: self.terms_of(), slots }
    }

    /// Opens a collection on the database server. Its local folder only holds maps.
    fn open_on_server(&self, store: Postgres, row: Collection, folder: &Path) -> Result<OpenCollection, Error> {
        let row = self.with_passages(row);
        std::fs::create_dir_all(folder).at(folder)?;
        OpenCollection::on_server(row, folder.to_owned(), store, &self.limits)
    }

    fn open_with_store(&self, row: Collection, folder: &Path, store: DocumentStore) -> Result<OpenCollection, Error> {
        let lock = Arc::clone(&self.lock);
        let collection = OpenCollection::new((self.with_passages(row), folder.to_owned()), (store, lock), &self.limits)?;
        if let Some(lost) = &collection.embedded()?.store.lost_log {
            collection.record_damage(lost);
        }
        Ok(collection)
    }

    /// Adds the passage bounds to a row of an early version, which did not store them. The passages of such a collection are as
    /// long as the model can read.
    fn with_passages(&self, mut row: Collection) -> Collection {
        let loaded = self.embedder.model();
        if row.model.as_ref().is_some_and(|current| current.fingerprint == loaded.fingerprint) {
            row.passages.get_or_insert(PassageBounds::adjacent(loaded.tokens_max));
        }
        row
    }

    /// Starts the background worker, unless the collection belongs to a model that is not loaded.
    pub(crate) fn start_worker(&self, collection: &Arc<OpenCollection>) {
        if let Err(error) = collection.check_model(self.embedder.model()) {
            let error = with_causes(&error);
            tracing::warn!(collection = %collection.row.name, error, "the collection can only be read, and not searched by meaning");
            return;
        }
        let (embedder, permits) = (self.embedder.clone(), Arc::clone(&self.background_permits));
        let worker = Worker { collection: Arc::clone(collection), embedder, permits };
        *collection.worker.lock() = Some(self.runtime.spawn(worker.run()));
    }
}

/// Returns a collection with its counts. Blocks.
fn view(collection: &OpenCollection) -> Result<CollectionView, Error> {
    let mut counts = match collection.store.counts() {
        Err(error) if error.is_damage() => {
            collection.record_damage(&error);
            CollectionCounts::default()
        }
        counts => counts?,
    };
    counts.disk_bytes += index_bytes(&collection.folder);
    Ok(CollectionView {
        collection: collection.current(),
        counts,
        index_state: collection.index_state(),
        metadata_indexes: collection.store.metadata_indexes(),
        damage: collection.damage.all(),
    })
}

/// Size of the saved index in bytes. Files that appear or disappear in the meantime count as empty.
pub(crate) fn index_bytes(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>).unwrap_or_default();
    let of_index = files.iter().filter(|file| file.file_name().as_encoded_bytes().starts_with(b"index."));
    of_index.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum()
}
