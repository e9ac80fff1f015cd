//! Compressed bodies in both directions: `Content-Encoding` of requests, `Accept-Encoding` of answers.

use std::io::{Read as _, Write as _};

use axum::body::Body;
use axum::http::{Method, Request};
use dragoman::domain::Limits;
use serde_json::{Value, json};

use crate::server::{Response, Server};

const ENCODINGS: [&str; 2] = ["gzip", "zstd"];

fn packed(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    if encoding == "zstd" {
        return zstd::encode_all(bytes, 3).expect("zstd");
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("gzip")
}

fn unpacked(encoding: &str, bytes: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    let read = match encoding {
        "zstd" => zstd::stream::read::Decoder::new(bytes).expect("zstd").read_to_end(&mut whole),
        _ => flate2::read::GzDecoder::new(bytes).read_to_end(&mut whole),
    };
    read.expect("a whole file");
    whole
}

async fn send(server: &Server, path: &str, encoding: &str, body: Vec<u8>) -> Response {
    let request = Request::post(path).header("content-type", "application/json").header("content-encoding", encoding);
    server.send(request.body(Body::from(body)).expect("a request")).await
}

/// Sends a request with `Accept-Encoding`.
async fn ask(server: &Server, path: &str, accepted: &str) -> Response {
    let request = Request::builder().method(Method::GET).uri(path).header("accept-encoding", accepted);
    server.send_unchecked(request.body(Body::empty()).expect("a request")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn compressed_requests_are_accepted() {
    let server = Server::with_news().await;
    for encoding in ENCODINGS {
        let text = "Le train est en retard. ".repeat(5_000);
        let body = json!({"documents": [{"id": encoding, "text": text}]}).to_string();
        let response = send(&server, "/v1/collections/news/documents", encoding, packed(encoding, body.as_bytes())).await;
        assert_eq!(response.status, 200, "{}", response.text);
        assert_eq!(server.get(&format!("/v1/collections/news/documents/{encoding}")).await.body["text"], text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_size_limit_applies_to_the_decompressed_request() {
    let server = Server::with_limits(Limits { body_bytes_max: 100_000, ..Limits::default() });
    let body = |spaces: usize| format!("{{\"name\": \"news\"}}{}", " ".repeat(spaces)).into_bytes();
    for encoding in ENCODINGS {
        for spaces in [100_000, 80 << 20] {
            let bomb = packed(encoding, &body(spaces));
            assert!(bomb.len() < 100_000);
            let response = send(&server, "/v1/collections", encoding, bomb).await;
            response.assert_error(413, "body_too_large", "", &["100000 bytes"]);
        }
        let torn = packed(encoding, &body(1_000));
        let response = send(&server, "/v1/collections", encoding, torn[..torn.len() - 2].to_vec()).await;
        response.assert_error(400, "malformed_json", "", &[encoding]);
        let response = send(&server, "/v1/collections", encoding, body(0)).await;
        response.assert_error(400, "malformed_json", "", &[encoding]);
    }
    assert_eq!(send(&server, "/v1/collections", "gzip", packed("gzip", &body(99_000))).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn responses_are_compressed_on_request() {
    let documents: Vec<Value> = (0..50).map(|n| json!({"id": n.to_string(), "text": "Le train est en retard."})).collect();
    let server = Server::with_documents(json!(documents)).await;
    for path in ["/v1/collections/news/documents?limit=50", "/openapi.json", "/docs/errors", "/"] {
        let plain = ask(&server, path, "identity").await;
        assert_eq!((plain.status, plain.header("content-encoding")), (200, None), "{path}");
        for encoding in ENCODINGS {
            let response = ask(&server, path, encoding).await;
            assert_eq!((response.status, response.header("content-encoding")), (200, Some(encoding)), "{path}");
            assert!(response.header("vary").is_some_and(|names| names.to_lowercase().contains("accept-encoding")), "{path}");
            assert!(response.bytes.len() < plain.bytes.len(), "{path}");
            assert!(unpacked(encoding, &response.bytes) == plain.bytes, "{path} {encoding}");
        }
    }
    let small = ask(&server, "/v1/collections/news", "gzip").await;
    assert_eq!((small.status, small.header("content-encoding")), (200, None));
    let export = ask(&server, "/v1/collections/news/export", "gzip").await;
    assert_eq!(export.header("content-encoding"), Some("gzip"));
    assert_eq!(
        unpacked("gzip", &export.bytes).iter().filter(|byte| **byte == b'\n').count(),
        50,
        "the export is compressed only once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn long_responses_are_compressed_to_their_end() {
    let text = "Le train est en retard. ".repeat(40);
    let documents: Vec<Value> = (0..300).map(|n| json!({"id": n.to_string(), "text": text})).collect();
    let server = Server::with_documents(json!(documents)).await;
    let search = json!({"query": "train", "mode": "lexical", "limit": 300, "include": ["text"]}).to_string();
    for encoding in ENCODINGS {
        let list = ask(&server, "/v1/collections/news/documents?limit=300", encoding).await;
        let request = Request::post("/v1/collections/news/search").header("content-type", "application/json");
        let request = request.header("accept-encoding", encoding).body(Body::from(search.clone()));
        let found = server.send_unchecked(request.expect("a request")).await;
        for (response, member) in [(list, "documents"), (found, "hits")] {
            assert_eq!(response.header("content-encoding"), Some(encoding), "{member}");
            let whole = unpacked(encoding, &response.bytes);
            assert!(whole.len() > 256 << 10, "the response is sent in several chunks: {} bytes", whole.len());
            let whole: Value = serde_json::from_slice(&whole).expect("JSON");
            assert_eq!(whole[member].as_array().map(Vec::len), Some(300), "{encoding} {member}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_with_the_tag_of_a_compressed_document_applies() {
    const PATH: &str = "/v1/collections/news/documents/a";
    let text = "Le train est en retard. ".repeat(100);
    let server = Server::with_documents(json!([{"id": "a", "text": text}])).await;
    for encoding in ENCODINGS {
        let read = ask(&server, PATH, encoding).await;
        assert_eq!(read.header("content-encoding"), Some(encoding));
        let tag = read.header("etag").expect("a tag");
        let patch = json!({"metadata": {"read": encoding}});
        assert_eq!(server.send_with(Method::PATCH, PATH, ("if-match", tag), &patch).await.status, 200, "{encoding} {tag}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_are_not_compressed() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Bonjour"}])).await;
    let job = server.finished(&server.post("/v1/snapshots", &json!({})).await).await;
    let id = job["id"].as_str().expect("an id");
    let events = ask(&server, &format!("/v1/jobs/{id}/events"), "gzip, zstd").await;
    assert_eq!((events.status, events.header("content-encoding")), (200, None));
    assert!(events.text.starts_with("event: end"), "{}", events.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_answered_even_if_it_accepts_no_encoding() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Le train est en retard."}])).await;
    for refused in ["identity;q=0", "*;q=0", "*;q=0, identity;q=0", "gzip;q=0, zstd; Q=0.0, identity; q=0.000", "br, *;q=0"] {
        for path in ["/v1/collections/news", "/openapi.json", "/v1/collections/news/export"] {
            let response = ask(&server, path, refused).await;
            assert_eq!((response.status, response.header("content-encoding")), (200, None), "{refused} {path}");
        }
    }
    for preferred in ["identity, gzip;q=0.5, *;q=0", "identity;q=0.8, br;q=0, gzip;q=0.5, *;q=0.1"] {
        assert_eq!(ask(&server, "/openapi.json", preferred).await.header("content-encoding"), None, "{preferred}");
    }
    for accepted in ["identity;q=0, gzip", "gzip, *;q=0", "zstd;q=0, *"] {
        assert_eq!(ask(&server, "/openapi.json", accepted).await.header("content-encoding"), Some("gzip"), "{accepted}");
    }
    let request = Request::post("/v1/collections").header("content-type", "application/json").header("accept-encoding", "*;q=0");
    let response = server.send(request.body(Body::from(r#"{"name": "more"}"#)).expect("a request")).await;
    assert_eq!(response.status, 201, "{}", response.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_is_also_sent_compressed_has_a_weak_entity_tag_and_varies() {
    let server = Server::start();
    let varies = |response: &Response| response.header("vary").is_some_and(|by| by.contains("accept-encoding"));
    for path in ["/", "/console/app.js", "/openapi.json"] {
        let (plain, packed) = (ask(&server, path, "identity").await, ask(&server, path, "gzip").await);
        let tag = plain.header("etag").expect("a tag");
        assert_eq!((packed.header("content-encoding"), packed.header("etag")), (Some("gzip"), Some(tag)), "{path}");
        assert!(tag.starts_with("W/"), "{path}: {tag}");
        let known = Request::get(path).header("if-none-match", tag).body(Body::empty()).expect("a request");
        let known = server.send_unchecked(known).await;
        assert_eq!((known.status, known.header("etag")), (304, Some(tag)), "{path}");
        assert!([plain, packed, known].iter().all(varies), "{path}");
    }
}
