//! The program's start and end: clear one-line errors, and a clean stop.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/program.rs"]
mod program;

use std::path::Path;
use std::process::Command;

use program::Program;
use serde_json::json;

/// Runs the program, which must fail, and gives the last line that it says.
fn failure(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    text.lines().last().unwrap().to_owned()
}

#[test]
fn a_missing_model_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let error = failure(program::command(folder.path(), "no/such/model"));
    assert!(error.starts_with("error: there is no model in no/such/model"), "{error}");
    assert!(error.contains("--model"), "{error}");
}

#[test]
fn a_taken_port_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut command = program::command(folder.path(), "fake:8");
    command.args(["--listen", &address]);
    let error = failure(command);
    assert!(error.starts_with(&format!("error: cannot listen on {address}: ")), "{error}");
}

#[test]
fn a_data_directory_in_use_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let _first = Program::start(folder.path(), "fake:8");
    let error = failure(program::command(folder.path(), "fake:8"));
    assert!(error.contains("is in use by another process"), "{error}");
}

#[test]
fn a_data_directory_that_cannot_be_made_is_named() {
    let error = failure(program::command(Path::new("/dev/null/data"), "fake:8"));
    assert!(error.starts_with("error: cannot open the data directory /dev/null/data: "), "{error}");
}

#[test]
fn a_bad_log_filter_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program::command(folder.path(), "fake:8");
    command.args(["--log", "dragoman=loudly"]);
    assert!(failure(command).contains("\"dragoman=loudly\""));
}

#[test]
fn told_to_stop_it_ends_in_order_and_goes_on_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let server = Program::start(folder.path(), "fake:8");
    let client = server.client();
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    let body = json!({ "documents": [{ "id": "a", "text": "some words", "language": "en" }] });
    assert_eq!(client.post("/v1/collections/news/documents?wait=indexed", &body).0, 200);
    assert!(server.terminate().success());
    let server = Program::start(folder.path(), "fake:8");
    let hits = server.client().hits("news", &json!({ "query": "some words", "limit": 1 }));
    assert_eq!(hits[0]["id"], "a");
}
