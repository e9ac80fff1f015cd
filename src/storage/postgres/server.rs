//! A database server: the check of its capabilities, its tables, and a bounded pool of connections to it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::RwLock;
use r2d2::{ManageConnection as _, NopErrorHandler, Pool, PooledConnection};
use tokio_postgres::CancelToken;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{Kind, Type};

use super::connector::Manager;
use super::fault::Fault;
use super::membership::{Membership, SHARED_LOCK};
use super::replica::{Replica, ReplicaOptions, ReplicaState};
use super::session::{Session, VectorTypes};
use super::tls::Tls;
use crate::domain::with_causes;
use crate::store::{StoreError, system_clock};

/// The oldest supported version, as the server reports it: PostgreSQL 16.
const SERVER_MIN: i32 = 160_000;
/// The oldest supported version of pgvector. Its index can continue to search when a filter leaves too few.
const PGVECTOR_MIN: (u32, u32) = (0, 8);
/// An arbitrary number that no other program locks.
const MIGRATION_LOCK: i64 = 0x6472_6167_6f6d_616e;
/// How long a caller waits for a free connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// From this time without a response on, the server counts as unreachable, even if the connection still exists.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// How long the database may take to notice that a server with exclusive use of it is gone.
const PATIENCE_S: u64 = 3;

/// The migrations in order. Released ones never change.
const MIGRATIONS: &[&str] = &[
    include_str!("../../../migrations/postgres/0001_collections.sql"),
    include_str!("../../../migrations/postgres/0002_catalog.sql"),
    include_str!("../../../migrations/postgres/0003_servers.sql"),
    include_str!("../../../migrations/postgres/0004_timelines.sql"),
    include_str!("../../../migrations/postgres/0005_replacements.sql"),
];

#[derive(Debug, Clone)]
pub struct PostgresOptions {
    /// A URL, `postgres://user:password@host/database`, or key-value pairs as in libpq.
    pub url: String,
    /// A PEM file with the authorities that may have issued the server's certificate, instead of those that browsers trust.
    pub authorities: Option<PathBuf>,
    pub connections_max: u32,
}

/// A database server with the tables of Dragoman.
pub struct PostgresServer {
    /// The pool. `None` only while this is being dropped.
    pool: Option<Pool<Manager>>,
    /// Makes connections outside of the pool.
    manager: Manager,
    /// The membership of this server, once it has opened the catalog.
    member: RwLock<Option<Arc<Membership>>>,
    /// When it last answered. `None` if it failed to answer since.
    answered: RwLock<Option<Instant>>,
    /// Whether it accepts connections without ever answering, as its member last found.
    silent: AtomicBool,
    /// What its clock showed when it was last read.
    clock: RwLock<ClockReading>,
    /// The replica that answers reads, if there is one.
    replica: Option<Replica>,
}

/// What the database server's clock showed at some time. From then on, this machine's monotonic clock counts, which does not
/// jump when someone sets the time.
#[derive(Debug, Clone, Copy)]
struct ClockReading {
    read_at: Instant,
    time_ms: i64,
}

impl ClockReading {
    fn time_ms_at(self, now: Instant) -> i64 {
        let since_ms = now.saturating_duration_since(self.read_at).as_millis();
        self.time_ms.saturating_add(i64::try_from(since_ms).unwrap_or(i64::MAX))
    }
}

impl PostgresServer {
    /// Connects, checks the server's capabilities, and creates missing tables.
    pub fn connect(options: &PostgresOptions) -> Result<Arc<Self>, StoreError> {
        Self::connect_as(options, None, false)
    }

    /// Like `connect`, but with a replica that answers reads. An unreachable replica is tried again later. A replica of another
    /// database is an error.
    pub fn connect_with(options: &PostgresOptions, replica: Option<&ReplicaOptions>) -> Result<Arc<Self>, StoreError> {
        Self::connect_as(options, replica, false)
    }

    /// Like `connect`, but with read-only connections. Fails with `StoreError::NotUpToDate` if tables are missing.
    pub fn connect_to_read(options: &PostgresOptions) -> Result<Arc<Self>, StoreError> {
        Self::connect_as(options, None, true)
    }

