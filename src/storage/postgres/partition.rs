//! The rows of one collection on a database server. Creates and drops them, and runs reads and writes.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use r2d2::PooledConnection;
use tokio_postgres::CancelToken;

use super::connector::Manager;
use super::fault::Fault;
use super::filter::{Condition, compile};
use super::names::{PARTITIONED, PartitionNames, time_literal};
use super::server::{PostgresServer, run_blocking};
use super::session::{SNAPSHOT, Session};
use super::writing::{BEGUN_MS, NOW_MS, Writing};
use crate::domain::{
    Collection, CollectionCounts, CollectionId, CollectionName, HnswSettings, JobId, MetadataPath, Metric, Quantization,
    Sequence, with_causes,
};
use crate::store::{Clock, NextExpiry, SearchFilter, StoreError, TermsOf};

/// pgvector's limits for an index.
const HALFVEC_DIMENSION_MAX: usize = 4_000;
const VECTOR_DIMENSION_MAX: usize = 2_000;
const M_MAX: usize = 100;
const EF_CONSTRUCTION_MAX: usize = 1_000;
/// The largest value of a two-byte float.
const HALF_MAX: f32 = 65_504.0;
/// How often statements that run too long are ended.
const CANCEL_EVERY: Duration = Duration::from_millis(100);
/// How long dropping a collection waits for statements that still read it.
const DROP_PATIENCE_S: u32 = 15;

/// How the index stores embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Indexed {
    /// Rounded to two bytes per value.
    Half,
    /// Unchanged.
    Full,
    /// Not at all, because they have more values than pgvector's index allows.
    Not,
}

/// The documents of one collection on a database server.
pub struct Postgres {
    pub(super) server: Arc<PostgresServer>,
    id: CollectionId,
    pub(super) key: i64,
    pub(super) names: PartitionNames,
    pub(super) dimension: usize,
    pub(super) metric: Metric,
    pub(super) indexed: Indexed,
    pub(super) terms_of: TermsOf,
    /// The declared metadata indexes, as this server last saw them. They make filters faster but do not change their results.
    pub(super) indexes: RwLock<Vec<MetadataPath>>,
    pub(super) cached_counts: Mutex<Option<CachedCounts>>,
    /// The last checkpoint that this server stored for each job that it runs.
    pub(super) checkpoints: Mutex<HashMap<JobId, String>>,
    /// Replaces the database server's clock in tests.
    clock: Option<Clock>,
    /// When the next document expires among those that existed at the start and those that this server has written since. This
    /// server removes those. Other servers remove the ones that they wrote.
    pub(super) next_expiry: NextExpiry,
    /// Held during a write. Other writes of this server wait here, without using a connection.
    writing: Mutex<()>,
    /// Whether this server embeds passages that dead servers left.
    pub(super) adopting: AtomicBool,
    writes_waiting: AtomicUsize,
    writes_max: usize,
    running: Arc<Running>,
}

#[derive(Clone)]
pub(super) struct CachedCounts {
    /// The last change when the documents were counted.
    pub(super) sequence: Sequence,
    /// The counts are valid until this time, when the next document expires.
    pub(super) until_ms: Option<i64>,
    pub(super) counts: CollectionCounts,
}

/// The statements that are running.
#[derive(Default)]
struct Running {
    tokens: Mutex<HashMap<u64, CancelToken>>,
    next: AtomicU64,
    is_closed: AtomicBool,
}

impl Postgres {
    /// Opens a collection, or creates it if the database does not have it. At most `writes_max` writes of callers may wait.
    pub fn open(
        server: &Arc<PostgresServer>,
        row: &Collection,
        terms_of: TermsOf,
        writes_max: usize,
    ) -> Result<Self, StoreError> {
        Self::open_as(server, row, terms_of, writes_max, true)
    }

    /// Uses another clock than the database server's.
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Like `open`, but never creates the collection. Fails with `StoreError::Closed` if it was dropped.
    pub fn open_existing(
        server: &Arc<PostgresServer>,
        row: &Collection,
        terms_of: TermsOf,
        writes_max: usize,
    ) -> Result<Self, StoreError> {
        Self::open_as(server, row, terms_of, writes_max, false)
    }

