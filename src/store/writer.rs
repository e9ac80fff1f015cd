//! The single writer of a database: a thread with a bounded queue that commits waiting writes together.
//!
//! A commit that survives power loss has to wait for the disk. So the thread runs all waiting commands in one transaction, each
//! in its own savepoint, commits once, and only then answers them. If one command fails, only that command is undone. If the
//! commit fails, all of them fail. A crash before the commit leaves nothing of the group, and nothing of it was acknowledged.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{Builder, JoinHandle};

use parking_lot::Mutex;
use rusqlite::Connection;

use super::StoreError;
use super::connection::discard_unsynced_commit;
use super::error::Fault;
use super::write_transaction::{WriteContext, WriteTransaction};
use crate::domain::with_causes;

/// Maximum number of commands in one transaction.
const GROUP_COMMANDS_MAX: usize = 256;

/// Number of changed rows after which a transaction takes no more commands. Bounds how long the first command waits for its
/// answer, and how far the write-ahead log grows between checkpoints. A batch of some hundreds of documents reaches the limit
/// on its own, so it goes into the index while the next batch is being written. In one transaction, the batches would wait for
/// each other and leave a core idle.
const GROUP_ROWS_MAX: u64 = 2_000;

/// A handle on the thread. Dropping it ends the thread after the waiting writes are done.
pub(super) struct Writer {
    queue: Mutex<Option<SyncSender<Box<dyn Command>>>>,
    thread: Mutex<Option<JoinHandle<Result<(), StoreError>>>>,
    limit: usize,
}

impl Writer {
    /// Starts the thread, which owns the connection from now on.
    pub(super) fn start(connection: Connection, write_queue_max: usize, context: WriteContext) -> Result<Self, StoreError> {
        let limit = write_queue_max.max(1);
        let (queue, commands) = sync_channel(limit);
        let thread = Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || run(connection, &commands, &context))
            .map_err(|error| StoreError::Thread { source: Arc::new(error) })?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)), limit })
    }

    /// Runs a caller's write and waits until it is durable. Fails immediately if the queue is full.
    pub(super) fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let _span = tracing::info_span!("store_write", doing = operation).entered();
        let (command, result) = command(operation, work);
        self.sender()?.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => StoreError::WriteQueueFull { limit: self.limit },
            TrySendError::Disconnected(_) => StoreError::Closed,
        })?;
        wait(&result)
    }

    /// Runs a write of the server itself and waits until it is durable. If the queue is full, first waits for a place, because
    /// work that was already accepted must not be refused.
    pub(super) fn write_patiently<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (command, result) = command(operation, work);
        self.sender()?.send(command).map_err(|_| StoreError::Closed)?;
        wait(&result)
    }

    fn sender(&self) -> Result<SyncSender<Box<dyn Command>>, StoreError> {
        self.queue.lock().clone().ok_or(StoreError::Closed)
    }

    /// Answers the waiting writes, checkpoints and closes the connection. A second call does nothing.
    pub(super) fn close(&self) -> Result<(), StoreError> {
        drop(self.queue.lock().take());
        let thread = self.thread.lock().take();
        thread.map_or(Ok(()), |thread| thread.join().unwrap_or(Err(StoreError::Closed)))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(error = with_causes(&error), "cannot close a database");
        }
    }
}

/// A write in the queue.
trait Command: Send {
    /// Runs it in a savepoint. An error means that the whole transaction is lost, not just this command.
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<(), Fault>;

    /// Sends the caller the result, or the group's error.
    fn reply(self: Box<Self>, group: &Result<(), StoreError>);
}

fn wait<T>(result: &Receiver<Result<T, StoreError>>) -> Result<T, StoreError> {
    result.recv().unwrap_or(Err(StoreError::Closed))
}

struct Work<T, F> {
    operation: &'static str,
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: SyncSender<Result<T, StoreError>>,
}

