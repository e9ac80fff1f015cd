//! What an open collection consists of, and how changes of its store reach its index.
//!
//! The index changes in one way only: `apply_changes` reads the store's changes after the sequence number that the index has
//! reached and takes them in, in order, one caller at a time. So the number that a saved index carries is exact, live writes
//! and recovery share one path, and a passage that is deleted right after it was embedded cannot stay in the index.

pub(super) mod damage;
mod found_damage;
pub mod repair;
pub(super) mod reservation;
mod reserved;
pub(super) mod upkeep;
pub(super) mod worker;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

use super::blocking::blocking;
use super::error::{Error, short};
use super::search::CollectionTokens;
use crate::domain::{Collection, Embedding, Limits, ModelInfo, PassageId, Sequence};
use crate::index::{self, Index, IndexParameters};
use crate::service::folders::orphaned;
use crate::storage::{Embedded, Storage};
use crate::store::{Change, DocumentStore, StoreError};
use found_damage::FoundDamage;
use reserved::ReservedPassages;

/// Changes read from the store at a time.
const CHANGES_PER_READ: usize = 1_024;
/// Of a large index, this part of its passages must have changed before it is saved again; else saving would dominate.
const SAVE_FRACTION: u64 = 5;
/// Pause after a save that failed, before another one is tried: a large one fills a disk that is full already.
const SAVE_RETRY_PAUSE: Duration = Duration::from_secs(60);
/// How long a statement on a collection that was deleted or replaced may still run.
const LAST_STATEMENTS: Duration = Duration::from_secs(10);
/// An open collection.
pub(crate) struct OpenCollection {
    /// The catalog's row as it was opened.
    pub(crate) row: Collection,
    /// The catalog's row with what was changed since: `Collection::change`.
    current: RwLock<Collection>,
    /// Its folder.
    pub(crate) folder: PathBuf,
    /// Its documents.
    pub(crate) store: Arc<dyn Storage>,
    /// The engine that keeps them: what it does besides, with files of its own and an index that follows behind.
    pub(crate) embedded: Arc<Embedded>,
    /// The last sequence number when the database was opened.
    pub(crate) sequence_at_open: Sequence,
    /// Which database it is; a saved index of another one is not of this collection.
    pub(crate) identity: String,
    /// Wakes the worker: there is something to embed, or it is time to stop.
    pub(crate) wake: Notify,
    /// Tells the upkeep that the index changed, or that it is time to stop.
    pub(crate) changed: Notify,
    /// Bounds the writes that wait.
    pub(crate) write_slots: Arc<Semaphore>,
    /// The collection that took this one's place, where writes go then. Read while a write runs, so that none is lost between
    /// the two.
    pub(crate) replacement: Arc<tokio::sync::RwLock<Option<Arc<OpenCollection>>>>,
    /// The background worker, once recovery is over.
    pub(crate) worker: Mutex<Option<JoinHandle<()>>>,
    /// Where its database was found damaged.
    pub(crate) damage: FoundDamage,
    /// The tokens of its passages, once a search needed them.
    pub(crate) tokens: CollectionTokens,
    applied: Mutex<Applied>,
    /// Whether the index was mended since it was saved.
    mended: AtomicBool,
    /// Changes after which the index is saved, at least.
    save_changes: u64,
    /// When another save may be tried, after one failed.
    save_after: Mutex<Option<Instant>>,
    /// Passages that the worker leaves alone.
    pub(crate) reserved: ReservedPassages,
    deleted: AtomicBool,
    stopping: AtomicBool,
}

/// How far the index is.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Applied {
    /// All changes up to this one are in the index.
    pub(crate) sequence: Sequence,
    /// Changes taken in since the index was saved.
    pub(crate) unsaved: u64,
}

impl OpenCollection {
    /// Wraps an opened database; its index is still to be recovered.
    pub(crate) fn new(row: Collection, folder: PathBuf, store: DocumentStore, limits: &Limits) -> Result<Self, Error> {
        let (sequence_at_open, identity) = (store.sequence()?, store.identity()?);
        // Remembered: whoever lists all collections does not open them again. Damage is told when somebody asks.
        let _ = store.counts();
        let embedded = Arc::new(Embedded::new(&row, store));
        Ok(Self {
            current: RwLock::new(row.clone()),
            row,
            folder,
            store: Arc::clone(&embedded) as Arc<dyn Storage>,
            embedded,
            sequence_at_open,
            identity,
            wake: Notify::new(),
            changed: Notify::new(),
            write_slots: Arc::new(Semaphore::new(limits.write_queue_max)),
            replacement: Arc::default(),
            worker: Mutex::new(None),
            damage: FoundDamage::default(),
            tokens: CollectionTokens::default(),
            applied: Mutex::new(Applied::default()),
            mended: AtomicBool::new(false),
            save_changes: limits.index_save_changes,
            save_after: Mutex::new(None),
            reserved: ReservedPassages::default(),
            deleted: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
        })
    }

