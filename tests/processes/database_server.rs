//! The real program with its store on a database server: what is stored there, who may use it, and what survives a kill of
//! either.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::postgres_server::Database;
use super::program::{Client, PATIENCE, Program, command};
use serde_json::{Value, json};
use tempfile::TempDir;

const MODEL: &str = "fake:64";
const DOCUMENTS: &str = "/v1/collections/news/documents";

fn on(database: &Database, data: &Path) -> Command {
    let mut command = command(data, MODEL);
    command.env("DRAGOMAN_STORE", database.url("postgres"));
    command
}

fn create_news(client: &Client) {
    assert_eq!(client.post("/v1/collections", &json!({"name": "news"})).0, 201);
}

/// A server with an empty collection, its data directory and its database. Bind all three: the last one is dropped first.
fn serve_news() -> (Database, TempDir, Program) {
    let database = Database::start();
    let data = tempfile::tempdir().unwrap();
    let server = Program::run(on(&database, data.path()));
    create_news(&server.client());
    (database, data, server)
}

/// The log of a server that fails to start.
fn failed_start_log(command: Command) -> String {
    Program::try_spawn(command).err().unwrap()
}

#[test]
fn another_server_has_the_keys_and_documents_of_a_killed_one() {
    let database = Database::start();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = Program::run(on(&database, first.path()));
    let client = server.client();
    create_news(&client);
    let documents = json!({"documents": [
        {"id": "a", "text": "Der Zug hat Verspätung.", "metadata": {"line": 4}},
        {"id": "b", "text": "Le train est en retard."},
    ]});
    assert_eq!(client.post(DOCUMENTS, &documents).0, 200);
    let (status, made) = client.post("/v1/keys", &json!({"name": "all", "scope": "admin"}));
    assert_eq!(status, 201, "{made}");
    let key = json!({"name": "more", "scope": "admin"});
    assert_eq!(client.post("/v1/keys", &key).0, 401, "once a key exists, requests without one are refused");
    server.kill();
    let another = Program::run(on(&database, second.path()));
    assert_eq!(another.client().get("/v1/collections/news").0, 401, "the key protects this server too");
    let (status, document) = another.client().with_key(made["secret"].as_str().unwrap()).get(&format!("{DOCUMENTS}/a"));
    assert_eq!((status, &document["text"]), (200, &json!("Der Zug hat Verspätung.")), "{document}");
}

#[test]
fn a_new_data_directory_on_the_same_database_finds_the_documents() {
    let database = Database::start();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Program::run(on(&database, first.path()));
    let client = server.client();
    create_news(&client);
    let documents =
        json!({"documents": [{"id": "a", "text": "Der Zug hat Verspätung."}, {"id": "b", "text": "Le train est en retard."}]});
    assert_eq!(client.post(DOCUMENTS, &documents).0, 200);
    let asked = json!({"query": "Der Zug hat Verspätung.", "limit": 2});
    let found = client.hits("news", &asked);
    assert_eq!(found[0]["id"], "a");
    assert!(server.terminate().success());
    let another = Program::run(on(&database, second.path()));
    assert_eq!(another.client().hits("news", &asked), found);
    assert_eq!(another.client().get("/v1/collections/news").1["documents"], 2);
}

#[test]
fn two_servers_can_share_one_database() {
    let database = Database::start();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = Program::run(on(&database, first.path()));
    create_news(&server.client());
    let another = Program::run(on(&database, second.path()));
    assert_eq!(another.client().get("/v1/collections/news").0, 200);
    assert_eq!(server.client().get("/v1/collections/news").0, 200);
}

#[test]
fn a_mismatched_or_unusable_store_is_refused_at_startup() {
    let database = Database::start();
    let data = tempfile::tempdir().unwrap();
    assert!(Program::run(command(data.path(), MODEL)).terminate().success());
    let log = failed_start_log(on(&database, data.path()));
    assert!(log.contains("belongs to a server without the setting store"), "{log}");
    let mut unreachable = command(&data.path().join("new"), MODEL);
    unreachable.env("DRAGOMAN_STORE", "postgres://postgres:geheim@%2Fnowhere/postgres");
    let log = failed_start_log(unreachable);
    assert!(log.contains("cannot use the store on the database server") && !log.contains("geheim"), "{log}");
    let mut other = command(&data.path().join("new"), MODEL);
    other.env("DRAGOMAN_STORE", "mysql://root:geheim@host/x");
    let log = failed_start_log(other);
    assert!(log.contains("store must begin with postgres://") && !log.contains("geheim"), "{log}");
}

