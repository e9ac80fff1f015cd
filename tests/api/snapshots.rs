//! `/v1/snapshots`.

use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::archives::{parts, sqlite};
use crate::server::{Response, Server};

const PATH: &str = "/v1/snapshots";
const OTHER_ID: &str = "0198c0de-7a11-7000-8000-2f1de5c0ffee";

fn documents() -> Value {
    json!([
        {"id": "fr", "text": "Le train est en retard.", "language": "fr", "metadata": {"year": 2026}},
        {"id": "ja", "text": "電車が遅れている。", "language": "ja"},
    ])
}

/// Creates a snapshot and returns its id.
pub async fn snapshot(server: &Server, body: Value) -> String {
    let job = server.finished(&server.post(PATH, &body).await).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    job["details"]["snapshot"].as_str().expect("an id").to_owned()
}

pub async fn restore(server: &Server, id: &str, body: Value) -> Value {
    server.finished(&server.post(&format!("{PATH}/{id}/restore"), &body).await).await
}

async fn upload(server: &Server, id: &str, archive: Vec<u8>) -> Response {
    let request = Request::put(format!("{PATH}/{id}/archive")).header("content-type", "application/zstd");
    server.send(request.body(Body::from(archive)).expect("a request")).await
}

async fn export(server: &Server, collection: &str) -> String {
    server.get(&format!("/v1/collections/{collection}/export")).await.text
}

