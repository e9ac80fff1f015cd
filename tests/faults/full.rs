//! A full disk, tested twice: on a small disk that is really full, and with a file size limit, which needs no privileges.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::disk::{Disk, wrap_command};
use super::program::{Client, Program, command};
use super::{MODEL, check_found, create, failure, fill, put, start};

const MIB: usize = 1 << 20;
/// Size of the emergency space of a server without collections, and what each collection adds.
const SPACE: [u64; 2] = [4 << 20, 64 << 10];
/// Documents stored before the disk is full.
const BEFORE: usize = 40;

/// A text too long for any space left in a log file. It has no words, because those would take long to index.
fn long_text() -> String {
    "· ".repeat(300_000)
}

/// Checks that this is the error for a full disk, which reveals no internal cause.
#[track_caller]
fn check_refused((status, body): &(u16, Value)) {
    assert_eq!((*status, body["code"].as_str()), (503, Some("storage_unavailable")), "{body}");
}

fn document(client: &Client, id: &str) -> u16 {
    client.get(&format!("/v1/collections/news/documents/{id}")).0
}

/// Checks what a server promises while the disk is full: no partial writes, and reads keep working.
fn check_refuses_and_serves(client: &Client) {
    let before = client.get("/v1/collections/news").1["documents"].clone();
    let batch = ["x", "y", "z"].map(|id| json!({ "id": id, "text": long_text(), "language": "en" }));
    for _ in 0..3 {
        check_refused(&client.post("/v1/collections/news/documents", &json!({ "documents": batch })));
        assert_eq!(["x", "y", "z"].map(|id| document(client, id)), [404; 3], "part of a refused request was stored");
        let replaced = json!({ "documents": [{ "id": "1", "text": long_text(), "language": "en" }] });
        check_refused(&client.post("/v1/collections/news/documents?wait=stored", &replaced));
    }
    for n in 0..BEFORE {
        check_found(client, "news", n);
    }
    let (status, page) = client.get("/v1/collections/news/documents?limit=1000");
    assert_eq!((status, page["documents"].as_array().map(Vec::len)), (200, before.as_u64().map(|count| count as usize)));
    assert_eq!(client.get("/v1/collections/news").1["documents"], before);
    assert_eq!((client.get("/healthz").0, client.get("/readyz").0), (200, 200));
}

/// Checks that writes work again without a restart.
fn check_writes_resume(client: &Client) {
    let (status, body) = put(client, "news", "after", "a document of better times");
    assert_eq!(status, 200, "{body}");
    assert_eq!(client.hits("news", &json!({ "query": "a document of better times", "limit": 1 }))[0]["id"], "after");
    for n in 0..BEFORE {
        check_found(client, "news", n);
    }
}

fn command_with_frequent_saves(data: &Path) -> Command {
    let mut command = command(data, MODEL);
    command.args(["--index-save-changes", "10"]);
    command
}

#[test]
fn a_full_disk_blocks_only_writes_until_space_is_freed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path(), 32 * MIB) else { return };
    let server = start(disk.command(&command_with_frequent_saves(folder.path())));
    let client = server.client();
    create(&client, "news");
    fill(&client, "news", BEFORE);
    disk.fill_up();
    check_refuses_and_serves(&client);
    let created = client.post("/v1/collections", &json!({ "name": "another" }));
    check_refused(&created);
    disk.free();
    check_writes_resume(&client);
    create(&client, "another");
    let folders = std::fs::read_dir(disk.path().join("collections")).unwrap().count();
    assert_eq!(folders, 2, "the folder of a collection that could not be created is left over");
}

#[test]
fn a_disk_without_room_for_another_file_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::of_files(folder.path(), 64) else { return };
    let server = start(disk.command(&command_with_frequent_saves(folder.path())));
    let client = server.client();
    let ballast = |n: usize| disk.path().join(n.to_string());
    let files = (0..).take_while(|&n| std::fs::File::create(ballast(n)).is_ok()).count();
    // The folder, the database, its log and the file beside the log.
    for left in 0..4 {
        check_refused(&client.post("/v1/collections", &json!({ "name": "news" })));
        assert_eq!(std::fs::read_dir(disk.path().join("collections")).unwrap().count(), 0, "{left}");
        std::fs::remove_file(ballast(files - 1 - left)).unwrap();
    }
    (0..files - 4).for_each(|n| std::fs::remove_file(ballast(n)).unwrap());
    create(&client, "news");
}

