//! The disk becomes full during a job: the job fails with the right error code, existing data is still served, no files of the
//! job remain, and the same request succeeds once there is room. An import waits for room instead, and so does a job that has not
//! begun.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::disk::Disk;
use super::program::{Client, Program, command};
use super::{MODEL, create, start};

const MIB: usize = 1 << 20;
const NEWS: &str = "/v1/collections/news";
const DOCUMENTS: usize = 600;
/// Lines of an import.
const LINES: usize = 1_200;
/// A different model from `MODEL`.
const OTHER: &str = "fake:32";

/// A text of a few kilobytes, different for each document.
fn text(n: usize) -> String {
    format!("paragraph {n} of harbor{n}, {}", format!("lantern{n} and meadow{} ", n * 7919).repeat(150))
}

/// A file to import.
fn lines() -> String {
    let line = |n: usize| json!({ "id": n.to_string(), "text": text(n), "language": "en" }).to_string() + "\n";
    (0..LINES).map(line).collect()
}

/// Creates `news` and fills it with a few megabytes.
fn fill(client: &Client) {
    create(client, "news");
    for part in (0..DOCUMENTS).collect::<Vec<_>>().chunks(100) {
        let document = |n: &usize| json!({ "id": n.to_string(), "text": text(*n), "language": "en" });
        let documents: Vec<Value> = part.iter().map(document).collect();
        let (status, body) = client.post(&format!("{NEWS}/documents"), &json!({ "documents": documents }));
        assert_eq!(status, 200, "{body}");
    }
}

fn serve(disk: &Disk, model: &str) -> Program {
    serve_with(disk, model, &[])
}

fn serve_with(disk: &Disk, model: &str, more: &[&str]) -> Program {
    let mut command = command(disk.folder(), model);
    command.args(["--disk-reserve-bytes", "1"]).args(more);
    start(disk.command(&command))
}

/// The current state of the job that a request created.
fn job_of(client: &Client, (status, job): &(u16, Value)) -> Value {
    assert_eq!(*status, 202, "{job}");
    client.get(&format!("/v1/jobs/{}", job["id"].as_str().unwrap())).1
}

/// Waits until the job that a request created has ended, and returns it.
fn finished(client: &Client, accepted: &(u16, Value)) -> Value {
    let ended = |client: &Client| !["queued", "running"].contains(&job_of(client, accepted)["status"].as_str().unwrap());
    client.wait_until("the job ends", ended);
    job_of(client, accepted)
}

/// Starts a job that has room when it is accepted, and fills the disk soon after. Returns whether the job ended before that.
fn finishes_before_the_disk_is_full(disk: &Disk, client: &Client, path: &str, body: &Value) -> bool {
    let accepted = client.post(path, body);
    disk.fill_up();
    // The filler may also take the space that the failed job freed. Then its final status is stored once there is room again.
    let ended = || !["queued", "running"].contains(&job_of(client, &accepted)["status"].as_str().unwrap());
    let deadline = Instant::now() + Duration::from_secs(5);
    while !ended() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    if !ended() {
        disk.give_some_back();
    }
    let job = finished(client, &accepted);
    if job["status"] == "succeeded" {
        println!("{path} was done before the disk was full");
        return true;
    }
    assert_eq!((&job["status"], job["error"]["code"].as_str()), (&json!("failed"), Some("storage_unavailable")), "{job}");
    let detail = job["error"]["detail"].as_str().unwrap();
    assert!(!detail.contains("cannot copy collection"), "the error does not say that the storage is full: {detail}");
    false
}

fn check_job_succeeds(client: &Client, path: &str, body: &Value) {
    let job = finished(client, &client.post(path, body));
    assert_eq!(job["status"], "succeeded", "{job}");
}

/// Checks that all documents are there and searchable.
#[track_caller]
fn check_whole(client: &Client, collection: &str) {
    let shown = client.get(&format!("/v1/collections/{collection}")).1;
    assert_eq!((&shown["documents"], &shown["passages_pending"]), (&json!(DOCUMENTS), &json!(0)), "{shown}");
    let hits = client.hits(collection, &json!({ "query": "harbor17", "mode": "lexical", "limit": 3 }));
    assert_eq!(hits[0]["id"], "17", "{hits:?}");
}

fn folders(disk: &Disk) -> usize {
    std::fs::read_dir(disk.path().join("collections")).unwrap().count()
}

#[test]
fn reembedding_on_a_full_disk_keeps_the_old_vectors_in_service() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path(), 160 * MIB) else { return };
    let server = serve(&disk, MODEL);
    fill(&server.client());
    assert!(server.terminate().success());
    let server = serve(&disk, OTHER);
    let client = server.client();
    let old = client.get(NEWS).1["model_fingerprint"].clone();
    let path = format!("{NEWS}/reembed");
    let done = finishes_before_the_disk_is_full(&disk, &client, &path, &json!({}));
    assert_eq!(client.get(NEWS).1["model_fingerprint"] != old, done);
    check_whole(&client, "news");
    client.wait_until("one folder is left", |_| folders(&disk) == 1);
    disk.free();
    if !done {
        check_job_succeeds(&client, &path, &json!({}));
    }
    assert_ne!(client.get(NEWS).1["model_fingerprint"], old);
    check_whole(&client, "news");
}