    fn open_as(
        server: &Arc<PostgresServer>,
        row: &Collection,
        terms_of: TermsOf,
        writes_max: usize,
        creates: bool,
    ) -> Result<Self, StoreError> {
        let indexed = index_type_for(row.metric, row.quantization, row.dimension);
        let opened = server.session().and_then(|mut session| {
            let key = match creates {
                true => {
                    session.in_transaction("begin", |session| find_or_create_key(session, row, indexed, server.member_id()))?
                }
                false => existing_key_of(&mut session, &row.id)?,
            };
            let paths = metadata_indexes(&mut session, key)?;
            let first_expiry_ms = first_expiry(&mut session, &PartitionNames::for_collection(key).documents)?;
            Ok((key, paths, first_expiry_ms))
        });
        let (key, indexes, first_expiry_ms) = opened.map_err(|fault| fault.into_store_error("opening a collection"))?;
        let next_expiry = NextExpiry::default();
        next_expiry.record(first_expiry_ms.unwrap_or(i64::MAX));
        Ok(Self {
            server: Arc::clone(server),
            id: row.id.clone(),
            key,
            names: PartitionNames::for_collection(key),
            dimension: row.dimension,
            metric: row.metric,
            indexed,
            terms_of,
            indexes: RwLock::new(indexes),
            cached_counts: Mutex::default(),
            checkpoints: Mutex::default(),
            clock: None,
            next_expiry,
            writing: Mutex::new(()),
            adopting: AtomicBool::new(false),
            writes_waiting: AtomicUsize::new(0),
            writes_max: writes_max.max(1),
            running: Arc::default(),
        })
    }

    /// Drops all rows of the collection, unless the catalog names it, because then its creation was committed and only the
    /// answer was lost. Every later call fails.
    pub fn remove(&self) -> Result<(), StoreError> {
        self.close()?;
        Self::remove_unlisted(&self.server, &self.id)
    }

    /// Drops all rows of a collection that is not open, unless the catalog names it.
    pub fn remove_unlisted(server: &PostgresServer, id: &CollectionId) -> Result<(), StoreError> {
        let sql = "select count(*) from dragoman.catalog where id = $1";
        let drop_all = || {
            server.session()?.in_transaction("begin", |session| match session.query_number(sql, &[&id.0])? {
                0 => drop_collection(session, id),
                _ => Ok(()),
            })
        };
        run_blocking(drop_all).map_err(|fault| fault.into_store_error("dropping a collection"))
    }

    /// Makes this server look for expired documents, because a server that wrote some is gone.
    pub fn expect_expired(&self) {
        self.next_expiry.record(i64::MIN);
    }

    /// Updates the collection's metadata indexes, which another server may have changed.
    pub fn refresh_metadata_indexes(&self, paths: Vec<MetadataPath>) {
        if *self.indexes.read() != paths {
            *self.indexes.write() = paths;
        }
    }

    pub(super) fn compile(&self, filter: &SearchFilter) -> Condition {
        compile(filter, &self.indexes.read())
    }

    /// Returns an expression of the current time, in milliseconds since the Unix epoch, for statements that read.
    pub(super) fn now(&self) -> String {
        self.clock.map_or_else(|| BEGUN_MS.to_owned(), |clock| time_literal(clock()))
    }

    /// Returns the time by the database server's clock, without asking it.
    pub(super) fn now_ms(&self) -> i64 {
        self.clock.map_or_else(|| self.server.now_ms(), |clock| clock())
    }

    /// Returns a table expression of the documents that have not expired. All reads use it.
    pub(super) fn live(&self) -> String {
        self.names.live(&self.now())
    }

