//! Scheduled snapshots of the real program, to a folder and to an S3-compatible store: created, kept, pruned, retried after
//! failures and kills, and restored by another server.

use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::Ordering;

use super::program::{self, Client, Program};
use super::s3::S3;
use serde_json::{Value, json};

/// A server that makes snapshots as often as possible.
fn scheduled(data: &Path, target: &str) -> Command {
    let mut command = program::command(data, "fake:8");
    command.args(["--snapshot-target", target, "--snapshot-interval-s", "1", "--snapshot-keep", "2"]);
    command
}

/// The same, with a bucket.
fn scheduled_to_bucket(data: &Path, url: &str) -> Command {
    let mut command = scheduled(data, "s3://backups/servers/one");
    command.args(["--snapshot-endpoint", url]);
    with_credentials(&mut command);
    command
}

fn with_credentials(command: &mut Command) {
    command.env("AWS_ACCESS_KEY_ID", "reader").env("AWS_SECRET_ACCESS_KEY", "secret").env("NO_PROXY", "127.0.0.1");
}

fn store(client: &Client, id: &str) {
    if client.get("/v1/collections/news").0 == 404 {
        assert_eq!(client.post("/v1/collections", &json!({"name": "news"})).0, 201);
    }
    let body = json!({"documents": [{"id": id, "text": format!("the text of {id}")}]});
    assert_eq!(client.post("/v1/collections/news/documents", &body).0, 200);
}

/// How many snapshots had this result.
fn results(client: &Client, result: &str) -> f64 {
    client.sample(&format!("dragoman_scheduled_snapshots_total{{result=\"{result}\"}}")).unwrap()
}

/// Waits until another snapshot has this result.
fn wait_for_another(client: &Client, result: &str) {
    let before = results(client, result);
    client.wait_until(&format!("a snapshot is {result}"), |client| results(client, result) > before);
}

/// Runs a client command.
fn run(client: &Client, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dragoman"));
    command.args(arguments).env("DRAGOMAN_SERVER", client.url());
    with_credentials(&mut command);
    command.output().unwrap()
}

fn run_successfully(client: &Client, arguments: &[&str]) -> String {
    let output = run(client, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The target's snapshots, newest first, as the command line lists them.
fn listed(client: &Client, target: &[&str]) -> Vec<Value> {
    let text = run_successfully(client, &[&["snapshot", "list", "--json"], target].concat());
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Creates, prunes and restores snapshots on any target.
fn check(server: &Program, target: &[&str], data: &Path) {
    let client = server.client();
    for id in ["a", "b", "c"] {
        store(&client, id);
        // An "unchanged" result means that the target has everything stored so far.
        wait_for_another(&client, "unchanged");
    }
    let stored = listed(&client, target);
    assert_eq!(stored.len(), 2, "{stored:?}");
    assert_eq!(stored[0]["collections"], json!(["news"]));
    let before = results(&client, "stored");
    wait_for_another(&client, "unchanged");
    assert_eq!((results(&client, "stored"), listed(&client, target)), (before, stored), "nothing has changed");
    assert_eq!(client.get("/v1/snapshots").1["snapshots"], json!([]), "the server keeps no copy of its own");

    let other_server = Program::start(&data.join("other"), "fake:8");
    let other = other_server.client();
    run_successfully(&other, &[&["snapshot", "restore", "latest"], target].concat());
    assert_eq!(other.get("/v1/collections/news").1["documents"], 3);
    let older = listed(&client, target)[1]["snapshot"].as_str().unwrap().to_owned();
    run_successfully(&other, &[&["snapshot", "restore", &older, "--collection", "news", "--rename-to", "old"], target].concat());
    assert!(other.get("/v1/collections/old").1["documents"].as_u64().unwrap() >= 2);
    let file = data.join("archive.tar.zst");
    run_successfully(&other, &[&["snapshot", "download", "latest", "-o", file.to_str().unwrap()], target].concat());
    assert!(file.metadata().unwrap().len() > 0);
    let nothing = run(&other, &[&["snapshot", "restore", "0199d1a0-0000-7000-8000-000000000001"], target].concat());
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("there is no snapshot 0199d1a0"), "{nothing:?}");
}

#[test]
fn scheduled_snapshots_in_a_folder_can_be_restored() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("backups");
    let target = target.to_str().unwrap();
    let server = Program::run(scheduled(&folder.path().join("data"), target));
    check(&server, &["--target", target], folder.path());
}

#[test]
fn scheduled_snapshots_in_a_bucket_can_be_restored() {
    let folder = tempfile::tempdir().unwrap();
    let (s3, url) = S3::start();
    let server = Program::run(scheduled_to_bucket(&folder.path().join("data"), &url));
    check(&server, &["--target", "s3://backups/servers/one", "--endpoint", &url], folder.path());
    assert_eq!((s3.keys(".json").len(), s3.keys(".tar.zst").len(), s3.keys("").len()), (2, 2, 4));
    assert!(s3.uploads.lock().unwrap().is_empty());
}

#[test]
fn a_failing_bucket_is_retried_and_does_not_disturb_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let (s3, url) = S3::start();
    let server = Program::run(scheduled_to_bucket(&folder.path().join("data"), &url));
    let client = server.client();
    store(&client, "a");
    wait_for_another(&client, "unchanged");
    s3.refuses.store(true, Ordering::SeqCst);
    store(&client, "b");
    wait_for_another(&client, "failed");
    let (newest, stored) = (s3.keys(".json").pop().unwrap(), results(&client, "stored"));
    assert_eq!(client.get("/healthz").0, 200);
    s3.refuses.store(false, Ordering::SeqCst);
    client.wait_until("a snapshot is stored", |client| results(client, "stored") > stored);
    let keys = s3.keys(".json");
    assert!(keys.contains(&newest) && *keys.last().unwrap() > newest, "what was there stays, and there is a newer one: {keys:?}");
}

