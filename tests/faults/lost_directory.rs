//! A data directory that is moved, or loses its lock, while the server runs: a write to it might never be found again, so the
//! server refuses writes.

use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::program::{Program, command};
use super::{MODEL, check_found, create, fill, put, start};

fn check_refused((status, body): (u16, Value)) {
    assert_eq!((status, &body["code"]), (503, &json!("storage_unavailable")), "{body}");
    let detail = body["detail"].as_str().unwrap();
    assert!(detail.starts_with("the data directory was removed, moved or replaced"), "{detail}");
}

#[test]
fn a_server_whose_data_directory_is_moved_refuses_writes_until_it_is_back() {
    let parent = tempfile::tempdir().unwrap();
    let [data, elsewhere] = ["data", "elsewhere"].map(|name| parent.path().join(name));
    let mut server = Program::start(&data, MODEL);
    let client = server.client();
    create(&client, "news");
    fill(&client, "news", 3);

    std::fs::rename(&data, &elsewhere).unwrap();
    check_refused(put(&client, "news", "late", "too late"));
    check_refused(client.try_delete("/v1/collections/news/documents/0").unwrap());
    check_refused(client.post("/v1/collections", &json!({ "name": "other" })));
    check_refused(client.post("/v1/snapshots", &json!({})));
    let (status, readiness) = client.get("/readyz");
    assert_eq!(status, 503);
    assert!(readiness["detail"].as_str().unwrap().contains("data directory"), "{readiness}");
    assert!(!data.exists(), "the server creates nothing in its place");

    std::fs::rename(&elsewhere, &data).unwrap();
    assert_eq!(put(&client, "news", "late", "in time").0, 200);
    assert_eq!(client.get("/readyz").0, 200);
    let log = server.kill();
    let logged = log.iter().filter(|line| line.contains("\"ERROR\"") && line.contains("the data directory was removed"));
    assert_eq!(logged.count(), 1, "{log:#?}");
}

#[test]
fn a_server_without_requests_notices_that_its_data_directory_is_gone() {
    let parent = tempfile::tempdir().unwrap();
    let [data, elsewhere] = ["data", "elsewhere"].map(|name| parent.path().join(name));
    let server = Program::start(&data, MODEL);
    std::fs::rename(&data, &elsewhere).unwrap();
    server.client().wait_until("the server is not ready", |client| client.get("/readyz").0 == 503);
    std::fs::rename(&elsewhere, &data).unwrap();
    server.client().wait_until("the server is ready", |client| client.get("/readyz").0 == 200);
    assert!(server.terminate().success());
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}

#[test]
fn a_server_that_stops_leaves_alone_what_is_in_place_of_its_data_directory() {
    let parent = tempfile::tempdir().unwrap();
    let [data, elsewhere, backup] = ["data", "elsewhere", "backup"].map(|name| parent.path().join(name));
    let server = Program::start(&data, MODEL);
    create(&server.client(), "news");
    fill(&server.client(), "news", 3);
    assert!(server.terminate().success());
    copy(&data, &backup);
    let server = Program::start(&data, MODEL);
    fill(&server.client(), "news", 9);
    std::fs::rename(&data, &elsewhere).unwrap();
    copy(&backup, &data);
    assert!(!server.terminate().success(), "the index was saved, but not where its documents are");

    for (path, documents) in [(&data, 3), (&elsewhere, 9)] {
        let server = Program::start(path, MODEL);
        assert!(server.client().get("/readyz").1["damaged_collections"].is_null());
        assert_eq!(server.client().get("/v1/collections/news").1["documents"], documents);
        (0..documents).for_each(|n| check_found(&server.client(), "news", n));
    }
}

#[test]
fn a_job_cannot_be_canceled_while_the_data_directory_is_elsewhere() {
    let parent = tempfile::tempdir().unwrap();
    let [data, elsewhere] = ["data", "elsewhere"].map(|name| parent.path().join(name));
    let mut one_job_at_a_time = command(&data, MODEL);
    one_job_at_a_time.env("DRAGOMAN_JOBS_RUNNING_MAX", "1");
    let server = start(one_job_at_a_time);
    let client = server.client();
    create(&client, "news");
    let import = |documents: usize| {
        let lines: String =
            (0..documents).map(|n| format!("{}\n", json!({ "id": n.to_string(), "text": "Il pleut." }))).collect();
        let (status, job) = client.post_lines("/v1/collections/news/import", Cursor::new(lines.into_bytes()));
        assert_eq!(status, 202, "{job}");
        format!("/v1/jobs/{}", job["id"].as_str().unwrap())
    };
    let [_running, waiting] = [20_000, 1].map(import);
    std::fs::rename(&data, &elsewhere).unwrap();
    check_refused(client.post(&format!("{waiting}/cancel"), &json!({})));
    assert_eq!(client.get(&waiting).1["cancel_requested"], json!(false));
}

#[test]
fn of_two_servers_on_one_data_directory_only_the_one_with_its_lock_writes() {
    let data = tempfile::tempdir().unwrap();
    let first = Program::start(data.path(), MODEL);
    create(&first.client(), "news");
    std::fs::remove_file(data.path().join("lock")).unwrap();
    let second = Program::start(data.path(), MODEL);
    check_refused(put(&first.client(), "news", "a", "through the first"));
    assert_eq!(put(&second.client(), "news", "a", "through the second").0, 200);
}
