//! Limits that all requests share: memory, event streams, uploads. No caller gets all of it, and small requests always get an
//! answer.

use axum::body::Body;
use axum::http::{HeaderValue, Method, Request};
use axum::response::Response;
use dragoman::domain::Limits;
use dragoman::http::middleware::traffic::ClientAddress;
use dragoman::http::settings::Settings;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::server::Server;

const GREEDY: &str = "192.0.2.1";
const OTHER: &str = "192.0.2.2";

/// A request from a client with this address.
fn from(address: &str, request: Request<Body>) -> Request<Body> {
    let mut request = request;
    request.extensions_mut().insert(ClientAddress(address.parse().expect("an address")));
    request.headers_mut().insert("host", HeaderValue::from_static("localhost"));
    request
}

fn post(path: &str, body: &Value) -> Request<Body> {
    Request::post(path).header("content-type", "application/json").body(Body::from(body.to_string())).expect("a request")
}

fn get(path: &str) -> Request<Body> {
    Request::get(path).body(Body::empty()).expect("a request")
}

/// Starts a response without reading it.
async fn begin(server: &Server, address: &str, request: Request<Body>) -> Response {
    server.router.clone().oneshot(from(address, request)).await.expect("a response")
}

/// Starts this many answers from the same client without reading them.
async fn begin_all(server: &Server, address: &str, count: usize, request: impl Fn() -> Request<Body>) -> Vec<Response> {
    let mut responses = Vec::new();
    for _ in 0..count {
        responses.push(begin(server, address, request()).await);
    }
    responses
}

fn statuses(responses: &[Response]) -> Vec<u16> {
    responses.iter().map(|response| response.status().as_u16()).collect()
}

/// A server with eight documents of 512 KiB each, which match any vector.
async fn with_large_documents(in_flight_bytes_max: u64) -> Server {
    let server = Server::with_limits(Limits { in_flight_bytes_max, ..Limits::default() });
    server.create(json!({"name": "points", "dimension": 2})).await;
    for n in 0..8 {
        let document = json!({"id": format!("d{n}"), "text": "x".repeat(512 << 10), "vector": [1.0, f64::from(n)]});
        let response = server.post("/v1/collections/points/documents", &json!({"documents": [document]})).await;
        assert_eq!(response.status, 200, "{}", response.text);
    }
    server
}

fn search(limit: usize) -> Request<Body> {
    post("/v1/collections/points/search", &json!({"vector": [1, 0], "limit": limit, "include": ["text"]}))
}

