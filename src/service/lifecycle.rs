//! Opens the data directory and shuts down.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use rustix::fs::{Access, access};
use rustix::io::Errno;
use tokio::sync::{Semaphore, watch};

use super::blocking::blocking;
use super::directory_watch;
use super::error::Error;
use super::folders::{AtPath, CATALOG, COLLECTIONS_DIR, create_dir_durably};
use super::jobs::{Jobs, collections_built_by, takeover};
use super::state::{BrokenCollection, CollectionEntry, Parts, Service, State};
use super::thread_pool::ThreadPool;
use super::upload_receiver::Uploads;
use crate::domain::{Collection, CollectionName, JobId, Page, chain, with_causes};
use crate::parallel::{in_parallel, parallelism};
use crate::service::documents::expiry;
use crate::service::folders::emergency_space::EmergencySpace;
use crate::service::folders::orphaned;
use crate::service::keys::keyring::Keyring;
use crate::service::limits::shares::SharedLimit;
use crate::service::open_collection::OpenCollection;
use crate::service::open_collection::write_slots::WriteThreads;
use crate::storage::{CatalogStorage, PostgresCatalog, PostgresOptions, PostgresServer, ReplicaOptions};
use crate::store::{Catalog, DirectoryLock, OpenDatabases, StoreError};

/// Maximum number of writes that block a thread at once, over all collections. Further writes wait without a thread, so that
/// searches always find a free one. A collection alone gets half of them. Its writes share commits.
const WRITE_THREADS: usize = 192;
/// Maximum number of threads that wait for the catalog at once. It has one connection in a data directory.
const CATALOG_THREADS: usize = 64;
/// Maximum number of searches that run at once, over all collections. More would only compete for the cores, and each takes some
/// megabytes. So many, because those in a collection whose words are still being read wait, and must not delay the others.
pub(super) const SEARCHES_MAX: usize = 64;
/// How many more of the first searches of each collection run at once, so that these do not wait for those of another one that
/// are slow.
const FIRST_SEARCHES_MAX: usize = 16;
/// Maximum number of background batches at the encoder, over all collections: one running, one next.
const BACKGROUND_PERMITS: usize = 2;
/// How long statements may still run when the server stops. Either the work of an interrupted statement has not been
/// acknowledged yet, or the next start repeats it.
pub(super) const STATEMENT_GRACE: Duration = Duration::from_secs(3);
/// How long a stopping server waits for a database server: longer than for its jobs.
const SERVER_STOP_MAX: Duration = Duration::from_secs(15);
/// Maximum number of collections that are saved and closed at once. Each waits for the disk most of the time.
const CLOSING_THREADS_MAX: usize = 16;
/// How often the server logs how many collections it has saved.
const PROGRESS_PERIOD: Duration = Duration::from_secs(5);
const CATALOG_PAGE: usize = 1_000;

impl Service {
    /// Opens the data directory exclusively and starts recovery in the background. Must be called within an asynchronous
    /// runtime.
    pub fn open(parts: Parts) -> Result<Self, Error> {
        let emergency_space = EmergencySpace::new(&parts.data_dir);
        // Done first, because this locks the directory for this process.
        let catalog = emergency_space.retry_on_full_disk(|| open_catalog(&parts.data_dir));
        let catalog = catalog.map_err(|error| emergency_space.explain_full_disk(error, 0))?;
        let (lock, catalog) = (catalog.directory_lock(), Box::new(catalog));
        let databases = all_rows(&*catalog)?.len().min(parts.limits.databases_open_max);
        emergency_space.release_if_disk_is_full(databases);
        let service = Self::open_with_catalog(parts, (catalog, None, lock));
        let service = service.map_err(|error| emergency_space.explain_full_disk(error, databases))?;
        // On a full disk, jobs wait until this succeeds, and changes that add something are refused.
        if let Err(error) = service.state.reserve_emergency_space() {
            tracing::warn!(error = with_causes(&error), "changes that add something are refused");
        }
        Ok(service)
    }

