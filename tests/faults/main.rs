//! The server in a failing environment: a full disk, a read-only disk, a folder owned by another user, flipped bits in its
//! files, a lost index. Checks the promises of `docs/durability.md`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../support/program.rs"]
mod program;

mod bits;
mod disk;
mod failed_sync;
mod full;
mod full_jobs;
mod lost_directory;
mod not_regular;
mod power;
mod read_only;
mod saved_index;

use program::{Client, Program};
use serde_json::{Value, json};

const MODEL: &str = "fake:64";

/// Creates a collection.
fn create(client: &Client, collection: &str) {
    let (status, body) = client.post("/v1/collections", &json!({ "name": collection }));
    assert_eq!(status, 201, "{body}");
}

/// Stores a document and waits until it is searchable; returns status and body.
fn put(client: &Client, collection: &str, id: &str, text: &str) -> (u16, Value) {
    let documents = json!({ "documents": [{ "id": id, "text": text, "language": "en" }] });
    client.post(&format!("/v1/collections/{collection}/documents"), &documents)
}

/// Stores documents `0` to `count - 1`, each with a different text.
fn fill(client: &Client, collection: &str, count: usize) {
    let documents: Vec<_> =
        (0..count).map(|n| json!({ "id": n.to_string(), "text": text(n), "language": "en", "metadata": { "n": n } })).collect();
    let (status, body) = client.post(&format!("/v1/collections/{collection}/documents"), &json!({ "documents": documents }));
    assert_eq!(status, 200, "{body}");
}

/// The text of document `n`.
fn text(n: usize) -> String {
    format!("paragraph {n} tells of harbor{n}, lantern{n} and meadow{n}")
}

/// Checks that a search for the text of document `n` ranks it first.
#[track_caller]
fn check_found(client: &Client, collection: &str, n: usize) {
    let hits = client.hits(collection, &json!({ "query": text(n), "limit": 3, "include": ["text"] }));
    let id = n.to_string();
    assert!(hits[0]["id"] == id && hits[0]["text"] == text(n), "{n} is not first: {hits:?}");
}

/// Runs the program, which must fail to start, and returns its last line of output.
fn failure(mut command: std::process::Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap().lines().last().unwrap_or_default().to_owned()
}

/// Starts the server and waits until it is ready.
fn start(command: std::process::Command) -> Program {
    let server = Program::spawn(command);
    server.client().wait_until("the server is ready", |client| client.get("/readyz").0 == 200);
    server
}
