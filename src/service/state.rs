//! The parts of the service, and the state that all operations share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, watch};

use super::blocking::blocking_one_of;
use super::classifiers::ClassifierCache;
use super::documents::IdempotencyLocks;
use super::embedding::priority;
use super::error::Error;
use super::jobs::Jobs;
use super::thread_pool::ThreadPool;
use super::upload_receiver::{Uploads, check_disk_space};
use crate::domain::{Collection, CollectionName, Embedded, IndexState, Limits, ModelInfo, QuotaOwner};
use crate::embed::Embedder;
use crate::service::folders::emergency_space::EmergencySpace;
use crate::service::keys::keyring::Keyring;
use crate::service::limits::budget::RequestMemory;
use crate::service::limits::shares::SharedLimit;
use crate::service::open_collection::OpenCollection;
use crate::service::open_collection::write_slots::WriteThreads;
use crate::service::snapshots::ScheduleMeter;
use crate::storage::{CatalogPart, CatalogStorage, PostgresServer};
use crate::store::{DirectoryLock, OpenDatabases, StoreError};

pub struct Parts {
    /// The data directory, used by this process alone.
    pub data_dir: PathBuf,
    pub embedder: Embedder,
    pub limits: Limits,
    /// Whether an acknowledged write survives power loss.
    pub power_safe: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Readiness {
    /// Whether every collection is ready.
    pub ready: bool,
    /// Collections that are still recovering, each with the number of passages done and in total.
    pub recovering: Vec<(CollectionName, u64, u64)>,
    pub damaged: Vec<CollectionName>,
    /// Whether the data directory is no longer at its path, so that writes are refused.
    pub directory_lost: bool,
    /// Whether the database server does not answer, if there is one.
    pub store_unreachable: bool,
}

/// A collection whose database cannot be opened.
pub(super) struct BrokenCollection {
    pub(super) row: Collection,
    pub(super) error: StoreError,
}

/// A collection of the catalog.
#[derive(Clone)]
pub(super) enum CollectionEntry {
    Open(Arc<OpenCollection>),
    Broken(Arc<BrokenCollection>),
}

/// The operations of the server. Clones share one state.
#[derive(Clone)]
pub struct Service {
    pub(super) state: Arc<State>,
}

pub(crate) struct State {
    pub(super) data_dir: PathBuf,
    pub(super) embedder: Embedder,
    pub(super) limits: Limits,
    pub(super) power_safe: bool,
    pub(super) catalog: Box<dyn CatalogStorage>,
    /// The versions of the catalog that are in memory.
    pub(super) catalog_sync: CatalogSyncState,
    /// The database server that holds everything. `None` if the data directory does.
    pub(super) server: Option<Arc<PostgresServer>>,
    pub(super) lock: Arc<DirectoryLock>,
    pub(super) keyring: Keyring,
    pub(super) emergency_space: EmergencySpace,
    pub(super) collections: RwLock<BTreeMap<CollectionName, CollectionEntry>>,
    /// Bounds the databases that are open at once, over all collections.
    pub(super) open_databases: Arc<OpenDatabases>,
    /// Aliases, each with its collection's own name. Only changed while `names_lock` is held.
    pub(super) aliases: RwLock<BTreeMap<CollectionName, CollectionName>>,
    /// Held while a snapshot gets or loses its name, so that its archive and its description change together.
    pub(super) snapshots_lock: Mutex<()>,
    /// Held while a collection is created or deleted, so that the catalog, the folders and `collections` change together.
    pub(super) names_lock: Arc<tokio::sync::Mutex<()>>,
    /// Bounds the threads that wait for the catalog, so that the others always find one while it is locked.
    pub(super) catalog_threads: Arc<Semaphore>,
    /// Runs the writes of all collections, so that searches always find a thread.
    pub(super) write_pool: Arc<ThreadPool>,
    /// Shares the threads of `write_pool` among the collections.
    pub(super) write_threads: Arc<WriteThreads>,
    /// Runs the searches of all collections.
    pub(super) search_pool: Arc<ThreadPool>,
    /// Runs the first searches of each collection (`OpenCollection::first_searches`).
    pub(super) first_search_pool: Arc<ThreadPool>,
    /// Bounds the background batches at the encoder, over all collections.
    pub(super) background_permits: Arc<Semaphore>,
    pub(super) stopping: Arc<AtomicBool>,
    /// Shared with each task that removes a replaced collection, so that they can be counted.
    pub(super) retiring: Arc<()>,
    pub(super) recovery_threads: Mutex<Vec<JoinHandle<()>>>,
    pub(super) jobs: Jobs,
    pub(super) idempotency_locks: IdempotencyLocks,
    pub(super) classifiers: ClassifierCache,
    /// Bounds the memory of bodies and answers, over all requests.
    pub(super) memory: Arc<SharedLimit>,
    /// Bounds the files that are received at once.
    pub(super) uploads: Uploads,
    /// True once the server is about to stop.
    pub(super) stop_announced: watch::Sender<bool>,
    pub(super) schedule: ScheduleMeter,
    pub(super) runtime: tokio::runtime::Handle,
}

/// The versions of the catalog that this server has in memory.
#[derive(Default)]
pub(super) struct CatalogSyncState {
    /// The last check of the catalog. One of several concurrent requests checks on behalf of all.
    pub(super) last_check: tokio::sync::Mutex<Option<CatalogCheck>>,
    pub(super) parts: [PartSyncState; CatalogPart::ALL.len()],
}

pub(super) struct CatalogCheck {
    pub(super) started: Instant,
    pub(super) failure: Option<StoreError>,
}

/// The version of one part of the catalog in memory.
#[derive(Default)]
pub(super) struct PartSyncState {
    pub(super) version: AtomicI64,
    /// Held while the memory changes, and during changes that this server makes to the catalog, so that an older state of the
    /// catalog never replaces a newer one in memory.
    pub(super) applying: Mutex<()>,
}

/// Waits for `pause`. Returns the state, or `None` if the server stops. For tasks that do not keep the service alive meanwhile.
pub(super) async fn after_pause(
    state: &Weak<State>,
    stop_announced: &mut watch::Receiver<bool>,
    pause: Duration,
) -> Option<Arc<State>> {
    tokio::select! {
        () = tokio::time::sleep(pause) => (),
        _ = stop_announced.wait_for(|announced| *announced) => return None,
    }
    state.upgrade().filter(|state| !state.stopping.load(Ordering::Acquire))
}

impl Service {
    pub fn limits(&self) -> &Limits {
        &self.state.limits
    }