    /// Like `open`, but with everything on a database server, which other servers may use at the same time. The data directory
    /// then only holds files of jobs and maps. If there is a replica, it answers reads.
    pub fn open_on_postgres(options: &PostgresOptions, replica: Option<&ReplicaOptions>, parts: Parts) -> Result<Self, Error> {
        let lock = Arc::new(DirectoryLock::acquire(&parts.data_dir)?);
        if parts.data_dir.join(CATALOG).exists() {
            return Err(Error::EmbeddedStoreExists { path: parts.data_dir });
        }
        let server = PostgresServer::connect_with(options, replica)?;
        let catalog = Box::new(PostgresCatalog::open(&server)?);
        Self::open_with_catalog(parts, (catalog, Some(server), lock))
    }

    fn open_with_catalog(
        parts: Parts,
        (catalog, server, lock): (Box<dyn CatalogStorage>, Option<Arc<PostgresServer>>, Arc<DirectoryLock>),
    ) -> Result<Self, Error> {
        let runtime = tokio::runtime::Handle::try_current()?;
        let Parts { data_dir, embedder, limits, power_safe } = parts;
        let databases_open_max = limits.databases_open_max;
        let jobs = Jobs::new(limits.jobs_running_max, limits.jobs_queued_max);
        let (memory_bytes, uploads_max) = (limits.in_flight_bytes_max, limits.uploads_max);
        let collections_dir = data_dir.join(COLLECTIONS_DIR);
        create_dir_durably(&collections_dir).at(&collections_dir)?;
        let rows = all_rows(&*catalog)?;
        let unfinished = catalog.unfinished_jobs()?;
        orphaned::sweep(&collections_dir, &rows, &collections_built_by(&unfinished))?;
        let unfinished_ids: Vec<JobId> = unfinished.into_iter().map(|job| job.id).collect();
        let aliases = catalog.aliases()?.into_iter().map(|alias| (alias.name, alias.collection)).collect();
        let state = State {
            embedder,
            limits,
            power_safe,
            emergency_space: EmergencySpace::new(&data_dir),
            data_dir,
            keyring: Keyring::load(&*catalog)?,
            catalog,
            catalog_sync: Default::default(),
            server,
            lock,
            collections: RwLock::new(BTreeMap::new()),
            open_databases: Arc::new(OpenDatabases::with_limit(databases_open_max)),
            aliases: RwLock::new(aliases),
            snapshots_lock: Mutex::default(),
            names_lock: Arc::new(tokio::sync::Mutex::new(())),
            catalog_threads: Arc::new(Semaphore::new(CATALOG_THREADS)),
            write_pool: Arc::new(ThreadPool::new(WRITE_THREADS)),
            write_threads: WriteThreads::new(WRITE_THREADS),
            search_pool: Arc::new(ThreadPool::new(SEARCHES_MAX)),
            first_search_pool: Arc::new(ThreadPool::new(FIRST_SEARCHES_MAX)),
            background_permits: Arc::new(Semaphore::new(BACKGROUND_PERMITS)),
            stopping: Arc::default(),
            retiring: Arc::default(),
            recovery_threads: Mutex::new(Vec::new()),
            jobs,
            classifiers: Default::default(),
            memory: SharedLimit::new("in_flight_bytes_max", memory_bytes),
            uploads: Uploads::new(uploads_max),
            stop_announced: watch::Sender::new(false),
            idempotency_locks: Default::default(),
            schedule: Default::default(),
            runtime,
        };
        state.record_catalog_versions();
        for row in rows {
            state.open_at_start(row, &unfinished_ids)?;
        }
        let service = Self { state: Arc::new(state) };
        service.start_recovery()?;
        service.prepare_snapshots()?;
        service.resume_jobs()?;
        let stop = service.state.stop_announced.subscribe();
        service.state.runtime.spawn(expiry::run(Arc::downgrade(&service.state), stop.clone()));
        if service.state.server.is_none() {
            service.state.runtime.spawn(directory_watch::run(Arc::downgrade(&service.state), stop.clone()));
        }
        if service.state.catalog.shared().is_some() {
            service.state.runtime.spawn(takeover::run(Arc::downgrade(&service.state), stop));
        }
        Ok(service)
    }

