//! The real program with its store on a database server that falls silent: nothing arrives any more, but no connection closes.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::postgres_server::Database;
use super::program::{Client, Program, command};
use super::proxy::Proxy;
use serde_json::{Value, json};

const DOCUMENTS: &str = "/v1/collections/news/documents";
/// The docs promise half a minute; a busy machine gets some more.
const NOTICED_WITHIN: Duration = Duration::from_secs(45);

fn on(hosts: &[&Proxy], data: &Path) -> Command {
    let hosts: Vec<String> = hosts.iter().map(|proxy| proxy.address().to_string()).collect();
    let mut command = command(data, "fake:64");
    command.env("DRAGOMAN_STORE", format!("postgres://postgres@{}/postgres", hosts.join(",")));
    command
}

/// Starts a server and creates a collection.
fn serve_news(hosts: &[&Proxy], data: &Path) -> Program {
    let server = Program::run(on(hosts, data));
    assert_eq!(server.client().post("/v1/collections", &json!({"name": "news"})).0, 201);
    server
}

fn one_document(id: &str) -> Value {
    json!({"documents": [{"id": id, "text": "Der Zug hat Verspätung."}]})
}

/// Repeats a write until it succeeds. Returns how long that took.
fn time_until_stored(client: &Client, id: &str) -> Duration {
    let started = Instant::now();
    client.wait_until("a document is stored", |client| matches!(client.try_post(DOCUMENTS, &one_document(id)), Ok((200, _))));
    started.elapsed()
}

#[test]
fn a_server_goes_on_at_the_other_host_when_the_network_to_its_database_is_lost() {
    let (database, data) = (Database::start(), tempfile::tempdir().unwrap());
    let [first, second] = [(); 2].map(|()| Proxy::start(&database.socket()));
    let server = serve_news(&[&first, &second], data.path());
    let client = server.client();
    first.lose();
    let took = time_until_stored(&client, "a");
    assert!(took < NOTICED_WITHIN, "{took:?}");
    assert_eq!(client.hits("news", &json!({"query": "Verspätung", "limit": 1}))[0]["id"], "a");
}

#[test]
fn requests_that_wait_for_a_silent_database_end_with_storage_unavailable() {
    let (database, data) = (Database::start(), tempfile::tempdir().unwrap());
    let only = Proxy::start(&database.socket());
    let server = serve_news(&[&only], data.path());
    only.lose();
    let started = Instant::now();
    let waiting: Vec<_> = (0..8)
        .map(|number| {
            let client = server.client();
            std::thread::spawn(move || client.post(DOCUMENTS, &one_document(&format!("d{number}"))))
        })
        .collect();
    for (status, problem) in waiting.into_iter().map(|request| request.join().unwrap()) {
        assert_eq!((status, &problem["code"]), (503, &json!("storage_unavailable")), "{problem}");
    }
    assert!(started.elapsed() < NOTICED_WITHIN, "{:?}", started.elapsed());
    assert_eq!((server.client().get("/healthz").0, server.client().get("/readyz").0), (200, 503));
}