    /// The catalog's row as it is now.
    pub(crate) fn current(&self) -> Collection {
        self.current.read().clone()
    }

    /// The collection that has this one's place by now: itself, unless it was replaced.
    pub(crate) fn latest(self: &Arc<Self>) -> Arc<Self> {
        let replacement = self.replacement.try_read().ok().and_then(|replacement| replacement.clone());
        replacement.map_or_else(|| Arc::clone(self), |next| next.latest())
    }

    /// Takes over a changed row, once the catalog has it.
    pub(crate) fn set_current(&self, row: Collection) {
        *self.current.write() = row;
    }

    /// Runs blocking work. When the collection was deleted meanwhile, any failure means just that.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(self);
        let result = blocking(move || work(&shared).map_err(|error| shared.tell_damage(error))).await;
        if result.is_err() && self.is_deleted() {
            return Err(Error::CollectionNotFound { name: self.row.name.clone() });
        }
        result
    }

    /// The index, once it answers in full.
    pub(crate) fn index(&self) -> Result<&Index, Error> {
        self.store.ready()?;
        Ok(self.embedded.index()?.0)
    }

    /// Parameters of the index.
    pub(crate) fn index_parameters(&self) -> IndexParameters {
        IndexParameters::of(self.row.dimension, self.row.metric, self.row.quantization, self.row.hnsw)
    }

    /// Checks that embeddings of `model` may enter, and that a query embedded by it may be compared. A collection of vectors of
    /// the caller's own takes those and does not care.
    pub(crate) fn check_model(&self, model: &ModelInfo) -> Result<(), Error> {
        let Some(own) = self.row.model.as_ref().filter(|own| own.fingerprint != model.fingerprint) else { return Ok(()) };
        Err(Error::ModelMismatch {
            collection: self.row.name.clone(),
            expected: own.name.clone(),
            expected_fingerprint: short(&own.fingerprint),
            loaded: model.name.clone(),
            loaded_fingerprint: short(&model.fingerprint),
        })
    }

    /// Takes the store's changes into the index. Does nothing before recovery is over, which takes them in itself.
    pub(crate) fn apply_changes(&self) -> Result<(), Error> {
        let Ok(index) = self.index() else { return Ok(()) };
        let mut applied = self.applied.lock();
        while self.apply_some(index, &mut applied)? {}
        Ok(())
    }

    /// Takes some of the store's changes after `applied` into `index`, and moves `applied` along. Says whether there may be
    /// more.
    pub(crate) fn apply_some(&self, index: &Index, applied: &mut Applied) -> Result<bool, Error> {
        let changes = self.read_mending(|store| store.changes(applied.sequence, CHANGES_PER_READ))?;
        let taken = changes.len();
        if let Some(&(reached, _)) = changes.last() {
            take_in(index, changes)?;
            applied.sequence = reached;
            applied.unsaved += taken as u64;
            self.changed.notify_one();
        }
        Ok(taken == CHANGES_PER_READ)
    }

    /// Gives the collection its index: from now on it answers, though what changed after `applied` may be missing.
    pub(crate) fn install(&self, index: Index, applied: Applied) {
        *self.applied.lock() = applied;
        self.embedded.install(index);
    }

    /// Takes in what changed since the index was saved, and ends recovery: from now on it answers in full. Gives `false` when
    /// it was told to stop before that.
    pub(crate) fn catch_up(&self) -> Result<bool, Error> {
        let (index, _) = self.embedded.index()?;
        let mut applied = self.applied.lock();
        // A rebuild may have come before it: progress never goes back.
        let (done, total) = self.embedded.progress();
        let total = total + self.embedded.store.count_changes(applied.sequence)?;
        let unsaved_before = applied.unsaved;
        self.embedded.set_progress(done, total);
        while !self.should_stop() {
            let more = self.apply_some(index, &mut applied)?;
            self.embedded.set_progress(done + applied.unsaved - unsaved_before, total);
            if !more {
                // What one of the changes hid is found again before anybody asks for it.
                self.check_index(index)?;
                self.embedded.end_recovery();
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks for passages that searches do not find, and has them found: those that no link leads to, and some others. Blocks.
    pub(crate) fn check_index(&self, index: &Index) -> Result<(), Error> {
        if !index.needs_check() {
            return Ok(());
        }
        let settled = index.check(&|passage| self.original(passage), &|| self.should_stop())?;
        if settled > 0 {
            tracing::info!(collection = %self.row.name, settled, "made unreachable passages of the index reachable again");
        }
        if settled > 0 || !index.needs_check() {
            // The saved index says whether it was looked through.
            self.note_unsaved();
        }
        Ok(())
    }

    /// The embedding of a passage as the database has it.
    pub(crate) fn original(&self, passage: PassageId) -> Option<Embedding> {
        self.store.embeddings_of(&[passage]).ok()?.pop().map(|(_, embedding)| embedding)
    }

    /// Has the index saved with the next occasion though no change was taken in: it was mended.
    pub(crate) fn note_unsaved(&self) {
        self.mended.store(true, Ordering::Relaxed);
    }

    /// Saves the index when much has changed since it was last saved.
    pub(crate) fn save_if_due(&self) -> Result<(), Error> {
        let Ok((index, _)) = self.embedded.index() else { return Ok(()) };
        let due = self.save_changes.max(index.len() as u64 / SAVE_FRACTION);
        if self.applied.lock().unsaved < due || self.save_after.lock().is_some_and(|time| Instant::now() < time) {
            return Ok(());
        }
        let saved = self.save();
        *self.save_after.lock() = saved.is_err().then(|| Instant::now() + SAVE_RETRY_PAUSE);
        saved
    }

    /// Saves the index when anything has changed since it was last saved; then the store may purge the tombstones that the
    /// saved index has taken in.
    pub(crate) fn save(&self) -> Result<(), Error> {
        let Ok((index, _)) = self.embedded.index() else { return Ok(()) };
        let mut applied = self.applied.lock();
        if self.is_deleted() || (applied.unsaved == 0 && !self.mended.load(Ordering::Relaxed)) {
            return Ok(());
        }
        // Before: what is mended while it is saved may be missing there.
        self.mended.store(false, Ordering::Relaxed);
        // The database is the truth also after power loss: no saved index reaches further than what the disk has of it.
        self.embedded.store.sync()?;
        index::save(index, &self.folder, applied.sequence, &self.identity).inspect_err(|_| self.note_unsaved())?;
        applied.unsaved = 0;
        match self.embedded.store.purge_tombstones(applied.sequence) {
            // The server stops. Until the next save they take room, nothing else.
            Err(StoreError::Interrupted { .. }) => Ok(()),
            forgotten => Ok(forgotten?),
        }
    }

    /// Marks the collection as deleted, closes its database and removes its folder. Requests that still hold it fail, and
    /// the service says to them that there is no such collection.
    pub(crate) fn destroy(&self) -> Result<(), Error> {
        self.deleted.store(true, Ordering::Release);
        self.wake.notify_one();
        self.changed.notify_one();
        self.store.end_by(Instant::now() + LAST_STATEMENTS);
        // Nobody may be saving the index into the folder while it is removed.
        let _applied = self.applied.lock();
        if let Err(error) = self.store.close() {
            tracing::warn!(collection = %self.row.name, error = &error as &dyn std::error::Error, "cannot close a deleted collection");
        }
        orphaned::remove(&self.folder).map_err(|source| Error::Folder { path: self.folder.clone(), source })
    }

    /// Asks the worker and a running recovery to stop.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake.notify_one();
        self.changed.notify_one();
    }

    /// Whether the collection was deleted.
    pub(crate) fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Whether background work should end.
    pub(crate) fn should_stop(&self) -> bool {
        self.is_deleted() || self.stopping.load(Ordering::Acquire)
    }

    /// How many passages wait for their embedding, without those that the worker leaves alone until the next start. Blocks.
    pub(crate) fn waiting_count(&self) -> Result<u64, Error> {
        Ok(self.store.pending_count_besides(&self.reserved.refused())?)
    }
}

/// Takes one read of changes in. Keys are never used twice, so whatever was removed stays removed: tombstones come last.
fn take_in(index: &Index, changes: Vec<(Sequence, Change)>) -> Result<(), Error> {
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