    /// Runs work on a session, unless the collection is closed. Reads of one statement need nothing more; `snapshot` and writes
    /// put a transaction around several.
    pub(super) fn run<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        if self.running.is_closed.load(Ordering::SeqCst) {
            return Err(StoreError::Closed);
        }
        let work = |mut session: PooledConnection<Manager>| self.interruptible(&mut session, work);
        run_blocking(|| self.server.session().and_then(work)).map_err(|fault| fault.into_store_error(operation))
    }

    /// Runs a read of several statements, which all see the same state.
    pub(super) fn snapshot<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.run(operation, |session| session.in_transaction(SNAPSHOT, work))
    }

    /// Runs a caller's write in a transaction. Fails immediately if too many writes are waiting.
    pub(super) fn write<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let waiting = Waiting(&self.writes_waiting);
        if self.writes_waiting.fetch_add(1, Ordering::SeqCst) >= self.writes_max {
            return Err(StoreError::WriteQueueFull { limit: self.writes_max });
        }
        let written = self.write_patiently(operation, work);
        drop(waiting);
        written
    }

    /// Runs a write of the server itself in a transaction, when it is its turn.
    pub(super) fn write_patiently<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut Writing<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let _turn = self.writing.lock();
        let (key, names, terms_of) = (self.key, &self.names, self.terms_of.clone());
        let now = self.clock.map_or_else(|| NOW_MS.to_owned(), |clock| time_literal(clock()));
        let writer = self.server.member_id();
        let mut first_expiry_ms = i64::MAX;
        let written = self.run(operation, |session| {
            session.in_transaction("begin", |session| {
                let mut writing = Writing::begin(session, names, key, terms_of, &now)?;
                writing.writer = writer;
                let done = work(&mut writing)?;
                first_expiry_ms = writing.first_expiry_ms;
                writing.finish()?;
                Ok(done)
            })
        });
        // Recorded after the commit, even if its response did not arrive: a search for expired documents that runs before this
        // sees the new documents itself.
        self.next_expiry.record(first_expiry_ms);
        written
    }

    /// Runs statements so that `interrupt_after` can end them.
    pub(super) fn interruptible<T>(
        &self,
        session: &mut Session,
        work: impl FnOnce(&mut Session) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let number = self.running.next.fetch_add(1, Ordering::Relaxed);
        self.running.tokens.lock().insert(number, session.cancel_token()?);
        let worked = work(session);
        // Removed before the connection is used for something else, so that the wrong statement is never canceled.
        self.running.tokens.lock().remove(&number);
        worked
    }

    pub(crate) fn interrupt_after(&self, time: Instant) {
        let (running, server) = (Arc::downgrade(&self.running), Arc::clone(&self.server));
        let end = move || {
            std::thread::sleep(time.saturating_duration_since(Instant::now()));
            while let Some(running) = running.upgrade().filter(|running| !running.is_closed.load(Ordering::SeqCst)) {
                std::thread::sleep(CANCEL_EVERY);
                // The lock keeps statements from being unregistered in the meantime, so that no later statement of the same
                // connection is ended instead.
                server.cancel(running.tokens.lock().values());
            }
        };
        if let Err(error) = std::thread::Builder::new().name("postgres-deadline".to_owned()).spawn(end) {
            tracing::error!(error = with_causes(&error), "cannot end statements in time");
        }
    }

    pub(crate) fn close(&self) -> Result<(), StoreError> {
        self.running.is_closed.store(true, Ordering::SeqCst);
        // Waits for a running write to finish.
        drop(self.writing.lock());
        Ok(())
    }
}

/// Counts a waiting write of a caller until it is dropped.
struct Waiting<'w>(&'w AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn index_type_for(metric: Metric, quantization: Quantization, dimension: usize) -> Indexed {
    let fits_half = metric == Metric::Cosine || quantization.value_max() <= HALF_MAX;
    match (fits_half, dimension) {
        (true, ..=HALFVEC_DIMENSION_MAX) => Indexed::Half,
        (false, ..=VECTOR_DIMENSION_MAX) => Indexed::Full,
        _ => Indexed::Not,
    }
}

/// Returns the key of a collection, and creates its partitions if it is new.
fn find_or_create_key(session: &mut Session, row: &Collection, indexed: Indexed, creator: Option<i64>) -> Result<i64, Fault> {
    // Looks first, because a read-only connection would refuse the insertion.
    if let Some(found) = find_key(session, &row.id)? {
        return Ok(found);
    }
    let sql = "insert into dragoman.collections (id, maker) values ($1, $2) on conflict (id) do nothing returning key";
    let Some(inserted) = session.row(sql, &[&row.id.0, &creator])? else { return existing_key_of(session, &row.id) };
    let key = inserted.try_get(0)?;
    create(session, key, row, indexed)?;
    Ok(key)
}

fn existing_key_of(session: &mut Session, id: &CollectionId) -> Result<i64, Fault> {
    Ok(find_key(session, id)?.ok_or(StoreError::Closed)?)
}

