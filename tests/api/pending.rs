//! Documents that are stored but wait for their embedding, and ids that no path can contain.

use axum::http::Method;
use serde_json::json;

use crate::server::Server;

const DOCUMENTS: &str = "/v1/collections/news/documents";

#[tokio::test(flavor = "multi_thread")]
async fn searching_like_a_pending_document_returns_document_pending() {
    let server = Server::paused_with_news().await;
    let stored =
        server.post(&format!("{DOCUMENTS}?wait=stored"), &json!({"documents": [{"id": "a", "text": "Il pleut."}]})).await;
    assert_eq!(stored.status, 200);
    let pending = server.post("/v1/collections/news/search", &json!({"like": "a"})).await;
    pending.assert_error(503, "document_pending", "", &["document a", "waits for its embedding"]);
    assert!(pending.header("retry-after").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_concurrent_idempotent_retry_waits_for_the_first_request() {
    let server = Server::paused_with_news().await;
    let control = server.control.clone();
    let body = json!({"documents": [{"id": "a", "text": "Il pleut."}]});
    let send = || {
        let (server, body) = (server.clone(), body.clone());
        tokio::spawn(async move { server.send_with(Method::POST, DOCUMENTS, ("idempotency-key", "k"), &body).await })
    };
    let first = send();
    let waiting = control.clone();
    tokio::task::spawn_blocking(move || waiting.wait_until_blocked()).await.expect("the first request is being embedded");
    let again = send();
    // The request has arrived and found what the first one stored.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!again.is_finished() && !first.is_finished());
    control.resume();
    let (first, again) = (first.await.expect("a response"), again.await.expect("a response"));
    assert_eq!((first.status, again.status), (200, 200), "{} {}", first.text, again.text);
    assert_eq!(first.body, again.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn dot_segments_are_refused_as_document_ids() {
    let server = Server::with_news().await;
    for id in [".", ".."] {
        let refused = server.post(DOCUMENTS, &json!({"documents": [{"id": id, "text": "Il pleut."}]})).await;
        refused.assert_error(422, "invalid_request", "/documents/0/id", &["must not be", id]);
        let put = server.put(&format!("{DOCUMENTS}/{}", id.replace('.', "%2E")), &json!({"text": "Il pleut."})).await;
        put.assert_error(422, "invalid_request", "id", &["must not be"]);
        let job = server.import("application/x-ndjson", format!("{}\n", json!({"id": id, "text": "Il pleut."}))).await;
        assert_eq!((&job["details"]["created"], &job["details"]["failed"]), (&json!(0), &json!(1)));
        // An id that an earlier version stored can still be requested and deleted.
        let absent = server.get(&format!("{DOCUMENTS}/{}", id.replace('.', "%2E"))).await;
        absent.assert_error(404, "document_not_found", "", &[]);
    }
}
