//! Under which host names a server without keys answers, and which web pages may call it.

use axum::body::Body;
use axum::http::{Method, Request, Version};
use dragoman::domain::Limits;
use dragoman::http::middleware::hosts::{Hosts, Origin};
use dragoman::http::settings::Settings;
use serde_json::json;
use tower::ServiceExt as _;

use crate::server::{ADMIN_KEY, Response, Server};

/// Sends a request without a body, with these headers.
async fn send(server: &Server, method: Method, path: &str, headers: &[(&str, &str)]) -> Response {
    let request = Request::builder().method(method).uri(path);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    server.send(request.body(Body::empty()).expect("a request")).await
}

async fn get(server: &Server, path: &str, headers: &[(&str, &str)]) -> Response {
    send(server, Method::GET, path, headers).await
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_only_local_host_names_are_accepted() {
    let server = Server::start();
    for host in ["localhost:7700", "127.0.0.1:7700", "[::1]:7700", "LocalHost", "db.localhost:7700"] {
        assert_eq!(get(&server, "/v1/collections", &[("host", host)]).await.status, 200, "{host}");
    }
    for host in ["rebound.example:7700", "127.0.0.1.example.com", "192.0.2.7:7700"] {
        let refused = get(&server, "/v1/collections", &[("host", host)]).await;
        refused.assert_error(403, "host_not_allowed", "host", &["hosts setting", host]);
    }
    let target = get(&server, "http://rebound.example/v1/collections", &[]).await;
    assert_eq!(target.code(), Some("host_not_allowed"), "a host in the request target is checked too");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_hosts_setting_allows_more_host_names() {
    let hosts = Hosts::parse(&["db.example"]).expect("names");
    let server = Server::with_settings(Limits::default(), Settings { hosts, ..Settings::default() }, None);
    assert_eq!(get(&server, "/v1/collections", &[("host", "db.example:7700")]).await.status, 200);
    assert_eq!(get(&server, "/v1/collections", &[("host", "other.example")]).await.status, 403);
    assert_eq!(get(&server, "/v1/collections", &[("host", "localhost")]).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_keys_every_host_name_is_accepted() {
    let server = Server::with_settings(Limits::default(), Settings::default(), Some(ADMIN_KEY));
    let bearer = format!("Bearer {ADMIN_KEY}");
    let key = ("authorization", bearer.as_str());
    let headers = [key, ("host", "db.example"), ("origin", "https://example.com")];
    assert_eq!(get(&server, "/v1/collections", &headers).await.status, 200);
    assert_eq!(get(&server, "/v1/collections", &headers[1..]).await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn public_routes_accept_every_host_name() {
    let server = Server::start();
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs/"] {
        assert_eq!(get(&server, path, &[("host", "pod-7.example:7700")]).await.status, 200, "{path}");
    }
    let metrics = |server: Server| async move {
        let request = Request::get("/metrics").header("host", "pod-7.example:7700").body(Body::empty());
        server.send_unchecked(request.expect("a request")).await.status
    };
    assert_eq!(metrics(server).await, 403, "metrics reveal collection names");
    let open = Settings { metrics_open: true, ..Settings::default() };
    assert_eq!(metrics(Server::with_settings(Limits::default(), open, None)).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_malformed_or_missing_host_header_is_refused() {
    let guarded = Server::with_settings(Limits::default(), Settings::default(), Some(ADMIN_KEY));
    for server in [Server::start(), guarded] {
        for path in ["/v1/collections", "/healthz"] {
            let two = get(&server, path, &[("host", "localhost:7700"), ("host", "rebound.example")]).await;
            two.assert_error(400, "invalid_host", "host", &["once"]);
            let same = get(&server, path, &[("host", "localhost:7700"), ("host", "localhost:7700")]).await;
            assert_eq!(same.code(), Some("invalid_host"));
            for bad in ["", "a b", "me@localhost", "localhost:port"] {
                assert_eq!(get(&server, path, &[("host", bad)]).await.code(), Some("invalid_host"), "{bad:?}");
            }
        }
        let none = Request::get("/healthz").body(Body::empty()).expect("a request");
        let status =
            async |request: Request<Body>| server.router.clone().oneshot(request).await.expect("a response").status().as_u16();
        assert_eq!(status(none).await, 400, "HTTP/1.1 requires one");
        let older = Request::get("/healthz").version(Version::HTTP_10).body(Body::empty()).expect("a request");
        assert_eq!(status(older).await, 200, "HTTP/1.0 does not");
        let other = get(&server, "http://localhost:7700/healthz", &[("host", "rebound.example")]).await;
        assert_eq!(other.code(), Some("invalid_host"), "target and header differ");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_from_other_origins_are_refused() {
    let server = Server::start();
    let host = ("host", "localhost:7700");
    for origin in ["https://example.com", "http://localhost:3000", "http://localhost", "null", "http://rebound.example:7700"] {
        for method in [Method::GET, Method::DELETE] {
            let refused = send(&server, method, "/v1/collections/news", &[host, ("origin", origin)]).await;
            refused.assert_error(403, "origin_not_allowed", "origin", &["cors_origins", origin]);
        }
    }
    assert_eq!(get(&server, "/v1/collections", &[host, ("origin", "http://localhost:7700")]).await.status, 200);

    let cors_origins = vec![Origin::parse("https://example.com").expect("an origin")];
    let server = Server::with_settings(Limits::default(), Settings { cors_origins, ..Settings::default() }, None);
    let foreign = ("sec-fetch-site", "cross-site");
    assert_eq!(get(&server, "/v1/collections", &[host, foreign, ("origin", "https://example.com")]).await.status, 200);
    assert_eq!(get(&server, "/v1/collections", &[host, foreign, ("origin", "https://example.org")]).await.status, 403);
}

/// What a foreign page's form or `no-cors` request sends: no custom headers.
#[tokio::test(flavor = "multi_thread")]
async fn no_foreign_page_starts_or_cancels_anything() {
    let server = Server::start();
    server.create(json!({"name": "news"})).await;
    let job = server.finished(&server.post("/v1/snapshots", &json!({})).await).await;
    let cancel = format!("/v1/jobs/{}/cancel", job["id"].as_str().expect("an id"));
    let host = ("host", "127.0.0.1:7700");
    for path in [cancel.as_str(), "/v1/classifiers/topics/train"] {
        for page in [("origin", "https://example.com"), ("origin", "null"), ("sec-fetch-site", "cross-site")] {
            let plain = ("content-type", "text/plain");
            let refused = send(&server, Method::POST, path, &[host, plain, page]).await;
            assert_eq!((refused.status, refused.code()), (403, Some("origin_not_allowed")), "{path} {page:?}");
        }
        for page in [("sec-fetch-site", "same-origin"), ("origin", "http://127.0.0.1:7700")] {
            assert_ne!(send(&server, Method::POST, path, &[host, page]).await.status, 403, "{path} {page:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_from_another_site_can_be_followed() {
    let server = Server::start();
    let from_elsewhere = ("sec-fetch-site", "cross-site");
    let navigates = get(&server, "/v1/collections", &[from_elsewhere, ("sec-fetch-mode", "navigate")]).await;
    assert_eq!(navigates.status, 200);
    let reads = get(&server, "/v1/collections", &[from_elsewhere, ("sec-fetch-mode", "no-cors")]).await;
    reads.assert_error(403, "origin_not_allowed", "sec-fetch-site", &[]);
}