#[test]
fn scheduled_snapshots_continue_after_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let (data, target) = (folder.path().join("data"), folder.path().join("backups"));
    let target = target.to_str().unwrap();
    for round in 0..4 {
        let mut server = Program::run(scheduled(&data, target));
        store(&server.client(), &format!("d{round}"));
        // Somewhere in the middle of the next snapshot.
        std::thread::sleep(std::time::Duration::from_millis(350 * round));
        server.kill();
    }
    let server = Program::run(scheduled(&data, target));
    let client = server.client();
    client.wait_until("the target has the server's state", |client| {
        results(client, "stored") + results(client, "unchanged") > 0.0 && client.get("/v1/snapshots").1["snapshots"] == json!([])
    });
    let other_server = Program::start(&folder.path().join("other"), "fake:8");
    let other = other_server.client();
    run_successfully(&other, &["snapshot", "restore", "latest", "--target", target]);
    assert_eq!(other.get("/v1/collections/news").1["documents"], 4);
    let files: Vec<String> =
        std::fs::read_dir(target).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert!(files.iter().all(|name| !name.contains('#')), "{files:?}");
}

#[test]
fn an_unusable_snapshot_target_prevents_startup() {
    let folder = tempfile::tempdir().unwrap();
    let check = |target: &str, endpoint: Option<&str>, words: &[&str]| {
        let mut command = scheduled(&folder.path().join("data"), target);
        command.args(endpoint.into_iter().flat_map(|url| ["--snapshot-endpoint", url]));
        command.env("AWS_ACCESS_KEY_ID", "nobody").env("AWS_SECRET_ACCESS_KEY", "none").env("NO_PROXY", "127.0.0.1");
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{target}: {output:?}");
        let text = String::from_utf8(output.stderr).unwrap();
        let last = text.lines().last().unwrap();
        for word in words {
            assert!(last.contains(word), "{word:?} is not in {last}");
        }
    };
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    check(file.to_str().unwrap(), None, &["error: snapshot_target cannot be used", "file"]);
    check("gs://bucket", None, &["snapshot_target must be a folder or s3://BUCKET/PREFIX"]);
    let inside = folder.path().join("data/snapshots");
    check(inside.to_str().unwrap(), None, &["snapshot_target must be outside of the data directory"]);
    let (_s3, url) = S3::start();
    check("s3://bucket/one", Some(&url), &["snapshot_target cannot be used", "cannot write to s3://bucket/one", "AccessDenied"]);
    check("s3://bucket/one", Some("http://127.0.0.1:1"), &["cannot write to s3://bucket/one"]);
}
