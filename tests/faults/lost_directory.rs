//! A data directory that is moved, or loses its lock, while the server runs: a write to it might never be found again, so the
//! server refuses writes.

use serde_json::{Value, json};

use super::program::Program;
use super::{MODEL, create, fill, put};

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
