//! Opening the data directory, starting recovery, and shutting down.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Semaphore;
use uuid::Uuid;

use super::collections::COLLECTIONS_DIR;
use super::repair::recover;
use super::runtime::{OpenCollection, lock};
use super::{Error, Parts, Service, State, blocking};
use crate::domain::{Collection, CollectionName, Page};
use crate::store::Catalog;

/// Writes that block a thread at once, over all collections; they share their commits. The others wait without a thread, and
/// searches always find one.
const WRITE_THREADS: usize = 96;
/// Batches of background work that wait for the encoder at once, over all collections: one runs, one is next.
const BACKGROUND_TURNS: usize = 2;
/// Collections that recover at once. Rebuilding an index uses all cores by itself.
const RECOVERIES: usize = 2;
/// Pause before another attempt to recover a collection.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Rows of the catalog read at a time.
const CATALOG_PAGE: usize = 1_000;

impl Service {
    /// Opens the data directory, which nobody else may use, and starts recovery in the background. Must be called within an
    /// asynchronous runtime.
    pub fn open(parts: Parts) -> Result<Self, Error> {
        let runtime = tokio::runtime::Handle::try_current()?;
        let Parts { data_dir, embedder, limits, power_safe } = parts;
        let collections_dir = data_dir.join(COLLECTIONS_DIR);
        // Nothing else is touched before this has taken the directory for this process.
        let catalog = Catalog::open(&data_dir)?;
        std::fs::create_dir_all(&collections_dir).map_err(|source| Error::Folder { path: collections_dir.clone(), source })?;
        let rows = all_rows(&catalog)?;
        remove_orphans(&collections_dir, &rows)?;
        let state = State {
            data_dir,
            embedder,
            limits,
            power_safe,
            catalog,
            open: RwLock::new(BTreeMap::new()),
            naming: Arc::new(tokio::sync::Mutex::new(())),
            write_threads: Arc::new(Semaphore::new(WRITE_THREADS)),
            background_turns: Arc::new(Semaphore::new(BACKGROUND_TURNS)),
            stopping: AtomicBool::new(false),
            recovery_threads: Mutex::new(Vec::new()),
            runtime,
        };
        let mut open = BTreeMap::new();
        for row in rows {
            let folder = collections_dir.join(&row.id.0);
            if let Err(source) = std::fs::metadata(&folder) {
                return Err(Error::Folder { path: folder, source });
            }
            open.insert(row.name.clone(), Arc::new(state.open_collection(row, &folder)?));
        }
        let waiting: VecDeque<_> = open.values().cloned().collect();
        *state.open.write().unwrap_or_else(PoisonError::into_inner) = open;
        let service = Self { state: Arc::new(state) };
        service.start_recovery(waiting)?;
        Ok(service)
    }

    /// Finishes what was accepted, saves the indexes and closes the databases. Passages that still wait for their embedding
    /// stay in the database; the next start goes on with them.
    pub async fn shutdown(&self) -> Result<(), Error> {
        self.state.stopping.store(true, Ordering::Release);
        // A collection that is being created or deleted is finished first.
        let _naming = self.state.naming.lock().await;
        let open: Vec<Arc<OpenCollection>> = {
            let open = self.state.open.read().unwrap_or_else(PoisonError::into_inner);
            open.values().cloned().collect()
        };
        open.iter().for_each(|collection| collection.stop());
        let recovery_threads = std::mem::take(&mut *lock(&self.state.recovery_threads));
        blocking(move || {
            for thread in recovery_threads {
                if thread.join().is_err() {
                    tracing::error!("a recovery thread panicked");
                }
            }
            Ok(())
        })
        .await?;
        for collection in &open {
            let worker = lock(&collection.worker).take();
            if let Some(worker) = worker {
                worker.await?;
            }
        }
        blocking(move || close_all(&open)).await
    }

    fn start_recovery(&self, waiting: VecDeque<Arc<OpenCollection>>) -> Result<(), Error> {
        let threads = RECOVERIES.min(waiting.len());
        let waiting = Arc::new(Mutex::new(waiting));
        for number in 0..threads {
            let (state, waiting) = (Arc::clone(&self.state), Arc::clone(&waiting));
            let thread = std::thread::Builder::new().name(format!("recovery-{number}")).spawn(move || {
                while let Some(collection) = next(&waiting) {
                    recover_until_done(&state, &collection);
                }
            });
            lock(&self.state.recovery_threads).push(thread.map_err(Error::Thread)?);
        }
        Ok(())
    }
}

fn next(waiting: &Mutex<VecDeque<Arc<OpenCollection>>>) -> Option<Arc<OpenCollection>> {
    lock(waiting).pop_front()
}

/// Recovers a collection; tries again after a failure until the collection is told to stop.
fn recover_until_done(state: &State, collection: &Arc<OpenCollection>) {
    while !collection.should_stop() {
        match recover(collection) {
            Ok(true) => return state.start_worker(collection),
            Ok(false) => return,
            Err(_) if collection.should_stop() => return,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(collection = %collection.row.name, error, "recovering the index failed, trying again");
                std::thread::park_timeout(RETRY_PAUSE);
            }
        }
    }
}

/// Saves every index and closes every database, also when one of them fails; gives the first failure.
fn close_all(open: &[Arc<OpenCollection>]) -> Result<(), Error> {
    let mut result = Ok(());
    for collection in open {
        let closed = collection.save().and_then(|()| Ok(collection.store.close()?));
        if let Err(error) = closed {
            let cause = &error as &dyn std::error::Error;
            tracing::error!(collection = %collection.row.name, error = cause, "closing a collection failed");
            result = result.and(Err(error));
        }
    }
    result
}

fn all_rows(catalog: &Catalog) -> Result<Vec<Collection>, Error> {
    let mut rows: Vec<Collection> = Vec::new();
    loop {
        let after: Option<CollectionName> = rows.last().map(|row| row.name.clone());
        let page = catalog.list(&Page { limit: CATALOG_PAGE, after })?;
        if page.is_empty() {
            return Ok(rows);
        }
        rows.extend(page);
    }
}

/// Removes the folders that a crash left while a collection was created or deleted: those that are named by a UUID, as this
/// program names them, and that no row of the catalog names. When the catalog has no row at all, the folders stay: more
/// likely than such a crash, the catalog was lost, and the folders are what is left of the data.
fn remove_orphans(collections_dir: &Path, rows: &[Collection]) -> Result<(), Error> {
    let access = |source| Error::Folder { path: collections_dir.to_owned(), source };
    let known: HashSet<&str> = rows.iter().map(|row| row.id.0.as_str()).collect();
    for entry in std::fs::read_dir(collections_dir).map_err(access)? {
        let entry = entry.map_err(access)?;
        let name = entry.file_name();
        let Some(id) = name.to_str().filter(|name| Uuid::try_parse(name).is_ok()) else { continue };
        if known.contains(id) || !entry.file_type().map_err(access)?.is_dir() {
            continue;
        }
        let path = entry.path();
        if rows.is_empty() {
            tracing::warn!(path = %path.display(), "the catalog is empty but there is a collection's folder, left as it is");
            continue;
        }
        tracing::info!(path = %path.display(), "removing a folder that an interrupted creation or deletion left");
        std::fs::remove_dir_all(&path).map_err(|source| Error::Folder { path, source })?;
    }
    Ok(())
}
