//! Flipped bits in the files of a stopped server: the damage is reported and not served, and everything else keeps working.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use serde_json::{Value, json};

use super::program::{Client, Program};
use super::{MODEL, check_found, create, fill, put, text};

const DOCUMENTS: usize = 60;

/// A data directory with the collections `news` and `other`, whose server was stopped cleanly.
fn stopped(folder: &Path) {
    let server = Program::start(folder, MODEL);
    for collection in ["news", "other"] {
        create(&server.client(), collection);
        fill(&server.client(), collection, DOCUMENTS);
    }
    assert!(server.terminate().success());
}

/// The folder of the collection `news`, which was created first.
fn news(data: &Path) -> PathBuf {
    let mut folders: Vec<_> = std::fs::read_dir(data.join("collections")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders.remove(0)
}

/// Flips one bit of every occurrence of `bytes` in `path`: SQLite leaves old copies in free space.
fn flip_in(path: &Path, bytes: &[u8]) {
    let mut content = std::fs::read(path).unwrap();
    let places: Vec<_> = (0..=content.len() - bytes.len()).filter(|&at| content[at..].starts_with(bytes)).collect();
    assert!(!places.is_empty(), "the bytes are not in the file");
    places.into_iter().for_each(|at| content[at + bytes.len() / 2] ^= 0x04);
    std::fs::write(path, content).unwrap();
}

#[track_caller]
fn check_damaged((status, body): &(u16, Value), words: &[&str]) {
    assert_eq!((*status, body["code"].as_str()), (500, Some("collection_damaged")), "{body}");
    let detail = body["detail"].as_str().unwrap();
    words.iter().for_each(|word| assert!(detail.contains(word), "{word:?} is not in {detail:?}"));
}

fn readiness(client: &Client) -> (u16, Value) {
    let (status, body) = client.get("/readyz");
    (status, body["damaged_collections"].clone())
}

#[test]
fn a_flipped_bit_in_a_text_is_reported_and_not_served() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    flip_in(&news(folder.path()).join("documents.sqlite"), text(7).as_bytes());
    let mut server = Program::start(folder.path(), MODEL);
    let client = server.client();
    assert_eq!(readiness(&client), (200, Value::Null));

    let named = ["collection news is damaged", "document 7", "checksum", "replace or delete"];
    check_damaged(&client.get("/v1/collections/news/documents/7"), &named);
    check_damaged(&client.get("/v1/collections/news/documents?limit=1000"), &named);
    check_damaged(&client.post("/v1/collections/news/search", &json!({ "query": text(7) })), &named);
    assert_eq!(readiness(&client), (200, json!(["news"])));
    let (_, collection) = client.get("/v1/collections/news");
    assert_eq!((&collection["damage"][0]["document"], collection["damage"].as_array().map(Vec::len)), (&json!("7"), Some(1)));

    assert_eq!(client.get("/v1/collections/news/documents/8").1["text"], text(8));
    (0..DOCUMENTS).for_each(|n| check_found(&client, "other", n));

    let (status, body) = put(&client, "news", "7", &text(7));
    assert_eq!(status, 200, "{body}");
    (0..DOCUMENTS).for_each(|n| check_found(&client, "news", n));
    assert_eq!(readiness(&client), (200, Value::Null));
    let log = server.kill();
    assert_eq!(log.iter().filter(|line| line.contains("the collection is damaged")).count(), 1, "{log:?}");
}

#[test]
fn a_damaged_document_can_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    flip_in(&news(folder.path()).join("documents.sqlite"), text(7).as_bytes());
    let server = Program::start(folder.path(), MODEL);
    let client = server.client();
    check_damaged(&client.get("/v1/collections/news/documents/7"), &[]);
    assert_eq!(client.try_delete("/v1/collections/news/documents/7").unwrap().0, 204);
    assert_eq!(client.get("/v1/collections/news/documents/7").0, 404);
    assert_eq!(readiness(&client), (200, Value::Null));
    let hits = client.hits("news", &json!({ "query": text(7), "limit": 100 }));
    assert_eq!(hits.len(), DOCUMENTS - 1);
}

