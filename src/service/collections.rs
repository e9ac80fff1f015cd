//! Creating, listing and deleting collections.

use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use super::runtime::{Applied, OpenCollection, lock};
use super::worker::Worker;
use super::{Error, Service, State, blocking};
use crate::domain::{Collection, CollectionId, CollectionName, CollectionView, IndexState, Metric, NewCollection, Page};
use crate::index::Index;
use crate::store::{DocumentStore, StoreError, StoreOptions};

/// Connections that read one collection at once.
const READERS_MAX: usize = 4;

impl Service {
    /// Creates a collection.
    ///
    /// Folder and database come first, then the catalog's row: a crash in between leaves a folder without a row, which the
    /// next start removes.
    pub async fn create_collection(&self, new: NewCollection) -> Result<CollectionView, Error> {
        self.check_running()?;
        let model = self.model();
        let NewCollection { name, description, model: asked } = new;
        if let Some(asked) = asked.filter(|asked| *asked != model.name) {
            return Err(Error::UnknownModel { asked, loaded: model.name.clone() });
        }
        let row = Collection {
            id: CollectionId(Uuid::now_v7().to_string()),
            name,
            description,
            model: model.name.clone(),
            model_fingerprint: model.fingerprint.clone(),
            dimension: model.dimension,
            metric: Metric::Cosine,
            created_at_ms: now_ms(),
        };
        let naming = Arc::clone(&self.state.naming).lock_owned().await;
        let state = Arc::clone(&self.state);
        blocking(move || {
            let _naming = naming;
            let created = state.create(row)?;
            view(&created)
        })
        .await
    }

    /// Lists collections by name; also says which is the last of the page, when there is a next one.
    pub async fn list_collections(
        &self,
        page: Page<CollectionName>,
    ) -> Result<(Vec<CollectionView>, Option<CollectionName>), Error> {
        let mut found: Vec<Arc<OpenCollection>> = {
            let open = self.state.open.read().unwrap_or_else(PoisonError::into_inner);
            let after = page.after.map_or(Bound::Unbounded, Bound::Excluded);
            open.range((after, Bound::Unbounded)).take(page.limit.saturating_add(1)).map(|(_, row)| Arc::clone(row)).collect()
        };
        let more = found.len() > page.limit;
        found.truncate(page.limit);
        let next = if more { found.last().map(|collection| collection.row.name.clone()) } else { None };
        let views = blocking(move || {
            let mut views = Vec::with_capacity(found.len());
            for collection in found {
                match view(&collection) {
                    Ok(view) => views.push(view),
                    Err(_) if collection.is_deleted() => (),
                    Err(error) => return Err(error),
                }
            }
            Ok(views)
        });
        Ok((views.await?, next))
    }

    /// Reads a collection.
    pub async fn get_collection(&self, name: &CollectionName) -> Result<CollectionView, Error> {
        let collection = self.collection(name)?;
        self.on_collection(&collection, |collection| view(collection)).await
    }

    /// Deletes a collection and everything in it.
    ///
    /// The catalog's row goes first: a crash after that leaves a folder without a row, which the next start removes.
    pub async fn delete_collection(&self, name: &CollectionName) -> Result<(), Error> {
        self.check_running()?;
        let naming = Arc::clone(&self.state.naming).lock_owned().await;
        let state = Arc::clone(&self.state);
        let name = name.clone();
        blocking(move || {
            let _naming = naming;
            state.delete(&name)
        })
        .await
    }
}

impl State {
    /// Where the folders of the collections lie.
    pub(super) fn collections_dir(&self) -> std::path::PathBuf {
        self.data_dir.join(COLLECTIONS_DIR)
    }

    fn create(&self, row: Collection) -> Result<Arc<OpenCollection>, Error> {
        {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            if open.contains_key(&row.name) {
                return Err(Error::CollectionExists { name: row.name });
            }
            let limit = self.limits.collections_max;
            if open.len() >= limit {
                return Err(Error::TooManyCollections { limit });
            }
        }
        let folder = self.collections_dir().join(&row.id.0);
        let created = self.create_in(row, &folder);
        if created.is_err() {
            // The next start removes it, should this fail.
            let _ = std::fs::remove_dir_all(&folder);
        }
        created
    }

    fn create_in(&self, row: Collection, folder: &Path) -> Result<Arc<OpenCollection>, Error> {
        let access = |source| Error::Folder { path: folder.to_owned(), source };
        std::fs::create_dir(folder).map_err(access)?;
        let collection = Arc::new(self.open_collection(row, folder)?);
        sync_dir(folder).and_then(|()| sync_dir(&self.collections_dir())).map_err(access)?;
        collection.install(Index::create(&collection.index_parameters())?, Applied::default());
        let row = &collection.row;
        if let Err(error) = self.catalog.create(row) {
            let _ = collection.store.close();
            return Err(match error {
                StoreError::CollectionExists { .. } => Error::CollectionExists { name: row.name.clone() },
                other => other.into(),
            });
        }
        self.open.write().unwrap_or_else(PoisonError::into_inner).insert(row.name.clone(), Arc::clone(&collection));
        self.start_worker(&collection);
        tracing::info!(collection = %row.name, id = %row.id, "collection created");
        Ok(collection)
    }

    fn delete(&self, name: &CollectionName) -> Result<(), Error> {
        let not_found = || Error::CollectionNotFound { name: name.clone() };
        let collection = {
            let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(open.get(name).ok_or_else(not_found)?)
        };
        self.catalog.delete(name)?;
        self.open.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        tracing::info!(collection = %name, id = %collection.row.id, "collection deleted");
        if let Err(error) = collection.destroy() {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(collection = %name, error, "removing a deleted collection's folder failed, the next start tries again");
        }
        Ok(())
    }

    /// Opens a collection's database; its index is still to be recovered.
    pub(super) fn open_collection(&self, row: Collection, folder: &Path) -> Result<OpenCollection, Error> {
        let write_queue_max = self.limits.write_queue_max;
        let options = StoreOptions { power_safe: self.power_safe, write_queue_max, readers_max: READERS_MAX };
        let store = DocumentStore::open(folder, &options)?;
        OpenCollection::new(row, folder.to_owned(), store, write_queue_max)
    }

    /// Starts the background worker, unless the loaded model is another than the collection's: then nothing may be embedded.
    pub(super) fn start_worker(&self, collection: &Arc<OpenCollection>) {
        if let Err(error) = collection.check_model(self.embedder.model()) {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(collection = %collection.row.name, error, "the collection can be read but not searched or written");
            return;
        }
        let (embedder, turns) = (self.embedder.clone(), Arc::clone(&self.background_turns));
        let worker = Worker { collection: Arc::clone(collection), embedder, turns };
        *lock(&collection.worker) = Some(self.runtime.spawn(worker.run()));
    }
}

/// The folder of the data directory that holds one folder per collection.
pub(super) const COLLECTIONS_DIR: &str = "collections";

/// A collection with what it holds. Blocks.
fn view(collection: &OpenCollection) -> Result<CollectionView, Error> {
    let mut counts = collection.store.counts()?;
    counts.disk_bytes += index_bytes(&collection.folder);
    let index_state = if collection.index().is_ok() { IndexState::Ready } else { IndexState::Recovering };
    Ok(CollectionView { collection: collection.row.clone(), counts, index_state })
}

/// Bytes of the saved index. A file that comes or goes meanwhile counts as none.
fn index_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let index_files = entries.flatten().filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"index."));
    index_files.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Makes the entries of a folder survive power loss.
fn sync_dir(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}

fn now_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
