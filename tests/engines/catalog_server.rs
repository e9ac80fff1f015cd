//! Catalog behavior of the database server only: several servers share it, no server changes what it has not read, only a job's
//! owner updates it, and collections are deleted with their documents.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dragoman::domain::{
    Collection, CollectionName, Job, JobId, JobProgress, JobStatus, JobType, JobUnit, Metadata, Metric, Page, Precondition,
};
use dragoman::storage::{
    CatalogPart, JobOwnership, NearestSearch, Postgres, PostgresCatalog, PostgresOptions, PostgresServer, Scope, Storage,
};
use dragoman::store::{PreparedDocument, SearchFilter, StoreError};
use postgres::{Client, NoTls};

use crate::contract::{DIMENSION, WRITES_MAX, collection, document, embedding, id, terms_of};
use crate::postgres_server::Database;

/// The lock that all servers of a database share.
const LOCK: i64 = 0x6472_6167_6f6d_616f;

fn server(options: &PostgresOptions) -> Arc<PostgresServer> {
    PostgresServer::connect(options).unwrap()
}

fn named(name: &str) -> Collection {
    Collection { name: CollectionName::parse(name).unwrap(), ..collection(DIMENSION, Metric::Cosine) }
}

fn names(catalog: &PostgresCatalog) -> Vec<String> {
    let rows = catalog.list(&Page { limit: 10, after: None }).unwrap();
    rows.into_iter().map(|row| row.name.to_string()).collect()
}

fn engine(server: &Arc<PostgresServer>, row: &Collection) -> Postgres {
    Postgres::open(server, row, terms_of(), WRITES_MAX).unwrap()
}

fn put(engine: &Postgres, name: &str) {
    engine.upsert_if(vec![document(name, "text")], Precondition::None).unwrap();
}

/// Waits until `done`.
fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Two servers of one database.
fn two_catalogs(options: &PostgresOptions) -> [PostgresCatalog; 2] {
    [(); 2].map(|()| PostgresCatalog::open(&server(options)).unwrap())
}

/// Makes a server read the current catalog.
fn refresh(catalog: &PostgresCatalog) {
    let versions = catalog.versions().unwrap();
    CatalogPart::ALL.into_iter().for_each(|part| catalog.set_known_version(part, versions.of(part)));
}

fn job() -> Job {
    Job {
        id: JobId::parse("0198c0de-0000-7000-8000-000000000001").unwrap(),
        kind: JobType::Import,
        status: JobStatus::Queued,
        collection: None,
        request: Metadata::new(),
        details: Metadata::new(),
        progress: JobProgress { done: 0, total: 99, unit: JobUnit::Bytes, rate: None, eta_s: None },
        error: None,
        cancel_requested: false,
        created_at_ms: 1_000,
        started_at_ms: None,
        finished_at_ms: None,
    }
}

#[test]
fn a_server_with_a_stale_catalog_cannot_change_it() {
    let [one, other] = two_catalogs(&Database::shared().0.own());
    one.create(&named("a"), None).unwrap();
    one.create(&named("b"), None).unwrap();
    let refused = other.create(&named("c"), None).unwrap_err();
    assert!(matches!(refused, StoreError::CatalogChanged), "{refused:?}");
    assert_eq!(names(&other), ["a", "b"], "nothing was stored");
    refresh(&other);
    other.create(&named("c"), None).unwrap();
    let versions = one.versions().unwrap();
    assert_ne!(versions.of(CatalogPart::Names), one.known_version(CatalogPart::Names));
    assert_eq!(versions.of(CatalogPart::Keys), one.known_version(CatalogPart::Keys), "each part has its own version");
}

#[test]
fn only_one_of_two_concurrent_changes_to_a_catalog_part_succeeds() {
    let catalogs = two_catalogs(&Database::shared().0.own());
    for round in 0..20 {
        catalogs.iter().for_each(refresh);
        let created = std::thread::scope(|scope| {
            let creating = [0, 1].map(|at| {
                let (catalog, row) = (&catalogs[at], named(&format!("c{round}-{at}")));
                scope.spawn(move || catalog.create(&row, None))
            });
            creating.map(|one| one.join().unwrap())
        });
        assert_eq!(created.iter().filter(|one| one.is_ok()).count(), 1, "{created:?}");
    }
}