#[test]
fn a_damaged_document_fails_an_export_and_can_be_deleted_by_a_filter() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    flip_in(&news(folder.path()).join("documents.sqlite"), text(7).as_bytes());
    let server = Program::start(folder.path(), MODEL);
    let client = server.client();
    check_damaged(&client.get("/v1/collections/news/export"), &["collection news is damaged", "document 7"]);
    assert_eq!(readiness(&client), (200, json!(["news"])));
    let few = json!({ "filter": { "field": "metadata.n", "lt": 10 } });
    let (status, deleted) = client.post("/v1/collections/news/documents/delete", &few);
    assert_eq!((status, &deleted["deleted"]), (200, &json!(10)), "{deleted}");
    assert_eq!(readiness(&client), (200, Value::Null));
    assert_eq!(client.get_text("/v1/collections/news/export").lines().count(), DOCUMENTS - 10);
}

#[test]
fn damage_after_the_first_page_aborts_an_export() {
    const MANY: usize = 300;
    let (folder, server) = Program::fresh(MODEL);
    create(&server.client(), "news");
    fill(&server.client(), "news", MANY);
    assert!(server.terminate().success());
    // The last document in id order.
    flip_in(&news(folder.path()).join("documents.sqlite"), text(99).as_bytes());
    let server = Program::start(folder.path(), MODEL);
    let export = format!("{}/v1/collections/news/export", server.client().url());
    // The connection may break before or after the response head.
    let read = ureq::get(&export).call().and_then(|mut response| response.body_mut().read_to_string());
    assert!(read.is_err(), "a damaged export must not appear complete");
    assert_eq!(readiness(&server.client()), (200, json!(["news"])));
}

#[test]
fn a_damaged_embedding_is_recomputed_from_its_text() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    let database = news(folder.path()).join("documents.sqlite");
    let embedding: Vec<u8> = rusqlite::Connection::open(&database)
        .unwrap()
        .query_row("select embedding from passages p join documents d on d.key = p.document where d.id = '9'", [], |row| {
            row.get(0)
        })
        .unwrap();
    flip_in(&database, &embedding);
    // Forces the embeddings to be read.
    std::fs::remove_file(news(folder.path()).join("index.json")).unwrap();
    let mut server = Program::start(folder.path(), MODEL);
    let client = server.client();
    client.wait_until("the embedding is there again", |client| {
        client.get("/v1/collections/news").1["passages_pending"] == 0
            && client.get("/v1/collections/news/documents/9").1["indexed"] == true
    });
    (0..DOCUMENTS).for_each(|n| check_found(&client, "news", n));
    assert_eq!(readiness(&client), (200, Value::Null));
    let log = server.kill();
    let reports = log.iter().filter(|line| line.contains("the embedding of a passage was damaged")).count();
    assert_eq!(reports, 1, "{log:?}");
}

#[test]
fn an_unreadable_database_makes_only_its_collection_unavailable() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    let database = news(folder.path()).join("documents.sqlite");
    let mut content = std::fs::read(&database).unwrap();
    content[..4_096].fill(0x5a);
    std::fs::write(&database, content).unwrap();
    let server = Program::start(folder.path(), MODEL);
    let client = server.client();
    assert_eq!(readiness(&client), (200, json!(["news"])));
    check_damaged(&client.get("/v1/collections/news/documents/1"), &["collection news is damaged"]);
    check_damaged(&client.post("/v1/collections/news/search", &json!({ "query": "x" })), &["collection news is damaged"]);
    check_damaged(&put(&client, "news", "a", "text"), &["collection news is damaged"]);
    let (status, collection) = client.get("/v1/collections/news");
    assert_eq!((status, &collection["index_state"]), (200, &json!("damaged")), "{collection}");
    assert!(collection["damage"][0]["problem"].as_str().unwrap().contains("not a database"), "{collection}");
    let (_, page) = client.get("/v1/collections?limit=1");
    assert_eq!((&page["collections"][0]["name"], page["next_cursor"].is_string()), (&json!("news"), true), "{page}");
    assert_eq!(client.post("/v1/collections", &json!({ "name": "news" })).1["code"], "collection_exists");
    (0..DOCUMENTS).for_each(|n| check_found(&client, "other", n));

    assert_eq!(client.try_delete("/v1/collections/news").unwrap().0, 204);
    assert_eq!(readiness(&client), (200, Value::Null));
    assert_eq!(client.get("/v1/collections/news").0, 404);
    create(&client, "news");
    fill(&client, "news", 3);
    assert_eq!(std::fs::read_dir(folder.path().join("collections")).unwrap().count(), 2);
}

