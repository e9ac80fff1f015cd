//! Limits the number of open databases, however many collections there are.
//!
//! An open database takes a thread, some files and some memory. So a database is opened when it is read or written, and stays
//! open until another one needs its slot. Then the least recently used idle database is closed. If all are in use, callers wait
//! for a slot. A caller that is using a database never waits for the slot of another one, so slots always become free.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use std::{fmt, mem};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::clock::{Clock, register_clock, system_clock};
use super::connection::open_existing_writer;
use super::deadline::Deadline;
use super::expiry::NextExpiry;
use super::migrate::COLLECTION;
use super::read_only::open_read_only;
use super::readers::Readers;
use super::write_transaction::WriteContext;
use super::writer::Writer;
use super::{StoreError, TermsOf};
use crate::domain::with_causes;

#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Whether an acknowledged write survives power loss (synchronous = full) or only a crash of the process.
    pub power_safe: bool,
    /// Maximum number of waiting writes. Further ones fail with `StoreError::WriteQueueFull`.
    pub write_queue_max: usize,
    pub readers_max: usize,
    /// Computes the terms of a passage for lexical search.
    pub terms_of: TermsOf,
    /// Where it gets a slot while it is open. `None` if it does not share its limit with other databases.
    pub slots: Option<Arc<OpenDatabases>>,
}

/// The slots for open databases. All databases with a common limit share it.
pub struct OpenDatabases {
    slots_max: usize,
    slots: Mutex<Vec<Arc<Database>>>,
    freed: Condvar,
    /// Number of callers that wait for a slot.
    waiting: AtomicUsize,
    /// Counts uses, to find the least recent one.
    uses: AtomicU64,
}

impl OpenDatabases {
    /// Allows this many databases to be open at once, at least one.
    pub fn with_limit(slots_max: usize) -> Self {
        Self {
            slots_max: slots_max.max(1),
            slots: Mutex::default(),
            freed: Condvar::new(),
            waiting: AtomicUsize::new(0),
            uses: AtomicU64::new(0),
        }
    }

    pub fn count(&self) -> usize {
        self.slots.lock().len()
    }

    /// Gives `database` a slot. If none is free, closes another database.
    fn acquire_slot(&self, database: &Arc<Database>) {
        let mut slots = self.slots.lock();
        while slots.len() >= self.slots_max {
            // Counted before looking, so that a caller that stops using a database after that wakes this one.
            self.waiting.fetch_add(1, Ordering::SeqCst);
            match begin_closing_least_used(&slots) {
                Some((idle, opened)) => {
                    drop(slots);
                    idle.finish_closing(&opened);
                    slots = self.slots.lock();
                    slots.retain(|other| !Arc::ptr_eq(other, &idle));
                }
                None => self.freed.wait(&mut slots),
            }
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
        slots.push(Arc::clone(database));
    }

    fn release_slot(&self, database: &Database) {
        self.slots.lock().retain(|other| !std::ptr::eq(Arc::as_ptr(other), database));
        self.wake_waiting();
    }

    /// Wakes the callers that wait for a slot, after one may have become free.
    fn wake_waiting(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // Once this lock is free, a caller that found no slot is waiting.
            let _places = self.slots.lock();
            self.freed.notify_all();
        }
    }
}

impl fmt::Debug for OpenDatabases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenDatabases").field("slots_max", &self.slots_max).finish_non_exhaustive()
    }
}

/// Returns the least recently used idle database, and blocks new uses of it.
fn begin_closing_least_used(slots: &[Arc<Database>]) -> Option<(Arc<Database>, Arc<OpenConnections>)> {
    let mut by_use: Vec<_> = slots.iter().map(|database| (database.last_use.load(Ordering::Relaxed), database)).collect();
    by_use.sort_unstable_by_key(|(last_use, _)| *last_use);
    by_use.into_iter().find_map(|(_, database)| Some((Arc::clone(database), database.begin_closing()?)))
}

/// One database, which is opened on use.
pub(super) struct Database {
    pub(super) path: PathBuf,
    pub(super) options: StoreOptions,
    /// Whether it is only read, and none of its files may change.
    read_only: bool,
    clock: Clock,
    pub(super) next_expiry: NextExpiry,
    deadline: Deadline,
    slots: Arc<OpenDatabases>,
    last_use: AtomicU64,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    phase: Phase,
    /// Number of its users while it is open.
    users: usize,
}

enum Phase {
    Closed,
    /// It is being opened or closed.
    Transitioning,
    Open(Arc<OpenConnections>),
    ClosedForGood,
}

pub(super) struct OpenConnections {
    pub(super) readers: Readers,
    /// `None` if the database is only read.
    writer: Option<Writer>,
}

impl OpenConnections {
    fn close(&self) -> Result<(), StoreError> {
        // Closes the readers first, because a running read blocks the checkpoint.
        self.readers.close();
        self.writer.as_ref().map_or(Ok(()), Writer::close)
    }

    pub(super) fn writer(&self) -> Result<&Writer, StoreError> {
        const OPERATION: &str = "writing a database that was opened to be read";
        let refused = || StoreError::StorageUnavailable {
            operation: OPERATION,
            source: Arc::new(std::io::Error::from(ErrorKind::ReadOnlyFilesystem)),
        };
        self.writer.as_ref().ok_or_else(refused)
    }
}

