//! `dragoman project`.

use std::fs;

use serde_json::{Value, json};

use super::{Script, run};

const ID: &str = "0199d1a0-0000-7000-8000-000000000001";

fn job(status: &str, more: &str) -> String {
    format!(
        r#"{{"id": "{ID}", "type": "project", "status": "{status}", "created_at": "2026-01-02T03:04:05.678Z",
        "progress": {{"done": 50, "total": 100, "unit": "steps"}}{more}}}"#
    )
    .replace('\n', " ")
}

fn body(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[test]
fn project_follows_the_job_and_writes_the_projection() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("map.tsv").to_str().unwrap().to_owned();
    let events = format!(
        "data: {}\n\ndata: {}\n\n",
        job("running", ""),
        job("succeeded", r#", "details": {"center": "language", "documents": 2}"#)
    );
    let points = r#"{"center": "language", "created_at": "2026-01-02T03:04:05.678Z", "stale": false, "ids": ["a", "b"],
        "x": [0.5, -1.0], "y": [0.25, 1.0], "languages": ["de"], "language": [0, -1], "values": ["sport"], "value": [-1, 0]}"#;
    let accepted = job("queued", "");
    let script = Script::of(&[
        ("202 Accepted", &accepted),
        ("200 OK\r\ncontent-type: text/event-stream", &events),
        ("200 OK", &points.replace('\n', " ")),
    ]);
    let arguments =
        ["project", "news", "--center", "language", "--max-documents", "100", "-k", "5", "--field", "topic", "-o", &file];
    let ended = run(&script.url, &arguments);
    assert_eq!(ended.expect(0), "");
    assert!(ended.err.ends_with("2 points\n"), "{}", ended.err);
    assert_eq!(fs::read_to_string(&file).unwrap(), "id\tx\ty\tlanguage\tvalue\na\t0.5\t0.25\tde\t\nb\t-1.0\t1.0\t\tsport\n");
    let requests = script.requests();
    assert!(requests[0].starts_with("POST /v1/collections/news/projections HTTP/1.1\r\n"), "{requests:?}");
    assert_eq!(body(&requests[0]), json!({"center": "language", "max_documents": 100, "neighbors": 5}));
    assert!(requests[2].starts_with("GET /v1/collections/news/projections/language?field=topic "), "{requests:?}");
}

#[test]
fn points_are_printed_as_json_with_json() {
    let points = r#"{"center": "none", "ids": ["a"], "x": [0.5], "y": [0.25]}"#;
    let script = Script::of(&[("202 Accepted", &job("succeeded", "")), ("200 OK", points)]);
    assert_eq!(run(&script.url, &["project", "news", "-o", "-", "--json"]).json()[0]["ids"], json!(["a"]));
}

#[test]
fn an_output_file_that_cannot_be_written_is_refused_before_the_job_starts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("missing/out").to_str().unwrap().to_owned();
    for command in [&["project", "news"][..], &["duplicates", "news"], &["eval", "sts", "--data", "no such folder"]] {
        // No server answers at this address.
        let output = run("http://127.0.0.1:1", &[command, &["-o", &file]].concat());
        assert!(output.code != 0 && output.err.contains("cannot write") && output.err.contains("missing/out"), "{output:?}");
    }
    let output = run("http://127.0.0.1:1", &["project", "news", "-o", folder.path().to_str().unwrap()]);
    assert!(output.err.contains("cannot write"), "{output:?}");
}

#[test]
fn without_an_output_file_the_job_outcome_is_reported() {
    let ended = job("succeeded", r#", "details": {"documents": 1200}"#);
    let failed = job("failed", r#", "error": {"code": "too_few_documents", "detail": "a projection needs at least 10"}"#);
    let script = Script::of(&[("202 Accepted", &ended), ("202 Accepted", &failed), ("202 Accepted", &job("queued", ""))]);
    let output = run(&script.url, &["project", "news"]);
    assert_eq!(output.expect(0), "");
    assert!(output.err.ends_with("project succeeded: documents 1,200\n"), "{}", output.err);
    let output = run(&script.url, &["project", "news", "-o", "-"]);
    assert_eq!(output.code, 1);
    assert!(output.err.contains("a projection needs at least 10"), "{}", output.err);
    let detached = run(&script.url, &["project", "news", "--detach", "--json"]).json();
    assert_eq!(detached[0]["id"], ID);
    assert_eq!(body(&script.requests()[0]), json!({"center": "none"}));
    let wrong = run("http://127.0.0.1:1", &["project", "news", "--field", "topic"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
}
