//! A streaming replica answers reads. It includes what was just written or leaves the read to the primary, and its failures
//! fail no read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use dragoman::domain::{
    Collection, DocumentOrder, FacetRequest, Field, Filter, JobId, Metric, Page, PassageEmbedding, PassageId, Precondition,
    QueryTerm, QueryTerms, Scalar, ScrollRequest, TermPhrase, TokenSet,
};
use dragoman::storage::{NearestSearch, Postgres, PostgresServer, ReplicaOptions, ReplicaState, Scope, Storage, Unit};
use dragoman::store::{PassageParts, PreparedDocument, SearchFilter, StoreError};
use serde_json::json;

use crate::contract::{DIMENSION, WRITES_MAX, collection, document, embedding, equals, id, language, terms_of, with};
use crate::postgres_server::Database;
use crate::proxy::Proxy;

/// A primary with its replica, and a server that uses both.
struct Pair {
    server: Arc<PostgresServer>,
    engine: Postgres,
    row: Collection,
    replica: Database,
    primary: Database,
}

impl Pair {
    fn start() -> Self {
        Self::start_with(Duration::ZERO)
    }

    fn start_with(lag_max: Duration) -> Self {
        let primary = Database::start();
        let replica = primary.replica();
        let server = PostgresServer::connect_with(&primary.options(), Some(&replica.as_replica(lag_max))).unwrap();
        let row = collection(DIMENSION, Metric::Cosine);
        let engine = open(&server, &row);
        let pair = Self { server, engine, row, replica, primary };
        pair.wait("the replica", || pair.counts_documents_on_the_replica());
        pair
    }

    fn put(&self, name: &str) {
        put(&self.engine, name);
    }

    /// Whether a read was answered by the replica.
    fn counts_documents_on_the_replica(&self) -> bool {
        let before = reads(&self.server, "replica");
        count(&self.engine);
        reads(&self.server, "replica") > before
    }

    fn wait(&self, what: &str, done: impl FnMut() -> bool) {
        wait(what, done);
    }

    fn pause(&self) {
        self.replica.client().batch_execute("select pg_wal_replay_pause()").unwrap();
        let state = "select 1 where pg_get_wal_replay_pause_state() = 'paused'";
        self.wait("the pause", || !self.replica.client().query(state, &[]).unwrap().is_empty());
    }

    fn resume(&self) {
        self.replica.client().batch_execute("select pg_wal_replay_resume()").unwrap();
    }
}

/// Stops the readers, also when the test fails.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn open(server: &Arc<PostgresServer>, row: &Collection) -> Postgres {
    Postgres::open(server, row, terms_of(), WRITES_MAX).unwrap()
}

fn put(engine: &Postgres, name: &str) {
    let document = PreparedDocument { embedding: Some(embedding(1.0)), ..document(name, "grey sea") };
    engine.upsert_if(vec![document], Precondition::None).unwrap();
}

fn count(engine: &Postgres) -> usize {
    engine.count_matching(&SearchFilter::default(), usize::MAX).unwrap()
}

fn state(server: &PostgresServer) -> ReplicaState {
    server.replica_state().unwrap()
}

/// How many reads were counted as this.
fn reads(server: &PostgresServer, outcome: &str) -> u64 {
    state(server).reads.into_iter().find(|(name, _)| *name == outcome).unwrap().1
}

fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < Duration::from_secs(60), "{what} does not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The responses to every kind of read.
fn everything(engine: &Postgres) -> Vec<String> {
    let everywhere = SearchFilter::default();
    let filter = SearchFilter { languages: vec![language("fr").unwrap()], ..equals("third", Scalar::Integer(1)) };
    let words = QueryTerms { terms: vec![QueryTerm { text: "sea".to_owned(), prefix: true }], ..QueryTerms::default() };
    let without = TermPhrase { terms: vec!["7".to_owned()], prefix: false, folded: false };
    let demanding = QueryTerms { excluded: vec![without], ..words.clone() };
    let query = embedding(0.3);
    let scope = Scope { filter: &filter, words: None };
    let some: Vec<PassageId> = (1..40).map(PassageId).collect();
    let facets = [FacetRequest { field: Field::parse("third").unwrap(), limit: 5, stats: true, histogram: None }];
    let page = Page { limit: 7, after: Some(id("d2")) };
    let scroll =
        ScrollRequest { filter: Filter::default(), order: DocumentOrder::UpdatedAt, descending: true, limit: 5, after: None };
    let mut seen = Vec::new();
    for (scope, unit) in
        [(scope, Unit::Passage), (scope, Unit::Document), (Scope { filter: &everywhere, words: None }, Unit::Document)]
    {
        seen.push(format!(
            "{:?}",
            engine.nearest(&NearestSearch { unit, ..NearestSearch::passages(&query, 10, scope, 64) }).unwrap()
        ));
    }
    let within = engine.passages_in(scope).unwrap();
    seen.push(format!("{:?}", engine.compare(&query, &within).unwrap()));
    seen.push(format!("{:?}", engine.lexical(&words, &filter, 20).unwrap()));
    seen.push(format!("{:?}", engine.lexical(&words, &everywhere, 20).unwrap()));
    seen.push(format!("{:?}", engine.required_matches(&demanding).unwrap()));
    seen.push(format!("{:?}", engine.token_changes(None, true).unwrap()));
    seen.push(format!("{:?}", engine.facets(&filter, &facets, 1_000).unwrap()));
    seen.push(format!("{:?}", engine.list(&page, u64::MAX).unwrap()));
    seen.push(format!("{:?}", engine.list_embedded(&page, u64::MAX).unwrap()));
    seen.push(format!("{:?}", engine.scroll(&scroll, u64::MAX).unwrap()));
    seen.push(format!("{:?}", engine.counts().unwrap()));
    seen.push(format!("{:?}", engine.passages(&some, PassageParts::ALL).unwrap()));
    seen.push(format!("{:?}", engine.heads_of(&some).unwrap()));
    seen.push(format!("{:?}", engine.keep_matching(&filter, &some).unwrap()));
    seen.push(format!("{:?}", engine.passage_embeddings(&id("d3")).unwrap()));
    seen.push(format!("{:?}", engine.embedded_documents(&filter, &page, u64::MAX).unwrap()));
    seen.push(format!("{:?}", engine.embedded_keys(None, 10).unwrap()));
    seen
}

#[test]
fn a_replica_answers_every_kind_of_read_as_the_primary_does() {
    let pair = Pair::start();
    let one = |number: usize| {
        let embedding = Some(embedding(number as f32 / 100.0));
        let language = language(if number.is_multiple_of(2) { "fr" } else { "de" });
        let metadata = json!({"third": number % 3});
        PreparedDocument { embedding, language, ..with(document(&format!("d{number}"), &format!("sea {number}")), metadata) }
    };
    // Enough documents that an index is searched.
    for part in 0..6 {
        pair.engine.upsert_if((part * 1_000..(part + 1) * 1_000).map(one).collect(), Precondition::None).unwrap();
    }
    pair.put("waiting");
    let tokens = TokenSet::from_ids(&[7, 9]);
    let embedded = PassageEmbedding { embedding: embedding(0.5), tokens };
    pair.engine.set_embeddings(vec![(PassageId(6_001), embedded)]).unwrap();
    pair.wait("the replica", || pair.counts_documents_on_the_replica());
    let before = state(&pair.server).reads;
    let from_replica = everything(&pair.engine);
    let after = state(&pair.server).reads;
    assert_eq!(before[1..], after[1..], "the replica answered every read");
    assert!(after[0].1 >= before[0].1 + 20, "{after:?}");
    let alone = open(&pair.primary.connect(), &pair.row);
    assert_eq!(from_replica, everything(&alone));
}

#[test]
fn recent_writes_are_visible_while_the_replica_lags() {
    let pair = Pair::start();
    let other = open(&pair.primary.connect(), &pair.row);
    pair.put("a");
    pair.wait("the replica", || pair.counts_documents_on_the_replica());
    pair.pause();
    assert_eq!(count(&pair.engine), 1);
    assert!(pair.counts_documents_on_the_replica(), "the replica has every change of this collection");
    pair.put("b");
    let answered = reads(&pair.server, "replica");
    assert_eq!(count(&pair.engine), 2);
    put(&other, "c");
    assert_eq!(count(&pair.engine), 3, "a write through another server counts too");
    other.delete_if(&id("a"), Precondition::None).unwrap();
    assert_eq!(count(&pair.engine), 2);
    let new = open(&pair.server, &collection(DIMENSION, Metric::Cosine));
    assert_eq!(count(&new), 0, "the replica does not know this collection yet");
    assert_eq!(reads(&pair.server, "replica"), answered);
    assert!(reads(&pair.server, "behind") >= 4);
    pair.wait("its age", || state(&pair.server).lag.is_some_and(|lag| lag.bytes > 0 && lag.age > Duration::ZERO));
    pair.resume();
    pair.wait("the replica", || pair.counts_documents_on_the_replica());
    assert_eq!(count(&pair.engine), 2);
    pair.wait("its age", || state(&pair.server).lag.is_some_and(|lag| lag.bytes == 0 && lag.age == Duration::ZERO));
}

