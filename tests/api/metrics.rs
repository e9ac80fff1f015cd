//! `/metrics`.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use dragoman::domain::Limits;
use dragoman::http::settings::{Reading, Readings, Settings};
use serde_json::json;

use crate::server::{Response, Server};

async fn scrape(server: &Server) -> Response {
    server.send_unchecked(Request::get("/metrics").body(Body::empty()).expect("a request")).await
}

/// The same, with this `Accept` header.
async fn scrape_as(server: &Server, accept: &str) -> Response {
    server.send_unchecked(Request::get("/metrics").header("accept", accept).body(Body::empty()).expect("a request")).await
}

/// The value of a sample, named with its labels.
fn sample(text: &str, name: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_documents_and_the_encoder_are_counted() {
    let documents =
        json!([{"id": "a", "text": "Le chat dort.", "language": "fr"}, {"id": "b", "text": "The dog barks.", "language": "en"}]);
    let server = Server::with_documents(documents).await;
    let repeated = "{\"id\": \"a\", \"text\": \"Le chat dort.\", \"language\": \"fr\"}\n";
    assert_eq!(server.import("application/x-ndjson", repeated).await["status"], "succeeded");
    server.get("/v1/collections/none").await;
    server.get("/v1/collections/other").await;
    server.get("/nowhere").await;
    let response = scrape_as(&server, "application/openmetrics-text;version=1.0.0,text/plain;q=0.5").await;
    assert_eq!(response.status, 200, "{}", response.text);
    assert!(response.header("content-type").is_some_and(|name| name.starts_with("application/openmetrics-text; version=1.0.0")));
    let text = &response.text;
    for (name, value) in [
        ("dragoman_requests_total{operation=\"create_collection\",status=\"201\"}", 1.0),
        ("dragoman_requests_total{operation=\"get_collection\",status=\"404\"}", 2.0),
        ("dragoman_requests_total{operation=\"unmatched\",status=\"404\"}", 1.0),
        ("dragoman_request_seconds_count{operation=\"get_collection\"}", 2.0),
        ("dragoman_request_seconds_bucket{le=\"+Inf\",operation=\"upsert_documents\"}", 1.0),
        ("dragoman_requests_running", 1.0),
        ("dragoman_collections", 1.0),
        ("dragoman_collection_documents{collection=\"news\"}", 2.0),
        ("dragoman_collection_passages{collection=\"news\"}", 2.0),
        ("dragoman_collection_passages_pending{collection=\"news\"}", 0.0),
        ("dragoman_jobs{type=\"import\",status=\"succeeded\"}", 1.0),
        ("dragoman_jobs{type=\"import\",status=\"running\"}", 0.0),
        ("dragoman_jobs{type=\"mine\",status=\"failed\"}", 0.0),
        ("dragoman_embed_failures_total", 0.0),
        ("dragoman_embed_queue_texts", 0.0),
    ] {
        assert_eq!(sample(text, name), Some(value), "{name} in {text}");
    }
    // The worker may start embedding a passage before the request that stored it does: then it is embedded twice.
    let embedded = sample(text, "dragoman_embed_texts_total").expect("texts");
    assert!((2.0..=4.0).contains(&embedded), "{text}");
    assert_eq!(sample(text, "dragoman_embed_tokens_total"), Some(3.0 * embedded), "{text}");
    assert_eq!(sample(text, "dragoman_embed_wait_seconds_count"), Some(embedded), "{text}");
    assert!(sample(text, "dragoman_embed_batch_seconds_count").is_some_and(|batches| batches >= 1.0), "{text}");
    assert!(sample(text, "dragoman_collection_disk_bytes{collection=\"news\"}").is_some_and(|bytes| bytes > 4_096.0), "{text}");
    assert!(sample(text, "dragoman_collection_log_disk_bytes{collection=\"news\"}").is_some_and(|bytes| bytes > 0.0), "{text}");
    assert!(text.contains(&format!("dragoman_build_info{{version=\"{}\",model=\"fake\"", env!("CARGO_PKG_VERSION"))), "{text}");
    assert!(text.ends_with("# EOF\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_need_a_key_unless_they_are_open() {
    let key = "the key of the configuration";
    let server = Server::with_settings(Limits::default(), Settings::default(), Some(key));
    scrape(&server).await.assert_error(401, "unauthorized", "", &[]);
    let request = Request::get("/metrics").header("authorization", format!("Bearer {key}")).body(Body::empty());
    assert_eq!(server.send_unchecked(request.expect("a request")).await.status, 200);
    let settings = Settings { metrics_open: true, ..Settings::default() };
    let server = Server::with_settings(Limits::default(), settings, Some(key));
    assert_eq!(scrape(&server).await.status, 200);
    server.get("/v1/models").await.assert_error(401, "unauthorized", "", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_log_lines_and_the_expiry_of_the_certificate_are_shown() {
    let (dropped, expiry): (Reading, Reading) = (Arc::new(|| 3), Arc::new(|| 1_893_456_000));
    let readings = Readings { log_lines_dropped: Some(dropped), certificate_expiry_s: Some(expiry) };
    let server = Server::with_settings(Limits::default(), Settings { readings, ..Settings::default() }, None);
    let text = scrape(&server).await.text;
    assert_eq!(sample(&text, "dragoman_log_lines_dropped_total"), Some(3.0), "{text}");
    assert_eq!(sample(&text, "dragoman_tls_certificate_expiry_seconds"), Some(1_893_456_000.0), "{text}");
    let text = scrape(&Server::start()).await.text;
    assert!(!text.contains("tls_certificate"), "without TLS there is no certificate: {text}");
}

/// The samples that do not change between scrapes, as a set, because each scrape orders them differently.
fn stable(text: &str) -> BTreeSet<&str> {
    let moving =
        ["dragoman_request", "dragoman_resident_memory", "dragoman_bound_used", "dragoman_embed", "dragoman_collection_"];
    text.lines().filter(|line| !line.starts_with('#') && !moving.iter().any(|name| line.starts_with(name))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_request_openmetrics_get_the_text_format() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Le chat dort.", "language": "fr"}])).await;
    let openmetrics = scrape_as(&server, "application/openmetrics-text").await.text;
    for accept in [None, Some("*/*"), Some("text/plain;version=0.0.4"), Some("text/html")] {
        let response = match accept {
            Some(accept) => scrape_as(&server, accept).await,
            None => scrape(&server).await,
        };
        assert_eq!(response.status, 200, "{}", response.text);
        assert_eq!(response.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"), "{accept:?}");
        assert_eq!(response.header("vary"), Some("accept"));
        let text = &response.text;
        assert_eq!(stable(text), stable(&openmetrics), "the samples are the same");
        assert!(!text.contains("# UNIT") && !text.contains("# EOF") && text.ends_with('\n'), "{text}");
        for line in [
            "# TYPE dragoman_requests_total counter",
            "# TYPE dragoman_request_seconds histogram",
            "# TYPE dragoman_build_info gauge",
            "# TYPE dragoman_collection_documents gauge",
            "# HELP dragoman_requests_total Requests answered.",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} is not in {text}");
        }
        described(text);
    }
}

/// Checks that each sample belongs to the metric described last, with help and type, and that no metric is described twice.
fn described(text: &str) {
    let (mut metric, mut kind, mut seen) = ("", "", Vec::new());
    for line in text.lines() {
        if let Some((name, about)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) {
            assert!(!about.is_empty() && !seen.contains(&name), "{line}");
            seen.push(name);
            (metric, kind) = (name, "");
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, of) = rest.split_once(' ').expect("a type");
            assert!(name == metric && kind.is_empty(), "{line}");
            kind = of;
        } else {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            let suffix = name.strip_prefix(metric).expect("the metric that was described last");
            let suffixes: &[&str] = if kind == "histogram" { &["_sum", "_count", "_bucket"] } else { &[""] };
            assert!(suffixes.contains(&suffix) && !kind.is_empty(), "{line} of {metric}, a {kind}");
        }
    }
}

/// Every metric of this server that a PromQL expression names.
fn named(expressions: &str) -> BTreeSet<&str> {
    let words = expressions.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    words.filter(|word| word.starts_with("dragoman_")).collect()
}

/// The metrics of a server with TLS and a document.
async fn scrape_with_tls() -> String {
    let readings = Readings { log_lines_dropped: None, certificate_expiry_s: Some(Arc::new(|| 1_893_456_000)) };
    let server = Server::with_settings(Limits::default(), Settings { readings, ..Settings::default() }, None);
    server.post("/v1/collections", &json!({"name": "news"})).await;
    server.post("/v1/collections/news/documents", &json!({"documents": [{"text": "Le chat dort."}]})).await;
    // Counted only after the first scrape.
    scrape(&server).await;
    scrape(&server).await.text
}

const DASHBOARD: &str = include_str!("../../observability/grafana/dashboards/dragoman.json");
const ALERTS: &str = include_str!("../../observability/alerts.yml");

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_the_dashboard_and_the_alerts_exists() {
    let text = scrape_with_tls().await;
    let samples: Vec<&str> = text.lines().filter_map(|line| line.split(['{', ' ']).next()).collect();
    serde_json::from_str::<serde_json::Value>(DASHBOARD).expect("JSON");
    for expressions in [DASHBOARD, ALERTS] {
        let named = named(expressions);
        assert!(named.len() > 5, "{named:?}");
        for name in named {
            assert!(samples.contains(&name), "{name} is not measured:\n{text}");
        }
    }
}

/// These functions take a value that falls for a counter that was reset.
#[tokio::test(flavor = "multi_thread")]
async fn the_dashboard_and_the_alerts_take_rates_and_increases_only_of_metrics_that_never_fall() {
    let text = scrape_with_tls().await;
    let mut checked = 0;
    for expressions in [DASHBOARD, ALERTS] {
        for function in ["rate(", "increase("] {
            for argument in expressions.split(function).skip(1) {
                let metric = argument.split(['{', '[']).next().expect("the name of a metric");
                assert!(["_total", "_bucket", "_sum", "_count"].iter().any(|end| metric.ends_with(end)), "{function}{metric}");
                assert!(!text.contains(&format!("# TYPE {metric} gauge")), "{metric} is a gauge");
                checked += 1;
            }
        }
    }
    assert!(checked > 10, "{checked}");
}