#[test]
fn a_start_on_a_disk_without_room_for_more_files_says_how_many_to_remove() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::of_files(folder.path(), 64) else { return };
    let server = start(disk.command(&command(folder.path(), MODEL)));
    create(&server.client(), "news");
    assert!(server.terminate().success());
    let ballast = |n: usize| disk.path().join(n.to_string());
    let files = (0..).take_while(|&n| std::fs::File::create(ballast(n)).is_ok()).count();
    let error = failure(disk.command(&command(folder.path(), MODEL)));
    let number = error.split("remove at least ").nth(1).and_then(|rest| rest.split(' ').next());
    let number: usize = number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{error}"));
    (files - number..files).for_each(|n| std::fs::remove_file(ballast(n)).unwrap());
    start(disk.command(&command(folder.path(), MODEL)));
}

#[test]
fn a_file_size_limit_is_handled_like_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let mut limited = Command::new("sh");
    // The shell's limit is in blocks of 512 bytes.
    limited.args(["-c", "ulimit -S -f 2048; exec \"$@\"", "sh"]);
    let server = start(wrap_command(&command_with_frequent_saves(folder.path()), limited));
    let client = server.client();
    create(&client, "news");
    fill(&client, "news", BEFORE);
    check_refuses_and_serves(&client);
    let raised = Command::new("prlimit").args(["--fsize=unlimited", "--pid", &server.id().to_string()]).status();
    if !raised.is_ok_and(|status| status.success()) {
        println!("skipped: there is no prlimit to raise the limit with");
        return;
    }
    check_writes_resume(&client);
}

#[test]
fn a_failed_index_save_on_a_full_disk_keeps_the_previous_index() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path(), 32 * MIB) else { return };
    let run = || Program::spawn(disk.command(&command_with_frequent_saves(folder.path())));
    let server = run();
    create(&server.client(), "news");
    fill(&server.client(), "news", BEFORE);
    assert!(server.terminate().success());
    let saved = || {
        let collection = std::fs::read_dir(disk.path().join("collections")).unwrap().next().unwrap().unwrap().path();
        ["index.usearch", "index.json"].map(|name| std::fs::read(collection.join(name)).unwrap())
    };
    let before = saved();
    let server = run();
    server.client().wait_until("the server is ready", |client| client.get("/readyz").0 == 200);
    // The log still has room for this document, but the disk has no room for the index.
    let (status, body) = put(&server.client(), "news", "late", "a late document");
    assert_eq!(status, 200, "{body}");
    disk.fill_up();
    assert!(!server.terminate().success(), "the index was saved, the disk is not full");
    assert!(saved() == before, "the saved index changed");
    disk.free();
    let mut server = run();
    server.client().wait_until("the server is ready", |client| client.get("/readyz").0 == 200);
    assert_eq!(server.client().hits("news", &json!({ "query": "a late document", "limit": 1 }))[0]["id"], "late");
    (0..BEFORE).for_each(|n| check_found(&server.client(), "news", n));
    let log = server.kill().join("\n");
    assert!(!log.contains("rebuilding the index"), "{log}");
}

#[test]
fn a_server_that_stops_needs_room_for_only_one_new_index() {
    const COLLECTIONS: [&str; 4] = ["a", "b", "c", "d"];
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path(), 128 * MIB) else { return };
    let run = || start(disk.command(&command(folder.path(), "fake:1024")));
    let server = run();
    for name in COLLECTIONS {
        create(&server.client(), name);
        fill(&server.client(), name, 500);
    }
    assert!(server.terminate().success());
    let server = run();
    for name in COLLECTIONS {
        let (status, body) = put(&server.client(), name, "late", "a late document");
        assert_eq!(status, 200, "{body}");
    }
    let collection = std::fs::read_dir(disk.path().join("collections")).unwrap().next().unwrap().unwrap().path();
    let files = ["index.usearch", "index.copies"].map(|name| collection.join(name).metadata().unwrap().len());
    let index_bytes = files.iter().sum::<u64>();
    disk.fill_up();
    disk.give_back(index_bytes + index_bytes / 2);
    let log = server.stop_and_read_log();
    assert!(!log.iter().any(|line| line.contains("\"ERROR\"")), "{log:#?}");
}

#[test]
fn startup_reports_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path(), 16 * MIB) else { return };
    disk.fill_up();
    let error = failure(disk.command(&command(folder.path(), MODEL)));
    assert!(error.starts_with("error: cannot open the data directory "), "{error}");
    let free = format!(": the disk is full: free at least {} KiB in {}: ", SPACE[0] >> 10, folder.path().display());
    assert!(error.contains(&free), "{error}");
    disk.free();
    start(disk.command(&command(folder.path(), MODEL)));
}