#[test]
fn restoring_a_snapshot_replaces_an_unreadable_database() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    let server = Program::start(folder.path(), MODEL);
    let snapshot = finished(&server.client(), "/v1/snapshots", &json!({}))["details"]["snapshot"].as_str().unwrap().to_owned();
    assert!(server.terminate().success());
    let damaged = news(folder.path());
    std::fs::write(damaged.join("documents.sqlite"), [0x5a; 8_192]).unwrap();

    let server = Program::start(folder.path(), MODEL);
    let client = server.client();
    let restore = format!("/v1/snapshots/{snapshot}/restore");
    check_damaged(&client.post("/v1/snapshots", &json!({})), &["collection news is damaged"]);
    assert_eq!(client.post("/v1/snapshots", &json!({ "collections": ["other"] })).0, 202);
    assert_eq!(client.post(&restore, &json!({ "collection": "news" })).1["code"], "collection_exists");
    let job = finished(&client, &restore, &json!({ "collection": "news", "replace": true }));
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!(readiness(&client), (200, Value::Null));
    assert!(!damaged.exists());
    (0..DOCUMENTS).for_each(|n| check_found(&client, "news", n));
    assert!(server.terminate().success());
    let server = Program::start(folder.path(), MODEL);
    (0..DOCUMENTS).for_each(|n| check_found(&server.client(), "news", n));
}

#[test]
fn restoring_a_snapshot_replaces_a_missing_database() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    let server = Program::start(folder.path(), MODEL);
    let snapshot = finished(&server.client(), "/v1/snapshots", &json!({}))["details"]["snapshot"].as_str().unwrap().to_owned();
    assert!(server.terminate().success());
    std::fs::remove_file(news(folder.path()).join("documents.sqlite")).unwrap();

    let server = Program::start(folder.path(), MODEL);
    let client = server.client();
    assert_eq!(readiness(&client), (200, json!(["news"])));
    let (_, page) = client.get("/v1/collections?limit=1");
    let problem = page["collections"][0]["damage"][0]["problem"].as_str().unwrap_or_default();
    assert!(problem.contains("documents.sqlite is missing"), "{page}");
    check_damaged(&client.get("/v1/collections/news/documents/1"), &["collection news is damaged", "is missing"]);
    let restore = json!({ "collection": "news", "replace": true });
    let job = finished(&client, &format!("/v1/snapshots/{snapshot}/restore"), &restore);
    assert_eq!(job["status"], "succeeded", "{job}");
    assert_eq!(readiness(&client), (200, Value::Null));
    (0..DOCUMENTS).for_each(|n| check_found(&client, "news", n));
}

/// Starts a job and returns it in its final state.
fn finished(client: &Client, path: &str, body: &Value) -> Value {
    let (status, job) = client.post(path, body);
    assert_eq!(status, 202, "{job}");
    let job = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
    client.wait_until("the job is over", |client| client.get(&job).1["finished_at"].is_string());
    client.get(&job).1
}

#[test]
fn a_restart_after_a_crash_checks_for_damage() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    flip_in(&news(folder.path()).join("documents.sqlite"), text(7).as_bytes());
    let mut server = Program::start(folder.path(), MODEL);
    assert_eq!(put(&server.client(), "news", "later", "words").0, 200);
    server.kill();
    let server = Program::start(folder.path(), MODEL);
    let client = server.client();
    client.wait_until("the damage is found", |client| readiness(client) == (200, json!(["news"])));
    assert_eq!(client.get("/v1/collections/news").1["damage"][0]["document"], "7");
}

#[test]
fn startup_reports_a_damaged_catalog() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    let catalog = folder.path().join("catalog.sqlite");
    let mut content = std::fs::read(&catalog).unwrap();
    let middle = content.len() / 4_096 / 2 * 4_096;
    content[middle..middle + 4_096].fill(0x5a);
    std::fs::write(&catalog, content).unwrap();
    let error = super::failure(super::program::command(folder.path(), MODEL));
    assert!(error.starts_with("error: cannot open the data directory "), "{error}");
    assert!(error.contains("checking the catalog"), "{error}");
}