#[test]
fn only_the_owner_updates_a_job_until_the_owner_is_gone() {
    let [one, other] = two_catalogs(&Database::shared().0.own());
    let (job, id) = (job(), job().id);
    one.create_job(&job, None, None).unwrap();
    one.start_job(&id, 2).unwrap();
    assert_eq!(other.take_over_orphaned_jobs(&[], &[], "").unwrap().jobs, [], "its owner is alive");
    let finish = |catalog: &PostgresCatalog| catalog.finish_job(&id, JobStatus::Succeeded, None, 3);
    for refused in [other.start_job(&id, 2), other.record_progress(&id, &job.progress, &job.details), finish(&other)] {
        assert!(matches!(refused, Err(StoreError::JobTakenOver)), "{refused:?}");
    }
    other.request_cancel(&id).unwrap();
    assert_eq!(
        one.job_ownership(std::slice::from_ref(&id)).unwrap(),
        [(id.clone(), JobOwnership::Canceled)],
        "any server may request cancellation"
    );
    drop(one);
    wait("the takeover", || {
        let found = other.take_over_orphaned_jobs(&[], &[], "").unwrap();
        found.server_died && found.jobs.iter().any(|job| job.id == id && job.cancel_requested)
    });
    finish(&other).unwrap();
    assert_eq!(other.job_ownership(&[id]).unwrap(), [], "a finished job has no owner");
}

#[test]
fn a_finished_job_is_forgotten_by_its_own_server_which_has_its_files() {
    let [one, other] = two_catalogs(&Database::shared().0.own());
    let id = job().id;
    one.create_job(&job(), None, None).unwrap();
    one.finish_job(&id, JobStatus::Succeeded, None, 3).unwrap();
    assert_eq!(other.prune_jobs(0, (4, 4)).unwrap(), []);
    assert_eq!(one.prune_jobs(0, (4, 4)).unwrap(), std::slice::from_ref(&id));
    one.create_job(&job(), None, None).unwrap();
    one.finish_job(&id, JobStatus::Succeeded, None, 3).unwrap();
    drop(one);
    wait("the end of its server", || other.take_over_orphaned_jobs(&[], &[], "").unwrap().server_died);
    assert_eq!(other.prune_jobs(0, (4, 4)).unwrap(), [id]);
}

#[test]
fn a_server_cannot_write_documents_for_another_servers_job() {
    let options = Database::shared().0.own();
    let (first, second) = (server(&options), server(&options));
    let [one, other] = [&first, &second].map(|server| PostgresCatalog::open(server).unwrap());
    let (job_id, row) = (job().id, named("one"));
    one.create_job(&job(), None, None).unwrap();
    let write = |server: &Arc<PostgresServer>, name: &str| {
        engine(server, &row).upsert_for_job(&job_id, vec![document(name, "text")], Box::new(|_| "{}".to_owned()))
    };
    write(&first, "a").unwrap();
    let refused = write(&second, "b").unwrap_err();
    assert!(matches!(refused, StoreError::JobTakenOver), "{refused:?}");
    drop(one);
    wait("the takeover", || !other.take_over_orphaned_jobs(&[], &[], "").unwrap().jobs.is_empty());
    write(&second, "b").unwrap();
    assert!(engine(&second, &row).get(&id("a")).unwrap().is_some());
}

#[test]
fn a_server_presumed_dead_keeps_working() {
    let options = Database::shared().0.own();
    let [one, other] = two_catalogs(&options);
    let id = job().id;
    one.create_job(&job(), None, None).unwrap();
    let mut client = Client::connect(&options.url, NoTls).unwrap();
    let mine: i64 = client.query_one("select owner from dragoman.jobs", &[]).unwrap().get(0);
    let end = "select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and mode = 'ExclusiveLock'
               and (classid::bigint << 32) + objid::bigint = $1 and database = (select oid from pg_database where datname = current_database())";
    client.query(end, &[&mine]).unwrap();
    // It is chance whether the other server sees the lock free at that moment. What counts is that the first one keeps working.
    let taken_over = !other.take_over_orphaned_jobs(&[], &[], "").unwrap().jobs.is_empty();
    let there = "select count(*) from dragoman.servers where id = $1";
    wait("the first server", || {
        refresh(&one);
        client.query_one(there, &[&mine]).unwrap().get::<_, i64>(0) == 1
    });
    let ownership = one.job_ownership(std::slice::from_ref(&id)).unwrap();
    assert_eq!(ownership, [(id, if taken_over { JobOwnership::Lost } else { JobOwnership::Own })]);
    one.create(&named("one"), None).unwrap();
}

#[test]
fn no_catalog_opens_while_another_server_holds_the_lock() {
    let options = Database::shared().0.own();
    let mut client = Client::connect(&options.url, NoTls).unwrap();
    client.batch_execute(&format!("select pg_advisory_lock({LOCK})")).unwrap();
    let refused = PostgresCatalog::open(&server(&options)).err().unwrap();
    assert!(matches!(refused, StoreError::DatabaseInUse), "{refused:?}");
    drop(client);
    two_catalogs(&options);
}

#[test]
fn no_table_is_created_while_another_server_holds_the_lock() {
    let database = &Database::shared().0;
    let mut client = Client::connect(&database.options().url, NoTls).unwrap();
    client.batch_execute("create database without_tables").unwrap();
    let options = PostgresOptions { url: database.url("without_tables"), ..database.options() };
    let mut alone = Client::connect(&options.url, NoTls).unwrap();
    alone.batch_execute(&format!("select pg_advisory_lock({LOCK})")).unwrap();
    let refused = PostgresServer::connect(&options).err().unwrap();
    assert!(matches!(refused, StoreError::DatabaseInUse), "{refused:?}");
    let tables = "select count(*) from pg_tables where schemaname = 'dragoman'";
    assert_eq!(alone.query_one(tables, &[]).unwrap().get::<_, i64>(0), 0);
    alone.batch_execute(&format!("select pg_advisory_unlock({LOCK})")).unwrap();
    two_catalogs(&options);
}