/// Starts a server on a small disk, fills it and lets `stop` end it. Returns a server that was started on the full disk.
fn restart_on_a_full_disk(folder: &Path, stop: impl FnOnce(Program)) -> Option<(Disk, Program)> {
    let disk = Disk::small(folder, 32 * MIB)?;
    let server = start(disk.command(&command(folder, MODEL)));
    create(&server.client(), "news");
    fill(&server.client(), "news", BEFORE);
    stop(server);
    disk.fill_up();
    let server = start(disk.command(&command(folder, MODEL)));
    assert!(!disk.path().join("emergency-space").exists(), "there was room without the emergency space");
    Some((disk, server))
}

#[test]
fn a_server_starts_on_a_full_disk_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let killed = restart_on_a_full_disk(folder.path(), |mut server| drop(server.kill()));
    let Some((_disk, server)) = killed else { return };
    (0..BEFORE).for_each(|n| check_found(&server.client(), "news", n));
}

#[test]
fn a_server_starts_on_a_full_disk_after_a_shutdown() {
    let folder = tempfile::tempdir().unwrap();
    let stopped = restart_on_a_full_disk(folder.path(), |server| assert!(server.terminate().success()));
    let Some((disk, mut server)) = stopped else { return };
    (0..BEFORE).for_each(|n| check_found(&server.client(), "news", n));
    server.kill();
    disk.free();
    let server = start(disk.command(&command(folder.path(), MODEL)));
    (0..BEFORE).for_each(|n| check_found(&server.client(), "news", n));
    assert_eq!(disk.path().join("emergency-space").metadata().unwrap().len(), SPACE[0] + SPACE[1]);
}

#[test]
fn additions_are_refused_while_the_emergency_space_is_released() {
    let folder = tempfile::tempdir().unwrap();
    let keyed = |client: &Client| {
        let body = json!({ "documents": [{ "id": "keyed", "text": "a short text", "language": "en" }] });
        let (status, body) =
            client.try_send("POST", "/v1/collections/news/documents", &[("idempotency-key", "first")], &body).unwrap();
        assert_eq!(status, 200, "{body}");
        body["results"].clone()
    };
    let mut first = Value::Null;
    let store_and_kill = |mut server: Program| {
        first = keyed(&server.client());
        server.kill();
    };
    let Some((disk, mut server)) = restart_on_a_full_disk(folder.path(), store_and_kill) else { return };
    for _ in 0..3 {
        let client = server.client();
        client.wait_until("the server is ready", |client| client.get("/readyz").0 == 200);
        assert_eq!(keyed(&client), first, "a repeated request stores nothing, so it is not refused");
        check_refused(&client.post("/v1/collections", &json!({ "name": "another" })));
        let refused = put(&client, "news", "new", "a short text");
        check_refused(&refused);
        let detail = format!("additions wait until {} KiB are free", (2 * SPACE[0] + SPACE[1]) >> 10);
        assert!(refused.1["detail"].as_str().is_some_and(|text| text.contains(&detail)), "{}", refused.1);
        let change = json!({ "metadata": { "n": 1 } });
        check_refused(&client.send("PATCH", "/v1/collections/news/documents/0", &change));
        let labels = ["a", "b"].map(|name| json!({ "name": name }));
        check_refused(&client.post("/v1/classifiers", &json!({ "name": "new", "kind": "prototype", "labels": labels })));
        check_refused(&client.post("/v1/keys", &json!({ "name": "administrator", "scope": "admin" })));
        (0..BEFORE).for_each(|n| check_found(&client, "news", n));
        server.kill();
        server = start(disk.command(&command(folder.path(), MODEL)));
    }
    assert_eq!(server.client().try_delete("/v1/collections/news/documents/1").unwrap().0, 204);
    assert_eq!(server.client().try_delete("/v1/collections/news").unwrap().0, 204);
    disk.free();
    // A request may still get the refusal of an attempt that was made when the disk was full.
    let create = |client: &Client| client.post("/v1/collections", &json!({ "name": "news" })).0 == 201;
    server.client().wait_until("additions are accepted again", create);
    assert!(disk.path().join("emergency-space").exists(), "the space stays released although the disk has room");
}

