//! `Idempotency-Key`: a repeated request gets the same response and does nothing.

use axum::http::Method;
use serde_json::{Value, json};

use crate::server::{Response, Server};

const DOCUMENTS: &str = "/v1/collections/news/documents";

async fn keyed(server: &Server, path: &str, key: &str, body: &Value) -> Response {
    server.send_with(Method::POST, path, ("idempotency-key", key), body).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_upsert_returns_the_first_response_and_stores_nothing() {
    let server = Server::with_news().await;
    let body = json!({"documents": [{"text": "Il pleut."}, {"id": "b", "text": " "}, {"id": "c", "text": "Il neige."}, {"id": "c", "text": "zwei"}]});
    let first = keyed(&server, DOCUMENTS, "k1", &body).await;
    assert_eq!((first.status, &first.body["failed"]), (207, &json!(2)));
    server.delete(&format!("{DOCUMENTS}/c")).await;
    let again = keyed(&server, DOCUMENTS, "k1", &body).await;
    assert_eq!((again.status, again.body), (first.status, first.body));
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], 1);
    let other = keyed(&server, DOCUMENTS, "k2", &body).await;
    assert_eq!((other.status, &other.body["results"][2]["status"]), (207, &json!("created")));
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_cannot_be_reused_for_another_request() {
    let server = Server::with_news().await;
    let body = json!({"documents": [{"id": "a", "text": "Il pleut."}]});
    assert_eq!(keyed(&server, DOCUMENTS, "k", &body).await.status, 200);
    let other = json!({"documents": [{"id": "a", "text": "Il neige."}]});
    keyed(&server, DOCUMENTS, "k", &other).await.assert_error(409, "idempotency_conflict", "", &["\"k\""]);
    let stored = keyed(&server, &format!("{DOCUMENTS}?wait=stored"), "k", &body).await;
    stored.assert_error(409, "idempotency_conflict", "", &["a different request"]);
    let delete = keyed(&server, &format!("{DOCUMENTS}/delete"), "k", &json!({"filter": {"and": []}})).await;
    delete.assert_error(409, "idempotency_conflict", "", &["a different request"]);
    assert_eq!(server.get(&format!("{DOCUMENTS}/a")).await.body["text"], "Il pleut.");
    for bad in ["", "\u{e9}", "a\tb", &"x".repeat(256)] {
        keyed(&server, DOCUMENTS, bad, &body).await.assert_error(422, "invalid_request", "idempotency-key", &["1 to 255"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_stored_nothing_does_not_use_up_its_key() {
    let server = Server::with_news().await;
    let bad = json!({"documents": [{"id": "a", "text": " "}]});
    assert_eq!(keyed(&server, DOCUMENTS, "k", &bad).await.status, 422);
    assert_eq!(keyed(&server, DOCUMENTS, "k", &json!({"documents": [{"id": "a", "text": "Bonjour"}]})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_deletion_returns_the_first_response_and_deletes_nothing() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Il pleut."}, {"id": "b", "text": "Il neige."}])).await;
    let (path, all) = (format!("{DOCUMENTS}/delete"), json!({"filter": {"and": []}}));
    assert_eq!(keyed(&server, &path, "k", &all).await.body, json!({"deleted": 2}));
    server.post(DOCUMENTS, &json!({"documents": [{"id": "c", "text": "Bonjour"}]})).await;
    assert_eq!(keyed(&server, &path, "k", &all).await.body, json!({"deleted": 2}));
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_creation_returns_the_same_collection() {
    let server = Server::start();
    let body = json!({"name": "news"});
    let first = keyed(&server, "/v1/collections", "k", &body).await;
    let again = keyed(&server, "/v1/collections", "k", &body).await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!((again.header("location"), &again.body["created_at"]), (first.header("location"), &first.body["created_at"]));
    let other = keyed(&server, "/v1/collections", "k", &json!({"name": "blog"})).await;
    other.assert_error(409, "idempotency_conflict", "", &["\"k\""]);
    keyed(&server, "/v1/collections", "k2", &body).await.assert_error(409, "collection_exists", "", &["news"]);
    server.delete("/v1/collections/news").await;
    keyed(&server, "/v1/collections", "k", &body).await.assert_error(409, "idempotency_conflict", "", &["has been deleted"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_with_one_key_are_executed_once() {
    let server = Server::with_news().await;
    let body = json!({"documents": [{"text": "Il pleut."}, {"text": "Il neige."}]});
    let responses = futures::future::join_all((0..6).map(|_| keyed(&server, DOCUMENTS, "k", &body))).await;
    // The requests that arrived while the first was being embedded have waited for it.
    assert!(responses.iter().all(|response| response.status == 200 && response.body == responses[0].body), "{responses:?}");
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], 2);
}

/// A second run would overwrite changes that others made after the first run.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_by_filter_with_one_key_are_executed_once() {
    let documents: Vec<Value> = (0..1200).map(|n| json!({"id": format!("d{n}"), "text": format!("{n} ships")})).collect();
    let server = Server::with_news().await;
    for part in documents.chunks(400) {
        let stored = server.post(&format!("{DOCUMENTS}?wait=stored"), &json!({"documents": part})).await;
        assert_eq!(stored.status, 200, "{}", stored.text);
    }
    let (path, body) = (format!("{DOCUMENTS}/update"), json!({"filter": {"and": []}, "metadata": {"archived": true}}));
    let responses = futures::future::join_all((0..3).map(|_| keyed(&server, &path, "k", &body))).await;
    let expect = json!({"matched": 1200, "updated": 1200});
    assert!(responses.iter().all(|response| response.status == 200 && response.body == expect), "{responses:?}");
    let (path, body) = (format!("{DOCUMENTS}/delete"), json!({"filter": {"and": []}}));
    let responses = futures::future::join_all((0..3).map(|_| keyed(&server, &path, "l", &body))).await;
    assert!(responses.iter().all(|response| response.body == json!({"deleted": 1200})), "{responses:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_mining_request_returns_the_same_job() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Il pleut."}, {"id": "b", "text": "Il neige."}])).await;
    let texts = json!({"texts": ["Es regnet.", "Es schneit.", "Es hagelt."]});
    let mine = json!({"first": {"collection": "news"}, "second": texts, "neighbors": 2});
    for (path, body) in [("/v1/mine", mine), ("/v1/collections/news/duplicates", json!({"score_min": 0.5}))] {
        let first = keyed(&server, path, path, &body).await;
        assert_eq!(first.status, 202, "{first:?}");
        let done = server.finished(&first).await;
        let again = keyed(&server, path, path, &body).await;
        assert_eq!((again.status, again.header("location")), (202, first.header("location")));
        assert_eq!((&again.body["id"], &again.body["status"]), (&done["id"], &done["status"]));
        let mut other = body.clone();
        other["neighbors"] = json!(1);
        keyed(&server, path, path, &other).await.assert_error(409, "idempotency_conflict", "", &["a different request"]);
        assert_ne!(keyed(&server, path, &format!("{path} again"), &body).await.body["id"], first.body["id"]);
    }
    assert_eq!(server.get("/v1/jobs").await.body["jobs"].as_array().map(Vec::len), Some(4));
    // A key belongs to one request, whatever that request created.
    keyed(&server, "/v1/collections", "/v1/mine", &json!({"name": "blog"})).await.assert_error(
        409,
        "idempotency_conflict",
        "",
        &["a different request"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_job_requests_with_one_key_start_one_job() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Il pleut."}, {"id": "b", "text": "Il neige."}])).await;
    let (path, body) = ("/v1/collections/news/duplicates", json!({}));
    let responses = futures::future::join_all((0..6).map(|_| keyed(&server, path, "k", &body))).await;
    assert!(
        responses.iter().all(|response| response.status == 202 && response.body["id"] == responses[0].body["id"]),
        "{responses:?}"
    );
    assert_eq!(server.get("/v1/jobs").await.body["jobs"].as_array().map(Vec::len), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_used_for_one_collection_conflicts_for_another() {
    let server = Server::with_news().await;
    server.post("/v1/collections", &json!({"name": "blog"})).await;
    let find =
        async |collection: &str| keyed(&server, &format!("/v1/collections/{collection}/duplicates"), "nightly", &json!({})).await;
    let first = find("news").await;
    assert_eq!((first.status, &first.body["collection"]), (202, &json!("news")));
    find("blog").await.assert_error(409, "idempotency_conflict", "", &["\"nightly\"", "a different request"]);
    assert_eq!(find("news").await.body["id"], first.body["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_with_different_api_keys_do_not_share_idempotency_keys() {
    let server = Server::with_admin_key();
    server.post("/v1/collections", &json!({"name": "news"})).await;
    let mut stored = Vec::new();
    for name in ["one", "two"] {
        let made = server.post("/v1/keys", &json!({"name": name, "scope": "write"})).await;
        let caller = server.with_key(made.body["secret"].as_str().unwrap());
        let body = json!({"documents": [{"text": format!("Ein Satz von {name}.")}]});
        for _ in 0..2 {
            let response = keyed(&caller, DOCUMENTS, "daily", &body).await;
            assert_eq!(response.status, 200, "{}", response.text);
            stored.push(response.body["results"][0]["id"].clone());
        }
    }
    assert_eq!((&stored[0], &stored[2]), (&stored[1], &stored[3]));
    assert_eq!(server.get("/v1/collections/news").await.body["documents"], 2);
}
