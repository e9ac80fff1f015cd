//! The membership of this server among the servers that use a database: a row with the server's number, and the advisory lock
//! of that number, which a separate connection holds.
//!
//! No clock decides who is alive: a server is dead if another one can take its lock. If the connection breaks, for example
//! because the database restarts, the server takes its lock again under the same number and continues. What others took over
//! meanwhile stays theirs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use uuid::Uuid;

use super::fault::Fault;
use super::membership::{Membership, SHARED_LOCK};
use super::server::{PostgresServer, run_blocking};
use super::session::Session;
use crate::store::StoreError;

const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long the database may take to notice that a previous server is gone.
const PATIENCE: Duration = Duration::from_secs(3);

/// Whether others may use the database at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    Shared,
    /// This process writes nothing.
    Exclusive,
}

/// The membership of this server. Dropping it ends the membership.
pub(super) struct Member {
    server: Arc<PostgresServer>,
    shared: Arc<Membership>,
    stopped: Arc<AtomicBool>,
    keeper: JoinHandle<()>,
}

impl Member {
    /// Joins the servers, or takes the database for this process alone. Fails with `StoreError::DatabaseInUse` while another
    /// server uses the database, unless both share it.
    pub(super) fn join(server: &Arc<PostgresServer>, sharing: Sharing) -> Result<Self, StoreError> {
        const OPERATION: &str = "joining the servers of a database";
        let started = Instant::now();
        // Clears the sign bit, because positive numbers are easier to read.
        let id = (Uuid::new_v4().as_u64_pair().0 >> 1) as i64;
        let session = loop {
            match try_lock(server, id, sharing).map_err(|fault| fault.into_store_error(OPERATION))? {
                Some(session) => break session,
                None if started.elapsed() > PATIENCE => return Err(StoreError::DatabaseInUse),
                None => std::thread::sleep(Duration::from_millis(100)),
            }
        };
        let shared = Arc::new(Membership { id, locks: Mutex::new(Some(session)), read_session: Mutex::default() });
        let stopped = Arc::new(AtomicBool::new(false));
        let (member, stop, server_reference) = (Arc::clone(&shared), Arc::clone(&stopped), Arc::downgrade(server));
        let hold_locks = move || {
            while !stop.load(Ordering::Acquire) {
                std::thread::park_timeout(CHECK_INTERVAL);
                let Some(server) = server_reference.upgrade() else { break };
                ensure_locked(&member, &server, sharing);
            }
            // Done on this thread, because closing connections blocks.
            drop((member.locks.lock().take(), member.read_session.lock().take()));
        };
        let keeper = std::thread::Builder::new().name("postgres-member".to_owned()).spawn(hold_locks);
        let keeper = keeper.map_err(|source| StoreError::Thread { source: Arc::new(source) })?;
        server.set_member(Some(Arc::clone(&shared)));
        Ok(Self { server: Arc::clone(server), shared, stopped, keeper })
    }

    /// Returns the number of this server.
    pub(super) fn id(&self) -> i64 {
        self.shared.id
    }

    /// Reads something small on a connection that nothing else uses. If it has broken since the last time, or no longer answers,
    /// reconnects and tries once more.
    pub(super) fn read_on_own_connection<T>(
        &self,
        operation: &'static str,
        read: impl Fn(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let read_with_retry = || {
            let mut read_session = self.shared.read_session.lock();
            if let Some(session) = read_session.as_mut()
                && let Ok(read) = read(session)
            {
                return Ok(read);
            }
            *read_session = None;
            if self.server.is_silent() {
                return Err(Fault::Silent);
            }
            let mut session = self.server.connect_to_watch()?;
            let done = read(&mut session)?;
            *read_session = Some(session);
            Ok(done)
        };
        run_blocking(read_with_retry).map_err(|fault: Fault| fault.into_store_error(operation))
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.server.set_member(None);
        self.stopped.store(true, Ordering::Release);
        // Does not wait for the thread, which the database server may never answer.
        self.keeper.thread().unpark();
    }
}

fn ensure_locked(shared: &Membership, server: &PostgresServer, sharing: Sharing) {
    let mut locks = shared.locks.lock();
    match locks.as_mut().map(Session::check) {
        Some(Ok(())) => return server.record_reachability(true),
        Some(Err(Fault::Silent)) => {
            tracing::warn!("the database server no longer answers; giving up all connections to it");
            server.give_up_connections();
        }
        Some(Err(_)) | None => (),
    }
    *locks = None;
    let found = try_lock(server, shared.id, sharing);
    let is_silent = matches!(found, Err(Fault::Silent));
    if is_silent {
        server.give_up_connections();
    }
    server.record_silence(is_silent);
    server.record_reachability(found.is_ok());
    // `None` means that the database has not yet noticed that the previous connection is gone.
    *locks = found.unwrap_or_default();
}

/// Opens a connection that holds the locks, and adds the server's row if others may join. Returns `None` while another
/// connection holds a lock.
fn try_lock(server: &PostgresServer, id: i64, sharing: Sharing) -> Result<Option<Session>, Fault> {
    let mut session = server.connect_to_watch()?;
    let common = match sharing {
        Sharing::Shared => "pg_try_advisory_lock_shared",
        Sharing::Exclusive => "pg_try_advisory_lock",
    };
    for lock in [format!("{common}({SHARED_LOCK})"), format!("pg_try_advisory_lock({id})")] {
        if !session.value::<bool>(&format!("select {lock}"), &[])?.unwrap_or_default() {
            return Ok(None);
        }
    }
    if sharing == Sharing::Shared {
        session.execute("insert into dragoman.servers (id) values ($1) on conflict do nothing", &[&id])?;
    }
    Ok(Some(session))
}

/// Deletes the rows of dead servers in the caller's transaction. Returns the numbers of the others, and whether there were dead
/// ones. Until the transaction ends, none of these can come back.
pub(super) fn remove_dead_servers(session: &mut Session, me: i64) -> Result<(Vec<i64>, bool), Fault> {
    let (mut dead, mut others) = (Vec::new(), Vec::new());
    for id in session.column::<i64>("select id from dragoman.servers where id <> $1 order by id", &[&me])? {
        let is_dead = session.value("select pg_try_advisory_xact_lock($1)", &[&id])?.unwrap_or_default();
        if is_dead { dead.push(id) } else { others.push(id) }
    }
    if !dead.is_empty() {
        session.execute("delete from dragoman.servers where id = any($1)", &[&dead])?;
        tracing::info!(servers = dead.len(), "other servers have ended");
    }
    Ok((others, !dead.is_empty()))
}
