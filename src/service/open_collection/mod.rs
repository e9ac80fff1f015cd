//! An open collection: its parts, and how changes of its database reach its index.
//!
//! There is only one way to change the index: `apply_changes` reads the store's changes after the sequence number that the
//! index has reached, and applies them in order, one caller at a time. So the sequence number of a saved index is exact, writes
//! and recovery share one path, and a passage that is deleted right after it was embedded cannot stay in the index.

pub(super) mod damage;
mod found_damage;
pub(super) mod maintenance;
pub mod repair;
pub(super) mod reservation;
mod reserved;
mod search_mark;
mod shared;
mod work;
pub(super) mod worker;
pub(super) mod write_slots;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use super::error::Error;
use super::folders::AtPath;
use super::search::CollectionTokens;
use crate::domain::{Collection, Embedding, Limits, ModelInfo, PassageId, Sequence, with_causes};
use crate::index::{self, Index, IndexParameters};
use crate::service::folders::orphaned;
use crate::storage::{Embedded, Postgres, Storage};
use crate::store::{Change, DirectoryLock, DocumentStore, StoreError};
use found_damage::FoundDamage;
use reserved::ReservedPassages;
use write_slots::WriteSlots;

const CHANGES_PER_READ: usize = 1_024;
/// A large index is only saved again after one in this many of its passages has changed. Otherwise saving would take most of
/// the time.
const SAVE_FRACTION: u64 = 5;
/// Number of a collection's searches that run at once even if those of others take all other threads.
const FIRST_SEARCHES: usize = 2;
/// Maximum number of threads that a collection blocks outside of the pools. It has fewer connections to read from, and if its
/// reads are slow, those of other collections still find threads.
const THREADS_MAX: usize = 32;
/// Pause after a failed save, because another attempt would fill a disk that may already be full.
const SAVE_RETRY_PAUSE: Duration = Duration::from_secs(60);
/// How long a statement on a deleted collection may still run. A replaced one is removed only when nothing runs on it.
const STATEMENT_GRACE: Duration = Duration::from_secs(10);

/// The engine that holds the documents of a collection.
enum Engine {
    /// A separate database file, and an index that follows the database.
    Embedded(Arc<Embedded>),
    Server(Arc<Postgres>),
}

pub(crate) struct OpenCollection {
    /// The catalog's row when the collection was opened.
    pub(crate) row: Collection,
    /// The catalog's row with later changes (`Collection::change`).
    current: RwLock<Collection>,
    pub(crate) folder: PathBuf,
    /// The lock on the data directory, if the folder holds the database. The service keeps it.
    lock: Option<Weak<DirectoryLock>>,
    pub(crate) store: Arc<dyn Storage>,
    engine: Engine,
    /// The last sequence number when the database was opened.
    pub(crate) sequence_at_open: Sequence,
    /// Identifies the database. A saved index of another database is not used.
    pub(crate) identity: String,
    /// Wakes the worker to embed, or to stop.
    pub(crate) wake: Notify,
    /// Wakes the maintenance after a change of the index, or to stop.
    pub(crate) changed: Notify,
    pub(crate) write_slots: WriteSlots,
    /// Has a permit for each further search that does not wait until searches of other collections end.
    pub(crate) first_searches: Arc<Semaphore>,
    /// Bounds the threads that its other work blocks.
    threads: Arc<Semaphore>,
    /// Locked for reading during a write, and for writing while the collection is replaced, so that no write is lost between
    /// the two collections.
    pub(crate) writes: Arc<tokio::sync::RwLock<()>>,
    /// Held while its settings change, so that changes do not mix.
    pub(crate) changing: Arc<tokio::sync::Mutex<()>>,
    /// The re-embedded collection that has replaced this one and receives its writes.
    pub(crate) replacement: OnceLock<Arc<OpenCollection>>,
    /// Whether a restore has put another collection in its place.
    restored_over: AtomicBool,
    /// The background worker, once recovery is over.
    pub(crate) worker: Mutex<Option<JoinHandle<()>>>,
    pub(crate) damage: FoundDamage,
    /// The tokens of its passages, once a search has needed them or a start has prepared them.
    pub(crate) tokens: CollectionTokens,
    /// When `mark_searched` last marked it, in milliseconds since the Unix epoch, or 0.
    marked_searched_ms: AtomicI64,
    applied: Mutex<Applied>,
    /// Whether the index was repaired since it was saved.
    repaired: AtomicBool,
    /// Whether the index lacks passages that cannot be read.
    incomplete: AtomicBool,
    /// The damage of the database that keeps the index from being recovered.
    unrecoverable: Mutex<Option<StoreError>>,
    /// Minimum number of changes after which the index is saved.
    save_changes: u64,
    /// When to try again after a failed save.
    save_after: Mutex<Option<Instant>>,
    /// Passages that the worker skips.
    pub(crate) reserved: ReservedPassages,
    /// Whether a dead server may have left passages without an embedding.
    orphans_expected: AtomicBool,
    deleted: AtomicBool,
    stopping: AtomicBool,
}