#[test]
fn startup_reports_a_newer_database_and_its_collection() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    let database = news(folder.path()).join("documents.sqlite");
    rusqlite::Connection::open(&database).unwrap().pragma_update(None, "user_version", 9_999).unwrap();
    let error = super::failure(super::program::command(folder.path(), MODEL));
    assert!(error.contains("cannot open collection news") && error.contains("version 9999"), "{error}");
}

/// Overwrites a page of a table with zeros: the one after `percent` percent of its pages.
fn erase_page(database: &Path, table: &str, percent: usize) {
    erase_pages(database, table, |pages| vec![pages[pages.len() * percent / 100]]);
}

/// Overwrites those pages of a table with zeros that `choose` chooses.
fn erase_pages(database: &Path, table: &str, choose: impl FnOnce(Vec<u32>) -> Vec<u32>) {
    let connection = Connection::open(database).unwrap();
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
    let pages = "select pageno from dbstat where name = ?1 and pagetype = 'leaf' order by pageno";
    let mut statement = connection.prepare(pages).unwrap();
    let pages: Vec<u32> = statement.query_map([table], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let page_bytes: u32 = connection.query_row("pragma page_size", [], |row| row.get(0)).unwrap();
    assert!(pages.len() > 10, "{table} has only {} pages", pages.len());
    let mut content = std::fs::read(database).unwrap();
    for page in choose(pages) {
        let start = (page - 1) * page_bytes;
        content[start as usize..][..page_bytes as usize].fill(0);
    }
    std::fs::write(database, content).unwrap();
}

/// Checks that a server on this folder is ready, twice, and reports `news` as damaged, that most of its `count` documents are
/// searchable, but not all, and that `other` is whole.
fn check_most_are_searchable(folder: &Path, count: usize) {
    for _ in 0..2 {
        let server = Program::start(folder, MODEL);
        let client = server.client();
        assert_eq!(readiness(&client), (200, json!(["news"])));
        let part = |from: usize| {
            let bound = |operator: &str, n: usize| json!({ "field": "metadata.n", operator: n });
            let filter = json!({ "and": [bound("gte", from), bound("lt", from + 1_000)] });
            let request = json!({ "query": text(7), "mode": "dense", "limit": 1_000, "filter": filter, "include": [] });
            client.hits("news", &request).len()
        };
        let found: usize = (0..count).step_by(1_000).map(part).sum();
        assert!((count / 2..count).contains(&found), "{found} of {count} documents are searchable");
        check_found(&client, "other", 7);
        assert_eq!(client.get("/v1/collections/news").1["index_state"], "ready");
        // A clean stop saves no index without the damaged passages.
        assert!(server.terminate().success());
    }
}

/// A data directory whose collections `news` and `other` have this many documents. No index is saved, so the next start
/// rebuilds it.
fn killed(folder: &Path, count: usize) {
    let mut server = Program::start(folder, MODEL);
    for collection in ["news", "other"] {
        create(&server.client(), collection);
        fill(&server.client(), collection, count);
    }
    drop(server.kill());
}

#[test]
fn passages_on_a_damaged_page_are_left_out_of_a_rebuilt_index() {
    const MANY: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path(), MANY);
    erase_page(&news(folder.path()).join("documents.sqlite"), "passages", 50);
    check_most_are_searchable(folder.path(), MANY);
}

#[test]
fn changes_on_a_damaged_page_are_left_out_when_a_saved_index_catches_up() {
    /// Several times as many as are read at a time.
    const MANY: usize = 3_000;
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    let mut server = Program::start(folder.path(), MODEL);
    let client = server.client();
    for part in (DOCUMENTS..MANY).collect::<Vec<_>>().chunks(500) {
        let document = |n: &usize| json!({ "id": n.to_string(), "text": text(*n), "language": "en", "metadata": { "n": n } });
        let documents: Vec<_> = part.iter().map(document).collect();
        let (status, body) = client.post("/v1/collections/news/documents", &json!({ "documents": documents }));
        assert_eq!(status, 200, "{body}");
    }
    drop(server.kill());
    erase_page(&news(folder.path()).join("documents.sqlite"), "passages", 90);
    check_most_are_searchable(folder.path(), MANY);
}