    fn connect_as(options: &PostgresOptions, replica: Option<&ReplicaOptions>, read_only: bool) -> Result<Arc<Self>, StoreError> {
        const OPERATION: &str = "connecting";
        let tls = Tls::trusting(options.authorities.as_deref()).map_err(|source| StoreError::File {
            path: options.authorities.clone().unwrap_or_default(),
            source: Arc::new(source),
        })?;
        let any = Manager::new(&options.url, &tls)?;
        let mut manager = if read_only { any.clone().read_only() } else { any.clone().primary_only() };
        let connected = manager.connect_to_watch().or_else(|fault| match any.connect_to_watch() {
            // It is there, so it says itself why it is unsuitable.
            Ok(mut session) => check_server(&mut session).and(Err(fault)),
            Err(_) => Err(fault),
        });
        let mut session = connected.map_err(|fault| fault.into_store_error(OPERATION))?;
        manager = manager.with_types(prepare(&mut session, read_only)?);
        drop(session);
        let pool = Pool::builder()
            .max_size(options.connections_max.max(1))
            .min_idle(Some(0))
            .connection_timeout(CONNECTION_TIMEOUT)
            // The task that waits for the connection reports the error.
            .error_handler(Box::new(NopErrorHandler))
            .build(manager.clone())
            .map_err(|error| Fault::from(error).into_store_error(OPERATION))?;
        let replica = replica.map(|replica| Replica::start(replica, &manager, options.connections_max)).transpose()?;
        Ok(Arc::new(Self {
            pool: Some(pool),
            manager,
            member: RwLock::default(),
            answered: RwLock::new(Some(Instant::now())),
            silent: AtomicBool::new(false),
            clock: RwLock::new(ClockReading { read_at: Instant::now(), time_ms: system_clock() }),
            replica,
        }))
    }

    /// Returns the state of its replica, if it has one.
    pub fn replica_state(&self) -> Option<ReplicaState> {
        self.replica.as_ref().map(Replica::state)
    }

    /// Returns the replica that answers reads.
    pub(super) fn replica(&self) -> Option<&Replica> {
        self.replica.as_ref()
    }

    /// Waits for a free connection and returns it.
    pub(super) fn session(&self) -> Result<PooledConnection<Manager>, Fault> {
        match &self.pool {
            Some(pool) => Ok(pool.get()?),
            None => Err(StoreError::Closed.into()),
        }
    }

    /// Opens a connection outside of the pool.
    pub(super) fn connect_alone(&self) -> Result<Session, Fault> {
        self.manager.connect()
    }

    /// Opens a connection for trivial questions, which the server must always answer soon.
    pub(super) fn connect_to_watch(&self) -> Result<Session, Fault> {
        self.manager.connect_to_watch()
    }

    /// Ends all statements that wait for the server, because it no longer answers. They fail with
    /// `StoreError::ServerUnreachable`, and later ones use new connections.
    pub(super) fn give_up_connections(&self) {
        self.manager.give_up_connections();
    }

    /// Whether it answered when it was last asked. A server that does not say anything for `SILENCE_MAX` is not reachable either.
    pub fn is_reachable(&self) -> bool {
        self.answered.read().is_some_and(|read_at| read_at.elapsed() < SILENCE_MAX)
    }

    /// Records whether it answers. Its member asks it every second.
    pub(super) fn record_reachability(&self, answers: bool) {
        *self.answered.write() = answers.then(Instant::now);
    }

    /// Whether it accepted the last connection without ever answering. Another one would fail in the same way, but only after
    /// several seconds.
    pub(super) fn is_silent(&self) -> bool {
        self.silent.load(Ordering::Relaxed)
    }

    /// Records whether it accepts connections without ever answering.
    pub(super) fn record_silence(&self, is_silent: bool) {
        self.silent.store(is_silent, Ordering::Relaxed);
    }

    /// Records the time that its clock has just shown, in milliseconds since the Unix epoch.
    pub(super) fn record_clock(&self, time_ms: i64) {
        *self.clock.write() = ClockReading { read_at: Instant::now(), time_ms };
    }

    /// Returns the time by its clock, in milliseconds since the Unix epoch, without asking it.
    pub(super) fn now_ms(&self) -> i64 {
        self.clock.read().time_ms_at(Instant::now())
    }