/// How far the index has followed the database.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Applied {
    /// All changes up to this one are in the index.
    pub(crate) sequence: Sequence,
    /// Number of changes applied since the index was saved.
    pub(crate) unsaved: u64,
}

impl OpenCollection {
    /// Wraps an opened database, whose index must still be recovered.
    pub(crate) fn new(
        (row, folder): (Collection, PathBuf),
        (store, lock): (DocumentStore, Arc<DirectoryLock>),
        limits: &Limits,
    ) -> Result<Self, Error> {
        let (sequence_at_open, identity) = (store.sequence()?, store.identity()?);
        // Caches the counts, so that listing all collections does not open them again. A request for the counts reports any
        // error.
        let _ = store.counts();
        let embedded = Arc::new(Embedded::new(&row, store));
        let store: Arc<dyn Storage> = Arc::clone(&embedded) as _;
        let parts = Self::from_parts((row, folder), (Engine::Embedded(embedded), store), (sequence_at_open, identity), limits);
        Ok(Self { lock: Some(Arc::downgrade(&lock)), ..parts })
    }

    /// Wraps a collection on a database server, which needs no recovery.
    pub(crate) fn on_server(row: Collection, folder: PathBuf, store: Postgres, limits: &Limits) -> Result<Self, Error> {
        let (store, identity) = (Arc::new(store), row.id.0.clone());
        let sequence = store.sequence()?;
        let shared: Arc<dyn Storage> = Arc::clone(&store) as _;
        Ok(Self::from_parts((row, folder), (Engine::Server(store), shared), (sequence, identity), limits))
    }

    fn from_parts(
        (row, folder): (Collection, PathBuf),
        (engine, store): (Engine, Arc<dyn Storage>),
        (sequence_at_open, identity): (Sequence, String),
        limits: &Limits,
    ) -> Self {
        let is_shared = matches!(engine, Engine::Server(_));
        Self {
            current: RwLock::new(row.clone()),
            write_slots: WriteSlots::new(row.id.clone(), limits.write_queue_max),
            first_searches: Arc::new(Semaphore::new(FIRST_SEARCHES)),
            threads: Arc::new(Semaphore::new(THREADS_MAX)),
            row,
            folder,
            lock: None,
            store,
            engine,
            sequence_at_open,
            identity,
            wake: Notify::new(),
            changed: Notify::new(),
            writes: Arc::default(),
            changing: Arc::default(),
            restored_over: AtomicBool::new(false),
            replacement: OnceLock::new(),
            worker: Mutex::new(None),
            damage: FoundDamage::default(),
            tokens: CollectionTokens::default(),
            marked_searched_ms: AtomicI64::new(0),
            applied: Mutex::new(Applied::default()),
            repaired: AtomicBool::new(false),
            incomplete: AtomicBool::new(false),
            unrecoverable: Mutex::default(),
            save_changes: limits.index_save_changes,
            save_after: Mutex::new(None),
            reserved: ReservedPassages::default(),
            orphans_expected: AtomicBool::new(is_shared),
            deleted: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        }
    }