#[test]
fn a_collection_none_of_whose_passages_can_be_read_is_damaged() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path(), 300);
    erase_pages(&news(folder.path()).join("documents.sqlite"), "passages", |pages| pages);
    let server = Program::start(folder.path(), MODEL);
    let client = server.client();
    assert_eq!(readiness(&client), (200, json!(["news"])));
    assert_eq!(client.get("/v1/collections/news").1["index_state"], "damaged");
    let search = json!({ "query": text(7), "mode": "dense" });
    check_damaged(&client.post("/v1/collections/news/search", &search), &["collection news is damaged"]);
    check_damaged(&put(&client, "news", "a", "text"), &["collection news is damaged"]);
    check_found(&client, "other", 7);
}

#[test]
fn collections_that_cannot_be_recovered_do_not_keep_others_from_it() {
    let (folder, mut server) = Program::fresh(MODEL);
    let damaged = ["damaged-1", "damaged-2", "damaged-3"];
    for collection in damaged {
        create(&server.client(), collection);
        fill(&server.client(), collection, 300);
    }
    let folders = std::fs::read_dir(folder.path().join("collections")).unwrap();
    let databases: Vec<PathBuf> = folders.map(|entry| entry.unwrap().path().join("documents.sqlite")).collect();
    create(&server.client(), "other");
    fill(&server.client(), "other", 20);
    drop(server.kill());
    databases.iter().for_each(|database| erase_pages(database, "passages", |pages| pages));
    let server = Program::start(folder.path(), MODEL);
    let client = server.client();
    client.wait_until("the others are ready", |client| client.get("/v1/collections/other").1["index_state"] == "ready");
    check_found(&client, "other", 7);
    assert_eq!(readiness(&client), (200, json!(damaged)));
}

#[test]
fn a_failed_mining_job_names_the_damaged_collection() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    flip_in(&news(folder.path()).join("documents.sqlite"), text(7).as_bytes());
    let server = Program::start(folder.path(), MODEL);
    let client = server.client();
    // Proposes a pair for each document of `news`, so all of them are read for the results.
    let all = json!({ "first": { "collection": "news" }, "second": { "collection": "other" }, "strategy": "forward" });
    let job = finished(&client, "/v1/mine", &all);
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("collection_damaged")), "{job}");
    assert!(job["error"]["detail"].as_str().unwrap().contains("collection news is damaged: document 7"), "{job}");
    assert_eq!(readiness(&client), (200, json!(["news"])));
}

#[test]
fn a_failed_reembedding_names_the_damaged_collection() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path());
    // As if a document was lost with a page of the file.
    let database = Connection::open(news(folder.path()).join("documents.sqlite")).unwrap();
    assert_eq!(database.execute("update language_counts set documents = documents + 1", []).unwrap(), 1);
    drop(database);
    let server = Program::start(folder.path(), "fake:32");
    let client = server.client();
    let job = finished(&client, "/v1/collections/news/reembed", &json!({}));
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("collection_damaged")), "{job}");
    assert!(job["error"]["detail"].as_str().unwrap().contains("collection news is damaged"), "{job}");
    assert_eq!(readiness(&client), (200, json!(["news"])));
}

#[test]
fn a_failed_snapshot_names_the_damaged_collection() {
    let folder = tempfile::tempdir().unwrap();
    killed(folder.path(), 300);
    erase_page(&news(folder.path()).join("documents.sqlite"), "passages", 50);
    let server = Program::start(folder.path(), MODEL);
    let job = finished(&server.client(), "/v1/snapshots", &json!({}));
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("collection_damaged")), "{job}");
    assert!(job["error"]["detail"].as_str().unwrap().contains("collection news is damaged"), "{job}");
    let log = server.stop_and_read_log();
    let line = log.iter().find(|line| line.contains("job failed")).unwrap();
    assert!(line.contains("collection news is damaged"), "{line}");
}