#[test]
fn snapshots_are_refused_on_a_database_server() {
    let (database, data, server) = serve_news();
    let client = server.client();
    let (status, response) = client.post("/v1/snapshots", &json!({}));
    assert_eq!((status, &response["code"]), (409, &json!("not_supported")), "{response}");
    let mut scheduled = on(&database, &data.path().join("new"));
    scheduled.env("DRAGOMAN_SNAPSHOT_TARGET", data.path());
    let log = failed_start_log(scheduled);
    assert!(log.contains("snapshot_target cannot be set together with store"), "{log}");
}

#[test]
fn reembedding_continues_after_the_database_is_killed() {
    const FILLED: usize = 2_000;
    let database = Database::start();
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let made = Program::run(on(&database, first.path()));
    create_news(&made.client());
    let all: Vec<Value> = (0..FILLED).map(|n| json!({"id": format!("d{n}"), "text": format!("number {n}")})).collect();
    for part in all.chunks(500) {
        assert_eq!(made.client().post(DOCUMENTS, &json!({ "documents": part })).0, 200);
    }
    assert!(made.terminate().success());
    let mut of_another_model = command(second.path(), "fake:32");
    of_another_model.env("DRAGOMAN_STORE", database.url("postgres"));
    let server = Program::run(of_another_model);
    let client = server.client();
    let (status, job) = client.post("/v1/collections/news/reembed", &json!({}));
    assert_eq!(status, 202, "{job}");
    let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    for at_least in [300, 1_200] {
        client.wait_until("it is on its way", |client| client.get(&job).1["progress"]["done"].as_u64() >= Some(at_least));
        database.kill_and_start();
    }
    client.wait_until("the job ends", |client| client.get(&job).1["status"] == "succeeded");
    let news = client.get("/v1/collections/news").1;
    assert_eq!((&news["documents"], &news["passages"], &news["dimension"]), (&json!(FILLED), &json!(FILLED), &json!(32)));
    assert_eq!(client.hits("news", &json!({"query": "number 17", "mode": "dense", "limit": 1}))[0]["id"], "d17");
}

#[test]
fn a_replica_returns_the_primarys_results_and_metrics_report_it() {
    const BY_REPLICA: &str = "dragoman_replica_reads_total{result=\"replica\"}";
    let database = Database::start();
    let replica = database.replica();
    let data = tempfile::tempdir().unwrap();
    let with_replica = || {
        let mut command = on(&database, data.path());
        command.env("DRAGOMAN_STORE_REPLICA", replica.url("postgres"));
        command
    };
    let server = Program::run(with_replica());
    let client = server.client();
    create_news(&client);
    let documents: Vec<Value> = (0..60)
        .map(|number| {
            let text =
                format!("Zug {number} nach Bonn hat Verspätung. Grund: {}", if number % 2 == 0 { "Streik" } else { "Regen" });
            json!({"id": format!("d{number}"), "text": text, "metadata": {"line": number % 5}})
        })
        .collect();
    assert_eq!(client.post(DOCUMENTS, &json!({"documents": documents})).0, 200);
    let filter = json!({"field": "line", "eq": 3});
    let searches: Vec<Value> = ["full", "dense", "hybrid", "lexical"]
        .iter()
        .flat_map(|mode| {
            let query = json!({"query": "Streik nach Bonn", "mode": mode, "limit": 7, "include": ["text", "metadata"]});
            let mut filtered = query.clone();
            filtered["filter"] = filter.clone();
            [query, filtered]
        })
        .collect();
    client.wait_until("the replica answers", |client| {
        client.hits("news", &searches[0]);
        client.sample(BY_REPLICA).is_some_and(|reads| reads > 0.0)
    });
    let from_replica: Vec<_> = searches.iter().map(|search| client.hits("news", search)).collect();
    assert!(from_replica.iter().all(|hits| !hits.is_empty()));
    assert_eq!(client.sample("dragoman_replica_up"), Some(1.0));
    client.wait_until("the replica has all", |client| client.sample("dragoman_replica_lag_bytes") == Some(0.0));
    assert_eq!(client.sample("dragoman_replica_age_seconds"), Some(0.0));
    replica.kill();
    let from_primary: Vec<_> = searches.iter().map(|search| client.hits("news", search)).collect();
    assert_eq!(from_replica, from_primary);
    client.wait_until("the replica is reported as down", |client| client.sample("dragoman_replica_up") == Some(0.0));
    assert_eq!((client.sample("dragoman_replica_lag_bytes"), client.get("/readyz").0), (None, 200));
    assert!(server.terminate().success());
    assert!(Program::run(with_replica()).terminate().success(), "it starts without its replica");
    let mut alone = command(&data.path().join("new"), MODEL);
    alone.env("DRAGOMAN_STORE_REPLICA", replica.url("postgres"));
    let log = failed_start_log(alone);
    assert!(log.contains("store_replica is set without store"), "{log}");
    let mut same = on(&database, data.path());
    same.env("DRAGOMAN_STORE_REPLICA", database.url("postgres"));
    let log = failed_start_log(same);
    assert!(log.contains("it is not in recovery"), "{log}");
}

