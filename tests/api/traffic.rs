//! Rate limits, the request timeout, browsers, and the drain at shutdown.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use dragoman::domain::Limits;
use dragoman::http::middleware::hosts::Origin;
use dragoman::http::middleware::traffic::ClientAddress;
use dragoman::http::settings::{Rate, Settings};
use serde_json::json;
use tokio::sync::watch;
use tower::ServiceExt as _;

use crate::server::{ADMIN_KEY, Response, Server, respond};

fn with(settings: Settings) -> Server {
    Server::with_settings(Limits::default(), settings, None)
}

/// A request from a client with this address.
async fn from(server: &Server, address: &str) -> Response {
    let mut request = Request::get("/v1/models").body(Body::empty()).expect("a request");
    request.extensions_mut().insert(ClientAddress(address.parse().expect("an address")));
    server.send(request).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limited_caller_gets_429_with_retry_after() {
    let server = with(Settings { rate: Some(Rate { per_second: 0.01, burst: 2 }), ..Settings::default() });
    assert_eq!(from(&server, "192.0.2.1").await.status, 200);
    assert_eq!(from(&server, "192.0.2.1").await.status, 200);
    let refused = from(&server, "192.0.2.1").await;
    refused.assert_error(429, "rate_limited", "", &["0.01", "rate_per_s", "rate_burst"]);
    let seconds: u64 = refused.header("retry-after").expect("a time").parse().expect("seconds");
    assert!((90..=100).contains(&seconds), "{seconds}");
    assert_eq!(from(&server, "192.0.2.2").await.status, 200, "another caller");
    for _ in 0..5 {
        assert_eq!(server.get("/healthz").await.status, 200, "health is not counted");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rate_limits_apply_per_valid_key_and_per_address_for_invalid_ones() {
    let settings = Settings { rate: Some(Rate { per_second: 0.01, burst: 2 }), ..Settings::default() };
    let server = Server::with_settings(Limits::default(), settings, Some(ADMIN_KEY));
    let (admin, wrong) = (server.with_key(ADMIN_KEY), server.with_key("a wrong one"));
    let statuses = async |server: &Server| {
        let mut statuses = Vec::new();
        for _ in 0..3 {
            statuses.push(server.get("/v1/models").await.status);
        }
        statuses
    };
    assert_eq!(statuses(&wrong).await, [401, 401, 429]);
    assert_eq!(statuses(&admin).await, [200, 200, 429]);
}

fn embed() -> Request<Body> {
    let body = json!({"input": "ein Satz"}).to_string();
    Request::post("/v1/embeddings").header("content-type", "application/json").body(Body::from(body)).expect("a request")
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_are_limited_in_total_and_per_caller() {
    for (settings, status, code, words) in [
        (Settings { requests_max: 1, ..Settings::default() }, 503, "overloaded", "requests_max"),
        (Settings { caller_requests_max: Some(1), ..Settings::default() }, 429, "rate_limited", "caller_requests_max"),
    ] {
        let server = with(settings);
        let (router, control) = (&server.router, &server.control);
        control.pause();
        let first = tokio::spawn(respond(router.clone(), embed()));
        let waiting = control.clone();
        tokio::task::spawn_blocking(move || waiting.wait_until_blocked()).await.expect("the first request runs");
        let models = || Request::get("/v1/models").body(Body::empty()).expect("a request");
        let refused = respond(router.clone(), models()).await;
        assert_eq!((refused.status, refused.code()), (status, Some(code)), "{}", refused.text);
        assert!(refused.text.contains(words) && refused.header("retry-after").is_some(), "{}", refused.text);
        control.resume();
        assert_eq!(first.await.expect("no panic").status, 200);
        assert_eq!(respond(router.clone(), models()).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_occupies_its_slot_until_its_response_is_done() {
    let server = with(Settings { requests_max: 1, ..Settings::default() });
    let router = &server.router;
    let models = || Request::get("/v1/models").header("host", "localhost").body(Body::empty()).expect("a request");
    let first = router.clone().oneshot(models()).await.expect("a response");
    assert_eq!(respond(router.clone(), models()).await.code(), Some("overloaded"), "the first response has not been read yet");
    drop(first);
    assert_eq!(respond(router.clone(), models()).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_served_when_a_limit_refuses_other_requests() {
    for (settings, code) in [
        (Settings { requests_max: 1, ..Settings::default() }, "overloaded"),
        (Settings { caller_requests_max: Some(1), ..Settings::default() }, "rate_limited"),
        (Settings { rate: Some(Rate { per_second: 0.01, burst: 1 }), ..Settings::default() }, "rate_limited"),
    ] {
        let server = with(settings);
        let router = &server.router;
        let get = |path: &str| Request::get(path).header("host", "localhost").body(Body::empty()).expect("a request");
        let _first = router.clone().oneshot(get("/v1/models")).await.expect("a response");
        assert_eq!(respond(router.clone(), get("/v1/models")).await.code(), Some(code));
        assert_eq!(respond(router.clone(), get("/metrics")).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_request_times_out_with_503() {
    let server = with(Settings { request_timeout: Duration::from_millis(500), ..Settings::default() });
    server.control.pause();
    let late = respond(server.router.clone(), embed()).await;
    assert_eq!((late.status, late.code()), (503, Some("request_timeout")), "{}", late.text);
    let words = "0.5 s (request_timeout_s); its writes so far stay, and the one in progress may still be stored";
    assert!(late.text.contains(words), "{}", late.text);
    assert!(late.header("retry-after").is_some(), "{}", late.text);
    server.control.resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_body_never_ends_times_out() {
    let server = with(Settings { request_timeout: Duration::from_millis(50), ..Settings::default() });
    let body = Body::from_stream(futures::stream::pending::<Result<String, std::io::Error>>());
    let request = Request::post("/v1/embeddings").header("content-type", "application/json").body(body).expect("a request");
    let late = respond(server.router.clone(), request).await;
    assert_eq!((late.status, late.code()), (503, Some("request_timeout")), "{}", late.text);
    assert!(
        late.text.contains("the body did not arrive within 0.05 s (request_timeout_s); nothing of it is stored"),
        "{}",
        late.text
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cross_origin_requests_are_allowed_only_for_configured_origins() {
    let preflight = |origin: &str| {
        let request = Request::builder().method(Method::OPTIONS).uri("/v1/collections").header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        let headers = "authorization, if-match, if-none-match, idempotency-key, content-encoding";
        request.header("access-control-request-headers", headers).body(Body::empty()).expect("a request")
    };
    let allowed = async |server: &Server, origin: &str| {
        let response = server.send_unchecked(preflight(origin)).await;
        response.header("access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!(allowed(&Server::start(), "https://example.com").await, None, "off by default");

    let origins = vec![Origin::parse("https://example.com").expect("an origin")];
    let settings = Settings { cors_origins: origins, ..Settings::default() };
    let server = Server::with_settings(Limits::default(), settings, Some(ADMIN_KEY));
    assert_eq!(allowed(&server, "https://example.com").await.as_deref(), Some("https://example.com"));
    assert_eq!(allowed(&server, "https://example.org").await, None);
    let response = server.send_unchecked(preflight("https://example.com")).await;
    let headers = response.header("access-control-allow-headers").expect("headers").to_owned();
    for name in ["authorization", "if-match", "if-none-match", "idempotency-key", "content-encoding"] {
        assert!(headers.split(',').any(|allowed| allowed.trim() == name), "{name}: {headers}");
    }
    let request = Request::get("/v1/collections").header("origin", "https://example.com").body(Body::empty());
    let refused = server.send(request.expect("a request")).await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("access-control-allow-origin"), Some("https://example.com"), "a page can read why it is refused");
    assert!(refused.header("access-control-expose-headers").is_some_and(|names| names.contains("x-request-id")));

    let server = with(Settings { cors_origins: vec![Origin::Any], ..Settings::default() });
    assert_eq!(allowed(&server, "https://example.org").await.as_deref(), Some("*"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draining_server_refuses_requests_and_closes_connections() {
    let (stopping, stop) = watch::channel(false);
    let server = with(Settings { stop, ..Settings::default() });
    assert_eq!(server.get("/v1/models").await.status, 200);
    stopping.send_replace(true);
    for path in ["/v1/models", "/v1/collections", "/readyz"] {
        let refused = server.get(path).await;
        refused.assert_error(503, "unavailable", "", &["stopping"]);
        assert_eq!(refused.header("connection"), Some("close"));
        assert!(refused.header("retry-after").is_some());
    }
    assert_eq!(server.get("/healthz").await.status, 200, "the process still lives");
}
