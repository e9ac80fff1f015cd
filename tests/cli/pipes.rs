//! Output to a closed pipe: a command ends quietly, as `| head` expects.

use std::process::{Command, Stdio};

use serde_json::json;

use super::dragoman;
use super::program::Program;

/// Runs a command whose standard output is closed; returns its exit code and its standard error.
fn run_with_closed_stdout(mut command: Command) -> (Option<i32>, String) {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let child = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[track_caller]
fn check(url: &str, arguments: &[&str]) {
    assert_eq!(run_with_closed_stdout(dragoman(url, arguments)), (Some(0), String::new()), "{arguments:?}");
}

#[test]
fn commands_exit_quietly_when_stdout_is_closed() {
    let (_folder, server) = Program::fresh("fake:16");
    let (client, url) = (server.client(), server.client().url().to_owned());
    assert_eq!(client.post("/v1/collections", &json!({"name": "news"})).0, 201);
    let documents = json!({"documents": [{"id": "a", "text": "Der Zug"}, {"id": "b", "text": "Le train"}]});
    assert_eq!(client.post("/v1/collections/news/documents", &documents).0, 200);
    for arguments in [
        &["--help"][..],
        &["--version"],
        &["search", "--help"],
        &["collections", "list"],
        &["collections", "show", "news", "--json"],
        &["documents", "list", "news"],
        &["documents", "get", "news", "a"],
        &["search", "news", "Zug"],
        &["search", "news", "Zug", "--json"],
        &["detect", "Der Zug"],
        &["similarity", "Der Zug", "Le train"],
        &["export", "news", "--quiet"],
        &["jobs", "list", "--quiet"],
        &["snapshot", "list", "--quiet"],
        &["classifiers", "list", "--quiet"],
    ] {
        check(&url, arguments);
    }
}

#[test]
fn config_check_keeps_its_exit_code_when_stdout_is_closed() {
    let nowhere = "http://127.0.0.1:1";
    check(nowhere, &["config", "check", "--model", "fake:8"]);
    let (code, said) = run_with_closed_stdout(dragoman(nowhere, &["config", "check", "--model", "no/such/model"]));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
}

#[test]
fn errors_set_the_exit_code_even_when_stderr_is_closed() {
    for arguments in [&["config", "check", "--model", "no/such/model"][..], &["collections", "list"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = dragoman("http://127.0.0.1:1", arguments);
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(writer).status().unwrap();
        assert_eq!(status.code(), Some(1), "{arguments:?}");
    }
}