    /// Returns the embedded engine, or fails if the collection is on a database server.
    pub(crate) fn embedded(&self) -> Result<&Arc<Embedded>, Error> {
        match &self.engine {
            Engine::Embedded(embedded) => Ok(embedded),
            Engine::Server(_) => Err(Error::OnDatabaseServer {
                operation: "there is no index in the data directory",
                instead: "the database has it",
            }),
        }
    }

    /// Closes a collection that was not registered in the catalog, and removes its rows from a database server.
    pub(crate) fn discard(&self) {
        let discarded = match &self.engine {
            Engine::Embedded(_) => self.store.close(),
            Engine::Server(server) => server.remove(),
        };
        if let Err(error) = discarded {
            let error = with_causes(&error);
            tracing::warn!(collection = %self.row.name, error, "cannot remove an unfinished collection; the next start tries again");
        }
    }

    pub(crate) fn current(&self) -> Collection {
        self.current.read().clone()
    }

    /// Returns the re-embedded collection that has replaced this one, or this one if none has.
    pub(crate) fn reembedded(self: &Arc<Self>) -> Arc<Self> {
        self.replacement.get().map_or_else(|| Arc::clone(self), |next| next.reembedded())
    }

    /// Whether a restore has put another collection in its place.
    pub(crate) fn is_restored_over(&self) -> bool {
        self.restored_over.load(Ordering::Acquire)
    }

    /// Records that a restore has put another collection in its place. The caller has locked `writes` for writing.
    pub(crate) fn mark_restored_over(&self) {
        self.restored_over.store(true, Ordering::Release);
    }

    pub(crate) fn check_not_restored_over(&self) -> Result<(), Error> {
        if self.is_restored_over() { Err(Error::CollectionReplaced { name: self.row.name.clone() }) } else { Ok(()) }
    }

    /// Whether a write that was checked for this collection is valid for another one.
    pub(crate) fn accepts_same_writes_as(&self, other: &Self) -> bool {
        let kind = |row: &Collection| (row.model.clone(), row.dimension, row.metric, row.quantization);
        kind(&self.current()) == kind(&other.current())
    }

    pub(crate) fn set_current(&self, row: Collection) {
        *self.current.write() = row;
    }

    /// Fails until recovery is over. If recovery cannot succeed, says so.
    pub(crate) fn check_ready(&self) -> Result<(), Error> {
        self.store.ready().map_err(|error| self.report_damage(error.into()))
    }

    /// Returns the index, or fails until recovery is over.
    pub(crate) fn index(&self) -> Result<&Index, Error> {
        self.check_ready()?;
        Ok(self.embedded()?.index()?.0)
    }

    pub(crate) fn index_parameters(&self) -> IndexParameters {
        let Collection { dimension, metric, quantization, hnsw, .. } = self.row;
        IndexParameters { dimension, metric, quantization, hnsw }
    }

    /// Checks that embeddings by `model` may be stored and compared here. A collection of callers' own vectors accepts any.
    pub(crate) fn check_model(&self, model: &ModelInfo) -> Result<(), Error> {
        let Some(expected) = self.row.model.as_ref().filter(|expected| expected.fingerprint != model.fingerprint) else {
            return Ok(());
        };
        Err(Error::ModelMismatch { collection: self.row.name.clone(), expected: expected.clone(), loaded: model.into() })
    }

    /// Applies the store's changes to the index. Does nothing during recovery, which applies them itself.
    pub(crate) fn apply_changes(&self) -> Result<(), Error> {
        let Ok(index) = self.index() else { return Ok(()) };
        let mut applied = self.applied.lock();
        while self.apply_some(index, &mut applied)? {}
        Ok(())
    }

