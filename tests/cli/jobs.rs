//! `dragoman jobs`, and how `import`, `export` and `snapshot` handle a server's answers.

use std::fs;

use serde_json::Value;

use super::{Script, dragoman, run, run_with};

const ID: &str = "0199d1a0-0000-7000-8000-000000000001";

fn job(status: &str, more: &str) -> String {
    format!(
        r#"{{"id": "{ID}", "type": "import", "status": "{status}", "collection": "news", "created_at": "2026-01-02T03:04:05.678Z",
        "progress": {{"done": 50, "total": 100, "unit": "bytes"}}{more}}}"#
    )
    .replace('\n', " ")
}

fn done(failed: u64) -> String {
    job("succeeded", &format!(r#", "details": {{"created": 1200, "updated": 0, "failed": {failed}}}"#))
}

#[test]
fn an_import_is_followed_to_its_end_and_reports_failures() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("documents.csv.gz");
    fs::write(&input, "not looked at here").unwrap();
    let failures = folder.path().join("failures.ndjson");
    let events = format!(": hello\n\ndata: {}\n\ndata: {}\n\n", job("running", ""), done(2));
    let results = r#"{"line": 2, "id": "b", "status": "failed", "error": {"code": "invalid_request", "pointer": "/text", "detail": "is blank"}}
{"line": 3, "status": "failed", "error": {"code": "malformed_json", "detail": "EOF"}}
"#;
    let accepted = job("queued", "");
    let script = Script::of(&[
        ("201 Created", "{}"),
        ("202 Accepted", &accepted),
        ("200 OK\r\ncontent-type: text/event-stream", &events),
        ("200 OK\r\ncontent-type: application/x-ndjson", results),
    ]);
    let mut command = dragoman(&script.url, &["import", "news", "--create", "--failures"]);
    command.arg(&failures).arg(&input);
    let run = run_with(command, b"");
    assert_eq!(run.expect(3), "");
    let lines: Vec<&str> = run.err.lines().collect();
    assert_eq!(lines[0], "created collection news");
    assert_eq!(lines[2..4], ["line 2 (b): invalid_request: /text: is blank", "line 3: malformed_json: EOF"]);
    assert_eq!(lines[4], "import succeeded: created 1,200, updated 0, failed 2");
    assert_eq!(fs::read_to_string(&failures).unwrap(), results);
    let requests = script.requests();
    assert!(requests[1].starts_with("POST /v1/collections/news/import HTTP/1.1\r\n"), "{requests:?}");
    for header in ["content-type: text/csv\r\n", "content-encoding: gzip\r\n", "content-length: 18\r\n"] {
        assert!(requests[1].contains(header), "{header} {requests:?}");
    }
    assert!(requests[1].ends_with("\r\n\r\nnot looked at here"), "{requests:?}");
    assert!(requests[2].starts_with(&format!("GET /v1/jobs/{ID}/events ")), "{requests:?}");
    assert!(requests[3].starts_with(&format!("GET /v1/jobs/{ID}/results?status=failed ")), "{requests:?}");
}

#[test]
fn a_detached_import_prints_its_job() {
    let accepted = job("queued", "");
    let script = Script::of(&[("202 Accepted", &accepted)]);
    let run = run(&script.url, &["import", "news", "Cargo.toml", "--detach", "--json"]).json();
    assert_eq!(run[0]["id"], ID);
}

#[test]
fn watching_a_job_survives_broken_event_streams() {
    let (running, ended) =
        (job("running", ""), job("failed", r#", "error": {"code": "storage_unavailable", "detail": "the disk is full"}"#));
    let cut = format!("data: {running}\n\nda");
    let script = Script::of(&[
        ("200 OK", &running),
        ("200 OK\r\ncontent-type: text/event-stream", &cut),
        ("200 OK", &running),
        ("404 Not Found", "{}"),
        ("200 OK", &ended),
    ]);
    let run = run(&script.url, &["jobs", "watch", ID]);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    assert_eq!(run.err, "import failed\nerror: the job failed: storage_unavailable: the disk is full\n");
    assert_eq!(script.requests().len(), 5);
}

#[test]
fn jobs_are_listed_and_shown() {
    let list = format!(r#"{{"jobs": [{}, {}]}}"#, job("running", ""), done(0));
    let one = done(0);
    let canceled = job("canceled", "");
    let script = Script::of(&[("200 OK", &list), ("200 OK", &one), ("202 Accepted", &canceled)]);
    let table = run(&script.url, &["jobs", "list", "--status", "running", "--type", "import", "--collection", "news"]);
    let lines: Vec<&str> = table.expect(0).lines().collect();
    assert_eq!(lines[1], format!("{ID}  import  news        running     50%  2026-01-02 03:04:05Z"));
    let shown = run(&script.url, &["jobs", "show", ID]);
    assert!(shown.expect(0).contains("\ndetails.created  1,200\n"), "{}", shown.out);
    let canceled = run(&script.url, &["jobs", "cancel", ID, "--json"]).json();
    assert_eq!(canceled[0]["status"], "canceled");
    let requests = script.requests();
    assert!(requests[0].starts_with("GET /v1/jobs?status=running&type=import&collection=news "), "{requests:?}");
    assert!(requests[2].starts_with(&format!("POST /v1/jobs/{ID}/cancel ")), "{requests:?}");
}

#[test]
fn job_results_are_printed_unchanged() {
    let results = "{\"line\": 1, \"status\": \"created\"}\n{\"line\": 2, \"status\": \"failed\"}\n";
    let script = Script::of(&[("200 OK", results), ("200 OK", results)]);
    assert_eq!(run(&script.url, &["jobs", "results", ID]).expect(0), results);
    assert_eq!(run(&script.url, &["jobs", "results", ID, "--failed"]).expect(0), results);
    assert!(script.requests()[1].starts_with(&format!("GET /v1/jobs/{ID}/results?status=failed ")));
}

#[test]
fn an_interrupted_export_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.ndjson");
    let lines = "{\"id\": \"a\"}\n{\"id\": \"b\"}\n";
    let chunked = |end: &str| format!("{:x}\r\n{lines}\r\n{end}", lines.len());
    for (body, code) in [(chunked("0\r\n\r\n"), 0), (chunked(""), 1)] {
        let raw = format!("200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n{body}");
        let script =
            Script::raw(vec!["200 OK\r\nconnection: close\r\ncontent-length: 16\r\n\r\n{\"documents\": 2}".to_owned(), raw]);
        let run = run(&script.url, &["export", "news", "-o", output.to_str().unwrap()]);
        assert_eq!(run.code, code, "{run:?}");
        if code == 0 {
            assert_eq!((run.err.as_str(), fs::read_to_string(&output).unwrap().as_str()), ("2 documents\n", lines));
            fs::remove_file(&output).unwrap();
        } else {
            assert!(run.err.starts_with("error: cannot read the export to its end: "), "{}", run.err);
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn snapshots_are_created_and_restored_with_the_given_options() {
    let ended = job("succeeded", r#", "details": {"snapshot": "0199d1a0-0000-7000-8000-000000000002"}"#);
    let script = Script::of(&[("202 Accepted", &ended), ("202 Accepted", &ended)]);
    let created = run(&script.url, &["snapshot", "create", "news", "old"]);
    assert_eq!(created.expect(0), "0199d1a0-0000-7000-8000-000000000002\n");
    let arguments = ["snapshot", "restore", ID, "--collection", "news", "--rename-to", "copy", "--replace", "--yes", "--json"];
    run(&script.url, &arguments).expect(0);
    let bodies: Vec<Value> = script
        .requests()
        .iter()
        .map(|request| serde_json::from_str(request.split("\r\n\r\n").nth(1).unwrap()).unwrap())
        .collect();
    assert_eq!(bodies[0], serde_json::json!({ "collections": ["news", "old"] }));
    assert_eq!(bodies[1], serde_json::json!({ "collection": "news", "rename_to": "copy", "replace": true }));
}

#[test]
fn a_download_with_a_wrong_checksum_fails_and_keeps_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out");
    // The SHA-256 of "abc", from FIPS 180.
    let about = r#"{"archive_sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}"#;
    for (archive, code) in [("abc", 0), ("abd", 1)] {
        let script = Script::of(&[("200 OK", about), ("200 OK", archive)]);
        let run = run(&script.url, &["snapshot", "download", ID, "-o", path.to_str().unwrap()]);
        assert_eq!(run.code, code, "{run:?}");
        if code == 1 {
            assert!(run.err.contains("the archive has SHA-256 "), "{}", run.err);
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "abc");
    }
}

#[test]
fn the_export_compression_follows_the_file_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.ndjson.zst");
    let collection = ("200 OK", r#"{"documents": 2}"#);
    let export = |response: &str| {
        let script = Script::of(&[collection, (response, "packed")]);
        let run = run(&script.url, &["export", "news", "--vectors", "-o", path.to_str().unwrap()]);
        (run, script.requests().remove(1))
    };
    let (run, request) = export("200 OK\r\ncontent-encoding: zstd");
    run.expect(0);
    assert!(request.starts_with("GET /v1/collections/news/export?include=vector "), "{request}");
    assert!(request.contains("accept-encoding: zstd\r\n"), "{request}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "packed");
    fs::remove_file(&path).unwrap();
    let (run, _) = export("200 OK");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(!path.exists());
}