#[test]
fn every_read_sees_the_preceding_write() {
    let pair = Pair::start();
    let writer = open(&pair.primary.connect(), &pair.row);
    for number in 1..=300 {
        put(&writer, &format!("d{number}"));
        assert_eq!(count(&pair.engine), number);
    }
    assert!(reads(&pair.server, "replica") > 1, "{:?}", state(&pair.server));
}

#[test]
fn reads_that_wait_for_a_silent_replica_go_to_the_primary() {
    let primary = Database::start();
    let replica = primary.replica();
    let proxy = Proxy::start(&replica.socket());
    let options = ReplicaOptions { url: format!("postgres://postgres@{}/postgres", proxy.address()), lag_max: Duration::ZERO };
    let server = PostgresServer::connect_with(&primary.options(), Some(&options)).unwrap();
    let engine = open(&server, &collection(DIMENSION, Metric::Cosine));
    put(&engine, "a");
    let from_replica = || {
        count(&engine);
        reads(&server, "replica") > 0
    };
    wait("the replica", from_replica);
    proxy.lose();
    let (sender, counted) = mpsc::channel();
    std::thread::spawn(move || sender.send(count(&engine)));
    assert_eq!(counted.recv_timeout(Duration::from_secs(30)), Ok(1));
}

#[test]
fn a_killed_replica_fails_no_read_and_is_used_again_after_a_restart() {
    let pair = Pair::start();
    pair.put("a");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        let readers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        assert_eq!(count(&pair.engine), 1);
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            let before = reads(&pair.server, "replica");
            pair.wait("answers of the replica", || reads(&pair.server, "replica") > before);
            pair.replica.kill();
            pair.wait("the end", || !state(&pair.server).answers);
            let reads_before = reads(&pair.server, "away");
            pair.wait("answers of the primary", || reads(&pair.server, "away") > reads_before + 10);
            pair.replica.kill_and_start();
        }
        drop(stopping);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    pair.wait("the replica", || pair.counts_documents_on_the_replica());
}

#[test]
fn a_read_terminated_by_the_replica_is_answered_by_the_primary() {
    let pair = Pair::start();
    pair.put("a");
    let mut replica = pair.replica.client();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stopping = Stopping(&stop);
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        assert_eq!(count(&pair.engine), 1);
                    }
                })
            })
            .collect();
        // Terminates reads as a replica does when they conflict with replay, but spares the monitoring connection.
        let end = "select pg_terminate_backend(pid) from pg_stat_activity
                   where application_name = 'dragoman' and query not like '%pg_control_system%'";
        for _ in 0..3 {
            let answered = reads(&pair.server, "replica");
            pair.wait("answers of the replica", || reads(&pair.server, "replica") > answered);
            let failed = reads(&pair.server, "failed");
            // A connection that is closed between two reads is simply replaced.
            pair.wait("the end", || {
                replica.batch_execute(end).unwrap();
                reads(&pair.server, "failed") > failed
            });
        }
        drop(stopping);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    pair.wait("the replica", || pair.counts_documents_on_the_replica());
}

#[test]
fn a_replica_is_refused_as_a_store() {
    let primary = Database::start();
    let replica = primary.replica();
    let error = PostgresServer::connect(&replica.options()).err().unwrap();
    assert!(matches!(&error, StoreError::UnsuitableServer { problem } if problem.contains("takes no writes")), "{error:?}");
}

#[test]
fn a_promoted_replica_is_no_longer_used() {
    let pair = Pair::start();
    pair.put("a");
    pair.wait("the replica", || pair.counts_documents_on_the_replica());
    pair.replica.client().batch_execute("select pg_promote()").unwrap();
    // Detached, it advances past the primary.
    let strange = open(&pair.replica.connect(), &pair.row);
    for name in ["x", "y", "z"] {
        put(&strange, name);
    }
    let answered = reads(&pair.server, "replica");
    pair.put("b");
    assert_eq!(count(&pair.engine), 2);
    pair.wait("the end", || !state(&pair.server).answers);
    assert_eq!((count(&pair.engine), reads(&pair.server, "replica")), (2, answered));
    assert_eq!(state(&pair.server).lag, None);
}

