//! What all resources share: errors, request ids, limits, media types, the OpenAPI document and its pages.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::routing::get;
use dragoman::domain::{Code, Limits};
use dragoman::http;
use dragoman::http::metrics::RequestMeter;
use dragoman::http::settings::Settings;
use futures::stream;
use serde_json::json;

use crate::server::{ADMIN_KEY, Server, respond};

const PATH: &str = "/v1/collections";

fn post(body: impl Into<Body>) -> Request<Body> {
    Request::post(PATH).header("content-type", "application/json").body(body.into()).expect("a request")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_response_has_all_problem_members() {
    let server = Server::start();
    let response = server.get("/v1/collections/none").await;
    let id = response.header("x-request-id").expect("an id");
    assert_eq!(response.header("content-type"), Some("application/problem+json"));
    let expect = json!({
        "type": "/docs/errors#collection_not_found",
        "title": "There is no collection with this name",
        "status": 404,
        "detail": "there is no collection none",
        "instance": "/v1/collections/none",
        "code": "collection_not_found",
        "request_id": id,
    });
    assert_eq!(response.body, expect);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_valid_request_id_is_echoed_and_otherwise_one_is_generated() {
    let server = Server::start();
    let check = async |sent: Option<&str>, echoed: bool| {
        let mut request = Request::get("/healthz");
        if let Some(id) = sent {
            request = request.header("x-request-id", id.as_bytes());
        }
        let response = server.send(request.body(Body::empty()).expect("a request")).await;
        let id = response.header("x-request-id").expect("an id");
        assert_eq!(Some(id) == sent, echoed, "{sent:?} gave {id}");
        assert!(echoed || id.len() == 36, "{id}");
    };
    check(Some("order-7/retry.2"), true).await;
    check(Some("abc-123"), true).await;
    check(Some(&"x".repeat(128)), true).await;
    check(Some(&"x".repeat(129)), false).await;
    check(Some("two words"), false).await;
    check(Some("é"), false).await;
    check(Some(""), false).await;
    check(None, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_routes_return_404_and_wrong_methods_return_405() {
    let server = Server::start();
    for path in [
        "/nothing",
        "/console/nothing.js",
        "/v1",
        "/v1/nothing",
        "/v1/collections/a/b/c",
        "/v1/collections/a/b",
        "/docs/nothing.js",
    ] {
        let response = server.get(path).await;
        response.assert_error(404, "route_not_found", "", &["no route"]);
        assert_eq!(response.body["instance"], path);
    }
    let response = server.delete(PATH).await;
    response.assert_error(405, "method_not_allowed", "", &["supports only GET, POST"]);
    let guessed = server.post("/v1/collections/news/documents/bulk", &json!({})).await;
    guessed.assert_error(405, "method_not_allowed", "", &["is that of one document, and supports only DELETE, GET, PATCH, PUT"]);
    server.post("/openapi.json", &json!({})).await.assert_error(405, "method_not_allowed", "", &["the header Allow lists"]);
    let mut allowed: Vec<&str> = response.header("allow").expect("a list").split(',').map(str::trim).collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "POST"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_for_an_unknown_route_says_what_to_change() {
    let server = Server::start();
    for (path, expect) in [
        ("/v1/v1/collections/a", "there is no route /v1/v1/collections/a; give clients the server's address without /v1"),
        ("/v1/nothing", "there is no route /v1/nothing; /openapi.json lists all routes"),
        ("/v1/collections/a/documents/b/c", "documents/b/c; a slash in an id is %2F in a path"),
        ("/embeddings", "there is no route /embeddings; paths of the API begin with /v1"),
        ("/search/v1/models", "there is no route /search/v1/models; a proxy must remove the part before /v1"),
    ] {
        server.get(path).await.assert_error(404, "route_not_found", "", &[expect]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_must_be_json() {
    let server = Server::start();
    let check = async |body: &[u8], words: &[&str]| {
        server.send(post(body.to_vec())).await.assert_error(400, "malformed_json", "", words);
    };
    check(b"", &["empty"]).await;
    check(b"{\"name\": \"a\"", &["EOF", "line 1 column 12"]).await;
    check(b"{\"name\": \"a\"} {}", &["trailing characters"]).await;
    check(b"news", &["expected true, false or null at line 1 column 2"]).await;
    check(b"{\"name\": \"\xc3\x28\"}", &["UTF-8", "byte 10"]).await;
    check(b"{'name': 'a'}", &["key must be a string"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_lists_every_error_in_the_request() {
    let server = Server::with_news().await;
    let check = async |path: &str, body: serde_json::Value, places: &[&str]| {
        let response = server.post(path, &body).await;
        assert_eq!((response.status, response.places()), (422, places.to_vec()), "{path}: {}", response.text);
    };
    // Wrong types.
    let body = json!({"query": 3, "limit": "ten", "languages": ["fr", 1], "explain": null, "colour": 1});
    check("/v1/collections/news/search", body, &["/query", "/limit", "/languages/1", "/explain", "/colour"]).await;
    check(PATH, json!({"metric": "manhattan", "hnsw": {"m": "few", "n": 1}}), &["/metric", "/hnsw/m", "/hnsw/n", "/name"]).await;
    check("/v1/similarity", json!({"pairs": [{"first": "a"}, {}]}), &["/pairs/0/second", "/pairs/1/first", "/pairs/1/second"])
        .await;
    // Out of range.
    let body = json!({"query": " ", "limit": 0, "languages": ["xx", "fr", "yy"], "filter": {"field": "a", "like": 1}});
    check("/v1/collections/news/search", body, &["/query", "/limit", "/languages/0", "/languages/2", "/filter/like"]).await;
    let body = json!({"searches": [{"query": " "}, {"query": "a"}, {"query": "a", "limit": 0, "score_min": 1e39}]});
    let response = server.post("/v1/collections/news/search/batch", &body).await;
    assert!(
        ["/searches/0/query", "/searches/2/limit"].iter().all(|place| response.places().contains(place)),
        "{}",
        response.text
    );
    let body = json!({"name": "a b", "hnsw": {"m": 1, "ef_search": 1}, "default_languages": ["xx"]});
    check(PATH, body, &["/name", "/hnsw/m", "/hnsw/ef_search", "/default_languages/0"]).await;
    check("/v1/detect", json!({"texts": ["a", " ", ""]}), &["/texts/1", "/texts/2"]).await;
    let body = json!({"first": {"texts": [" "]}, "second": {}, "neighbors": 0});
    check("/v1/mine", body, &["/neighbors", "/first/texts/0", "/second"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_needs_a_supported_content_type_and_encoding() {
    let server = Server::start();
    let check = async |header: (&str, &str), words: &[&str]| {
        let request = Request::post(PATH).header(header.0, header.1).body(Body::from("{}")).expect("a request");
        server.send(request).await.assert_error(415, "unsupported_media_type", header.0, words);
    };
    check(("content-type", "text/plain"), &["application/json", "text/plain"]).await;
    check(
        ("content-type", "application/x-www-form-urlencoded"),
        &["got \"application/x-www-form-urlencoded\", which curl sends unless -H"],
    )
    .await;
    check(("content-type", "application/json; charset=latin1"), &["must have the charset utf-8 or none, got \"latin1\""]).await;
    check(("content-encoding", "br"), &["gzip, zstd", "br"]).await;
    for (name, media_type) in [("a", "Application/JSON; charset=UTF-8"), ("b", "application/json;charset=\"utf8\"")] {
        let body = json!({ "name": name }).to_string();
        let request = Request::post(PATH).header("content-type", media_type).body(Body::from(body));
        assert_eq!(server.send(request.expect("a request")).await.status, 201, "{media_type}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_with_one_value_may_not_be_repeated() {
    let server = Server::with_settings(Limits::default(), Settings::default(), Some(ADMIN_KEY)).with_key(ADMIN_KEY);
    let send = async |repeated: (&str, &str), also: &str| {
        let key = format!("Bearer {ADMIN_KEY}");
        let sent = [("content-type", "application/json"), ("content-encoding", "identity"), ("authorization", key.as_str())];
        let mut request = Request::post(PATH).header(repeated.0, also);
        for (name, value) in sent.into_iter().filter(|(name, _)| *name != repeated.0).chain([repeated]) {
            request = request.header(name, value);
        }
        server.send(request.body(Body::from(r#"{"name": "a"}"#)).expect("a request")).await
    };
    let response = send(("content-type", "application/json"), "text/plain").await;
    response.assert_error(415, "unsupported_media_type", "content-type", &["text/plain, application/json"]);
    let response = send(("content-encoding", "identity"), "gzip").await;
    response.assert_error(415, "unsupported_media_type", "content-encoding", &["gzip, identity"]);
    let response = send(("idempotency-key", "one"), "two").await;
    response.assert_error(422, "invalid_request", "idempotency-key", &["only once"]);
    let response = send(("authorization", &format!("Bearer {ADMIN_KEY}")), "Bearer other").await;
    response.assert_error(401, "unauthorized", "", &["only once"]);
    assert_eq!(server.get(PATH).await.body["collections"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_body_is_refused_and_the_error_states_the_limit() {
    let server = Server::with_limits(Limits { body_bytes_max: 100, ..Limits::default() });
    server.send(post(vec![b' '; 101])).await.assert_error(413, "body_too_large", "", &["at most 100 bytes"]);
    let announced = Request::post(PATH).header("content-type", "application/json").header("content-length", "4000");
    let response = server.send(announced.body(Body::from("{}")).expect("a request")).await;
    response.assert_error(413, "body_too_large", "", &["100", "got 4000"]);
    let announced = Request::post(PATH).header("content-type", "application/json").header("content-length", "201");
    let never = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let response = server.send(announced.body(never).expect("a request")).await;
    response.assert_error(413, "body_too_large", "", &["100", "got 201"]);
    let mut body = json!({"name": "a"}).to_string();
    body.extend(std::iter::repeat_n(' ', 100 - body.len()));
    assert_eq!(server.send(post(body)).await.status, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_byte_order_mark_before_a_body_is_ignored() {
    let server = Server::start();
    assert_eq!(server.send(post("\u{feff}{\"name\": \"a\"}")).await.status, 201);
    server.send(post("\u{feff}\u{feff}{}")).await.assert_error(400, "malformed_json", "", &["line 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_must_be_percent_encoded_utf8() {
    let server = Server::with_news().await;
    let check = async |path: &str, words: &[&str]| {
        server.get(path).await.assert_error(422, "invalid_request", "", words);
    };
    check("/v1/collections/news/documents/%zz", &["%", "hexadecimal"]).await;
    check("/v1/collections/news/documents/a%2", &["hexadecimal"]).await;
    check("/v1/collections/news/documents/%ff", &["UTF-8"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_returns_an_internal_error_without_its_message() {
    async fn broken() {
        panic!("the secret is 42");
    }
    let router: Router = http::middleware::request::wrap(
        Router::new().route("/broken", get(broken)),
        RequestMeter::default(),
        &http::description().operations,
    );
    let response = respond(router, Request::get("/broken").body(Body::empty()).expect("a request")).await;
    response.assert_error(500, "internal", "", &["request id"]);
    assert!(!response.text.contains("secret"), "{}", response.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openapi_document_and_docs_pages_are_served() {
    let server = Server::start();
    let document = server.get("/openapi.json").await;
    assert_eq!((document.status, document.header("content-type")), (200, Some("application/json")));
    assert_eq!(document.body, http::document());
    let etag = document.header("etag").expect("a tag").to_owned();
    let again = Request::get("/openapi.json").header("if-none-match", &etag).body(Body::empty()).expect("a request");
    let again = server.send(again).await;
    assert_eq!((again.status, again.text.as_str(), again.header("etag")), (304, "", Some(etag.as_str())));
    let errors = server.get("/docs/errors").await;
    for code in Code::ALL {
        assert!(errors.text.contains(&format!("id=\"{}\"", code.name())), "{code:?} has no anchor");
    }
    assert_eq!(server.get("/docs").await.header("location"), Some("docs/"), "relative, for proxies that add to the path");
    let page = server.get("/docs/").await;
    assert!(page.status == 200 && page.text.contains("swagger-ui"), "{}", page.text);
    assert_eq!(page.header("content-encoding"), None, "as this client asked for none");
    let settings = server.get("/docs/swagger-initializer.js").await;
    assert!(settings.text.contains("'../openapi.json'") && !settings.text.contains("petstore"), "{}", settings.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn docs_pages_contain_no_absolute_urls() {
    let server = Server::start();
    for path in ["/docs/", "/docs/errors", "/docs/swagger-initializer.js"] {
        let page = server.get(path).await;
        assert!(!page.text.contains("http://") && !page.text.contains("https://"), "{path}: {}", page.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trailing_slash_in_the_path_is_ignored() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Il pleut."}, {"id": "b/c", "text": "Il neige."}])).await;
    for path in ["/v1/collections", "/v1/collections/news", "/v1/collections/news/documents/b%2Fc", "/v1/models", "/v1/jobs"] {
        let (plain, slashed) = (server.get(path).await, server.get(&format!("{path}/")).await);
        assert_eq!((slashed.status, &slashed.body), (200, &plain.body), "{path}");
    }
    let page = server.get("/v1/collections/news/documents/?limit=1").await;
    assert_eq!((page.status, page.body["documents"].as_array().map(Vec::len)), (200, Some(1)), "{}", page.text);
    let created = server.post("/v1/collections/", &json!({"name": "blog"})).await;
    assert_eq!((created.status, created.header("location")), (201, Some("/v1/collections/blog")));
    assert_eq!(server.post("/v1/collections/blog/documents/", &json!({"documents": [{"text": "a"}]})).await.status, 200);
    assert_eq!(server.delete("/v1/collections/blog/documents/").await.status, 405, "an empty id names no document");
    let embeddings = server.post("/v1/embeddings/", &json!({"input": []})).await;
    assert_eq!((embeddings.status, &embeddings.body["error"]["param"]), (400, &json!("input")));
    server.get("/v1/collections//").await.assert_error(404, "route_not_found", "", &[]);
    server.get("/v1/nowhere/").await.assert_error(404, "route_not_found", "", &[]);
}