fn find_key(session: &mut Session, id: &CollectionId) -> Result<Option<i64>, Fault> {
    session.value("select key from dragoman.collections where id = $1", &[&id.0])
}

/// Locks the row of a collection of the catalog until the end of the caller's transaction. Waits only for some time, also for
/// later locks of the transaction.
pub(super) fn lock_row(session: &mut Session, name: &CollectionName) -> Result<(), Fault> {
    limit_waiting(session)?;
    let sql = "select 1 from dragoman.collections where id = (select id from dragoman.catalog where name = $1) for update";
    session.row(sql, &[&name.as_str()]).map(drop)
}

fn limit_waiting(session: &mut Session) -> Result<(), Fault> {
    session.execute_batch(&format!("set local lock_timeout = '{DROP_PATIENCE_S}s'"))
}

/// Drops all rows of a collection, in the caller's transaction.
pub(super) fn drop_collection(session: &mut Session, id: &CollectionId) -> Result<(), Fault> {
    // A write locks the row before it uses the tables, so locking the row first waits for writes. The timeout limits how long
    // this waits for reads.
    limit_waiting(session)?;
    let sql = "select key from dragoman.collections where id = $1 for update";
    let Some(key) = session.value::<i64>(sql, &[&id.0])? else { return Ok(()) };
    for table in PARTITIONED {
        session.execute_batch(&format!("drop table if exists dragoman.{table}_{key}"))?;
    }
    for table in ["tombstones", "idempotency_records", "job_checkpoints", "metadata_indexes"] {
        session.execute(&format!("delete from dragoman.{table} where collection = $1"), &[&key])?;
    }
    session.execute("delete from dragoman.collections where key = $1", &[&key]).map(drop)
}

/// Creates the partitions of a collection. They are attached when they are complete, because creating them in place would make
/// every other collection wait.
fn create(session: &mut Session, key: i64, row: &Collection, indexed: Indexed) -> Result<(), Fault> {
    for table in PARTITIONED {
        session.execute_batch(&format!(
            "create table dragoman.{table}_{key} (like dragoman.{table} including all);
             alter table dragoman.{table} attach partition dragoman.{table}_{key} for values in ({key});"
        ))?;
    }
    let Some(value) = indexed_expression(indexed, row.dimension) else { return Ok(()) };
    let HnswSettings { m, ef_construction, .. } = row.hnsw;
    let m = m.min(M_MAX);
    let ef_construction = ef_construction.clamp(2 * m, EF_CONSTRUCTION_MAX);
    let class = match (indexed, row.metric) {
        (Indexed::Half, Metric::L2) => "halfvec_l2_ops",
        (Indexed::Half, _) => "halfvec_ip_ops",
        (_, Metric::L2) => "vector_l2_ops",
        _ => "vector_ip_ops",
    };
    session.execute_batch(&format!(
        "create index on dragoman.passages_{key} using hnsw (({value}) {class}) with (m = {m}, ef_construction = {ef_construction})"
    ))
}

/// Returns the indexed expression, or `None` if there is no index.
pub(super) fn indexed_expression(indexed: Indexed, dimension: usize) -> Option<String> {
    match indexed {
        Indexed::Half => Some(format!("embedding::halfvec({dimension})")),
        Indexed::Full => Some(format!("embedding::vector({dimension})")),
        Indexed::Not => None,
    }
}

/// Returns when the first document expires or has expired, or `None` if none will.
pub(super) fn first_expiry(session: &mut Session, documents: &str) -> Result<Option<i64>, Fault> {
    let sql = format!("select min(expires_at_ms) from {documents} where expires_at_ms is not null");
    Ok(session.value::<Option<i64>>(&sql, &[])?.flatten())
}

pub(super) fn metadata_indexes(session: &mut Session, key: i64) -> Result<Vec<MetadataPath>, Fault> {
    let sql = "select path from dragoman.metadata_indexes where collection = $1 order by path";
    session.rows(sql, &[&key])?.iter().map(|row| path(row.try_get(0)?)).collect()
}

pub(super) fn path(text: &str) -> Result<MetadataPath, Fault> {
    let problem = "its path is not valid";
    MetadataPath::parse(&super::escape::unescape(text))
        .map_err(|_| StoreError::CorruptRow { table: "metadata_indexes", row: 0, problem }.into())
}
