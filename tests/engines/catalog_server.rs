//! What holds for the catalog of a database server alone: one server at a time uses it, and its collections go with their documents.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dragoman::domain::{Collection, CollectionName, Metric, Page, Precondition};
use dragoman::storage::{CatalogStorage, Postgres, PostgresCatalog, PostgresOptions, PostgresServer, Storage};
use dragoman::store::StoreError;
use postgres::{Client, NoTls};

use crate::contract::{DIMENSION, WRITES_MAX, collection, document, id, terms};
use crate::postgres_server::Database;

/// The lock of the server that uses the database.
const LOCK: i64 = 0x6472_6167_6f6d_616f;

fn server(options: &PostgresOptions) -> Arc<PostgresServer> {
    PostgresServer::connect(options).unwrap()
}

fn named(name: &str) -> Collection {
    Collection { name: CollectionName::parse(name).unwrap(), ..collection(DIMENSION, Metric::Cosine) }
}

fn names(catalog: &PostgresCatalog) -> Vec<String> {
    let rows = CatalogStorage::list(catalog, &Page { limit: 10, after: None }).unwrap();
    rows.into_iter().map(|row| row.name.to_string()).collect()
}

fn engine(server: &Arc<PostgresServer>, row: &Collection) -> Postgres {
    Postgres::open(server, row, terms, WRITES_MAX).unwrap()
}

fn put(engine: &Postgres, name: &str) {
    engine.upsert_if(vec![document(name, "text")], Precondition::None).unwrap();
}

/// Waits until `done`.
fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_database_has_one_server() {
    let options = Database::shared().0.own();
    let catalog = PostgresCatalog::open(&server(&options)).unwrap();
    let second = PostgresCatalog::open(&server(&options)).err().unwrap();
    assert!(matches!(second, StoreError::DatabaseInUse), "{second:?}");
    drop(catalog);
    PostgresCatalog::open(&server(&options)).unwrap();
}

#[test]
fn a_collection_is_deleted_with_its_documents() {
    let options = Database::shared().0.own();
    let server = server(&options);
    let catalog = PostgresCatalog::open(&server).unwrap();
    let (one, other) = (named("one"), named("other"));
    for row in [&one, &other] {
        put(&engine(&server, row), "a");
        CatalogStorage::create_once(&catalog, row, None).unwrap();
    }
    let open = engine(&server, &one);
    CatalogStorage::delete(&catalog, &one.name).unwrap().unwrap();
    assert!(open.upsert_if(vec![document("b", "text")], Precondition::None).is_err(), "nothing is written into it");
    assert_eq!(engine(&server, &one).counts().unwrap().documents, 0);
    assert_eq!(engine(&server, &other).counts().unwrap().documents, 1);
    assert_eq!(names(&catalog), ["other"]);
}

#[test]
fn what_an_interrupted_creation_left_is_removed_but_never_documents() {
    let options = Database::shared().0.own();
    let server = server(&options);
    let (empty, full) = (named("empty"), named("full"));
    drop(engine(&server, &empty));
    put(&engine(&server, &full), "a");
    drop(PostgresCatalog::open(&server).unwrap());
    let mut client = Client::connect(&options.url, NoTls).unwrap();
    let left = client.query("select id from dragoman.collections", &[]).unwrap();
    assert_eq!(left.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), [full.id.0.as_str()]);
    assert!(engine(&server, &full).get(&id("a")).unwrap().is_some());
}

#[test]
fn a_server_goes_on_after_the_database_was_killed() {
    let database = Database::start();
    let server = database.connect();
    let catalog = PostgresCatalog::open(&server).unwrap();
    CatalogStorage::create_once(&catalog, &named("one"), None).unwrap();
    database.kill_and_start();
    let page = Page { limit: 10, after: None };
    wait("the database", || CatalogStorage::list(&catalog, &page).is_ok());
    assert_eq!(names(&catalog), ["one"]);
    // It has the lock again, so another one is refused.
    let mut client = Client::connect(&database.options().url, NoTls).unwrap();
    wait("the lock", || held(&mut client));
    assert!(server.is_reachable());
    let second = PostgresCatalog::open(&database.connect()).err().unwrap();
    assert!(matches!(second, StoreError::DatabaseInUse), "{second:?}");
}

#[test]
fn a_server_whose_database_was_taken_over_reaches_it_no_more() {
    let options = Database::shared().0.own();
    let server = server(&options);
    let catalog = PostgresCatalog::open(&server).unwrap();
    let (mut other, mut watching) =
        (Client::connect(&options.url, NoTls).unwrap(), Client::connect(&options.url, NoTls).unwrap());
    // The other one waits for the lock, and has it before this one knows that it lost it.
    let waiting = std::thread::spawn(move || {
        other.batch_execute(&format!("select pg_advisory_lock({LOCK})")).unwrap();
        other
    });
    let locks = "from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())";
    let waits = format!("select 1 {locks} and not granted");
    wait("the other", || !watching.query(&waits, &[]).unwrap().is_empty());
    watching.query(&format!("select pg_terminate_backend(pid) {locks} and granted"), &[]).unwrap();
    let other = waiting.join().unwrap();
    wait("the end", || !server.is_reachable());
    let refused = CatalogStorage::aliases(&catalog).unwrap_err();
    assert!(matches!(refused, StoreError::DatabaseInUse), "{refused:?}");
    drop(other);
    let refused = engine_of(&server).err().unwrap();
    assert!(matches!(refused, StoreError::DatabaseInUse), "not even when the other is gone: {refused:?}");
}

fn engine_of(server: &Arc<PostgresServer>) -> Result<Postgres, StoreError> {
    Postgres::open(server, &named("one"), terms, WRITES_MAX)
}

/// Whether a server has the lock of this database.
fn held(client: &mut Client) -> bool {
    let sql = "select 1 from pg_locks where locktype = 'advisory' and granted
               and database = (select oid from pg_database where datname = current_database())";
    !client.query(sql, &[]).unwrap().is_empty()
}
