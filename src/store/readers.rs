//! Connections for reading, opened on demand and kept open. Each read sees a single state of the database, and never waits for
//! the writer.

use std::path::PathBuf;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use rusqlite::Connection;

use super::clock::{Clock, register_clock};
use super::connection::open_reader;
use super::deadline::Deadline;
use super::error::Fault;
use super::{StoreError, caller};
use crate::domain::with_causes;

/// Pause between two checks whether a caller that waits for a connection is gone.
const CALLER_PAUSE: Duration = Duration::from_millis(100);

/// How much a read may go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    FewRows,
    /// All rows. All scans together use at most half of the connections, so reads of a few rows seldom wait.
    Scan,
}

/// A pool of at most `connections_max` connections. Further reads wait for one.
pub(super) struct Readers {
    path: PathBuf,
    connections_max: usize,
    deadline: Deadline,
    clock: Clock,
    pool: Mutex<Pool>,
    changed: Condvar,
}

#[derive(Default)]
struct Pool {
    idle: Vec<Connection>,
    /// Connections in use.
    leased: usize,
    /// Those of them that run scans.
    scanning: usize,
    closed: bool,
}

impl Readers {
    pub(super) fn new(path: PathBuf, connections_max: usize, deadline: Deadline, clock: Clock) -> Self {
        Self { path, connections_max: connections_max.max(1), deadline, clock, pool: Mutex::default(), changed: Condvar::new() }
    }

    pub(super) fn with_connection(connection: Connection, path: PathBuf, deadline: Deadline, clock: Clock) -> Self {
        let pool = Mutex::new(Pool { idle: vec![connection], ..Pool::default() });
        Self { pool, ..Self::new(path, 1, deadline, clock) }
    }

    pub(super) fn read<T>(
        &self,
        operation: &'static str,
        extent: Extent,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let _span = tracing::info_span!("store_read", doing = operation).entered();
        let read = || self.acquire(operation, extent == Extent::Scan)?.read(work);
        read().map_err(|fault: Fault| fault.into_store_error(operation))
    }

    /// Reads a few rows. Returns `None` if the read fails, or if it would have to wait for a connection.
    pub(super) fn try_read<T>(&self, operation: &'static str, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Option<T> {
        let _span = tracing::info_span!("store_read", doing = operation).entered();
        let pool = self.pool.lock();
        if self.are_all_in_use(&pool) {
            return None;
        }
        self.lease(pool, false).and_then(|lease| lease.read(work)).ok()
    }

    /// Waits for the running reads and closes the connections. Later reads fail with `StoreError::Closed`.
    pub(super) fn close(&self) {
        let mut pool = self.pool.lock();
        pool.closed = true;
        pool.idle.clear();
        self.changed.notify_all();
        while pool.leased > 0 {
            self.changed.wait(&mut pool);
        }
    }

    fn acquire(&self, operation: &'static str, is_scan: bool) -> Result<Lease<'_>, Fault> {
        let mut pool = self.pool.lock();
        let scans_max = self.connections_max.div_ceil(2);
        while (self.are_all_in_use(&pool) || is_scan && pool.scanning >= scans_max) && !pool.closed {
            if caller::is_caller_gone() {
                return Err(StoreError::Interrupted { operation }.into());
            }
            if caller::has_caller() {
                self.changed.wait_for(&mut pool, CALLER_PAUSE);
            } else {
                self.changed.wait(&mut pool);
            }
        }
        self.lease(pool, is_scan)
    }

    fn are_all_in_use(&self, pool: &Pool) -> bool {
        pool.idle.is_empty() && pool.leased >= self.connections_max
    }

    fn lease(&self, mut pool: MutexGuard<'_, Pool>, is_scan: bool) -> Result<Lease<'_>, Fault> {
        if pool.closed {
            return Err(StoreError::Closed.into());
        }
        pool.leased += 1;
        pool.scanning += usize::from(is_scan);
        let mut lease = Lease { readers: self, is_scan, connection: pool.idle.pop() };
        drop(pool);
        if lease.connection.is_none() {
            let mut connection = open_reader(&self.path)?;
            self.deadline.apply_to(&mut connection)?;
            register_clock(&connection, self.clock)?;
            lease.connection = Some(connection);
        }
        Ok(lease)
    }
}

/// Sees a single state of the database until it is dropped. Its statements are prepared once per connection, because most reads
/// are so short that preparing would take much of their time.
struct ReadTransaction<'c>(&'c Connection);

impl<'c> ReadTransaction<'c> {
    fn begin(connection: &'c Connection) -> Result<Self, Fault> {
        connection.prepare_cached("begin deferred")?.execute([])?;
        Ok(Self(connection))
    }
}

impl Drop for ReadTransaction<'_> {
    fn drop(&mut self) {
        let _ = self.0.prepare_cached("commit").and_then(|mut commit| commit.execute([]));
        // Some errors end the transaction on their own.
        if !self.0.is_autocommit()
            && let Err(error) = self.0.execute_batch("rollback")
        {
            tracing::error!(error = with_causes(&error), "cannot end a read");
        }
    }
}

/// A connection in use. Dropping it returns its place, even if opening failed.
struct Lease<'r> {
    readers: &'r Readers,
    is_scan: bool,
    connection: Option<Connection>,
}