fn command<T, F>(operation: &'static str, work: F) -> (Box<dyn Command>, Receiver<Result<T, StoreError>>)
where
    T: Send + 'static,
    F: FnOnce(&mut WriteTransaction<'_>) -> Result<T, Fault> + Send + 'static,
{
    let (reply, result) = sync_channel(1);
    (Box::new(Work { operation, work: Some(work), result: None, reply }), result)
}

impl<T: Send, F: FnOnce(&mut WriteTransaction<'_>) -> Result<T, Fault> + Send> Command for Work<T, F> {
    fn run(&mut self, transaction: &mut WriteTransaction<'_>) -> Result<(), Fault> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let connection = transaction.connection;
        connection.prepare_cached("savepoint command")?.execute([])?;
        let result = work(transaction).and_then(|value| transaction.write_terms().map(|()| value));
        let result = result.map_err(|fault| fault.into_store_error(self.operation));
        if let Err(error) = &result {
            transaction.discard_terms();
            if connection.is_autocommit() {
                return Err(error.clone().into());
            }
            connection.prepare_cached("rollback to command")?.execute([])?;
        }
        connection.prepare_cached("release command")?.execute([])?;
        self.result = Some(result);
        Ok(())
    }

    fn reply(self: Box<Self>, group: &Result<(), StoreError>) {
        let result = match (self.result, group) {
            (Some(Err(error)), _) => Err(error),
            (_, Err(error)) => Err(error.clone()),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(StoreError::Closed),
        };
        // A caller that no longer waits needs no response.
        let _ = self.reply.send(result);
    }
}

/// The body of the thread. Runs until every sender is gone and the queue is empty.
fn run(mut connection: Connection, commands: &Receiver<Box<dyn Command>>, context: &WriteContext) -> Result<(), StoreError> {
    while let Ok(first) = commands.recv() {
        let mut group = Vec::new();
        let committed = run_group(&connection, first, commands, context, &mut group).and_then(WriteTransaction::commit);
        let result = committed.map_err(|fault| fault.into_store_error("committing"));
        let result = result.inspect_err(|error| discard_unsynced_commit(&connection, error));
        for command in group {
            command.reply(&result);
        }
    }
    // The deadline must not interrupt closing.
    let unwatched = connection.progress_handler(0, None::<fn() -> bool>);
    let checkpointed = connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()));
    let closed = connection.close().map_err(|(_, error)| error);
    unwatched.and(checkpointed).and(closed).map_err(|error| Fault::from(error).into_store_error("closing a database"))
}

