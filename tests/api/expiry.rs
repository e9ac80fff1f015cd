//! Expiring documents: `expires_at` and `ttl_seconds` in every request, and expired documents are never found.

use axum::http::Method;
use serde_json::{Value, json};

use crate::server::Server;

const DOCUMENTS: &str = "/v1/collections/news/documents";
const PAST: &str = "2020-01-01T00:00:00Z";
const FUTURE: &str = "2999-12-31T23:59:59.500Z";

async fn export(server: &Server) -> Vec<Value> {
    let text = server.get("/v1/collections/news/export").await.text;
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expiry_is_stored_returned_and_exported() {
    let documents = json!([{"id": "a", "text": "un", "expires_at": "2999-12-31T23:59:59.5+00:00"}, {"id": "b", "text": "deux"}]);
    let server = Server::with_documents(documents).await;
    assert_eq!(server.get(&format!("{DOCUMENTS}/a")).await.body["expires_at"], FUTURE);
    assert_eq!(server.get(&format!("{DOCUMENTS}/b")).await.body.get("expires_at"), None);
    let exported = export(&server).await;
    assert_eq!((&exported[0]["expires_at"], exported[1].get("expires_at")), (&json!(FUTURE), None));
    // An import accepts what was exported.
    server.delete(&format!("{DOCUMENTS}/a")).await;
    let imported = server.import("application/x-ndjson", format!("{}\n", exported[0])).await;
    assert_eq!(imported["status"], "succeeded", "{imported}");
    assert_eq!(export(&server).await[0], exported[0]);
    // Put again without an expiry, the document stays.
    server.put(&format!("{DOCUMENTS}/a"), &json!({"text": "un"})).await;
    assert_eq!(server.get(&format!("{DOCUMENTS}/a")).await.body.get("expires_at"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn ttl_seconds_counts_from_the_request() {
    let server = Server::with_documents(json!([{"id": "a", "text": "un", "ttl_seconds": 3600}])).await;
    let stored = server.get(&format!("{DOCUMENTS}/a")).await.body;
    let time = |member: &str| stored[member].as_str().expect("a time").parse::<jiff::Timestamp>().expect("RFC 3339");
    let lives_ms = time("expires_at").as_millisecond() - time("created_at").as_millisecond();
    assert!((3_590_000..=3_600_000).contains(&lives_ms), "{lives_ms}");
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_documents_are_never_found() {
    let documents = json!([
        {"id": "old", "text": "Il pleut.", "metadata": {"n": 1}, "expires_at": PAST},
        {"id": "new", "text": "Il neige.", "metadata": {"n": 1}},
        {"id": "gone", "text": "Il pleut encore.", "metadata": {"n": 1}, "ttl_seconds": 0},
    ]);
    let server = Server::with_documents(documents).await;
    server.get(&format!("{DOCUMENTS}/old")).await.assert_error(404, "document_not_found", "", &["old"]);
    server.delete(&format!("{DOCUMENTS}/old")).await.assert_error(404, "document_not_found", "", &["old"]);
    for mode in ["full", "dense", "lexical", "hybrid"] {
        for filter in [json!({"and": []}), json!({"field": "n", "eq": 1})] {
            let body = json!({"query": "Il pleut", "mode": mode, "filter": filter});
            let found = server.post("/v1/collections/news/search", &body).await.body;
            let ids: Vec<_> = found["hits"].as_array().expect("hits").iter().map(|hit| &hit["id"]).collect();
            assert_eq!(ids, ["new"], "{mode} {filter}");
        }
    }
    let recommend = json!({"positive": {"ids": ["old"]}});
    let refused = server.post("/v1/collections/news/recommend", &recommend).await;
    refused.assert_error(404, "document_not_found", "", &["old"]);
    let ids = async |path: &str, body: Value| {
        let response = server.post(&format!("{DOCUMENTS}/{path}"), &body).await.body;
        response["documents"].as_array().map(|documents| documents.iter().map(|one| one["id"].clone()).collect::<Vec<_>>())
    };
    assert_eq!(ids("scroll", json!({})).await, Some(vec![json!("new")]));
    assert_eq!(server.get(DOCUMENTS).await.body["documents"].as_array().expect("documents").len(), 1);
    assert_eq!(server.post(&format!("{DOCUMENTS}/count"), &json!({})).await.body, json!({"documents": 1}));
    let facets = server.post("/v1/collections/news/facets", &json!({"facets": [{"field": "n"}]})).await.body;
    assert_eq!(
        facets,
        json!({"documents": 1, "facets": [{"field": "n", "values": [{"value": 1, "documents": 1}], "missing": 0}]})
    );
    assert_eq!(export(&server).await.len(), 1);
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], 1);
    assert_eq!(server.post(&format!("{DOCUMENTS}/delete"), &json!({"filter": {"and": []}})).await.body, json!({"deleted": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_sets_and_clears_an_expiry() {
    let server = Server::with_documents(json!([{"id": "a", "text": "un"}])).await;
    let path = format!("{DOCUMENTS}/a");
    assert_eq!(server.patch(&path, &json!({"expires_at": FUTURE})).await.body["expires_at"], FUTURE);
    assert_eq!(server.patch(&path, &json!({"metadata": {"n": 1}})).await.body["expires_at"], FUTURE);
    assert_eq!(server.patch(&path, &json!({"expires_at": null})).await.body.get("expires_at"), None);
    assert_eq!(server.patch(&path, &json!({"ttl_seconds": 60})).await.status, 200);
    assert_eq!(server.patch(&path, &json!({"ttl_seconds": 0})).await.status, 404, "it expires with the patch");
    server.patch(&path, &json!({"expires_at": null})).await.assert_error(404, "document_not_found", "", &["a"]);
    let created = server.send_with(Method::PUT, &path, ("if-none-match", "*"), &json!({"text": "deux"})).await;
    assert_eq!(created.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_expiry_is_refused_with_its_location() {
    let server = Server::with_documents(json!([{"id": "a", "text": "un"}])).await;
    let path = format!("{DOCUMENTS}/a");
    let check = async |members: Value, place: &str, words: &[&str]| {
        server.patch(&path, &members).await.assert_error(422, "invalid_request", place, words);
        let mut document = members;
        document["text"] = json!("un");
        server.put(&path, &document).await.assert_error(422, "invalid_request", place, words);
    };
    check(json!({"expires_at": "tomorrow"}), "/expires_at", &["RFC 3339", "\"tomorrow\""]).await;
    check(json!({"expires_at": "2030-01-01T00:00:00"}), "/expires_at", &["with its offset"]).await;
    check(json!({"expires_at": "2030-01-01T00:00:00+24:00"}), "/expires_at", &["RFC 3339", "+24:00"]).await;
    check(json!({"expires_at": "1960-01-01T00:00:00Z"}), "/expires_at", &["1970 or later"]).await;
    check(json!({"expires_at": FUTURE, "ttl_seconds": 5}), "/ttl_seconds", &["got both"]).await;
    check(json!({"ttl_seconds": 3_155_760_001_u64}), "/ttl_seconds", &["3155760000"]).await;
    check(json!({"ttl_seconds": -1}), "/ttl_seconds", &["at least 0, got -1"]).await;
    check(json!({"expires_at": 5}), "/expires_at", &["string"]).await;
    server.put(&path, &json!({"text": "un", "expires_at": null})).await.assert_error(
        422,
        "invalid_request",
        "/expires_at",
        &["null"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_updated_by_filter_or_ids() {
    let documents =
        (0..5).map(|n| json!({"id": format!("d{n}"), "text": "Il pleut.", "metadata": {"n": n, "author": {"name": "Ada"}}}));
    let server = Server::with_documents(documents.collect()).await;
    let update = format!("{DOCUMENTS}/update");
    let low = json!({"field": "n", "lt": 2});
    let body = json!({"filter": low, "metadata": {"author": {"city": "Lyon"}, "n": null}, "expires_at": FUTURE});
    assert_eq!(server.post(&update, &body).await.body, json!({"matched": 2, "updated": 2}));
    assert_eq!(server.post(&update, &body).await.body, json!({"matched": 0, "updated": 0}), "they match no more");
    let changed = server.get(&format!("{DOCUMENTS}/d1")).await.body;
    assert_eq!(changed["metadata"], json!({"author": {"name": "Ada", "city": "Lyon"}}));
    assert_eq!((&changed["expires_at"], &changed["indexed"]), (&json!(FUTURE), &json!(true)));
    let again = json!({"ids": ["d1", "d2", "nobody"], "metadata": {"author": {"city": "Lyon"}}});
    assert_eq!(
        server.post(&update, &again).await.body,
        json!({"matched": 2, "updated": 1}),
        "d1 already has this value, so only d2 changes"
    );
    assert_eq!(server.get(&format!("{DOCUMENTS}/d1")).await.body["version"], changed["version"]);
    let filter = json!({"field": "author.city", "eq": "Lyon"});
    let found = server.post("/v1/collections/news/search", &json!({"query": "Il pleut.", "filter": filter})).await.body;
    assert_eq!(found["hits"].as_array().expect("hits").len(), 3, "filters see the change at once");
    let gone = json!({"filter": {"and": []}, "ttl_seconds": 0});
    assert_eq!(server.post(&update, &gone).await.body, json!({"matched": 5, "updated": 5}));
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_with_a_used_idempotency_key_returns_the_first_response() {
    let server = Server::with_documents(json!([{"id": "a", "text": "un"}, {"id": "b", "text": "deux"}])).await;
    let (update, key) = (format!("{DOCUMENTS}/update"), ("idempotency-key", "once"));
    let body = json!({"filter": {"field": "done", "ne": true}, "metadata": {"done": true}});
    for _ in 0..2 {
        let response = server.send_with(Method::POST, &update, key, &body).await;
        assert_eq!(response.body, json!({"matched": 2, "updated": 2}));
    }
    let other = json!({"filter": {"and": []}, "metadata": {"done": true}});
    server.send_with(Method::POST, &update, key, &other).await.assert_error(409, "idempotency_conflict", "", &["once"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_without_a_selection_or_a_change_is_refused() {
    let server = Server::with_documents(json!([{"id": "a", "text": "un"}])).await;
    let check = async |body: Value, place: &str, words: &[&str]| {
        server.post(&format!("{DOCUMENTS}/update"), &body).await.assert_error(422, "invalid_request", place, words);
    };
    check(json!({"metadata": {}}), "", &["exactly one of filter and ids, got none"]).await;
    check(json!({"filter": {"and": []}, "ids": ["a"], "metadata": {}}), "", &["got both"]).await;
    check(json!({"ids": ["a"]}), "", &["metadata, expires_at or ttl_seconds"]).await;
    check(json!({"ids": ["a"], "metadata": {"\0": 1}}), "/metadata", &["U+0000"]).await;
    check(json!({"ids": ["a"], "metadata": {"long": "x".repeat(70_000)}}), "", &["65536", "metadata_bytes_max"]).await;
    check(json!({"ids": ["a"], "expires_at": null, "ttl_seconds": 5}), "/ttl_seconds", &["got both"]).await;
    assert_eq!(server.get(&format!("{DOCUMENTS}/a")).await.body["metadata"], json!({}));
}