    pub fn model(&self) -> &ModelInfo {
        self.state.embedder.model()
    }

    /// Returns whether every collection is ready, and which ones are not. A collection whose index cannot be recovered, because
    /// its database is damaged, counts as damaged.
    pub fn readiness(&self) -> Readiness {
        let collections = self.state.collections.read();
        let recovering: Vec<_> = collections
            .iter()
            .filter_map(|(name, entry)| Some((name, entry.open()?)))
            .filter(|(_, collection)| collection.index_state() == IndexState::Recovering)
            .map(|(name, collection)| {
                let (done, total) = collection.embedded().map_or((0, 0), |embedded| embedded.progress());
                (name.clone(), done, total)
            })
            .collect();
        let is_damaged = |open: &Arc<OpenCollection>| !open.damage.is_empty() || open.index_state() == IndexState::Damaged;
        let damaged = collections.iter().filter(|(_, entry)| entry.open().is_none_or(is_damaged));
        let damaged = damaged.map(|(name, _)| name.clone()).collect();
        let stopping = self.state.stopping.load(Ordering::Acquire);
        let store_unreachable = self.state.is_store_unreachable();
        let directory_lost = self.state.is_directory_lost();
        let ready = recovering.is_empty() && !stopping && !store_unreachable && !directory_lost;
        Readiness { ready, recovering, damaged, directory_lost, store_unreachable }
    }

    /// Embeds texts for `/v1/embeddings`. A few texts go ahead of bulk work, many count as bulk work.
    pub async fn embed(&self, texts: Vec<String>) -> Result<Vec<Embedded>, Error> {
        let priority = priority(texts.len());
        Ok(self.state.embedder.embed(texts, priority).await?)
    }

    /// Embeds queries, to be compared with what `embed` returns.
    pub async fn embed_queries(&self, queries: Vec<String>) -> Result<Vec<Embedded>, Error> {
        let priority = priority(queries.len());
        Ok(self.state.embedder.embed_queries(queries, priority).await?)
    }

    /// Creates the memory account of a new request by `owner`.
    pub fn request_memory(&self, owner: QuotaOwner) -> RequestMemory {
        RequestMemory::new(&self.state.memory, owner)
    }

