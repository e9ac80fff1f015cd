//! Use cases: the only place where rows, index and embedder meet. Handlers call these and nothing below.
//!
//! `lifecycle` opens and shuts down, `repair` brings an index up to date, `runtime` holds what an open collection consists
//! of, `worker` embeds in the background; `collections`, `documents`, `ingest` and `search` are the
//! use cases.

pub mod collections;
pub mod documents;
pub mod error;
pub mod ingest;
pub mod lifecycle;
pub mod repair;
mod runtime;
pub mod search;
mod worker;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

pub use error::Error;
use runtime::OpenCollection;
use tokio::sync::Semaphore;

use crate::domain::{CollectionName, Embedded, Limits, ModelInfo};
use crate::embed::{Embedder, Priority};
use crate::store::Catalog;

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
}

/// Whether the server can answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Readiness {
    /// Whether every collection answers in full.
    pub ready: bool,
    /// Collections that are still recovering, with passages done and passages in all.
    pub recovering: Vec<(CollectionName, u64, u64)>,
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
    open: RwLock<BTreeMap<CollectionName, Arc<OpenCollection>>>,
    /// Held while a collection is created or deleted, so that the catalog, the folders and `open` change together.
    naming: Arc<tokio::sync::Mutex<()>>,
    /// Bounds the threads that block in writes, so that searches always find one.
    write_threads: Arc<Semaphore>,
    /// Bounds the batches of background work before the encoder, over all collections.
    background_turns: Arc<Semaphore>,
    stopping: AtomicBool,
    recovery_threads: Mutex<Vec<JoinHandle<()>>>,
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
        let stopping = self.state.stopping.load(std::sync::atomic::Ordering::Acquire);
        Readiness { ready: recovering.is_empty() && !stopping, recovering }
    }

    /// Embeds texts for `/v1/embeddings`. A few texts go ahead of bulk work, many count as bulk work.
    pub async fn embed(&self, texts: Vec<String>) -> Result<Vec<Embedded>, Error> {
        let priority = priority(texts.len());
        Ok(self.state.embedder.embed(texts, priority).await?)
    }

    /// Finds an open collection.
    fn collection(&self, name: &CollectionName) -> Result<Arc<OpenCollection>, Error> {
        let open = self.state.open.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        open.get(name).cloned().ok_or_else(|| Error::CollectionNotFound { name: name.clone() })
    }

    /// Runs blocking work on a collection. When the collection was deleted meanwhile, any failure means just that.
    async fn on_collection<T: Send + 'static>(
        &self,
        collection: &Arc<OpenCollection>,
        work: impl FnOnce(&Arc<OpenCollection>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(collection);
        let result = blocking(move || work(&shared)).await;
        if result.is_err() && collection.is_deleted() {
            return Err(Error::CollectionNotFound { name: collection.row.name.clone() });
        }
        result
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