#[tokio::test(flavor = "multi_thread")]
async fn restoring_recreates_a_collection_as_it_was() {
    let server = Server::with_documents(documents()).await;
    let before = export(&server, "news").await;
    let id = snapshot(&server, json!({"collections": ["news"]})).await;
    server.post("/v1/collections/news/documents", &json!({"documents": [{"id": "fr", "text": "changed"}]})).await;
    server.delete("/v1/collections/news/documents/ja").await;

    let job = restore(&server, &id, json!({"collection": "news", "rename_to": "march"})).await;
    assert_eq!((&job["status"], &job["collection"]), (&json!("succeeded"), &json!("march")), "{job}");
    assert_eq!(export(&server, "march").await, before);
    assert_ne!(export(&server, "news").await, before);
    let hits = server.post("/v1/collections/march/search", &json!({"query": "電車が遅れている。"})).await.body;
    assert_eq!(hits["hits"][0]["id"], "ja");
    let written = server.post("/v1/collections/march/documents", &json!({"documents": [{"id": "de", "text": "Der Zug"}]})).await;
    assert_eq!(written.status, 200, "{}", written.text);

    server.post(&format!("{PATH}/{id}/restore"), &json!({})).await.assert_error(409, "collection_exists", "", &["news"]);
    assert_eq!(restore(&server, &id, json!({"replace": true})).await["status"], "succeeded");
    assert_eq!(export(&server, "news").await, before);
    let hits = server.post("/v1/collections/news/search", &json!({"query": "Le train est en retard."})).await.body;
    assert_eq!(hits["hits"][0]["id"], "fr");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_while_a_snapshot_replaces_its_collection_is_stored_before_or_after() {
    let server = Server::with_documents(documents()).await;
    let id = snapshot(&server, json!({"collections": ["news"]})).await;
    let over = AtomicBool::new(false);
    let restores = async {
        for _ in 0..5 {
            assert_eq!(restore(&server, &id, json!({"replace": true})).await["status"], "succeeded");
        }
        over.store(true, Ordering::Relaxed);
    };
    let writes = async {
        for n in 0.. {
            let is_last = over.load(Ordering::Relaxed);
            let path = format!("/v1/collections/news/documents/w{n}?wait=stored");
            let written = server.put(&path, &json!({"text": format!("Der Zug {n}")})).await;
            assert!([200, 201].contains(&written.status), "{}", written.text);
            if is_last {
                return n;
            }
        }
        0
    };
    let ((), last) = tokio::join!(restores, writes);
    assert_eq!(server.get(&format!("/v1/collections/news/documents/w{last}")).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_request_misses_a_collection_that_a_snapshot_replaces() {
    const NEWS: &str = "/v1/collections/news";
    let server = Server::with_documents(documents()).await;
    let id = snapshot(&server, json!({"collections": ["news"]})).await;
    let over = AtomicBool::new(false);
    let restores = async {
        for _ in 0..20 {
            assert_eq!(restore(&server, &id, json!({"replace": true})).await["status"], "succeeded");
        }
        over.store(true, Ordering::Relaxed);
    };
    let posts = async {
        let train = json!({"query": "train"});
        // Each restore brings back a document of this year.
        let dated = json!({"filter": {"field": "year", "eq": 2026}});
        while !over.load(Ordering::Relaxed) {
            for (path, body) in [("search", &train), ("documents/count", &dated), ("documents/delete", &dated)] {
                let response = server.post(&format!("{NEWS}/{path}"), body).await;
                assert_eq!(response.status, 200, "{path}: {}", response.text);
            }
        }
    };
    let others = async {
        while !over.load(Ordering::Relaxed) {
            let put = server.put(&format!("{NEWS}/documents/fr"), &json!({"text": "Der Zug"})).await;
            assert!([200, 201].contains(&put.status), "{}", put.text);
            let patched = server.patch(NEWS, &json!({"description": "changed"})).await;
            let read = [server.get(NEWS).await, server.get(&format!("{NEWS}/documents/ja")).await];
            for response in [patched].iter().chain(&read) {
                assert_eq!(response.status, 200, "{}", response.text);
            }
            let exported = export(&server, "news").await;
            assert!((1..=2).contains(&exported.lines().count()) && exported.contains("電車"), "{exported}");
        }
    };
    tokio::join!(restores, posts, others);
}

#[tokio::test(flavor = "multi_thread")]
async fn snapshots_are_listed_shown_and_deleted() {
    let server = Server::with_documents(documents()).await;
    server.post("/v1/collections", &json!({"name": "blog"})).await;
    let first = snapshot(&server, json!({})).await;
    let second = snapshot(&server, json!({"collections": ["blog"]})).await;
    let shown = server.get(&format!("{PATH}/{first}")).await.body;
    let held: Vec<_> =
        shown["collections"].as_array().expect("collections").iter().map(|one| (&one["name"], &one["documents"])).collect();
    assert_eq!(held, [(&json!("blog"), &json!(0)), (&json!("news"), &json!(2))]);
    let page = server.get(&format!("{PATH}?limit=1")).await.body;
    assert_eq!(page["snapshots"][0]["id"], second.as_str());
    let cursor = page["next_cursor"].as_str().expect("a cursor");
    let page = server.get(&format!("{PATH}?limit=1&cursor={cursor}")).await.body;
    assert_eq!((&page["snapshots"][0], page.get("next_cursor")), (&shown, None));
    assert_eq!(server.delete(&format!("{PATH}/{first}")).await.status, 204);
    for path in ["", "/archive"] {
        server.get(&format!("{PATH}/{first}{path}")).await.assert_error(404, "snapshot_not_found", "", &[first.as_str()]);
    }
    server.delete(&format!("{PATH}/{first}")).await.assert_error(404, "snapshot_not_found", "", &[]);
    server.post(&format!("{PATH}/{first}/restore"), &json!({})).await.assert_error(404, "snapshot_not_found", "", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_can_be_uploaded_to_another_server_and_restored() {
    let server = Server::with_documents(documents()).await;
    let id = snapshot(&server, json!({})).await;
    let archive = server.get(&format!("{PATH}/{id}/archive")).await;
    assert_eq!(archive.header("content-length"), Some(archive.bytes.len().to_string().as_str()));

    let other = Server::start();
    let taken = upload(&other, &id, archive.bytes.clone()).await;
    assert_eq!((taken.status, &taken.body), (201, &server.get(&format!("{PATH}/{id}")).await.body));
    assert_eq!(restore(&other, &id, json!({})).await["status"], "succeeded");
    assert_eq!(export(&other, "news").await, export(&server, "news").await);
    upload(&other, &id, archive.bytes).await.assert_error(409, "snapshot_exists", "", &[id.as_str()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_archive_is_refused_and_leaves_nothing() {
    let server = Server::with_documents(documents()).await;
    let id = snapshot(&server, json!({})).await;
    let archive = server.get(&format!("{PATH}/{id}/archive")).await.bytes;
    for place in [0, archive.len() / 3, archive.len() - 2] {
        let mut damaged = archive.clone();
        damaged[place] ^= 0x10;
        upload(&server, OTHER_ID, damaged).await.assert_error(422, "invalid_snapshot", "", &["archive"]);
    }
    for end in [0, archive.len() / 2, archive.len() - 1] {
        upload(&server, OTHER_ID, archive[..end].to_vec()).await.assert_error(422, "invalid_snapshot", "", &["archive"]);
    }
    let odd = Request::put(format!("{PATH}/{OTHER_ID}/archive")).header("content-type", "application/json").body(Body::empty());
    server.send(odd.expect("a request")).await.assert_error(415, "unsupported_media_type", "content-type", &["zstd"]);
    assert_eq!(server.get(PATH).await.body["snapshots"].as_array().map(Vec::len), Some(1));
    assert_eq!(upload(&server, OTHER_ID, archive).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_whose_archive_was_removed_by_hand_is_invalid_and_can_be_deleted() {
    let server = Server::with_documents(documents()).await;
    let id = snapshot(&server, json!({"collections": ["news"]})).await;
    std::fs::remove_file(server._folder.path().join(format!("snapshots/{id}.tar.zst"))).expect("removed");
    let path = format!("{PATH}/{id}");
    server.get(&format!("{path}/archive")).await.assert_error(422, "invalid_snapshot", "", &["archive is missing"]);
    let restored = server.post(&format!("{path}/restore"), &json!({"replace": true})).await;
    restored.assert_error(422, "invalid_snapshot", "", &["archive is missing"]);
    assert_eq!((server.get(&path).await.status, server.delete(&path).await.status), (200, 204));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused_with_the_offending_field() {
    let server = Server::with_documents(documents()).await;
    server.post(PATH, &json!({"collections": ["none"]})).await.assert_error(404, "collection_not_found", "", &["none"]);
    server.post(PATH, &json!({"collections": ["a", "a"]})).await.assert_error(
        422,
        "invalid_request",
        "/collections/1",
        &["repeats a"],
    );
    server.post(PATH, &json!({"collections": ["?"]})).await.assert_error(422, "invalid_request", "/collections/0", &[]);
    let id = snapshot(&server, json!({})).await;
    let path = format!("{PATH}/{id}/restore");
    server.post(&path, &json!({"rename_to": "b"})).await.assert_error(422, "invalid_request", "/rename_to", &["collection"]);
    server.post(&path, &json!({"collection": "none"})).await.assert_error(404, "collection_not_found", "", &["none"]);
    server.get(&format!("{PATH}/latest")).await.assert_error(422, "invalid_request", "snapshot", &["UUID"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn restoring_a_collection_of_the_server_that_a_snapshot_lacks_says_that_the_snapshot_lacks_it() {
    let server = Server::with_documents(documents()).await;
    let id = snapshot(&server, json!({"collections": ["news"]})).await;
    server.create(json!({"name": "other"})).await;
    let refused = server.post(&format!("{PATH}/{id}/restore"), &json!({"collection": "other"})).await;
    refused.assert_error(404, "collection_not_found", "", &[&format!("snapshot {id} has no collection other")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_an_empty_list_of_collections_is_refused() {
    let server = Server::with_documents(documents()).await;
    let refused = server.post(PATH, &json!({"collections": []})).await;
    refused.assert_error(422, "invalid_request", "/collections", &["at least 1", "left out for all", "got 0"]);
    assert_eq!(server.get("/v1/jobs").await.body["jobs"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn restoring_brings_back_metadata_indexes_and_idempotency_records() {
    let server = Server::with_documents(documents()).await;
    let path = "/v1/collections/news";
    assert_eq!(server.patch(path, &json!({"metadata_indexes": ["year", "a.b"]})).await.status, 200);
    let twice = async |path: &str| {
        let body = json!({"documents": [{"text": "Der Zug"}]}).to_string();
        let request = Request::post(format!("{path}/documents")).header("content-type", "application/json");
        let request = request.header("idempotency-key", "once").body(Body::from(body)).expect("a request");
        server.send(request).await.body["results"].clone()
    };
    let first = twice(path).await;
    let id = snapshot(&server, json!({})).await;
    assert_eq!(server.delete(path).await.status, 204);
    assert_eq!(restore(&server, &id, json!({})).await["status"], "succeeded");
    assert_eq!(server.get(path).await.body["metadata_indexes"], json!(["a.b", "year"]));
    assert_eq!(twice(path).await, first);
    let count = async |body: Value| server.post(&format!("{path}/documents/count"), &body).await.body["documents"].clone();
    assert_eq!(count(json!({"filter": {"field": "year", "eq": 2026}})).await, 1);
    assert_eq!(count(json!({})).await, 3);
    assert_eq!(server.patch(path, &json!({"metadata_indexes": ["a.b"]})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn restoring_reports_a_damaged_document_and_keeps_the_others_readable() {
    let server = Server::with_documents(documents()).await;
    let id = snapshot(&server, json!({})).await;
    let archive = parts(&server.get(&format!("{PATH}/{id}/archive")).await.bytes);
    let sql = "drop trigger documents_changed_without_checksum; update documents set text = 'Le train' where id = 'fr';";
    let trigger = "select sql from sqlite_schema where name = 'documents_changed_without_checksum'";
    let damaged = sqlite(archive.bytes(&archive.database()), |database| {
        let trigger: String = database.query_row(trigger, [], |row| row.get(0)).expect("a trigger");
        database.execute_batch(&format!("{sql} {trigger}")).expect("changed");
    });
    let archive = archive.clone().with(&archive.database(), damaged);
    assert_eq!(upload(&server, OTHER_ID, archive.pack(0)).await.status, 201);
    assert_eq!(restore(&server, OTHER_ID, json!({"replace": true})).await["status"], "succeeded");
    let shown = server.get("/v1/collections/news").await.body;
    assert_eq!(shown["damage"][0]["document"], "fr", "{shown}");
    server.get("/v1/collections/news/documents/fr").await.assert_error(500, "collection_damaged", "", &["fr", "checksum"]);
    assert_eq!(server.get("/v1/collections/news/documents/ja").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_restored_is_refused_when_the_snapshot_is_made() {
    let server = Server::with_documents(documents()).await;
    let folder = server._folder.path().join("collections");
    let folder = std::fs::read_dir(folder).expect("a folder").next().expect("a collection").expect("an entry").path();
    let database = rusqlite::Connection::open(folder.join("documents.sqlite")).expect("a database");
    database.execute_batch("create index of_mine on documents (text)").expect("an index");
    let job = server.finished(&server.post(PATH, &json!({})).await).await;
    assert_eq!(job["error"]["code"], "invalid_snapshot", "{job}");
    let detail = job["error"]["detail"].as_str().expect("a detail");
    assert!(detail.contains("collection news") && detail.contains("index of_mine"), "{detail}");
    database.execute_batch("drop index of_mine").expect("dropped");
    snapshot(&server, json!({})).await;
}

/// How often the test tries again because the snapshot copied the last collection before it was deleted.
const ATTEMPTS: usize = 50;

/// Returns once the job of `accepted` has copied a collection, and has thus listed those that it copies.
async fn begun_copying(server: &Server, accepted: &Response) {
    let path = format!("/v1/jobs/{}", accepted.body["id"].as_str().expect("an id"));
    loop {
        let job = server.get(&path).await.body;
        if job["progress"]["done"] != 0 {
            return;
        }
        assert!(["queued", "running"].contains(&job["status"].as_str().expect("a status")), "{job}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_that_is_deleted_meanwhile_is_left_out_of_a_snapshot_of_all_and_named() {
    let server = Server::start();
    for number in 0..20 {
        server.create(json!({"name": format!("c{number:02}")})).await;
    }
    for _ in 0..ATTEMPTS {
        server.create(json!({"name": "last"})).await;
        let accepted = server.post(PATH, &json!({})).await;
        begun_copying(&server, &accepted).await;
        assert_eq!(server.delete("/v1/collections/last").await.status, 204);
        let job = server.finished(&accepted).await;
        assert_eq!(job["status"], "succeeded", "{job}");
        if job["details"]["skipped"] == json!(["last"]) {
            let id = job["details"]["snapshot"].as_str().expect("an id");
            let shown = server.get(&format!("{PATH}/{id}")).await.body;
            assert_eq!(shown["collections"].as_array().map(Vec::len), Some(20));
            assert_eq!(restore(&server, id, json!({"replace": true})).await["status"], "succeeded");
            return;
        }
    }
    panic!("the collection was always copied before it was deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_of_an_alias_contains_the_aliased_collection_once() {
    let server = Server::with_documents(documents()).await;
    assert_eq!(server.put("/v1/aliases/current", &json!({"collection": "news"})).await.status, 200);
    let job = server.finished(&server.post(PATH, &json!({"collections": ["current", "news"]})).await).await;
    assert_eq!((&job["status"], &job["collection"], &job["progress"]["total"]), (&json!("succeeded"), &json!("news"), &json!(1)));
    let shown = server.get(&format!("{PATH}/{}", job["details"]["snapshot"].as_str().expect("an id"))).await.body;
    assert_eq!(shown["collections"].as_array().map(Vec::len), Some(1), "{shown}");
    assert_eq!(shown["collections"][0]["name"], "news");
}