#[tokio::test(flavor = "multi_thread")]
async fn in_flight_responses_share_a_memory_limit_but_small_ones_are_exempt() {
    let server = with_large_documents(16 << 20).await;
    let unread = begin_all(&server, GREEDY, 6, || search(8)).await;
    assert_eq!(statuses(&unread), [200, 200, 429, 429, 429, 429], "one caller may use half of the limit");
    let refused = server.send(from(GREEDY, search(8))).await;
    refused.assert_error(429, "rate_limited", "", &["in_flight_bytes_max", "16777216", "share"]);
    assert!(refused.header("retry-after").is_some());
    let honest = begin_all(&server, OTHER, 1, || search(8)).await;
    assert_eq!(statuses(&honest), [200], "other callers still have their share");
    let third = server.send(from("192.0.2.3", search(8))).await;
    third.assert_error(429, "rate_limited", "", &["in_flight_bytes_max"]);
    for _ in 0..20 {
        let small = post("/v1/collections/points/search", &json!({"vector": [1, 0], "limit": 8, "include": ["metadata"]}));
        assert_eq!(server.send(from(GREEDY, small)).await.status, 200);
    }
    drop((unread, honest));
    assert_eq!(server.send(from(GREEDY, search(8))).await.status, 200, "dropping the responses frees the memory");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_many_small_values_counts_for_the_memory_that_they_take() {
    let server = Server::with_limits(Limits { in_flight_bytes_max: 16 << 20, ..Limits::default() });
    server.create(json!({"name": "news"})).await;
    let send = async |path: &str, body: String| {
        let request = Request::post(format!("/v1/collections/news/{path}")).header("content-type", "application/json");
        server.send(request.body(Body::from(body)).expect("a request")).await
    };
    let list = |value: &str, count: usize| format!("[{}]", vec![value; count].join(","));
    for (path, before, value, after, status) in [
        ("search/batch", r#"{"searches": "#, "{}", "}", 422),
        ("documents", r#"{"documents": "#, "{}", "}", 422),
        ("documents", r#"{"documents": "#, "1", "}", 422),
        ("documents", r#"{"documents": [{"text": "a", "metadata": {"n": null, "a": "#, "0", "}}]}", 200),
        ("documents/count", r#"{"filter": {"field": "a", "in": "#, "[]", "}}", 422),
    ] {
        let response = send(path, format!("{before}{}{after}", list(value, 100_000))).await;
        response.assert_error(413, "body_too_large", "", &["more than 8650752 bytes of memory"]);
        let response = send(path, format!("{before}{}{after}", list(value, 2_000))).await;
        assert_eq!(response.status, status, "{}", response.text);
    }
    let text = json!({"documents": [{"text": "Le train est en retard. ".repeat(30_000)}]});
    assert_eq!(send("documents", text.to_string()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_response_arrives_complete_and_large_pages_end_early() {
    let server = with_large_documents(64 << 20).await;
    let response = server.send(from(GREEDY, search(8))).await;
    let hits = response.body["hits"].as_array().expect("hits");
    assert_eq!(hits.len(), 8);
    assert!(hits.iter().all(|hit| hit["text"].as_str().is_some_and(|text| text.len() == 512 << 10)));
    let listed = server.send(from(GREEDY, get("/v1/collections/points/documents?limit=3"))).await;
    assert_eq!(listed.body["documents"].as_array().map(Vec::len), Some(1), "a page of large documents ends early");
    assert!(listed.body["next_cursor"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_get_shorter_when_memory_is_short() {
    let server = with_large_documents(6 << 20).await;
    let list = || get("/v1/collections/points/documents?limit=1000");
    let unread = begin_all(&server, GREEDY, 8, list).await;
    assert_eq!(statuses(&unread)[0], 200);
    let read = server.send(from(OTHER, list())).await;
    assert!(read.status == 200 && read.body["next_cursor"].is_string(), "{}", read.status);
    drop(unread);
    assert_eq!(server.send(from(OTHER, list())).await.body["documents"].as_array().map(Vec::len), Some(8));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_body_beyond_the_memory_limit_is_refused_as_overloaded() {
    let server = Server::with_limits(Limits { in_flight_bytes_max: 1 << 20, ..Limits::default() });
    let large = post("/v1/embeddings", &json!({"input": vec!["word ".repeat(2_000); 200]}));
    let refused = server.send(from(GREEDY, large)).await;
    assert_eq!((refused.status, refused.code()), (503, Some("overloaded")), "{}", refused.text);
    assert!(refused.header("retry-after").is_some());
    let small = post("/v1/embeddings", &json!({"input": "a word"}));
    assert_eq!(server.send(from(GREEDY, small)).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mcp_message_counts_for_the_memory_of_its_values() {
    let server = Server::with_limits(Limits { in_flight_bytes_max: 16 << 20, ..Limits::default() });
    let send = async |lists: usize| {
        let nested = format!("{}{}", "[".repeat(100), "]".repeat(100));
        let message =
            format!(r#"{{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {{"a": [{}]}}}}"#, vec![nested; lists].join(","));
        server.call(Method::POST, "/mcp", Body::from(message)).await
    };
    assert_eq!(send(500).await.code(), Some("overloaded"), "100 KB of text are 50,000 lists");
    assert_eq!(send(5).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_have_their_own_limit_and_take_no_request_slot() {
    let settings = Settings { requests_max: 1, event_streams_max: 4, ..Settings::default() };
    let server = Server::with_settings(Limits::default(), settings, None);
    let job = server.finished(&server.post("/v1/snapshots", &json!({})).await).await;
    let events = format!("/v1/jobs/{}/events", job["id"].as_str().expect("an id"));
    let mut open = begin_all(&server, GREEDY, 3, || get(&events)).await;
    assert_eq!(statuses(&open), [200, 200, 429], "one caller may use half of the streams");
    open.extend(begin_all(&server, OTHER, 2, || get(&events)).await);
    assert_eq!(statuses(&open)[3..], [200, 429]);
    let refused = server.send(from(GREEDY, get(&events))).await;
    refused.assert_error(429, "rate_limited", "", &["event_streams_max"]);
    assert!(refused.header("retry-after").is_some());
    assert_eq!(server.send(from(GREEDY, get("/v1/models"))).await.status, 200, "event streams do not count as requests");
    drop(open);
    assert_eq!(server.send(from(GREEDY, get(&events))).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_caller_gets_at_most_half_of_the_request_slots() {
    let server = Server::with_settings(Limits::default(), Settings { requests_max: 4, ..Settings::default() }, None);
    let unread = begin_all(&server, GREEDY, 4, || get("/v1/models")).await;
    assert_eq!(statuses(&unread), [200, 200, 429, 429]);
    assert_eq!(server.send(from(OTHER, get("/v1/models"))).await.status, 200);
    assert_eq!(server.send(from(GREEDY, get("/healthz"))).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn stalled_uploads_of_one_caller_leave_upload_slots_for_others() {
    let server = Server::with_limits(Limits { uploads_max: 4, ..Limits::default() });
    server.create(json!({"name": "news"})).await;
    let import = |body: Body| {
        let request = Request::post("/v1/collections/news/import").header("content-type", "application/x-ndjson");
        request.body(body).expect("a request")
    };
    let mut silent = Vec::new();
    for _ in 0..2 {
        let (started, running) = tokio::sync::oneshot::channel::<()>();
        let first = futures::stream::once(async move {
            let _ = started.send(());
            Ok::<_, std::io::Error>("{\"text\":")
        });
        let body = Body::from_stream(first.chain(futures::stream::pending()));
        let router = server.router.clone();
        silent.push(tokio::spawn(router.oneshot(from(GREEDY, import(body)))));
        running.await.expect("the file is being received");
    }
    let line = || Body::from("{\"text\":\"Il pleut.\"}\n");
    let refused = server.send(from(GREEDY, import(line()))).await;
    refused.assert_error(429, "rate_limited", "", &["uploads_max", "share"]);
    let job = server.finished(&server.send(from(OTHER, import(line()))).await).await;
    assert_eq!(job["details"]["created"], 1);
    silent.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_bound_has_metrics() {
    let server = Server::with_settings(Limits::default(), Settings { requests_max: 2, ..Settings::default() }, None);
    let _unread = begin_all(&server, GREEDY, 2, || get("/v1/models")).await;
    let text = server.send_unchecked(get("/metrics")).await.text;
    for bound in ["requests_max", "event_streams_max", "in_flight_bytes_max", "uploads_max", "jobs_queued_max", "connections_max"]
    {
        for metric in ["bound_limit", "bound_used", "bound_refusals_total"] {
            assert!(text.contains(&format!("dragoman_{metric}{{bound=\"{bound}\"}} ")), "{metric} {bound}\n{text}");
        }
    }
    assert!(text.contains("dragoman_bound_used{bound=\"requests_max\"} 1\n"), "{text}");
    assert!(text.contains("dragoman_bound_refusals_total{bound=\"requests_max\"} 1\n"), "{text}");
}