#[test]
fn a_server_with_many_collections_starts_on_a_full_disk() {
    const COLLECTIONS: usize = 150;
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path(), 512 * MIB) else { return };
    let server = start(disk.command(&command(folder.path(), MODEL)));
    (0..COLLECTIONS).for_each(|n| create(&server.client(), &format!("news-{n}")));
    assert!(server.terminate().success());
    disk.fill_up();
    let server = start(disk.command(&command(folder.path(), MODEL)));
    assert!(!disk.path().join("emergency-space").exists(), "there was room without the emergency space");
    assert!(server.client().get("/readyz").1["damaged_collections"].is_null());
    assert_eq!(server.client().get("/v1/collections?limit=1000").1["collections"].as_array().map(Vec::len), Some(COLLECTIONS));
}

#[test]
fn a_server_without_emergency_space_starts_on_a_full_disk_or_says_that_it_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path(), 16 * MIB) else { return };
    let mut server = start(disk.command(&command(folder.path(), MODEL)));
    create(&server.client(), "news");
    fill(&server.client(), "news", BEFORE);
    server.kill();
    std::fs::remove_file(disk.path().join("emergency-space")).unwrap();
    disk.fill_up();
    match Program::try_spawn(disk.command(&command(folder.path(), MODEL))) {
        // The server may start if everything that it needs already exists; then it must serve.
        Ok(server) => {
            server.client().wait_until("the server is ready", |client| client.get("/readyz").0 == 200);
            (0..BEFORE).for_each(|n| check_found(&server.client(), "news", n));
        }
        Err(error) => assert!(error.contains("the disk is full: free at least "), "{error}"),
    }
    disk.free();
    let server = start(disk.command(&command(folder.path(), MODEL)));
    (0..BEFORE).for_each(|n| check_found(&server.client(), "news", n));
}

/// Starts a server on a small disk, lets `prepare` use it and fills the disk. Passes on what `prepare` returns.
fn with_full_disk<T>(folder: &Path, prepare: impl FnOnce(&Client) -> T) -> Option<(Disk, Program, T)> {
    let disk = Disk::small(folder, 32 * MIB)?;
    let server = start(disk.command(&command(folder, MODEL)));
    let prepared = prepare(&server.client());
    disk.fill_up();
    Some((disk, server, prepared))
}

#[test]
fn a_collection_can_be_deleted_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let full = with_full_disk(folder.path(), |client| ["kept", "deleted"].map(|name| create(client, name)));
    let Some((disk, server, _)) = full else { return };
    let client = server.client();
    check_refused(&client.post("/v1/collections", &json!({ "name": "another" })));
    assert_eq!(client.try_delete("/v1/collections/deleted").unwrap().0, 204);
    assert_eq!(["kept", "deleted"].map(|name| client.get(&format!("/v1/collections/{name}")).0), [200, 404]);
    assert!(!disk.path().join("emergency-space").exists(), "there was room without the emergency space");
}

#[test]
fn a_key_can_be_revoked_on_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let full = with_full_disk(folder.path(), |client| {
        let admin = client.post("/v1/keys", &json!({ "name": "administrator", "scope": "admin" })).1;
        let admin = client.with_key(admin["secret"].as_str().unwrap());
        (admin.post("/v1/keys", &json!({ "name": "lost", "scope": "read" })).1, admin)
    });
    let Some((disk, _server, (lost, admin))) = full else { return };
    check_refused(&admin.post("/v1/keys", &json!({ "name": "another", "scope": "read" })));
    assert_eq!(admin.try_delete(&format!("/v1/keys/{}", lost["key"]["id"].as_str().unwrap())).unwrap().0, 204);
    let client = admin.with_key(lost["secret"].as_str().unwrap());
    assert_eq!(client.get("/v1/collections").0, 401);
    assert!(!disk.path().join("emergency-space").exists(), "there was room without the emergency space");
}

#[test]
fn a_deletion_reserves_the_emergency_space_again_when_the_disk_has_room() {
    let folder = tempfile::tempdir().unwrap();
    let full = with_full_disk(folder.path(), |client| ["first", "second"].map(|name| create(client, name)));
    let Some((disk, server, _)) = full else { return };
    assert_eq!(server.client().try_delete("/v1/collections/first").unwrap().0, 204);
    assert!(!disk.path().join("emergency-space").exists());
    disk.free();
    assert_eq!(server.client().try_delete("/v1/collections/second").unwrap().0, 204);
    assert_eq!(disk.path().join("emergency-space").metadata().unwrap().len(), SPACE[0]);
}
