//! Reads that do not end on their own: those of callers that are gone, and those on a connection that hangs while the others
//! answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dragoman::domain::{Collection, Metric, Precondition};
use dragoman::storage::{Postgres, PostgresCatalog, PostgresOptions, PostgresServer, Storage};
use dragoman::store::{StoreError, with_caller};
use postgres::Client;

use crate::contract::{DIMENSION, WRITES_MAX, collection, document, id, terms_of};
use crate::postgres_server::Database;

fn put(engine: &Postgres, name: &str) {
    engine.upsert_if(vec![document(name, "text")], Precondition::None).unwrap();
}

/// The table with the documents of a collection.
fn documents_table(client: &mut Client, row: &Collection) -> String {
    let key = client.query_one("select key from dragoman.collections where id = $1", &[&row.id.0]).unwrap();
    format!("dragoman.documents_{}", key.get::<_, i64>(0))
}

/// Waits until a statement waits for a lock of a table.
fn wait_until_locked(database: &Database, table: &str) {
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like $1";
    let pattern = format!("%{table} %");
    while database.client().query_one(waiting, &[&pattern]).unwrap().get::<_, i64>(0) == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_read_ends_when_its_caller_is_gone() {
    let (database, server) = Database::shared();
    let row = collection(DIMENSION, Metric::Cosine);
    let engine = Postgres::open(server, &row, terms_of(), WRITES_MAX).unwrap();
    put(&engine, "a");
    let mut holder = database.client();
    let table = documents_table(&mut holder, &row);
    let mut locked = holder.transaction().unwrap();
    locked.batch_execute(&format!("lock table {table}")).unwrap();
    let (caller, started) = (Arc::new(()), Instant::now());
    let wanted = Arc::downgrade(&caller);
    let ended = std::thread::scope(|scope| {
        let read = scope.spawn(|| with_caller(Some(wanted), || engine.get(&id("a"))));
        wait_until_locked(database, &table);
        drop(caller);
        while !read.is_finished() && started.elapsed() < Duration::from_secs(30) {
            std::thread::sleep(Duration::from_millis(20));
        }
        locked.rollback().unwrap();
        read.join().unwrap()
    });
    assert!(matches!(ended, Err(StoreError::Interrupted { .. })), "{ended:?}");
    assert!(engine.get(&id("a")).unwrap().is_some(), "other reads are not affected");
}

/// How long a connection may take to answer, with some time for a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(40);

/// Runs `work` on another thread, and returns its result, or `None` if it does not end in time. `meanwhile` runs first.
fn within<T: Send + 'static>(max: Duration, work: impl FnOnce() -> T + Send + 'static, meanwhile: impl FnOnce()) -> Option<T> {
    let (done, result) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    meanwhile();
    result.recv_timeout(max).ok()
}

#[test]
fn a_connection_that_hangs_alone_is_replaced_when_it_is_used_again() {
    let database = Database::start();
    let server = PostgresServer::connect(&PostgresOptions { connections_max: 1, ..database.options() }).unwrap();
    let engine = Postgres::open(&server, &collection(DIMENSION, Metric::Cosine), terms_of(), WRITES_MAX).unwrap();
    put(&engine, "a");
    let hanging = database.hang("%");
    let read = within(ANSWER_MAX, move || engine.get(&id("a")), || ());
    drop(hanging);
    assert!(matches!(&read, Some(Ok(Some(_)))), "{read:?}");
}

#[test]
fn the_connection_that_looks_for_changes_is_replaced_when_it_hangs_alone() {
    let database = Database::start();
    let catalog = PostgresCatalog::open(&database.connect()).unwrap();
    let before = catalog.versions().unwrap();
    let hanging = database.hang("select%from dragoman.catalog_state");
    let after = within(ANSWER_MAX, move || catalog.versions(), || ());
    drop(hanging);
    assert_eq!(after.map(Result::unwrap), Some(before));
}

#[test]
fn a_read_on_a_connection_that_hangs_ends_when_its_caller_is_gone() {
    let database = Database::start();
    let row = collection(DIMENSION, Metric::Cosine);
    let server = PostgresServer::connect(&PostgresOptions { connections_max: 1, ..database.options() }).unwrap();
    let engine = Arc::new(Postgres::open(&server, &row, terms_of(), WRITES_MAX).unwrap());
    put(&engine, "a");
    let mut holder = database.client();
    let table = documents_table(&mut holder, &row);
    let mut locked = holder.transaction().unwrap();
    locked.batch_execute(&format!("lock table {table}")).unwrap();
    let caller = Arc::new(());
    let (wanted, reading, mut hanging) = (Arc::downgrade(&caller), Arc::clone(&engine), None);
    let read = within(
        ANSWER_MAX,
        move || with_caller(Some(wanted), || reading.get(&id("a"))),
        || {
            wait_until_locked(&database, &table);
            hanging = Some(database.hang("%"));
            drop(caller);
        },
    );
    drop(hanging);
    locked.rollback().unwrap();
    assert!(matches!(&read, Some(Err(StoreError::ServerUnreachable { .. }))), "{read:?}");
    assert!(engine.get(&id("a")).unwrap().is_some(), "its place in the pool is free again");
}