#[test]
fn a_failed_restore_leaves_no_partial_collection() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path(), 160 * MIB) else { return };
    let server = serve(&disk, MODEL);
    let client = server.client();
    fill(&client);
    check_job_succeeds(&client, "/v1/snapshots", &json!({ "collections": ["news"] }));
    let page = client.get("/v1/snapshots").1;
    let restore = format!("/v1/snapshots/{}/restore", page["snapshots"][0]["id"].as_str().unwrap());
    let done = finishes_before_the_disk_is_full(&disk, &client, &restore, &json!({ "collection": "news", "rename_to": "again" }));
    assert_eq!(client.get("/v1/collections/again").0, if done { 200 } else { 404 });
    assert_eq!(folders(&disk), 1 + usize::from(done), "a folder is left over");
    check_whole(&client, "news");
    disk.free();
    if !done {
        check_job_succeeds(&client, &restore, &json!({ "collection": "news", "rename_to": "again" }));
    }
    check_whole(&client, "again");
}

#[test]
fn a_snapshot_on_a_full_disk_is_complete_or_absent() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path(), 160 * MIB) else { return };
    let server = serve(&disk, MODEL);
    let client = server.client();
    fill(&client);
    let news = json!({ "collections": ["news"] });
    let done = finishes_before_the_disk_is_full(&disk, &client, "/v1/snapshots", &news);
    let snapshots = || client.get("/v1/snapshots").1["snapshots"].as_array().map(Vec::len);
    assert_eq!(snapshots(), Some(usize::from(done)));
    check_whole(&client, "news");
    disk.free();
    check_job_succeeds(&client, "/v1/snapshots", &news);
    assert_eq!(snapshots(), Some(1 + usize::from(done)));
}

#[test]
fn an_import_waits_on_a_full_disk_and_continues() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path(), 160 * MIB) else { return };
    let mut server = serve(&disk, MODEL);
    let client = server.client();
    create(&client, "news");
    let accepted = client.post_lines(&format!("{NEWS}/import"), std::io::Cursor::new(lines()));
    client.wait_until("the import runs", |client| job_of(client, &accepted)["status"] != "queued");
    disk.fill_up();
    // Long enough for two attempts.
    std::thread::sleep(Duration::from_secs(3));
    let status = job_of(&client, &accepted)["status"].clone();
    assert!(status == "running" || status == "succeeded", "{status}");
    disk.free();
    let job = finished(&client, &accepted);
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!((&job["details"]["lines"], &job["details"]["created"]), (&json!(LINES), &json!(LINES)), "{job}");
    assert_eq!(client.get(NEWS).1["documents"], LINES);
    let results = client.get_text(&format!("/v1/jobs/{}/results", job["id"].as_str().unwrap()));
    let numbers = results.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["line"].as_u64().unwrap());
    assert!(numbers.eq(1..=LINES as u64), "each line has one result");
    if !server.kill().iter().any(|line| line.contains("an import waits for the storage")) {
        println!("the import was done before the disk was full");
    }
}

#[test]
fn a_job_that_has_not_begun_waits_after_a_restart_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path(), 160 * MIB) else { return };
    let mut server = serve_with(&disk, MODEL, &["--jobs-running-max", "1"]);
    let client = server.client();
    ["news", "other"].iter().for_each(|name| create(&client, name));
    super::fill(&client, "other", 20);
    let import = client.post_lines(&format!("{NEWS}/import"), std::io::Cursor::new(lines()));
    let texts: Vec<String> = (0..20).map(super::text).collect();
    let mining = client.post("/v1/mine", &json!({ "first": { "collection": "other" }, "second": { "texts": texts } }));
    disk.fill_up();
    let before = job_of(&client, &mining)["status"].clone();
    server.kill();
    if before != "queued" {
        println!("the import was done before the disk was full");
        return;
    }
    // Now both jobs may run at once.
    let server = serve(&disk, MODEL);
    let client = server.client();
    assert!(!disk.path().join("emergency-space").exists(), "there was room without the emergency space");
    let stored = || client.get(NEWS).1["documents"].clone();
    let before = stored();
    // Long enough for two attempts.
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(job_of(&client, &mining)["status"], "queued");
    assert_eq!(stored(), before, "an import used up the room of the emergency space");
    disk.free();
    for accepted in [mining, import] {
        let job = finished(&client, &accepted);
        assert_eq!(job["status"], "succeeded", "{job}");
    }
}