    /// Finishes accepted work, saves the indexes and closes the databases. Passages without an embedding stay in the database,
    /// and the next start embeds them. Does not wait forever for a database server, which has everything that was acknowledged.
    pub async fn shutdown(&self) -> Result<(), Error> {
        if self.state.server.is_none() {
            return self.stop_all().await;
        }
        tokio::time::timeout(SERVER_STOP_MAX, self.stop_all()).await.unwrap_or_else(|_| {
            tracing::warn!("the database server does not answer; not waiting");
            Ok(())
        })
    }

    async fn stop_all(&self) -> Result<(), Error> {
        self.state.stopping.store(true, Ordering::Release);
        self.announce_stop();
        self.state.end_statements_by(Instant::now() + STATEMENT_GRACE);
        self.state.jobs.stop().await;
        // Waits for a collection that is being created or deleted.
        let _naming = self.state.names_lock.lock().await;
        // These do not wait for one of the threads for the catalog, all of which may hang.
        let state = Arc::clone(&self.state);
        blocking(move || {
            state.wait_for_catalog_sync();
            Ok(())
        })
        .await?;
        let open = self.state.open_collections();
        open.iter().for_each(|collection| collection.stop());
        let recovery_threads = std::mem::take(&mut *self.state.recovery_threads.lock());
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
            let worker = collection.worker.lock().take();
            if let Some(worker) = worker {
                worker.await?;
            }
        }
        let state = Arc::clone(&self.state);
        blocking(move || {
            let closed = close_all(&open);
            // The disk may be full at the next start, and there may be more collections than at this one.
            let _ = state.reserve_emergency_space();
            closed
        })
        .await
    }
}

impl State {
    /// Reserves the emergency space, if the documents are in the data directory. Fails if nothing is reserved because the disk
    /// lacks room, or if the data directory is gone. Creating a collection does not call this, because only a start needs more
    /// space for it. Blocks.
    pub(super) fn reserve_emergency_space(&self) -> Result<(), Error> {
        self.check_directory()?;
        if self.server.is_some() { Ok(()) } else { self.emergency_space.reserve(self.databases_at_start()) }
    }

    /// Refuses a change that adds something while the emergency space is released and cannot be reserved again: the room is left
    /// for the next start, for deletions and for revocations. Also refuses it if the data directory is gone. Blocks.
    pub(super) fn check_emergency_space(&self) -> Result<(), Error> {
        self.check_directory()?;
        if self.server.is_some() { Ok(()) } else { self.emergency_space.check(self.databases_at_start()) }
    }

    fn databases_at_start(&self) -> usize {
        self.collections.read().len().min(self.limits.databases_open_max)
    }

    /// Ends the statements of all databases that are still running at `time`. For replaced collections, `collections::retiring`
    /// does it.
    fn end_statements_by(&self, time: Instant) {
        self.catalog.interrupt_after(time);
        self.open_collections().iter().for_each(|collection| collection.store.interrupt_after(time));
    }

    /// Opens a collection of the catalog, and removes the checkpoints of jobs that have ended. A damaged or lost database does
    /// not prevent other collections from being served.
    fn open_at_start(&self, row: Collection, unfinished_ids: &[JobId]) -> Result<(), Error> {
        let folder = self.collections_dir().join(&row.id.0);
        let name = row.name.clone();
        let opened = match folder.try_exists() {
            // A missing folder is created, because the documents are on the database server.
            _ if self.server.is_some() => self.open_collection(row.clone(), &folder),
            Ok(true) => check_writable(&folder).and_then(|()| self.open_collection(row.clone(), &folder)),
            Ok(false) => Err(StoreError::FolderLost { path: folder.clone() }.into()),
            Err(source) => return Err(Error::File { path: folder, source }),
        };
        let entry = match opened {
            Ok(collection) => {
                match collection.store.delete_job_checkpoints(unfinished_ids) {
                    Err(StoreError::Closed) if self.server.is_some() => return Ok(()),
                    Err(error) if error.is_damage() => drop(collection.record_damage(&error)),
                    deleted => deleted?,
                }
                let collection = Arc::new(collection);
                if let Err(error) = self.finish_change(&collection) {
                    tracing::error!(collection = %name, error = with_causes(&error), "cannot finish a change of settings");
                }
                CollectionEntry::Open(collection)
            }
            // Another server has just deleted it.
            Err(Error::Store(StoreError::Closed)) if self.server.is_some() => return Ok(()),
            Err(Error::Store(error)) if error.is_damage() => {
                let problem = chain(&error);
                tracing::error!(collection = %name, folder = %folder.display(), problem, "a damaged collection stays closed");
                CollectionEntry::Broken(Arc::new(BrokenCollection { row, error }))
            }
            Err(error) => return Err(Error::Open { collection: name, folder, source: Box::new(error) }),
        };
        self.collections.write().insert(name, entry);
        Ok(())
    }
}