    /// Removes deleted passages from the index. Searches skip them anyway, because they read rows; this keeps the index small.
    pub(super) fn remove_deleted_passages(&self) {
        if let Err(error) = self.apply_changes() {
            tracing::warn!(collection = %self.row.name, error = with_causes(&error), "cannot remove documents from the index");
        }
        self.wake.notify_one();
    }

    /// Applies some of the store's changes after `applied` to `index`. Advances `applied`. Returns whether there may be more.
    pub(crate) fn apply_some(&self, index: &Index, applied: &mut Applied) -> Result<bool, Error> {
        let store = &self.embedded()?.store;
        let changes = self.read_with_repair(|| store.changes(applied.sequence, CHANGES_PER_READ))?;
        let count = changes.len();
        self.apply_read(index, applied, changes)?;
        Ok(count == CHANGES_PER_READ)
    }

    /// Like `apply_some`, but leaves out changes that cannot be read.
    pub(crate) fn apply_readable(&self, index: &Index, applied: &mut Applied) -> Result<bool, Error> {
        let store = &self.embedded()?.store;
        let read = |after, limit| store.changes(Sequence(after), limit);
        let changes = self.read_past_damage(applied.sequence.0, CHANGES_PER_READ, &read)?;
        let more = !changes.is_empty();
        self.apply_read(index, applied, changes)?;
        Ok(more)
    }

    /// Applies changes that were read after `applied` to `index`, and advances `applied`.
    fn apply_read(&self, index: &Index, applied: &mut Applied, changes: Vec<(Sequence, Change)>) -> Result<(), Error> {
        let Some(&(last, _)) = changes.last() else { return Ok(()) };
        applied.unsaved += changes.len() as u64;
        apply_batch(index, changes)?;
        applied.sequence = last;
        self.changed.notify_one();
        Ok(())
    }

    /// Installs the index. Searches work from now on, but may miss changes after `applied`.
    pub(crate) fn install(&self, index: Index, applied: Applied) {
        if let Ok(embedded) = self.embedded() {
            *self.applied.lock() = applied;
            embedded.install(index);
        }
    }

