//! Stopping a server ends it promptly, whatever a statement in one of its databases, the reader of its log or the target of its
//! snapshots is doing, and saves every collection.

use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use serde_json::json;

use super::program::{self, Client, Program, command};

/// How long a stopped server may take to exit: the grace periods for requests and for statements, plus a margin for slow
/// machines.
const PROMPTLY: Duration = Duration::from_secs(30);

/// Opens the database of a data directory that holds one collection.
fn database(data: &Path) -> Connection {
    let folder = std::fs::read_dir(data.join("collections")).unwrap().next().unwrap().unwrap().path();
    Connection::open(folder.join("documents.sqlite")).unwrap()
}

/// Starts a server whose write of a document with the id `endless` never finishes, with a grace period of so many seconds.
fn with_endless_writes(data: &Path, grace_s: &str) -> Program {
    let server = Program::start(data, "fake:16");
    assert_eq!(server.client().post("/v1/collections", &json!({"name": "news"})).0, 201);
    assert!(server.terminate().success());
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";
    let trigger = format!("create trigger endless after insert on documents when new.id = 'endless' begin {endless}; end");
    database(data).execute_batch(&trigger).unwrap();
    let mut serve = command(data, "fake:16");
    serve.args(["--shutdown-grace-s", grace_s]);
    Program::run(serve)
}