    pub(super) fn member(&self) -> Option<Arc<Membership>> {
        self.member.read().clone()
    }

    /// Returns the number of this server among those that use the database.
    pub(super) fn member_id(&self) -> Option<i64> {
        self.member.read().as_ref().map(|member| member.id)
    }

    pub(super) fn set_member(&self, member: Option<Arc<Membership>>) {
        *self.member.write() = member;
    }

    /// Ends the running statements of connections, or all that wait for the server if it does not answer.
    pub(super) fn cancel<'t>(&self, tokens: impl IntoIterator<Item = &'t CancelToken>) {
        for token in tokens {
            match self.manager.cancel(token) {
                Ok(()) => (),
                Err(Fault::Silent) => return self.give_up_connections(),
                // It is tried again soon.
                Err(fault) => tracing::debug!(error = with_causes(&fault), "cannot end a statement"),
            }
        }
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        close_elsewhere(self.pool.take());
    }
}

/// Closes connections on a separate thread, because closing blocks, which is not allowed on an asynchronous thread.
pub(super) fn close_elsewhere(connections: impl Send + 'static) {
    let closing = std::thread::Builder::new().name("postgres-close".to_owned()).spawn(move || drop(connections));
    let _ = closing.map(std::thread::JoinHandle::join);
}

/// Runs work that waits for a database server. If this is an asynchronous thread, its other tasks continue on another thread
/// meanwhile.
pub(super) fn run_blocking<T>(work: impl FnOnce() -> T) -> T {
    use tokio::runtime::{Handle, RuntimeFlavor};
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

fn unsuitable(problem: &str) -> StoreError {
    StoreError::UnsuitableServer { problem: problem.to_owned() }
}

/// Checks a server and brings its tables up to date, or for reading only checks that they are. Returns the types of pgvector.
fn prepare(session: &mut Session, read_only: bool) -> Result<VectorTypes, StoreError> {
    const OPERATION: &str = "checking a database server";
    check_server(session).map_err(|fault| fault.into_store_error(OPERATION))?;
    check_pgvector(session).map_err(|fault| fault.into_store_error(OPERATION))?;
    // From here on, statements may take long.
    session.set_limit(None);
    let migrate = if read_only { check_migrated } else { migrate };
    migrate(session).map_err(|fault| fault.into_store_error("creating tables"))?;
    vector_types(session).map_err(|fault| fault.into_store_error(OPERATION))
}

fn check_server(session: &mut Session) -> Result<(), Fault> {
    let sql = "select current_setting('server_version_num')::integer, current_setting('server_version'),
               current_setting('server_encoding'), pg_is_in_recovery()";
    let Some(row) = session.row(sql, &[])? else { return Err(unsuitable("it does not report its version").into()) };
    let (number, version, encoding): (i32, String, String) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if number < SERVER_MIN {
        let problem = format!("it must have version {} or newer, got {version}", SERVER_MIN / 10_000);
        return Err(unsuitable(&problem).into());
    }
    if encoding != "UTF8" {
        return Err(unsuitable(&format!("its database must have the encoding UTF8, got {encoding}")).into());
    }
    match row.try_get(3)? {
        true => Err(unsuitable("it is a replica, which takes no writes").into()),
        false => Ok(()),
    }
}

fn check_pgvector(session: &mut Session) -> Result<(), Fault> {
    let version = "select extversion from pg_extension where extname = 'vector'";
    if session.row(version, &[])?.is_none() {
        session.execute_batch("create extension vector").map_err(|fault| match fault {
            Fault::Server(error) if error.code().is_some() => {
                let cause = error.as_db_error().map_or_else(|| error.to_string(), |error| error.message().to_owned());
                let remedy = match error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
                    true => "; let a superuser of the database run: create extension vector",
                    false => "",
                };
                unsuitable(&format!("the extension pgvector is missing and cannot be created: {cause}{remedy}")).into()
            }
            other => other,
        })?;
    }
    let found: Option<String> = session.value(version, &[])?;
    let found = found.ok_or_else(|| unsuitable("the extension pgvector is missing"))?;
    let mut numbers = found.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    if (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default()) < PGVECTOR_MIN {
        let (major, minor) = PGVECTOR_MIN;
        return Err(unsuitable(&format!("pgvector must have version {major}.{minor} or newer, got {found}")).into());
    }
    // Reading a vector loads the library, which declares the setting.
    let sql = "select '[1]'::vector is not null, to_regtype('halfvec') is not null,
               (select current_setting('hnsw.iterative_scan', true) is not null)";
    session.row("select '[1]'::vector is not null", &[])?;
    let Some(row) = session.row(sql, &[])? else { return Ok(()) };
    for (column, missing) in [(1, "the type halfvec"), (2, "the setting hnsw.iterative_scan")] {
        if !row.try_get::<_, bool>(column)? {
            return Err(unsuitable(&format!("its pgvector lacks {missing}")).into());
        }
    }
    Ok(())
}

