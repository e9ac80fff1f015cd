//! Use cases: the only place where rows, index and embedder meet. Handlers call these and nothing below.
//!
//! `lifecycle` opens and shuts down, `repair` brings an index up to date, `runtime` holds what an open collection consists
//! of, `worker` embeds in the background, `damage` is what becomes of a damaged database, `leftovers` of folders that nobody
//! needs; `aliases`, `classifiers`, `collections`, `documents`, `ingest`, `search`, `comparison`, `export`, `jobs` and `snapshots`
//! are the use cases. `spool` receives files, `archive` packs and unpacks snapshots.

pub mod aliases;
mod archive;
pub mod budget;
pub mod classifiers;
pub mod collections;
pub mod comparison;
mod damage;
pub mod documents;
pub mod error;
pub mod export;
pub mod gauges;
pub mod ingest;
pub mod jobs;
mod kept;
pub mod keys;
mod leftovers;
pub mod lifecycle;
pub mod repair;
mod reserved;
mod runtime;
pub mod search;
pub mod shares;
pub mod snapshots;
mod spool;
mod upkeep;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

pub use error::Error;
use jobs::Jobs;
use runtime::OpenCollection;
use shares::Bound;
use spool::Uploads;
use tokio::sync::{Semaphore, watch};

use crate::domain::{Collection, CollectionName, DocumentReader, Embedded, Limits, ModelInfo};
use crate::embed::{Embedder, Priority};
use crate::store::{Catalog, OpenDatabases, StoreError};

/// Texts that a caller waits for and that may go ahead of bulk work: more than this is bulk work itself.
const TEXTS_AHEAD_MAX: usize = 8;

/// What the service is made of.
pub struct Parts {
    /// The data directory, which this process alone uses.
    pub data_dir: PathBuf,
    /// The encoder.
    pub embedder: Embedder,
    /// Bounds on queues and requests.
    pub limits: Limits,
    /// Whether an acknowledged write survives power loss.
    pub power_safe: bool,
    /// Reads a document of an import.
    pub read_document: DocumentReader,
}

/// Whether the server can answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Readiness {
    /// Whether every collection answers in full.
    pub ready: bool,
    /// Collections that are still recovering, with passages done and passages in all.
    pub recovering: Vec<(CollectionName, u64, u64)>,
    /// Collections whose database is damaged.
    pub damaged: Vec<CollectionName>,
}

/// A collection whose database cannot be opened.
struct BrokenCollection {
    row: Collection,
    error: StoreError,
}

/// The use cases. Clones share one state.
#[derive(Clone)]
pub struct Service {
    state: Arc<State>,
}

struct State {
    data_dir: PathBuf,
    embedder: Embedder,
    limits: Limits,
    power_safe: bool,
    catalog: Catalog,
    keyring: keys::Keyring,
    open: RwLock<BTreeMap<CollectionName, Arc<OpenCollection>>>,
    /// Collections whose database is too damaged to be opened.
    broken: RwLock<BTreeMap<CollectionName, BrokenCollection>>,
    /// Bounds the databases that are open at once, over all collections.
    open_databases: Arc<OpenDatabases>,
    /// Other names of collections, with the collections' own. Changes only while `naming` is held.
    aliases: RwLock<BTreeMap<CollectionName, CollectionName>>,
    /// Held while a collection is created or deleted, so that the catalog, the folders and `open` change together.
    naming: Arc<tokio::sync::Mutex<()>>,
    /// Bounds the threads that block in writes, so that searches always find one.
    write_threads: Arc<Semaphore>,
    /// Bounds the batches of background work before the encoder, over all collections.
    background_turns: Arc<Semaphore>,
    stopping: AtomicBool,
    recovery_threads: Mutex<Vec<JoinHandle<()>>>,
    read_document: DocumentReader,
    jobs: Jobs,
    classifiers: classifiers::HeldClassifiers,
    /// Bounds the memory of bodies and answers, over all requests.
    memory: Arc<Bound>,
    /// Bounds the files that are received at once.
    uploads: Uploads,
    /// Becomes true when the server is about to stop.
    stop_announced: watch::Sender<bool>,
    runtime: tokio::runtime::Handle,
}

impl Service {
    /// The bounds in force.
    pub fn limits(&self) -> &Limits {
        &self.state.limits
    }

    /// The loaded model.
    pub fn model(&self) -> &ModelInfo {
        self.state.embedder.model()
    }

    /// Whether every collection answers in full.
    pub fn readiness(&self) -> Readiness {
        let open = self.state.open.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let recovering: Vec<_> = open
            .iter()
            .filter(|(_, collection)| collection.index().is_err())
            .map(|(name, collection)| {
                let (done, total) = collection.progress();
                (name.clone(), done, total)
            })
            .collect();
        let mut damaged: Vec<_> = open.iter().filter(|(_, open)| !open.damage.is_empty()).map(|(name, _)| name.clone()).collect();
        damaged.extend(self.state.broken.read().unwrap_or_else(std::sync::PoisonError::into_inner).keys().cloned());
        damaged.sort();
        let stopping = self.state.stopping.load(std::sync::atomic::Ordering::Acquire);
        Readiness { ready: recovering.is_empty() && !stopping, recovering, damaged }
    }

    /// Embeds texts for `/v1/embeddings`. A few texts go ahead of bulk work, many count as bulk work.
    pub async fn embed(&self, texts: Vec<String>) -> Result<Vec<Embedded>, Error> {
        let priority = priority(texts.len());
        Ok(self.state.embedder.embed(texts, priority).await?)
    }

    /// The same of queries, to be compared with what `embed` gives.
    pub async fn embed_queries(&self, queries: Vec<String>) -> Result<Vec<Embedded>, Error> {
        let priority = priority(queries.len());
        Ok(self.state.embedder.embed_queries(queries, priority).await?)
    }

    /// Finds an open collection by its name or an alias.
    fn collection(&self, name: &CollectionName) -> Result<Arc<OpenCollection>, Error> {
        self.state.collection(name)
    }

    /// Runs blocking work on a collection. When the collection was deleted meanwhile, any failure means just that.
    async fn on_collection<T: Send + 'static>(
        &self,
        collection: &Arc<OpenCollection>,
        work: impl FnOnce(&Arc<OpenCollection>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(collection);
        let result = blocking(move || work(&shared).map_err(|error| shared.tell_damage(error))).await;
        if result.is_err() && collection.is_deleted() {
            return Err(Error::CollectionNotFound { name: collection.row.name.clone() });
        }
        result
    }
}

impl State {
    /// Finds an open collection by its name or an alias.
    fn collection(&self, name: &CollectionName) -> Result<Arc<OpenCollection>, Error> {
        let own = self.own_name(name);
        let own = own.as_ref().unwrap_or(name);
        let open = self.open.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        match (open.get(own), self.broken.read().unwrap_or_else(std::sync::PoisonError::into_inner).get(own)) {
            (Some(collection), _) => Ok(Arc::clone(collection)),
            (None, Some(broken)) => Err(broken.refusal()),
            (None, None) => Err(Error::CollectionNotFound { name: name.clone() }),
        }
    }
}

/// Runs `work` off the asynchronous threads, within the caller's tracing span.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await?
}

/// Who goes first at the encoder: a caller with a few texts, before bulk work.
fn priority(texts: usize) -> Priority {
    if texts <= TEXTS_AHEAD_MAX { Priority::Query } else { Priority::Ingest }
}
