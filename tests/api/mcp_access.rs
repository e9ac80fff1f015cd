//! Who may call the tools of `/mcp`, within which limits, and what the operator sees.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use dragoman::domain::Limits;
use dragoman::http::middleware::hosts::Origin;
use dragoman::http::settings::{Rate, Settings};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::mcp::{TOOLS, documents, message, names, problem, value};
use crate::server::{Response, Server};

/// The same server, called with a new key.
async fn keyed(server: &Server, scope: &str, collections: Option<&[&str]>) -> Server {
    let mut body = json!({"name": scope, "scope": scope});
    if let Some(collections) = collections {
        body["collections"] = json!(collections);
    }
    server.with_key(server.post("/v1/keys", &body).await.body["secret"].as_str().expect("a secret"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_needs_a_key_if_the_server_has_keys() {
    let server = Server::with_admin_key();
    for (key, words) in [(None, "Bearer"), (Some("wrong"), "does not know")] {
        let stranger = Server { key: key.map(str::to_owned), ..server.clone() };
        for method in ["initialize", "ping", "tools/list", "tools/call"] {
            let response = stranger.post("/mcp", &message(method, &json!({}))).await;
            response.assert_error(401, "unauthorized", "", &[words]);
            assert_eq!(response.header("www-authenticate"), Some("Bearer realm=\"dragoman\""));
        }
    }
    assert_eq!(names(&server).await.len(), TOOLS.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_key_can_neither_list_nor_call_write_tools() {
    let server = Server::with_admin_key();
    server.create(json!({"name": "news"})).await;
    let reader = keyed(&server, "read", None).await;
    let reading: Vec<&str> = TOOLS.iter().filter(|(_, reads)| *reads).map(|(name, _)| *name).collect();
    assert_eq!(names(&reader).await, reading);
    for (tool, arguments) in [
        ("add_documents", json!({"collection": "news", "documents": documents()})),
        ("delete_documents", json!({"collection": "news", "filter": {"and": []}})),
    ] {
        let refused = problem(&reader, tool, arguments).await;
        assert_eq!(
            (&refused["code"], &refused["detail"]),
            (&json!("forbidden"), &json!("the key has scope read, but this needs write"))
        );
    }
    let writer = keyed(&server, "write", None).await;
    assert_eq!(names(&writer).await.len(), TOOLS.len());
    let added = value(&writer, "add_documents", json!({"collection": "news", "documents": documents()})).await;
    assert_eq!(added["failed"], 0);
    assert_eq!(value(&reader, "search", json!({"collection": "news", "query": "rain"})).await["hits"][0]["id"], "rain");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_key_learns_nothing_about_other_collections() {
    let server = Server::with_admin_key();
    for name in ["news", "salaries"] {
        server.create(json!({"name": name})).await;
        let path = format!("/v1/collections/{name}/documents");
        assert_eq!(server.post(&path, &json!({"documents": documents()})).await.status, 200);
    }
    let news = keyed(&server, "write", Some(&["news"])).await;
    let listed = value(&news, "list_collections", json!({})).await;
    let seen: Vec<&Value> = listed["collections"].as_array().expect("collections").iter().map(|one| &one["name"]).collect();
    assert_eq!(seen, ["news"]);
    let everything = json!({"and": []});
    for collection in ["salaries", "nothing"] {
        for (tool, arguments) in [
            ("search", json!({"collection": collection, "query": "rain"})),
            ("get_document", json!({"collection": collection, "id": "rain"})),
            ("add_documents", json!({"collection": collection, "documents": documents()})),
            ("delete_documents", json!({"collection": collection, "filter": everything})),
        ] {
            let refused = problem(&news, tool, arguments).await;
            let detail = format!("the key is restricted to collections other than {collection}");
            assert_eq!((&refused["code"], &refused["detail"]), (&json!("forbidden"), &json!(detail)), "{tool}");
        }
        let stored = json!({"collection": collection, "ids": ["rain"]});
        let refused = problem(&news, "classify", json!({"classifier": "news.topics", "documents": stored})).await;
        assert_eq!(refused["code"], "forbidden", "{refused}");
        // A path inside a name leads nowhere else either.
        let refused = problem(&news, "get_document", json!({"collection": format!("news/../{collection}"), "id": "rain"})).await;
        assert_eq!(refused["code"], "forbidden", "{refused}");
    }
    assert_eq!(server.get("/v1/collections/salaries").await.body["documents"], 2);
    assert_eq!(value(&news, "search", json!({"collection": "news", "query": "rain"})).await["hits"][0]["id"], "rain");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_finds_the_alias_that_its_key_is_restricted_to() {
    let server = Server::with_admin_key();
    for name in ["kb-2026", "salaries"] {
        server.create(json!({"name": name, "description": "Texts"})).await;
    }
    assert_eq!(server.put("/v1/aliases/kb", &json!({"collection": "kb-2026"})).await.status, 200);
    let agent = keyed(&server, "write", Some(&["kb"])).await;
    let listed = value(&agent, "list_collections", json!({})).await;
    let [kb] = listed["collections"].as_array().expect("collections").as_slice() else { panic!("one collection: {listed}") };
    assert_eq!((&kb["name"], &kb["description"], &kb["documents"]), (&json!("kb"), &json!("Texts"), &json!(0)));
    let added = value(&agent, "add_documents", json!({"collection": kb["name"], "documents": documents()})).await;
    assert_eq!(added["failed"], 0);
    let found = value(&agent, "search", json!({"collection": kb["name"], "query": "rain"})).await;
    assert_eq!(found["hits"][0]["id"], "rain");
    let own = problem(&agent, "search", json!({"collection": "kb-2026", "query": "rain"})).await;
    assert_eq!(own["code"], "forbidden", "{own}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_foreign_hosts_and_origins_are_refused() {
    let server = Server::start();
    let send = async |name: &str, value: &str| {
        let request = Request::post("/mcp").header("content-type", "application/json").header(name, value);
        let request = if name == "origin" { request.header("host", "localhost:7700") } else { request };
        server.send(request.body(Body::from(message("tools/list", &json!({})).to_string())).expect("a request")).await
    };
    send("host", "rebound.example:7700").await.assert_error(403, "host_not_allowed", "host", &["rebound.example"]);
    send("origin", "https://page.example").await.assert_error(403, "origin_not_allowed", "origin", &["page.example"]);
    send("sec-fetch-site", "cross-site").await.assert_error(403, "origin_not_allowed", "sec-fetch-site", &[]);
    for (name, value) in [("host", "localhost:7700"), ("host", "[::1]:7700"), ("origin", "http://localhost:7700")] {
        assert_eq!(send(name, value).await.status, 200, "{name} {value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cors_allows_the_protocol_headers_for_an_allowed_origin() {
    let cors_origins = vec![Origin::parse("https://page.example").expect("an origin")];
    let server = Server::with_settings(Limits::default(), Settings { cors_origins, ..Settings::default() }, None);
    let preflight = Request::builder().method(Method::OPTIONS).uri("/mcp").header("origin", "https://page.example");
    let headers = "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name";
    let preflight = preflight.header("access-control-request-method", "POST").header("access-control-request-headers", headers);
    let response = server.send_unchecked(preflight.body(Body::empty()).expect("a request")).await;
    let allowed = response.header("access-control-allow-headers").expect("a list");
    assert!(headers.split(',').all(|name| allowed.split(',').any(|one| one.trim() == name)), "{allowed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_call_counts_as_one_request_for_the_limits() {
    let rate = Some(Rate { per_second: 0.001, burst: 2 });
    let settings = Settings { requests_max: 1, caller_requests_max: Some(1), rate, ..Settings::default() };
    let server = Server::with_settings(Limits::default(), settings, None);
    for _ in 0..2 {
        value(&server, "list_collections", json!({})).await;
    }
    server.post("/mcp", &message("ping", &json!({}))).await.assert_error(429, "rate_limited", "", &["rate_per_s"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_refused_during_shutdown() {
    let settings = Settings { stop: watch::channel(true).1, ..Settings::default() };
    let server = Server::with_settings(Limits::default(), settings, None);
    server.post("/mcp", &message("ping", &json!({}))).await.assert_error(503, "unavailable", "", &["stopping"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_tool_call_returns_a_timeout_error() {
    let settings = Settings { request_timeout: Duration::from_millis(50), ..Settings::default() };
    let server = Server::with_settings(Limits::default(), settings, None);
    server.control.pause();
    let refused = problem(&server, "compare_texts", json!({"pairs": [{"first": "a", "second": "b"}]})).await;
    server.control.resume();
    assert_eq!(refused["code"], "request_timeout", "{refused}");
    assert!(refused["detail"].as_str().is_some_and(|text| text.contains("0.05 s (request_timeout_s)")), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_aborted_when_its_client_disconnects() {
    let settings = Settings { requests_max: 1, ..Settings::default() };
    let server = Server::with_settings(Limits::default(), settings, None);
    server.control.pause();
    let pairs = json!({"name": "compare_texts", "arguments": {"pairs": [{"first": "a", "second": "b"}]}});
    let running = tokio::spawn({
        let server = server.clone();
        async move { server.post("/mcp", &message("tools/call", &pairs)).await }
    });
    let running_requests = async |expect: &str| {
        let scrape = || Request::get("/metrics").body(Body::empty()).expect("a request");
        for _ in 0..10_000 {
            let text = server.send_unchecked(scrape()).await.text;
            if text.lines().any(|line| line == format!("dragoman_requests_running {expect}")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("never are {expect} requests running");
    };
    // The message, its operation, and the request for the metrics.
    running_requests("3").await;
    running.abort();
    running_requests("1").await;
    server.control.resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_a_tool_call_as_a_message_and_as_its_operation() {
    let server = Server::with_news().await;
    value(&server, "search", json!({"collection": "news", "query": "rain"})).await;
    problem(&server, "search", json!({"collection": "gone", "query": "rain"})).await;
    let metrics = server.send_unchecked(Request::get("/metrics").body(Body::empty()).expect("a request")).await.text;
    for line in [
        "dragoman_requests_total{operation=\"call_mcp\",status=\"200\"} 2",
        "dragoman_requests_total{operation=\"search_documents\",status=\"200\"} 1",
        "dragoman_requests_total{operation=\"search_documents\",status=\"404\"} 1",
    ] {
        assert!(metrics.lines().any(|one| one == line), "{line} is not in {metrics}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_call_returns_the_request_id_of_its_message() {
    let server = Server::start();
    for arguments in [json!({"collection": "gone", "query": "a"}), json!({"query": "a"})] {
        let call = message("tools/call", &json!({"name": "search", "arguments": arguments}));
        let response: Response = server.send_with(Method::POST, "/mcp", ("x-request-id", "mine-1"), &call).await;
        assert_eq!(response.header("x-request-id"), Some("mine-1"));
        assert_eq!(response.body["result"]["structuredContent"]["request_id"], "mine-1", "{}", response.text);
    }
}