/// Writes documents until told to stop; returns the numbers of the acknowledged ones.
fn write(client: &Client, writer: usize, stop: &AtomicBool) -> Vec<usize> {
    let mut acknowledged = Vec::new();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let text = format!("Satz {number} von {writer}");
        let document = json!({"documents": [{"id": format!("{writer}-{number}"), "text": text}]});
        match client.try_post(DOCUMENTS, &document) {
            Ok((200, _)) => acknowledged.push(number),
            Ok((500 | 503, problem)) => {
                assert!(
                    !problem["detail"].as_str().unwrap().contains("disk"),
                    "the database is the cause, not the disk: {problem}"
                );
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
            Ok(other) => panic!("{other:?}"),
        }
    }
    acknowledged
}

/// Waits until the server accepts writes again.
fn wait_for_writes(client: &Client, id: &str) {
    let started = Instant::now();
    let document = json!({"documents": [{"id": id, "text": "wieder da"}]});
    while !matches!(client.try_post(DOCUMENTS, &document), Ok((200, _))) {
        assert!(started.elapsed() < PATIENCE, "the database does not come back");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn no_acknowledged_write_is_lost_when_the_database_is_killed() {
    let (database, _data, server) = serve_news();
    let client = server.client();
    let stop = AtomicBool::new(false);
    let acknowledged: Vec<Vec<usize>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                scope.spawn({
                    let (client, stop) = (client.clone(), &stop);
                    move || write(&client, writer, stop)
                })
            })
            .collect();
        for kill in 0..3 {
            wait_for_writes(&client, &format!("before-{kill}"));
            database.kill_and_start();
            wait_for_writes(&client, &format!("after-{kill}"));
        }
        stop.store(true, Ordering::Relaxed);
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    client.wait_until("the server is ready again", |client| client.get("/readyz").0 == 200);
    for (writer, numbers) in acknowledged.iter().enumerate() {
        assert!(!numbers.is_empty());
        for number in numbers {
            let (status, document) = client.get(&format!("{DOCUMENTS}/{writer}-{number}"));
            assert_eq!((status, &document["text"]), (200, &json!(format!("Satz {number} von {writer}"))));
            if number % 10 != 0 {
                continue;
            }
            let asked = json!({"query": document["text"], "limit": 1, "mode": "dense"});
            let hits: Vec<Value> = client.hits("news", &asked);
            assert_eq!(hits[0]["id"], document["id"], "it is found by its own text");
        }
    }
}

#[test]
fn a_database_that_hangs_does_not_prevent_the_server_from_stopping() {
    let (database, data) = (Database::start(), tempfile::tempdir().unwrap());
    let mut command = on(&database, data.path());
    command.env("DRAGOMAN_SHUTDOWN_GRACE_S", "0");
    let server = Program::run(command);
    let mut holder = database.client();
    let mut locked = holder.transaction().unwrap();
    locked.batch_execute("lock table dragoman.catalog").unwrap();
    let client = server.client();
    std::thread::scope(|scope| {
        let creating = client.clone();
        scope.spawn(move || creating.try_post("/v1/collections", &json!({"name": "news"})));
        let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%dragoman.catalog%'";
        let is_waiting = |_: &Client| database.client().query_one(waiting, &[]).unwrap().get::<_, i64>(0) > 0;
        client.wait_until("the request waits for the database", is_waiting);
        assert!(server.terminate().success());
    });
}