impl Lease<'_> {
    fn read<T>(self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
        let transaction = ReadTransaction::begin(self.connection()?)?;
        work(transaction.0)
    }

    fn connection(&self) -> Result<&Connection, Fault> {
        self.connection.as_ref().ok_or(Fault::Store(StoreError::Closed))
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let mut pool = self.readers.pool.lock();
        pool.leased -= 1;
        pool.scanning -= usize::from(self.is_scan);
        let connection = self.connection.take().filter(|_| !pool.closed);
        pool.idle.extend(connection);
        self.readers.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use tempfile::TempDir;

    use super::super::clock::system_clock;
    use super::super::connection::open_writer;
    use super::super::migrate::COLLECTION;
    use super::*;

    fn readers(connections_max: usize) -> (TempDir, Readers) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("documents.sqlite");
        drop(open_writer(&path, &COLLECTION, false).unwrap());
        (folder, Readers::new(path, connections_max, Deadline::default(), system_clock))
    }

    fn count(connection: &Connection) -> Result<i64, Fault> {
        Ok(connection.query_row("select count(*) from tombstones", [], |row| row.get(0))?)
    }

    #[test]
    fn concurrent_reads_return_their_connections_to_the_pool() {
        let (_folder, readers) = readers(3);
        let all_read = Barrier::new(3);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    readers.read("testing", Extent::FewRows, |connection| {
                        all_read.wait();
                        count(connection)
                    })
                });
            }
        });
        assert_eq!(readers.pool.lock().idle.len(), 3);
    }

    #[test]
    fn a_read_that_the_caller_can_do_without_never_waits_for_a_connection() {
        let (_folder, readers) = readers(1);
        assert_eq!(readers.try_read("testing", count), Some(0));
        assert_eq!(
            readers.read("testing", Extent::FewRows, |_| Ok(readers.try_read("testing", count))).unwrap(),
            None,
            "the only one is in use"
        );
        assert_eq!(readers.try_read("testing", |_| Err::<(), _>(StoreError::Closed.into())), None);
        assert_eq!(readers.try_read("testing", count), Some(0), "its connection is free again");
        readers.close();
        assert_eq!(readers.try_read("testing", count), None);
    }

    #[test]
    fn a_read_waits_while_all_connections_are_in_use() {
        let ((_folder, readers), started) = (readers(1), AtomicUsize::new(0));
        let read = &|| {
            let work = |connection: &Connection| {
                started.fetch_add(1, Ordering::SeqCst);
                count(connection)
            };
            readers.read("testing", Extent::FewRows, work).unwrap()
        };
        thread::scope(|scope| {
            let first = readers.read("testing", Extent::FewRows, |connection| {
                scope.spawn(read);
                loop {
                    // Only a read that waits for a connection can be notified.
                    let waits = readers.changed.notify_all() > 0;
                    assert_eq!(started.load(Ordering::SeqCst), 0, "a read began while another used the only connection");
                    if waits {
                        break count(connection);
                    }
                    thread::yield_now();
                }
            });
            first.unwrap();
            (0..7).for_each(|_| drop(scope.spawn(read)));
        });
        assert_eq!((started.into_inner(), readers.pool.lock().idle.len()), (8, 1));
    }

    #[test]
    fn scans_leave_connections_to_other_reads() {
        let (_folder, readers) = readers(3);
        let (started, release) = (Barrier::new(3), Barrier::new(3));
        thread::scope(|scope| {
            let hold = || {
                readers.read("testing", Extent::Scan, |connection| {
                    started.wait();
                    release.wait();
                    count(connection)
                })
            };
            (0..2).for_each(|_| drop(scope.spawn(hold)));
            started.wait();
            let third = scope.spawn(|| readers.read("testing", Extent::Scan, count));
            assert_eq!(readers.read("testing", Extent::FewRows, count).unwrap(), 0);
            assert!(!third.is_finished(), "two of three connections are the most that scans take");
            release.wait();
            assert_eq!(third.join().unwrap().unwrap(), 0);
        });
    }

    #[test]
    fn a_read_does_not_see_concurrent_writes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("documents.sqlite");
        let writer = open_writer(&path, &COLLECTION, false).unwrap();
        let readers = Readers::new(path, 1, Deadline::default(), system_clock);
        let seen = readers.read("testing", Extent::FewRows, |connection| {
            let before = count(connection)?;
            writer.execute("insert into tombstones values (1, 1)", [])?;
            Ok((before, count(connection)?))
        });
        assert_eq!(seen.unwrap(), (0, 0));
        assert_eq!(readers.read("testing", Extent::FewRows, count).unwrap(), 1);
    }

    #[test]
    fn a_connection_that_fails_to_open_frees_its_slot() {
        let folder = tempfile::tempdir().unwrap();
        let readers = Readers::new(folder.path().join("absent.sqlite"), 1, Deadline::default(), system_clock);
        for _ in 0..2 {
            let error = readers.read("testing", Extent::FewRows, count).unwrap_err();
            assert!(matches!(error, StoreError::Sqlite { operation: "testing", .. }), "{error:?}");
        }
    }

    #[test]
    fn a_closed_pool_refuses_reads() {
        let readers = Readers::new(PathBuf::from("unused"), 1, Deadline::default(), system_clock);
        readers.close();
        assert!(matches!(readers.read("testing", Extent::FewRows, count), Err(StoreError::Closed)));
    }
}
