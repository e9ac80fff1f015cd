//! Monitors a replica and its primary: whether one follows the other, and how far behind it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio_postgres::error::SqlState;

use super::tracker::{LogEnd, ReplicaTracker};
use crate::domain::chain;
use crate::storage::postgres::connector::Manager;
use crate::storage::postgres::fault::Fault;
use crate::storage::postgres::session::{Parameter, Session};
use crate::store::StoreError;

/// Selects the primary's system, timeline, end of the log, and time.
const PRIMARY: &str = "
    select system_identifier || '-', left(pg_walfile_name(pg_current_wal_flush_lsn()), 8),
        (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint, (extract(epoch from clock_timestamp()) * 1000)::bigint
    from pg_control_system()";
/// Selects a replica's system, whether it is a replica, and how much of the log it has applied.
const REPLICA: &str = "
    select system_identifier || '-', pg_is_in_recovery(),
        coalesce((pg_last_wal_replay_lsn() - '0/0'::pg_lsn)::bigint, 0) from pg_control_system()";
/// Selects the number of the database, which is the same in a replica.
const DATABASE: &str = "select oid from pg_database where datname = current_database()";

/// Why a check found no usable replica.
enum Problem {
    /// The primary does not answer.
    Primary(Fault),
    /// The replica does not answer.
    Unreachable(Fault),
    /// It answers but is not a replica of the primary.
    Unsuitable(String),
}

/// Monitors in a thread until it is dropped.
pub(super) struct Watcher {
    stop: Arc<AtomicBool>,
    thread: std::thread::Thread,
}

impl Watcher {
    /// Checks once, and then continues in a thread.
    pub(super) fn start(primary: Manager, replica: Manager, tracker: &Arc<ReplicaTracker>) -> Result<Self, StoreError> {
        let stop = Arc::new(AtomicBool::new(false));
        let (primary, replica) = (MonitoredServer::new(primary), MonitoredServer::new(replica));
        let mut watch = Watch { primary, replica, system: String::new(), last_reported: None, tracker: Arc::clone(tracker) };
        match watch.check() {
            Err(Problem::Primary(fault)) => return Err(fault.into_store_error("looking at the primary of a replica")),
            Err(Problem::Unsuitable(problem)) => return Err(StoreError::UnsuitableReplica { problem }),
            checked => watch.report(checked),
        }
        let stopped = Arc::clone(&stop);
        let monitor = move || {
            while !stopped.load(Ordering::Acquire) {
                std::thread::park_timeout(watch.tracker.interval());
                let checked = watch.check();
                watch.report(checked);
            }
        };
        let spawned = std::thread::Builder::new().name("postgres-replica".to_owned()).spawn(monitor);
        let spawned = spawned.map_err(|source| StoreError::Thread { source: Arc::new(source) })?;
        Ok(Self { stop, thread: spawned.thread().clone() })
    }
}

impl Drop for Watcher {
    /// Does not wait for the thread, because it may be waiting for a machine that does not answer. It ends by itself.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

struct Watch {
    primary: MonitoredServer,
    replica: MonitoredServer,
    /// The prefix of the names of the primary's timelines.
    system: String,
    last_reported: Option<String>,
    tracker: Arc<ReplicaTracker>,
}

struct MonitoredServer {
    manager: Manager,
    session: Option<Session>,
}

impl MonitoredServer {
    fn new(manager: Manager) -> Self {
        Self { manager, session: None }
    }

    /// Returns the connection, and whether it is new.
    fn session(&mut self) -> Result<(&mut Session, bool), Fault> {
        match &mut self.session {
            Some(session) => Ok((session, false)),
            none => Ok((none.insert(self.manager.connect_to_watch()?), true)),
        }
    }
}

impl Watch {
    /// Records the result of a check, and logs what has changed.
    fn report(&mut self, checked: Result<(), Problem>) {
        let (problem, fault) = match checked {
            Ok(()) => (String::new(), None),
            Err(Problem::Primary(fault)) => ("the primary does not answer".to_owned(), Some(fault)),
            Err(Problem::Unreachable(fault)) => ("it does not answer".to_owned(), Some(fault)),
            Err(Problem::Unsuitable(problem)) => (problem, None),
        };
        if !problem.is_empty() {
            self.tracker.mark_unavailable();
        }
        if self.last_reported.as_ref() == Some(&problem) {
            return;
        }
        if problem.is_empty() {
            tracing::info!("the replica answers reads");
        } else {
            let cause = fault.map(|fault| chain(&fault.into_store_error("checking the replica")));
            tracing::warn!(problem, cause, "the replica answers no reads; the primary does");
        }
        self.last_reported = Some(problem);
    }

    fn check(&mut self) -> Result<(), Problem> {
        let checked = self.check_primary().map_err(Problem::Primary);
        if checked.is_err() {
            self.primary.session = None;
            return checked;
        }
        let checked = self.check_replica();
        if checked.is_err() {
            self.replica.session = None;
        }
        if matches!(checked, Err(Problem::Unreachable(Fault::Silent))) {
            // The reads that wait for it go to the primary.
            self.replica.manager.give_up_connections();
        }
        self.tracker.mark_healthy(checked?).map_err(|error| Problem::Unreachable(error.into()))
    }

    fn check_primary(&mut self) -> Result<(), Fault> {
        let read_at = Instant::now();
        let (session, is_new) = self.primary.session()?;
        let Some(row) = session.row(PRIMARY, &[])? else { return Ok(()) };
        if is_new {
            self.system = row.try_get(0)?;
            let timeline = format!("{}{}", self.system, row.try_get::<_, &str>(1)?);
            let mark = timeline_mark(session, &timeline)?;
            self.tracker.record_primary(self.system.clone(), mark);
        }
        self.tracker.record_log_end(LogEnd { read_at, bytes: row.try_get(2)?, now_ms: row.try_get(3)? });
        Ok(())
    }

    /// Returns how much of the log the replica has applied.
    fn check_replica(&mut self) -> Result<i64, Problem> {
        let connection_problem = |fault: Fault| match refusal(&fault) {
            Some(problem) => Problem::Unsuitable(problem),
            None => Problem::Unreachable(fault),
        };
        let (session, is_new) = self.replica.session().map_err(connection_problem)?;
        let row = session.row(REPLICA, &[]).map_err(Problem::Unreachable)?;
        let Some(row) = row else { return Err(Problem::Unsuitable("it does not report its state".to_owned())) };
        let read = || Ok::<(String, bool, i64), tokio_postgres::Error>((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
        let (system, is_replica, applied) = read().map_err(|error| Problem::Unreachable(error.into()))?;
        if system != self.system {
            return Err(Problem::Unsuitable("it does not belong to the database system of the primary".to_owned()));
        }
        if !is_replica {
            return Err(Problem::Unsuitable("it is not in recovery, so it is not a replica, or it was promoted".to_owned()));
        }
        if is_new {
            let (primary, _) = self.primary.session().map_err(Problem::Primary)?;
            let there = database_oid(primary).map_err(Problem::Primary)?;
            if database_oid(session).map_err(Problem::Unreachable)? != there {
                return Err(Problem::Unsuitable("its setting names a database other than the primary's".to_owned()));
            }
        }
        Ok(applied)
    }
}

fn database_oid(session: &mut Session) -> Result<u32, Fault> {
    Ok(session.value(DATABASE, &[])?.unwrap_or_default())
}

/// Returns the mark of a timeline, and creates one if it has none.
fn timeline_mark(session: &mut Session, timeline: &str) -> Result<String, Fault> {
    let timeline: [Parameter<'_>; 1] = [&timeline];
    let sql = "select mark::text from dragoman.timelines where timeline = $1";
    if let Some(mark) = session.value(sql, &timeline)? {
        return Ok(mark);
    }
    session.execute("insert into dragoman.timelines (timeline) values ($1) on conflict do nothing", &timeline)?;
    Ok(session.value(sql, &timeline)?.ok_or(StoreError::Closed)?)
}

/// Returns the message of a server that refuses the user or the database. Waiting does not help in that case.
fn refusal(fault: &Fault) -> Option<String> {
    let Fault::Server(error) = fault else { return None };
    let refused = error.code().is_some_and(|code| *code == SqlState::UNDEFINED_DATABASE || code.code().starts_with("28"));
    let said = error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
    refused.then(|| format!("it refuses the connection: {said}"))
}