#[test]
fn a_server_stops_although_the_database_hangs_at_the_swap_of_a_reembedding() {
    let (database, data, server) = serve_news();
    assert!(server.terminate().success());
    let mut command = on(&database, data.path());
    command.env("DRAGOMAN_SHUTDOWN_GRACE_S", "0");
    let server = Program::run(command);
    let client = server.client();
    assert_eq!(client.post(DOCUMENTS, &json!({"documents": [{"id": "a", "text": "Der Zug hat Verspätung."}]})).0, 200);
    let mut holder = database.client();
    let mut locked = holder.transaction().unwrap();
    // Reads are possible, but no change.
    locked.batch_execute("lock table dragoman.catalog in share mode").unwrap();
    let bounds = json!({"passage_bounds": {"tokens_max": 12, "overlap_tokens": 2}});
    let (status, job) = client.post("/v1/collections/news/reembed", &bounds);
    assert_eq!(status, 202, "{job}");
    let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like 'with renamed%'";
    let is_waiting = |_: &Client| database.client().query_one(waiting, &[]).unwrap().get::<_, i64>(0) > 0;
    client.wait_until("the swap waits for the database", is_waiting);
    assert!(server.terminate().success());
    locked.rollback().unwrap();
    let server = Program::run(on(&database, data.path()));
    let client = server.client();
    let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    client.wait_until("the job ends", |client| client.get(&job).1["status"] == "succeeded");
    assert_eq!(client.hits("news", &json!({"query": "Verspätung", "mode": "dense", "limit": 1}))[0]["id"], "a");
}

#[test]
fn a_labeling_job_continues_after_the_database_is_killed() {
    const LABELED: usize = 3_000;
    let (database, _data, server) = serve_news();
    let client = server.client();
    let all: Vec<Value> = (0..LABELED).map(|n| json!({"id": format!("d{n}"), "text": format!("number {n}")})).collect();
    for part in all.chunks(500) {
        assert_eq!(client.post(DOCUMENTS, &json!({ "documents": part })).0, 200);
    }
    let labels = json!([{"name": "even"}, {"name": "odd"}]);
    let made = client.post("/v1/classifiers", &json!({"name": "parity", "kind": "prototype", "labels": labels}));
    assert_eq!(made.0, 201, "{}", made.1);
    client.wait_until("it is trained", |client| client.get("/v1/classifiers/parity").1["state"] == "ready");
    let body = json!({"collection": "news", "field": "predicted"});
    let (status, job) = client.post("/v1/classifiers/parity/apply", &body);
    assert_eq!(status, 202, "{job}");
    let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    client.wait_until("it is on its way", |client| client.get(&job).1["progress"]["done"].as_u64() >= Some(200));
    database.kill_and_start();
    client.wait_until("the job ends", |client| client.get(&job).1["finished_at"].is_string());
    let ended = client.get(&job).1;
    assert_eq!((&ended["status"], &ended["details"]["documents"]), (&json!("succeeded"), &json!(LABELED)), "{ended}");
}

#[test]
fn metrics_outlive_the_database() {
    let (database, _data, server) = serve_news();
    let client = server.client();
    assert_eq!(client.post(DOCUMENTS, &json!({"documents": [{"id": "a", "text": "one"}]})).0, 200);
    client
        .wait_until("metrics show it", |client| client.sample("dragoman_collection_documents{collection=\"news\"}") == Some(1.0));
    database.kill();
    client.wait_until("the outage is noticed", |client| client.get("/readyz").0 == 503);
    let known = |client: &Client| {
        (client.sample("dragoman_collections"), client.sample("dragoman_collection_documents{collection=\"news\"}"))
    };
    assert_eq!(known(&client), (Some(1.0), Some(1.0)));
    // Longer than a reading may be reused.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!(known(&client), (Some(1.0), Some(1.0)), "the last known state stays");
}