    /// Applies what changed since the index was saved, and ends recovery. Returns `false` if the collection was stopped first.
    pub(crate) fn finish_recovery(&self) -> Result<bool, Error> {
        let embedded = self.embedded()?;
        let (index, _) = embedded.index()?;
        let mut applied = self.applied.lock();
        // Continues from the progress of a rebuild, because progress must never go back.
        let (done, total) = embedded.progress();
        let total = total + embedded.store.count_changes(applied.sequence)?;
        let unsaved_before = applied.unsaved;
        embedded.set_progress(done, total);
        while !self.should_stop() {
            let more = self.apply_readable(index, &mut applied)?;
            embedded.set_progress(done + applied.unsaved - unsaved_before, total);
            if !more {
                // If a change hid passages, makes them reachable again before the first search.
                self.check_index(index)?;
                embedded.end_recovery();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Finds passages that searches miss, and relinks them: all passages that no link leads to, and some others. Blocks.
    pub(crate) fn check_index(&self, index: &Index) -> Result<(), Error> {
        if !index.needs_check() {
            return Ok(());
        }
        let settled = index.check(&|passage| self.stored_embedding(passage), &|| self.should_stop())?;
        if settled > 0 {
            tracing::info!(collection = %self.row.name, settled, "made unreachable passages of the index reachable again");
        }
        if settled > 0 || !index.needs_check() {
            // The saved index records whether all of it was checked.
            self.mark_unsaved();
        }
        Ok(())
    }

    pub(crate) fn stored_embedding(&self, passage: PassageId) -> Option<Embedding> {
        self.store.embeddings_of(&[passage]).ok()?.pop().map(|(_, embedding)| embedding)
    }

    /// Makes the next save include the index even if no change was applied, because it was repaired.
    pub(crate) fn mark_unsaved(&self) {
        self.repaired.store(true, Ordering::Relaxed);
    }

    pub(crate) fn save_if_due(&self) -> Result<(), Error> {
        let Some((index, _)) = self.embedded().ok().and_then(|embedded| embedded.index().ok()) else { return Ok(()) };
        let due = self.save_changes.max(index.len() as u64 / SAVE_FRACTION);
        if self.applied.lock().unsaved < due || self.save_after.lock().is_some_and(|time| Instant::now() < time) {
            return Ok(());
        }
        let saved = self.save();
        *self.save_after.lock() = saved.is_err().then(|| Instant::now() + SAVE_RETRY_PAUSE);
        saved
    }

    /// Saves the index if anything has changed since the last save. Then the store may purge the tombstones that the saved
    /// index covers.
    pub(crate) fn save(&self) -> Result<(), Error> {
        let Ok(embedded) = self.embedded() else { return Ok(()) };
        let Ok((index, _)) = embedded.index() else { return Ok(()) };
        let mut applied = self.applied.lock();
        let is_unchanged = applied.unsaved == 0 && !self.repaired.load(Ordering::Relaxed);
        if self.is_deleted() || is_unchanged || self.incomplete.load(Ordering::Relaxed) {
            return Ok(());
        }
        // Otherwise, it would replace the saved index in a directory that is now at this path.
        if self.lock.as_ref().is_some_and(|lock| !lock.upgrade().is_some_and(|lock| lock.check())) {
            return Err(Error::DirectoryLost);
        }
        // Reset before the save, because it may miss later repairs.
        self.repaired.store(false, Ordering::Relaxed);
        // A saved index must never be newer than the database on disk, which counts after a power loss.
        embedded.store.sync().inspect_err(|_| self.mark_unsaved())?;
        index::save(index, &self.folder, applied.sequence, &self.identity).inspect_err(|_| self.mark_unsaved())?;
        applied.unsaved = 0;
        match embedded.store.purge_tombstones(applied.sequence) {
            // The server is stopping. Until the next save, the tombstones only take space.
            Err(StoreError::Interrupted { .. }) => Ok(()),
            purged => Ok(purged?),
        }
    }

    /// Marks the collection as deleted, closes its database and removes its folder. Requests that still hold it get
    /// `CollectionNotFound`.
    pub(crate) fn destroy(&self) -> Result<(), Error> {
        self.mark_deleted();
        self.store.interrupt_after(Instant::now() + STATEMENT_GRACE);
        // The index must not be saved into the folder while it is removed.
        let _applied = self.applied.lock();
        if let Err(error) = self.store.close() {
            tracing::warn!(collection = %self.row.name, error = with_causes(&error), "cannot close a deleted collection");
        }
        orphaned::remove(&self.folder).at(&self.folder)
    }

    /// Marks the collection as deleted and asks the worker and a running recovery to stop. Does not block.
    pub(crate) fn mark_deleted(&self) {
        self.deleted.store(true, Ordering::Release);
        self.wake.notify_one();
        self.changed.notify_one();
    }

    /// Asks the worker and a running recovery to stop.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake.notify_one();
        self.changed.notify_one();
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    pub(crate) fn should_stop(&self) -> bool {
        self.is_deleted() || self.stopping.load(Ordering::Acquire)
    }

    /// Returns the number of passages up to `last` that wait for their embedding, without those that the worker skips until the
    /// next start. Blocks.
    pub(crate) fn waiting_count(&self, last: PassageId) -> Result<u64, Error> {
        Ok(self.store.pending_count_excluding(last, &self.reserved.skipped())?)
    }
}

/// Applies changes that were read together. Keys are never reused, so a removal is final and can be applied last.
fn apply_batch(index: &Index, changes: Vec<(Sequence, Change)>) -> Result<(), Error> {
    let mut embedded = Vec::new();
    let mut removed = Vec::new();
    for (_, change) in changes {
        match change {
            Change::Embedded(passage, embedding) => embedded.push((passage, embedding)),
            Change::Removed(passage) => removed.push(passage),
        }
    }
    index.add_all(&embedded)?;
    for passage in removed {
        index.remove(passage)?;
    }
    Ok(())
}