fn vector_types(session: &mut Session) -> Result<VectorTypes, Fault> {
    let sql = "select t.oid, t.typarray, n.nspname from pg_type t join pg_namespace n on n.oid = t.typnamespace
               where t.oid = 'vector'::regtype";
    let Some(row) = session.row(sql, &[])? else { return Err(unsuitable("its pgvector lacks the type vector").into()) };
    let schema: String = row.try_get(2)?;
    let single = Type::new("vector".to_owned(), row.try_get(0)?, Kind::Simple, schema.clone());
    let many = Type::new("_vector".to_owned(), row.try_get(1)?, Kind::Array(single.clone()), schema);
    Ok(VectorTypes { single, many })
}

/// Returns how many migrations the database has, which may be none.
fn migration_count_or_zero(session: &mut Session) -> Result<usize, Fault> {
    let sql = "select count(*) from pg_tables where schemaname = 'dragoman' and tablename = 'migrations'";
    if session.query_number(sql, &[])? == 1 { migration_count(session) } else { Ok(0) }
}

fn check_migrated(session: &mut Session) -> Result<(), Fault> {
    match migration_count_or_zero(session)? {
        found if found == MIGRATIONS.len() => Ok(()),
        found => Err(StoreError::NotUpToDate { problem: format!("it has version {found} of {}", MIGRATIONS.len()) }.into()),
    }
}

/// Applies missing migrations, one server at a time. If none is missing, needs no privilege to create anything.
fn migrate(session: &mut Session) -> Result<(), Fault> {
    if migration_count_or_zero(session)? == MIGRATIONS.len() {
        return Ok(());
    }
    session.in_transaction("begin", |session| {
        session.execute_batch(&format!("select pg_advisory_xact_lock({MIGRATION_LOCK})"))?;
        let beside_others = format!(
            "set local lock_timeout = '{PATIENCE_S}s'; select pg_advisory_xact_lock_shared({SHARED_LOCK}); set local lock_timeout = 0"
        );
        session.execute_batch(&beside_others).map_err(|fault| match fault {
            Fault::Server(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => StoreError::DatabaseInUse.into(),
            other => other,
        })?;
        session.execute_batch(
            "create schema if not exists dragoman;
             create table if not exists dragoman.migrations (version bigint primary key)",
        )?;
        let done = migration_count(session)?;
        for (version, migration) in (1..).zip(MIGRATIONS).skip(done) {
            session.execute_batch(migration)?;
            session.execute_batch(&format!("insert into dragoman.migrations values ({version})"))?;
        }
        Ok(())
    })
}

/// Returns how many migrations the database has. Fails if it has some that this version does not know.
fn migration_count(session: &mut Session) -> Result<usize, Fault> {
    let applied = session.query_number("select coalesce(max(version), 0) from dragoman.migrations", &[])?;
    let (found, known) = (i64::try_from(applied).unwrap_or(i64::MAX), MIGRATIONS.len() as i64);
    if found > known { Err(StoreError::NewerDatabase { found, known }.into()) } else { Ok(applied as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_database_goes_on_from_its_last_reading() {
        let reading = ClockReading { read_at: Instant::now(), time_ms: -5_000 };
        for (after_s, expect) in [(0, -5_000), (7, 2_000)] {
            assert_eq!(reading.time_ms_at(reading.read_at + Duration::from_secs(after_s)), expect, "after {after_s} s");
        }
        assert_eq!(ClockReading { time_ms: i64::MAX, ..reading }.time_ms_at(reading.read_at + Duration::from_secs(1)), i64::MAX);
    }
}