/// Sends a write that never finishes, and waits until it has begun.
fn begin_endless_write(data: &Path, client: &Client) -> JoinHandle<()> {
    let endless = json!({"documents": [{"id": "endless", "text": "Le train"}]});
    let client = client.clone();
    let caller = std::thread::spawn(move || drop(client.try_post("/v1/collections/news/documents", &endless)));
    // The writer holds its lock, so the write has started.
    let held = database(data);
    held.busy_timeout(Duration::ZERO).unwrap();
    let deadline = Instant::now() + program::PATIENCE;
    while held.execute_batch("begin immediate; rollback").is_ok() {
        assert!(Instant::now() < deadline, "the write does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
    caller
}

#[test]
fn an_endless_statement_does_not_prevent_shutdown() {
    let data = tempfile::tempdir().unwrap();
    let server = with_endless_writes(data.path(), "1");
    let client = server.client();
    let stored = json!({"documents": [{"id": "before", "text": "Der Zug"}]});
    assert_eq!(client.post("/v1/collections/news/documents", &stored).0, 200);
    let caller = begin_endless_write(data.path(), &client);
    let started = Instant::now();
    assert!(server.terminate_within(PROMPTLY).success());
    assert!(started.elapsed() < PROMPTLY);
    caller.join().unwrap();
    database(data.path()).execute_batch("drop trigger endless").unwrap();
    let server = Program::start(data.path(), "fake:16");
    let documents = server.client().get("/v1/collections/news").1["documents"].clone();
    assert_eq!(documents, 1, "the acknowledged document is stored, the interrupted one is not");
}

#[test]
fn a_server_that_starts_stops_although_its_snapshot_target_does_not_answer() {
    let (data, target) = (tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let mut serve = command(data.path(), "fake:16");
    let endpoint = format!("http://{}", target.local_addr().unwrap());
    serve.args(["--snapshot-target", "s3://backups", "--snapshot-endpoint", &endpoint]);
    serve.env("AWS_ACCESS_KEY_ID", "reader").env("AWS_SECRET_ACCESS_KEY", "secret").env("NO_PROXY", "127.0.0.1");
    let server = Program::spawn_at(&program::free_address(), serve);
    let _asked = target.accept().unwrap();
    assert!(server.terminate_within(PROMPTLY).success());
}

/// How long a server that has not opened its data may take to exit. Less than it waits for a lock or for a database server.
const AT_ONCE: Duration = Duration::from_secs(6);

/// Starts a server that cannot open its data, and stops it as soon as it is alive.
fn stop_while_opening(serve: Command) {
    let server = Program::spawn_at(&program::free_address(), serve);
    server.client().wait_until("the server is alive", |client| client.try_get("/healthz").is_ok_and(|(status, _)| status == 200));
    let started = Instant::now();
    assert!(server.terminate_within(PROMPTLY).success());
    assert!(started.elapsed() < AT_ONCE, "{:?}", started.elapsed());
}

#[test]
fn a_server_that_waits_for_a_locked_database_at_its_start_stops_at_once_and_loses_nothing() {
    let data = tempfile::tempdir().unwrap();
    let server = Program::start(data.path(), "fake:16");
    assert_eq!(server.client().post("/v1/collections", &json!({"name": "news"})).0, 201);
    let stored = json!({"documents": [{"id": "before", "text": "Der Zug"}]});
    assert_eq!(server.client().post("/v1/collections/news/documents", &stored).0, 200);
    assert!(server.terminate().success());
    let holder = database(data.path());
    holder.execute_batch("pragma locking_mode = exclusive; begin exclusive").unwrap();
    stop_while_opening(command(data.path(), "fake:16"));
    drop(holder);
    let server = Program::start(data.path(), "fake:16");
    assert_eq!(server.client().hits("news", &json!({"query": "Der Zug"}))[0]["id"], "before");
}

#[test]
fn a_server_that_waits_for_a_database_server_at_its_start_stops_at_once() {
    let (data, database) = (tempfile::tempdir().unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let mut serve = command(data.path(), "fake:16");
    serve.env("DRAGOMAN_STORE", format!("postgres://dragoman@{}/dragoman", database.local_addr().unwrap()));
    stop_while_opening(serve);
}

/// How many lines of its log the server has dropped.
const DROPPED_LINES: &str = "dragoman_log_lines_dropped_total";

#[test]
fn a_server_whose_log_nobody_reads_answers_and_stops() {
    let data = tempfile::tempdir().unwrap();
    // Its standard error is a pipe, which holds the lines of a few hundred requests.
    let server = Program::spawn_at(&program::free_address(), command(data.path(), "fake:16"));
    let client = server.client();
    client.wait_until("the server is ready", |client| client.try_get("/readyz").is_ok_and(|(status, _)| status == 200));
    assert_eq!(client.sample(DROPPED_LINES), Some(0.0));
    client.wait_until("lines are dropped", |client| {
        (0..1_000).for_each(|_| assert_eq!(client.get("/v1/collections/none").0, 404));
        client.sample(DROPPED_LINES) > Some(0.0)
    });
    assert!(server.terminate_within(PROMPTLY).success());
}

#[test]
fn stopping_saves_the_index_of_every_collection() {
    let data = tempfile::tempdir().unwrap();
    let server = Program::start(data.path(), "fake:16");
    let client = server.client();
    for number in 0..20 {
        assert_eq!(client.post("/v1/collections", &json!({"name": format!("c{number}")})).0, 201);
        let documents = json!({"documents": [{"id": "a", "text": format!("Zug {number}")}]});
        assert_eq!(client.post(&format!("/v1/collections/c{number}/documents"), &documents).0, 200);
    }
    let log = server.stop_and_read_log();
    let line = log.iter().find(|line| line.contains("saving the indexes")).unwrap();
    assert!(line.contains("\"collections\":20"), "{line}");
    assert!(log.last().unwrap().contains("\"stopped\""), "the last line of the log is written: {log:#?}");
    let folders = std::fs::read_dir(data.path().join("collections")).unwrap();
    let saved = folders.filter(|folder| folder.as_ref().unwrap().path().join("index.usearch").exists());
    assert_eq!(saved.count(), 20);
    let server = Program::start(data.path(), "fake:16");
    for number in 0..20 {
        let hits = server.client().hits(&format!("c{number}"), &json!({"query": format!("Zug {number}")}));
        assert_eq!(hits[0]["id"], "a", "{number}");
    }
}

#[test]
fn a_second_signal_ends_the_grace_period_and_what_was_acknowledged_is_stored() {
    let data = tempfile::tempdir().unwrap();
    let server = with_endless_writes(data.path(), "3600");
    let client = server.client();
    let stored = json!({"documents": [{"id": "before", "text": "Der Zug"}]});
    assert_eq!(client.post("/v1/collections/news/documents", &stored).0, 200);
    let caller = begin_endless_write(data.path(), &client);
    let first = format!("kill -INT {}", server.id());
    assert!(Command::new("sh").args(["-c", &first]).status().unwrap().success());
    client.wait_until("the first signal has arrived", |client| client.with_new_connections().get("/v1/models").0 == 503);
    assert!(server.terminate_within(PROMPTLY).success());
    caller.join().unwrap();
    database(data.path()).execute_batch("drop trigger endless").unwrap();
    let server = Program::start(data.path(), "fake:16");
    assert_eq!(server.client().get("/v1/collections/news").1["documents"], 1);
}