#[test]
fn a_replica_of_a_former_primary_is_never_used() {
    let pair = Pair::start();
    let next = pair.primary.replica();
    pair.put("a");
    let applied = "select 1 from dragoman.collections where sequence > 0";
    pair.wait("the next primary", || !next.client().query(applied, &[]).unwrap_or_default().is_empty());
    next.client().batch_execute("select pg_promote()").unwrap();
    // The old primary continues, so its replica has higher sequence numbers.
    for name in ["x", "y", "z"] {
        pair.put(name);
    }
    pair.wait("the old replica", || pair.counts_documents_on_the_replica());
    let moved = PostgresServer::connect_with(&next.options(), Some(&pair.replica.as_replica(Duration::ZERO))).unwrap();
    let engine = open(&moved, &pair.row);
    assert_eq!(count(&engine), 1);
    put(&engine, "b");
    assert_eq!(count(&engine), 2);
    assert!(engine.list(&Page { limit: 10, after: None }, u64::MAX).unwrap().documents.iter().all(|one| one.id != id("x")));
    assert_eq!(reads(&moved, "replica"), 0);
    // A replica of the new primary is used at once.
    let follower = next.replica();
    let server = PostgresServer::connect_with(&next.options(), Some(&follower.as_replica(Duration::ZERO))).unwrap();
    let engine = open(&server, &pair.row);
    pair.wait("its replica", || count(&engine) == 2 && reads(&server, "replica") > 0);
}

#[test]
fn a_search_accepts_replica_lag_only_up_to_its_limit() {
    let pair = Pair::start_with(Duration::from_secs(3));
    pair.put("a");
    pair.wait("the replica", || count(&pair.engine) == 1);
    pair.pause();
    pair.put("b");
    let answered = reads(&pair.server, "replica");
    assert_eq!(count(&pair.engine), 1, "a read within the allowed lag may miss the new document");
    assert!(reads(&pair.server, "replica") > answered);
    assert!(pair.engine.get(&id("b")).unwrap().is_some(), "reading a document by its id is never stale");
    assert_eq!(pair.engine.embedded_keys(None, 10).unwrap().len(), 2, "jobs always read the newest state");
    let tokens = pair.engine.token_changes(None, true).unwrap();
    assert_eq!(tokens.sequence, pair.engine.sequence().unwrap(), "so does the cache of words, which knows the last change");
    pair.wait("the limit", || count(&pair.engine) == 2);
    pair.resume();
}

#[test]
fn an_unrelated_replica_is_refused_but_an_unreachable_one_is_accepted() {
    let (primary, stranger) = (Database::start(), Database::start());
    let other = stranger.replica();
    let connect =
        |replica: &Database| PostgresServer::connect_with(&primary.options(), Some(&replica.as_replica(Duration::ZERO)));
    for (replica, problem) in [(&other, "database system of the primary"), (&primary, "not in recovery")] {
        let refused = connect(replica).err().unwrap();
        assert!(
            matches!(&refused, StoreError::UnsuitableReplica { problem: description } if description.contains(problem)),
            "{refused:?}"
        );
    }
    let replica = primary.replica();
    let mut options = replica.as_replica(Duration::ZERO);
    primary.client().batch_execute("create database elsewhere").unwrap();
    options.url = options.url.replace("dbname=postgres", "dbname=elsewhere");
    wait("the other database", || postgres::Client::connect(&options.url, postgres::NoTls).is_ok());
    let refused = PostgresServer::connect_with(&primary.options(), Some(&options)).err().unwrap();
    assert!(refused.to_string().contains("a database other than the primary's"), "{refused:?}");
    replica.kill();
    let server = connect(&replica).unwrap();
    let engine = open(&server, &collection(DIMENSION, Metric::Cosine));
    assert_eq!((count(&engine), state(&server).answers), (0, false));
    replica.kill_and_start();
    wait("the replica", || count(&engine) == 0 && reads(&server, "replica") > 0);
}

#[test]
fn a_replica_serves_a_replacement_only_once_it_is_complete_there() {
    let pair = Pair::start_with(Duration::from_secs(600));
    let next = open(&pair.server, &collection(DIMENSION, Metric::Cosine));
    next.mark_replacement(&JobId::parse("0198c0de-0000-7000-8000-000000000001").unwrap()).unwrap();
    put(&next, "a");
    let copied = "select 1 from dragoman.collections where job is not null and sequence > 0";
    pair.wait("the copy", || !pair.replica.client().query(copied, &[]).unwrap().is_empty());
    let read_there = || {
        let before = reads(&pair.server, "replica");
        let found = count(&next);
        (found, reads(&pair.server, "replica") > before)
    };
    assert_eq!(read_there(), (1, false));
    pair.pause();
    put(&next, "b");
    pair.primary.client().execute("update dragoman.collections set job = null", &[]).unwrap();
    assert_eq!(read_there(), (2, false), "the replica had no complete copy");
    pair.resume();
    pair.wait("the replica", || read_there() == (2, true));
}
