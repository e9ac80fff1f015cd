//! What remains after a database server is killed, several servers writing to one collection, and unsuitable servers.

use std::time::{Duration, Instant};

use dragoman::domain::{Embedding, JobId, Metric, Precondition};
use dragoman::storage::{NearestSearch, Postgres, PostgresOptions, PostgresServer, Scope, Storage};
use dragoman::store::{PreparedDocument, SearchFilter, StoreError};

use crate::contract::{DIMENSION, WRITES_MAX, collection, document, embedding, id, terms_of};
use crate::postgres_server::Database;

fn put(engine: &Postgres, document: PreparedDocument) -> Result<dragoman::store::Upserted, StoreError> {
    engine.upsert_if(vec![document], Precondition::None).map(|mut outcomes| outcomes.remove(0))
}

#[test]
fn an_acknowledged_write_survives_a_killed_database() {
    let database = Database::start();
    let server = database.connect();
    let row = collection(DIMENSION, Metric::Cosine);
    let engine = Postgres::open(&server, &row, terms_of(), WRITES_MAX).unwrap();
    let job = JobId::parse("00000000-0000-0000-0000-000000000001").unwrap();
    for round in 0..3 {
        let name = format!("d{round}");
        let document = PreparedDocument { embedding: Some(embedding(1.0)), ..document(&name, "text") };
        let checkpoint = name.clone();
        let outcome = engine.upsert_for_job(&job, vec![document], Box::new(move |_| checkpoint)).unwrap().remove(0);
        database.kill_and_start();
        let started = Instant::now();
        // The connections are broken, and new ones fail until the server is back.
        let found = loop {
            match engine.get(&id(&name)) {
                Ok(found) => break found,
                Err(StoreError::ServerUnreachable { .. } | StoreError::Server { .. })
                    if started.elapsed() < Duration::from_secs(60) =>
                {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(error) => unreachable!("{error:?}"),
            }
        };
        assert_eq!(found.unwrap().sequence, outcome.sequence);
        assert_eq!(engine.job_checkpoint(&job).unwrap(), Some(name));
        assert_eq!(engine.passage_embeddings(&id(&format!("d{round}"))).unwrap().unwrap(), [embedding(1.0)]);
    }
    assert!(put(&engine, document("after", "text")).unwrap().created);
}

#[test]
fn a_job_stores_nothing_more_after_the_database_has_lost_its_last_batch() {
    let (database, server) = Database::shared();
    let row = collection(DIMENSION, Metric::Cosine);
    let engine = Postgres::open(server, &row, terms_of(), WRITES_MAX).unwrap();
    let job = JobId::parse("00000000-0000-0000-0000-000000000002").unwrap();
    let store = |name: &'static str| engine.upsert_for_job(&job, vec![document(name, "text")], Box::new(|_| name.to_owned()));
    store("a").unwrap();
    store("b").unwrap();
    engine.check_last_checkpoint(&job).unwrap();
    // The state of a replica that has not received the second batch.
    let went_back = "update dragoman.job_checkpoints set checkpoint = 'a' where job = $1";
    assert_eq!(database.client().execute(went_back, &[&job.as_str()]).unwrap(), 1);
    assert!(matches!(store("c"), Err(StoreError::WentBack { .. })));
    assert_eq!((engine.get(&id("c")).unwrap(), engine.job_checkpoint(&job).unwrap().as_deref()), (None, Some("a")));
    store("b").unwrap();
    assert_eq!(database.client().execute(went_back, &[&job.as_str()]).unwrap(), 1);
    assert!(matches!(engine.check_last_checkpoint(&job), Err(StoreError::WentBack { .. })));
}

#[test]
fn writes_from_several_servers_are_serialized() {
    let row = collection(DIMENSION, Metric::Cosine);
    let engines: Vec<Postgres> =
        (0..2).map(|_| Postgres::open(&Database::shared().1, &row, terms_of(), WRITES_MAX).unwrap()).collect();
    let sequences: Vec<_> = std::thread::scope(|scope| {
        let write = |engine, name| {
            move || -> Vec<_> {
                (0..20).map(|_| put(engine, document(name, "text")).unwrap()).map(|done| (done.sequence, done.created)).collect()
            }
        };
        let threads: Vec<_> = engines.iter().map(|engine| scope.spawn(write(engine, "same"))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(sequences.iter().collect::<std::collections::HashSet<_>>().len(), 40);
    assert_eq!(sequences.iter().filter(|(_, created)| *created).count(), 1);
    assert_eq!(engines[0].counts().unwrap().documents, 1);
    assert_eq!(engines[0].sequence().unwrap(), engines[1].sequence().unwrap());
}

#[test]
fn the_first_response_on_a_connection_can_be_large() {
    const MANY: usize = 3_000;
    let row = collection(64, Metric::Cosine);
    let options = Database::shared().0.own();
    let open = || Postgres::open(&PostgresServer::connect(&options).unwrap(), &row, terms_of(), WRITES_MAX).unwrap();
    let vector = |number: usize| {
        Embedding::normalized((0..64).map(|at| if at == number % 64 { 2.0 } else { number as f32 / MANY as f32 }).collect())
    };
    let one = |number| PreparedDocument { embedding: vector(number), ..document(&number.to_string(), "text") };
    open().upsert_if((0..MANY).map(one).collect(), Precondition::None).unwrap();
    let filter = SearchFilter::default();
    let query = vector(7).unwrap();
    let search = NearestSearch::passages(&query, MANY, Scope { filter: &filter, words: None }, 64);
    // None of its connections has read an embedding yet.
    assert_eq!(open().nearest(&search).unwrap().neighbors.len(), MANY);
}

#[test]
fn a_collection_persists_until_it_is_removed() {
    let row = collection(DIMENSION, Metric::Cosine);
    let open = || Postgres::open(&Database::shared().1, &row, terms_of(), WRITES_MAX).unwrap();
    let first = open();
    put(&first, document("a", "text")).unwrap();
    drop(first);
    let second = open();
    assert!(second.get(&id("a")).unwrap().is_some());
    second.remove().unwrap();
    assert!(matches!(second.get(&id("a")), Err(StoreError::Closed)));
    assert_eq!(open().counts().unwrap().documents, 0);
}

#[test]
fn a_write_to_a_removed_collection_is_refused() {
    let row = collection(DIMENSION, Metric::Cosine);
    let open = || Postgres::open(&Database::shared().1, &row, terms_of(), WRITES_MAX).unwrap();
    let (one, other) = (open(), open());
    other.remove().unwrap();
    assert!(matches!(put(&one, document("a", "text")), Err(StoreError::Closed)));
}

#[test]
fn a_statement_past_its_deadline_is_interrupted() {
    let (database, server) = Database::shared();
    let row = collection(DIMENSION, Metric::Cosine);
    let engine = Postgres::open(server, &row, terms_of(), WRITES_MAX).unwrap();
    let mut other = postgres::Client::connect(&database.options().url, postgres::NoTls).unwrap();
    let mut holding = other.transaction().unwrap();
    holding.query("select key from dragoman.collections where id = $1 for update", &[&row.id.0]).unwrap();
    engine.interrupt_after(Instant::now());
    let stored = put(&engine, document("a", "text"));
    assert!(matches!(stored, Err(StoreError::Interrupted { .. })), "{stored:?}");
    holding.rollback().unwrap();
    assert_eq!(engine.get(&id("a")).unwrap(), None);
}

#[test]
fn writes_beyond_the_queue_limit_are_refused_immediately() {
    let (database, server) = Database::shared();
    let row = collection(DIMENSION, Metric::Cosine);
    let engine = Postgres::open(server, &row, terms_of(), 1).unwrap();
    let mut other = postgres::Client::connect(&database.options().url, postgres::NoTls).unwrap();
    let mut holding = other.transaction().unwrap();
    holding.query("select key from dragoman.collections where id = $1 for update", &[&row.id.0]).unwrap();
    std::thread::scope(|scope| {
        let [one, two] = ["a", "b"].map(|name| {
            scope.spawn({
                let engine = &engine;
                move || put(engine, document(name, "text"))
            })
        });
        // One waits for the row lock and the other is refused. Only then is the row released.
        while !one.is_finished() && !two.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        holding.rollback().unwrap();
        let mut responses = [one.join().unwrap(), two.join().unwrap()];
        responses.sort_by_key(Result::is_ok);
        assert!(matches!(responses, [Err(StoreError::WriteQueueFull { limit: 1 }), Ok(_)]), "{responses:?}");
    });
}

#[test]
fn an_unreachable_or_unsuitable_server_is_refused() {
    let options = |url: &str| PostgresOptions { url: url.to_owned(), authorities: None, connections_max: 2 };
    let connect = |url: &str| PostgresServer::connect(&options(url)).map(drop).unwrap_err();
    assert!(matches!(connect("host=/nowhere user=postgres"), StoreError::ServerUnreachable { .. }));
    let database = Database::start();
    drop(database.connect());
    let mut client = postgres::Client::connect(&database.options().url, postgres::NoTls).unwrap();
    client.batch_execute("insert into dragoman.migrations values (99)").unwrap();
    let newer = connect(&database.options().url);
    assert!(matches!(newer, StoreError::NewerDatabase { found: 99, .. }), "{newer:?}");
    client.batch_execute("drop schema dragoman cascade").unwrap();
    client.batch_execute("create database latin encoding 'LATIN1' locale 'C' template template0").unwrap();
    let latin = connect(&database.options().url.replace("dbname=postgres", "dbname=latin"));
    assert!(matches!(&latin, StoreError::UnsuitableServer { problem } if problem.contains("got LATIN1")), "{latin:?}");
    client.batch_execute("create role plain login").unwrap();
    client.batch_execute("create database bare owner plain").unwrap();
    let plain = connect(&database.options().url.replace("dbname=postgres", "dbname=bare").replace("user=postgres", "user=plain"));
    assert!(matches!(&plain, StoreError::UnsuitableServer { problem } if problem.contains("let a superuser")), "{plain:?}");
    let unreadable = connect("postgres://host:port");
    assert!(matches!(&unreadable, StoreError::UnsuitableServer { problem } if problem.contains("address")), "{unreadable:?}");
}