/// Runs the waiting commands without committing. `group` receives every command that was taken from the queue.
fn run_group<'c>(
    connection: &'c Connection,
    first: Box<dyn Command>,
    commands: &Receiver<Box<dyn Command>>,
    context: &'c WriteContext,
    group: &mut Vec<Box<dyn Command>>,
) -> Result<WriteTransaction<'c>, Fault> {
    let rows_before = connection.total_changes();
    group.push(first);
    let mut transaction = WriteTransaction::begin(connection, context)?;
    loop {
        if let Some(command) = group.last_mut() {
            command.run(&mut transaction)?;
        }
        let full = group.len() >= GROUP_COMMANDS_MAX || connection.total_changes() - rows_before >= GROUP_ROWS_MAX;
        match if full { None } else { commands.try_recv().ok() } {
            Some(command) => group.push(command),
            None => break,
        }
    }
    Ok(transaction)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::mpsc::channel;

    use tempfile::TempDir;

    use super::super::connection::{open_reader, open_writer};
    use super::super::migrate::COLLECTION;
    use super::*;
    use crate::domain::PassageTerms;

    type Waiting<T> = Receiver<Result<T, StoreError>>;

    struct Fixture {
        path: PathBuf,
        writer: Writer,
        _folder: TempDir,
    }

    fn fixture(write_queue_max: usize) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("documents.sqlite");
        let connection = open_writer(&path, &COLLECTION, true).unwrap();
        let writer = Writer::start(connection, write_queue_max, WriteContext::for_tests()).unwrap();
        Fixture { path, writer, _folder: folder }
    }

    impl Fixture {
        /// Occupies the thread until the sender is dropped. When this returns, the queue is empty.
        fn stall(&self) -> (Waiting<()>, std::sync::mpsc::Sender<()>) {
            let (started, has_started) = channel();
            let (gate, opened) = channel::<()>();
            let reply = self.queue("stalling", move |_| {
                started.send(()).unwrap();
                let _ = opened.recv();
                Ok(())
            });
            has_started.recv().unwrap();
            (reply, gate)
        }

        /// Puts a write into the queue without waiting for its result.
        fn queue<T, F>(&self, operation: &'static str, work: F) -> Waiting<T>
        where
            T: Send + 'static,
            F: FnOnce(&mut WriteTransaction<'_>) -> Result<T, Fault> + Send + 'static,
        {
            let (command, result) = command(operation, work);
            self.writer.sender().unwrap().try_send(command).unwrap();
            result
        }

        fn submit(&self, key: i64) -> Waiting<usize> {
            self.queue("testing", move |transaction| insert(transaction, key))
        }

        /// Returns what is committed.
        fn keys(&self) -> Vec<i64> {
            let reader = open_reader(&self.path).unwrap();
            let mut statement = reader.prepare("select sequence from tombstones order by 1").unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
        }
    }

    fn insert(transaction: &mut WriteTransaction<'_>, key: i64) -> Result<usize, Fault> {
        Ok(transaction.connection.execute("insert into tombstones values (?1, 0)", [key])?)
    }

    #[test]
    fn a_full_queue_refuses_new_writes_and_loses_none() {
        let fixture = fixture(3);
        let (stalled, gate) = fixture.stall();
        let waiting = [1, 2, 3].map(|key| fixture.submit(key));
        let refused = fixture.writer.write("testing", |transaction| insert(transaction, 4)).unwrap_err();
        assert!(matches!(refused, StoreError::WriteQueueFull { limit: 3 }), "{refused:?}");
        drop(gate);
        wait(&stalled).unwrap();
        assert_eq!(waiting.map(|reply| wait(&reply).unwrap()), [1, 1, 1]);
        assert_eq!(fixture.keys(), [1, 2, 3]);
    }

    #[test]
    fn queued_writes_are_committed_together() {
        let fixture = fixture(100);
        let (_stalled, gate) = fixture.stall();
        let waiting: Vec<_> = (1..=50).map(|key| fixture.submit(key)).collect();
        let (reached, has_reached) = channel();
        let (last_gate, opened) = channel::<()>();
        let last = fixture.queue("testing", move |transaction| {
            reached
                .send(transaction.connection.query_row("select count(*) from tombstones", [], |row| row.get::<_, i64>(0))?)
                .unwrap();
            let _ = opened.recv();
            Ok(())
        });
        drop(gate);
        assert_eq!(has_reached.recv().unwrap(), 50, "the last command sees the others before the commit");
        assert_eq!(fixture.keys(), [0; 0], "other connections do not see them yet");
        drop(last_gate);
        wait(&last).unwrap();
        assert_eq!(fixture.keys().len(), 50);
        assert!(waiting.into_iter().all(|reply| wait(&reply).is_ok()));
    }

    #[test]
    fn a_failed_command_is_rolled_back_alone() {
        let fixture = fixture(100);
        let (_stalled, gate) = fixture.stall();
        let before = fixture.submit(1);
        let failing = fixture.queue("failing", |transaction| {
            transaction.add_terms(2, PassageTerms::default());
            insert(transaction, 2)?;
            insert(transaction, 2)
        });
        let after = fixture.submit(3);
        drop(gate);
        let error = wait(&failing).unwrap_err();
        assert!(matches!(error, StoreError::Sqlite { operation: "failing", .. }), "{error:?}");
        assert_eq!((wait(&before).unwrap(), wait(&after).unwrap()), (1, 1));
        assert_eq!(fixture.keys(), [1, 3]);
        let terms = open_reader(&fixture.path).unwrap().query_row("select count(*) from passage_words", [], |row| row.get(0));
        assert_eq!(terms, Ok(0), "its terms are not left to the next command");
    }

    #[test]
    fn a_failed_commit_fails_all_its_commands_and_stores_nothing() {
        let fixture = fixture(100);
        let (stalled, gate) = fixture.stall();
        let before = fixture.submit(1);
        // A violation that SQLite only reports at the commit.
        let violating = fixture.queue("violating", |transaction| {
            transaction.connection.execute_batch("pragma defer_foreign_keys = on")?;
            Ok(transaction.connection.execute("insert into passages (document, ordinal, start, end) values (9, 0, 0, 1)", [])?)
        });
        let after = fixture.submit(3);
        drop(gate);
        let committing = |error: &StoreError| matches!(error, StoreError::Sqlite { operation: "committing", .. });
        assert!(committing(&wait(&stalled).unwrap_err()));
        for reply in [before, violating, after] {
            assert!(committing(&wait(&reply).unwrap_err()));
        }
        assert_eq!(fixture.keys(), [0; 0]);
        wait(&fixture.submit(4)).unwrap();
        assert_eq!(fixture.keys(), [4]);
    }

    #[test]
    fn writes_fail_on_a_full_disk_and_recover_when_there_is_space() {
        let fixture = fixture(100);
        let pages = |pages: i64| {
            let set = move |transaction: &mut WriteTransaction<'_>| {
                let sql = format!("pragma max_page_count = {pages}");
                Ok(transaction.connection.query_row(&sql, [], |row| row.get::<_, i64>(0))?)
            };
            fixture.writer.write("testing", set).unwrap()
        };
        // SQLite raises the limit to the number of existing pages.
        let smallest = pages(1);
        let large = |transaction: &mut WriteTransaction<'_>| {
            let sql = "insert into documents (id, created_at_ms, updated_at_ms, sequence, metadata, text)
                       values ('a', 0, 0, 1, '{}', ?1)";
            Ok(transaction.connection.execute(sql, ["x".repeat(1 << 20)])?)
        };
        let error = fixture.writer.write("storing", large).unwrap_err();
        assert!(matches!(error, StoreError::StorageUnavailable { operation: "storing", .. }), "{error:?}");
        wait(&fixture.submit(1)).unwrap();
        pages(smallest + 1_000);
        assert_eq!(fixture.writer.write("storing", large).unwrap(), 1);
    }

    #[test]
    fn a_command_whose_terms_do_not_fit_on_the_disk_is_undone() {
        let fixture = fixture(100);
        let with_terms = |words: usize| {
            let words = (0..words).map(|number| format!("w{number} ")).collect::<String>();
            fixture.writer.write("storing", move |transaction| {
                let (pages, key): (i64, i64) = (transaction.connection.query_row("pragma page_count", [], |row| row.get(0))?, 7);
                transaction.connection.query_row(&format!("pragma max_page_count = {}", pages + 20), [], |_| Ok(()))?;
                transaction.add_terms(key, PassageTerms { words, ..PassageTerms::default() });
                insert(transaction, key)
            })
        };
        let error = with_terms(100_000).unwrap_err();
        assert!(matches!(error, StoreError::StorageUnavailable { operation: "storing", .. }), "{error:?}");
        let rows = |sql: &str| open_reader(&fixture.path).unwrap().query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        let terms = || (rows("select count(*) from lexical_docsize"), rows("select count(*) from passage_words"));
        assert_eq!((fixture.keys(), terms()), (vec![], (0, 0)));
        assert_eq!(with_terms(10).unwrap(), 1);
        assert_eq!((fixture.keys(), terms()), (vec![7], (1, 1)));
    }

    #[test]
    fn closing_completes_queued_writes_and_refuses_new_ones() {
        let fixture = fixture(100);
        let (stalled, gate) = fixture.stall();
        let waiting = [1, 2].map(|key| fixture.submit(key));
        drop(gate);
        fixture.writer.close().unwrap();
        wait(&stalled).unwrap();
        assert_eq!(waiting.map(|reply| wait(&reply).unwrap()), [1, 1]);
        assert!(matches!(fixture.writer.write("testing", |_| Ok(())), Err(StoreError::Closed)));
        assert!(matches!(fixture.writer.write_patiently("testing", |_| Ok(())), Err(StoreError::Closed)));
        fixture.writer.close().unwrap();
    }

    #[test]
    fn patient_writes_wait_for_room_in_the_queue() {
        let fixture = fixture(1);
        let (_stalled, gate) = fixture.stall();
        let waiting = fixture.submit(1);
        std::thread::scope(|scope| {
            let patient: Vec<_> = (2..6)
                .map(|key| {
                    let writer = &fixture.writer;
                    scope.spawn(move || writer.write_patiently("testing", move |transaction| insert(transaction, key)))
                })
                .collect();
            drop(gate);
            assert!(patient.into_iter().all(|thread| thread.join().unwrap().is_ok()));
        });
        wait(&waiting).unwrap();
        assert_eq!(fixture.keys(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn writes_return_closed_after_the_writer_thread_panics() {
        let fixture = fixture(100);
        let died = fixture.writer.write("testing", |_| -> Result<(), Fault> { panic!("a defect, made for this test") });
        assert!(matches!(died, Err(StoreError::Closed)));
        assert!(matches!(fixture.writer.write("testing", |_| Ok(())), Err(StoreError::Closed)));
    }
}