#[test]
fn a_collection_is_deleted_with_its_documents() {
    let options = Database::shared().0.own();
    let server = server(&options);
    let catalog = PostgresCatalog::open(&server).unwrap();
    let (one, other) = (named("one"), named("other"));
    for row in [&one, &other] {
        put(&engine(&server, row), "a");
        catalog.create(row, None).unwrap();
    }
    let open = engine(&server, &one);
    catalog.delete(&one.name).unwrap().unwrap();
    assert!(open.upsert_if(vec![document("b", "text")], Precondition::None).is_err(), "a deleted collection accepts no writes");
    assert_eq!(engine(&server, &one).counts().unwrap().documents, 0);
    assert_eq!(engine(&server, &other).counts().unwrap().documents, 1);
    assert_eq!(names(&catalog), ["other"]);
}

#[test]
fn leftover_collections_are_removed_only_when_empty() {
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
fn pgvector_may_be_in_a_schema_outside_of_the_search_path() {
    let options = Database::shared().0.own();
    let mut client = Client::connect(&options.url, NoTls).unwrap();
    client.batch_execute("create schema \"the extensions\"; alter extension vector set schema \"the extensions\"").unwrap();
    let server = server(&options);
    let engine = engine(&server, &named("one"));
    let stored = PreparedDocument { embedding: Some(embedding(1.0)), ..document("a", "text") };
    engine.upsert_if(vec![stored], Precondition::None).unwrap();
    let (query, filter) = (embedding(1.0), SearchFilter::default());
    let found = engine.nearest(&NearestSearch::passages(&query, 1, Scope { filter: &filter, words: None }, 96)).unwrap();
    assert!((found.neighbors[0].score - 1.0).abs() < 1e-6, "{:?}", found.neighbors[0].score);
}

#[test]
fn a_server_recovers_after_the_database_is_killed() {
    let database = Database::start();
    let server = database.connect();
    let catalog = PostgresCatalog::open(&server).unwrap();
    catalog.create(&named("one"), None).unwrap();
    database.kill_and_start();
    let page = Page { limit: 10, after: None };
    wait("the database", || catalog.list(&page).is_ok());
    assert_eq!(names(&catalog), ["one"]);
    let mut client = Client::connect(&database.options().url, NoTls).unwrap();
    wait("the lock", || lock_is_held(&mut client));
    assert!(server.is_reachable());
    assert!(
        !PostgresCatalog::open(&database.connect()).unwrap().take_over_orphaned_jobs(&[], &[], "").unwrap().server_died,
        "no other server considers it dead"
    );
}

#[test]
fn tables_of_a_creation_in_progress_are_not_removed() {
    let options = Database::shared().0.own();
    let (first, second) = (server(&options), server(&options));
    let catalog = PostgresCatalog::open(&first).unwrap();
    let row = named("half-made");
    drop(engine(&first, &row));
    PostgresCatalog::open(&second).unwrap();
    catalog.create(&row, None).unwrap();
    let found = Postgres::open_existing(&second, &row, terms_of(), WRITES_MAX);
    assert!(found.is_ok(), "{:?}", found.err());
}

/// Whether a server holds the lock of this database.
fn lock_is_held(client: &mut Client) -> bool {
    let sql = "select 1 from pg_locks where locktype = 'advisory' and granted
               and database = (select oid from pg_database where datname = current_database())";
    !client.query(sql, &[]).unwrap().is_empty()
}

#[test]
fn a_deletion_does_not_end_a_change_that_it_waits_for() {
    let options = Database::shared().0.own();
    let (first, second) = (server(&options), server(&options));
    let [one, other] = [&first, &second].map(|server| PostgresCatalog::open(server).unwrap());
    let row = named("one");
    let documents = engine(&first, &row);
    one.create(&row, None).unwrap();
    refresh(&other);
    let mut blocked = documents.block_writes().unwrap();
    std::thread::scope(|scope| {
        let deleting = scope.spawn(|| other.delete(&row.name));
        // The database looks for deadlocks after a second.
        std::thread::sleep(Duration::from_millis(1_500));
        let changed = Collection { description: Some("new".to_owned()), ..row.clone() };
        assert!(one.update_and_commit(&mut blocked, &changed).unwrap());
        let deleted = deleting.join().unwrap();
        assert!(matches!(deleted, Err(StoreError::CatalogChanged)), "{deleted:?}");
    });
    refresh(&other);
    assert!(other.delete(&row.name).unwrap().is_some());
}