/// Keeps a database open until it is dropped.
pub(super) struct Lease<'d> {
    database: &'d Database,
    pub(super) opened: Arc<OpenConnections>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut state = self.database.state.lock();
        state.users -= 1;
        let idle = state.users == 0;
        drop(state);
        if idle {
            self.database.slots.wake_waiting();
        }
    }
}

impl Database {
    /// Makes a database that is not open yet.
    pub(super) fn new(path: PathBuf, options: &StoreOptions, clock: Clock) -> Self {
        let alone = || Arc::new(OpenDatabases::with_limit(1));
        Self {
            path,
            options: options.clone(),
            read_only: false,
            clock,
            next_expiry: NextExpiry::default(),
            deadline: Deadline::default(),
            slots: options.slots.clone().unwrap_or_else(alone),
            last_use: AtomicU64::new(0),
            state: Mutex::new(State { phase: Phase::Closed, users: 0 }),
            changed: Condvar::new(),
        }
    }

    /// The same for reading a database that no other process has open, without changing any of its files.
    pub(super) fn read_only(path: PathBuf, options: &StoreOptions) -> Self {
        Self { read_only: true, ..Self::new(path, options, system_clock) }
    }

    /// Returns the time by its clock.
    pub(super) fn now_ms(&self) -> i64 {
        (self.clock)()
    }

    /// Opens the database unless it is open, and keeps it open until the lease is dropped.
    pub(super) fn lease(self: &Arc<Self>) -> Result<Lease<'_>, StoreError> {
        self.lease_opened_by(|| match self.read_only {
            true => open_read_only(&self.path, &COLLECTION),
            false => open_existing_writer(&self.path, &COLLECTION, self.options.power_safe),
        })
    }

    /// Like `lease`, but opens it with `open` if necessary.
    pub(super) fn lease_opened_by(
        self: &Arc<Self>,
        open: impl FnOnce() -> Result<Connection, StoreError>,
    ) -> Result<Lease<'_>, StoreError> {
        let mut state = self.state.lock();
        loop {
            match &state.phase {
                Phase::ClosedForGood => return Err(StoreError::Closed),
                Phase::Closed => break,
                Phase::Transitioning => self.changed.wait(&mut state),
                Phase::Open(opened) => {
                    let opened = Arc::clone(opened);
                    return Ok(self.new_lease(&mut state, opened));
                }
            }
        }
        state.phase = Phase::Transitioning;
        drop(state);
        self.slots.acquire_slot(self);
        let opened = open().and_then(|connection| self.start(connection));
        let mut state = self.state.lock();
        self.changed.notify_all();
        match opened {
            Ok(opened) => {
                let opened = Arc::new(opened);
                state.phase = Phase::Open(Arc::clone(&opened));
                Ok(self.new_lease(&mut state, opened))
            }
            Err(error) => {
                state.phase = Phase::Closed;
                drop(state);
                self.slots.release_slot(self);
                Err(error)
            }
        }
    }

    /// Answers the waiting writes, checkpoints and closes for good. A second call does nothing.
    pub(super) fn close(&self) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        while matches!(state.phase, Phase::Transitioning) {
            self.changed.wait(&mut state);
        }
        let before = mem::replace(&mut state.phase, Phase::ClosedForGood);
        drop(state);
        let Phase::Open(opened) = before else { return Ok(()) };
        let closed = opened.close();
        self.slots.release_slot(self);
        closed
    }

    fn new_lease(&self, state: &mut State, opened: Arc<OpenConnections>) -> Lease<'_> {
        state.users += 1;
        self.last_use.store(self.slots.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Lease { database: self, opened }
    }

    /// After `time`, ends statements that run for more than a moment with `StoreError::Interrupted`.
    pub(super) fn interrupt_after(&self, time: Instant) {
        self.deadline.set(time);
    }

    fn start(&self, mut connection: Connection) -> Result<OpenConnections, StoreError> {
        let prepared = self.deadline.apply_to(&mut connection).and_then(|()| register_clock(&connection, self.clock));
        prepared.map_err(|fault| fault.into_store_error("opening a database"))?;
        if self.read_only {
            let readers = Readers::with_connection(connection, self.path.clone(), self.deadline.clone(), self.clock);
            return Ok(OpenConnections { readers, writer: None });
        }
        let (next_expiry, terms_of) = (self.next_expiry.clone(), self.options.terms_of.clone());
        let context = WriteContext { clock: self.clock, next_expiry, terms_of };
        let writer = Some(Writer::start(connection, self.options.write_queue_max, context)?);
        let readers = Readers::new(self.path.clone(), self.options.readers_max, self.deadline.clone(), self.clock);
        Ok(OpenConnections { readers, writer })
    }

    /// Takes the connections of an unused database, to close them. The caller must call `finish_closing` afterwards.
    fn begin_closing(&self) -> Option<Arc<OpenConnections>> {
        let mut state = self.state.lock();
        if state.users > 0 || !matches!(state.phase, Phase::Open(_)) {
            return None;
        }
        match mem::replace(&mut state.phase, Phase::Transitioning) {
            Phase::Open(opened) => Some(opened),
            _ => None,
        }
    }

    fn finish_closing(&self, opened: &OpenConnections) {
        if let Err(error) = opened.close() {
            // What the checkpoint could not move stays in the log, and is read from there when the database is opened next.
            let error = with_causes(&error);
            tracing::warn!(path = %self.path.display(), error, "cannot close an unused database");
        }
        self.state.lock().phase = Phase::Closed;
        self.changed.notify_all();
    }
}