/// Opens the catalog. Creates a new one only if the data directory holds nothing that a catalog would name or protect.
pub(super) fn open_catalog(data_dir: &Path) -> Result<Catalog, Error> {
    let found = orphaned::occupied_folders(data_dir)?;
    if found.is_empty() {
        return Ok(Catalog::open(data_dir)?);
    }
    let catalog_lost = |state| Error::CatalogLost { found: found.join(" and "), state };
    Catalog::open_existing(data_dir).map_err(|error| match error {
        StoreError::DatabaseLost { .. } => catalog_lost("gone"),
        StoreError::DatabaseEmpty { .. } => catalog_lost("empty"),
        other => other.into(),
    })
}

/// Fails if the server may not write a collection's folder or database. SQLite would still open such a database, and then
/// every write would fail as on a full disk.
fn check_writable(folder: &Path) -> Result<(), Error> {
    for path in [folder.to_owned(), folder.join(orphaned::DATABASE)] {
        if let Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) = access(path.as_path(), Access::WRITE_OK) {
            return Err(Error::File { path, source: errno.into() });
        }
    }
    Ok(())
}

/// Saves every index and closes every database, several at once, even if some of them fail. Returns the first failure.
///
/// A disk that lacks room for several new indexes at once may still have it for one, so failed saves are repeated at the end,
/// one after the other.
fn close_all(open: &[Arc<OpenCollection>]) -> Result<(), Error> {
    let collections = open.len();
    tracing::info!(collections, "saving the indexes and closing the databases");
    let (closed, logged) = (AtomicUsize::new(0), Mutex::new(Instant::now()));
    let close_part = |part: Range<usize>| {
        let ends = open[part].iter().map(|collection| match collection.save() {
            Ok(()) => Ok(close(collection, Ok(()))),
            // Its database is still open.
            Err(_) => Err(collection),
        });
        let ends: Vec<Result<Result<(), Error>, &Arc<OpenCollection>>> = ends.collect();
        let closed = closed.fetch_add(1, Ordering::Relaxed) + 1;
        let mut logged = logged.lock();
        if logged.elapsed() >= PROGRESS_PERIOD {
            *logged = Instant::now();
            tracing::info!(closed, collections, "still saving the indexes and closing the databases");
        }
        Ok::<_, Infallible>(ends)
    };
    let Ok(ends) = in_parallel(0..collections, 1, parallelism().min(CLOSING_THREADS_MAX), close_part);
    let ends = ends.into_iter().flatten().map(|end| end.unwrap_or_else(|unsaved| close(unsaved, unsaved.save())));
    // Unlike `collect`, this continues after a failure.
    ends.fold(Ok(()), Result::and)
}

/// Closes the database of a collection, even if its index was not saved.
fn close(collection: &OpenCollection, saved: Result<(), Error>) -> Result<(), Error> {
    let closed = collection.store.close();
    saved.and(closed.map_err(Error::from)).inspect_err(|error| {
        tracing::error!(collection = %collection.row.name, error = with_causes(error), "cannot close a collection");
    })
}

/// Reads all collections of a catalog, sorted by name.
pub(super) fn all_rows(catalog: &dyn CatalogStorage) -> Result<Vec<Collection>, StoreError> {
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