    /// Returns the limits that all requests share: memory, uploads and jobs.
    pub fn shared_bounds(&self) -> Vec<Arc<SharedLimit>> {
        vec![Arc::clone(&self.state.memory), self.state.uploads.bound(), self.state.jobs.bound()]
    }
}

impl CollectionEntry {
    pub(super) fn row(&self) -> &Collection {
        match self {
            Self::Open(collection) => &collection.row,
            Self::Broken(broken) => &broken.row,
        }
    }

    pub(super) fn open(&self) -> Option<&Arc<OpenCollection>> {
        match self {
            Self::Open(collection) => Some(collection),
            Self::Broken(_) => None,
        }
    }

    /// Returns the collection, or the error for requests on a broken one.
    pub(super) fn usable(self) -> Result<Arc<OpenCollection>, Error> {
        match self {
            Self::Open(collection) => Ok(collection),
            Self::Broken(broken) => Err(broken.refusal()),
        }
    }
}

impl State {
    /// Whether there is a database server that does not answer.
    pub(super) fn is_store_unreachable(&self) -> bool {
        self.server.as_ref().is_some_and(|server| !server.is_reachable())
    }

    /// Runs `work`, which blocks, on one of the threads for the catalog.
    pub(super) fn run<T: Send + 'static, W: FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static>(
        self: &Arc<Self>,
        work: W,
    ) -> impl Future<Output = Result<T, Error>> + use<T, W> {
        let state = Arc::clone(self);
        blocking_one_of(Arc::clone(&self.catalog_threads), move || work(&state))
    }

    /// Checks that the disk of the data directory has room for `needed` bytes in addition to the reserve.
    pub(super) fn check_disk_space(&self, needed: u64) -> Result<(), Error> {
        check_disk_space(&self.data_dir, needed, self.limits.disk_reserve_bytes)
    }

    /// Runs `work`, which blocks, while `names_lock` is held.
    pub(super) async fn with_names_locked<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let lock = Arc::clone(&self.names_lock).lock_owned().await;
        self.run(move |state| {
            let _locked = lock;
            work(state)
        })
        .await
    }

    pub(super) fn open_collections(&self) -> Vec<Arc<OpenCollection>> {
        self.collections.read().values().filter_map(CollectionEntry::open).cloned().collect()
    }

    /// Finds a collection by its name or an alias.
    pub(super) fn find(&self, name: &CollectionName) -> Result<CollectionEntry, Error> {
        // Held during the lookup, so that an alias always leads to an existing collection.
        let aliases = self.aliases.read();
        let resolved = aliases.get(name).unwrap_or(name);
        self.collections.read().get(resolved).cloned().ok_or_else(|| Error::CollectionNotFound { name: name.clone() })
    }

    /// Returns the collection to work on instead of one that was found before: its re-embedded replacement, or what a restore
    /// put in its place. Fails if the latter does not take the same writes, or was deleted.
    pub(super) fn current_collection(&self, found: &Arc<OpenCollection>) -> Result<Arc<OpenCollection>, Error> {
        let reembedded = found.reembedded();
        if !reembedded.is_restored_over() {
            return Ok(reembedded);
        }
        let current = self.collections.read().get(&reembedded.row.name).and_then(CollectionEntry::open).cloned();
        let current = current.filter(|current| current.accepts_same_writes_as(&reembedded));
        current.ok_or_else(|| self.missing_error(&reembedded.row.name))
    }

    /// Makes the error for work on a collection that is gone, even if another one has its name now.
    pub(super) fn missing_error(&self, name: &CollectionName) -> Error {
        match self.find(name) {
            Ok(_) => Error::CollectionReplaced { name: name.clone() },
            Err(not_found) => not_found,
        }
    }

    pub(super) fn find_by_id(&self, id: &str) -> Option<CollectionEntry> {
        self.collections.read().values().find(|entry| entry.row().id.0 == id).cloned()
    }

    pub(super) fn collection_by_id(&self, id: &str) -> Option<Arc<OpenCollection>> {
        self.find_by_id(id)?.open().cloned()
    }

    /// Finds an open collection by its name or an alias.
    pub(super) fn collection(&self, name: &CollectionName) -> Result<Arc<OpenCollection>, Error> {
        self.find(name)?.usable()
    }
}
