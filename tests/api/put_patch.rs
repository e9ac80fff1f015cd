//! Writes to one document: put, patch, and version preconditions.

use axum::http::Method;
use dragoman::domain::Limits;
use serde_json::{Value, json};

use crate::example;
use crate::server::{Response, Server};

const PATH: &str = "/v1/collections/news/documents/fr-1";

fn etag(response: &Response) -> String {
    response.header("etag").unwrap_or_else(|| panic!("no etag: {}", response.text)).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn put_replaces_the_whole_document() {
    let server = Server::with_news().await;
    let created = server.put(PATH, &example("put_document.request")).await;
    assert_eq!((created.status, &created.body, etag(&created)), (201, &example("put_document.201"), "\"1\"".to_owned()));
    let updated = server.put(PATH, &json!({"text": "La ligne ouvrira en mai."})).await;
    assert_eq!((updated.status, &updated.body["status"]), (200, &json!("updated")));
    let read = server.get(PATH).await;
    assert_eq!((&read.body["text"], &read.body["metadata"]), (&json!("La ligne ouvrira en mai."), &json!({})));
    assert_eq!((etag(&read), &read.body["version"]), (etag(&updated), &updated.body["version"]));
    let found = server.post("/v1/collections/news/search", &json!({"query": "La ligne ouvrira en mai."})).await;
    assert_eq!(found.body["hits"][0]["id"], "fr-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn put_honors_if_match_and_if_none_match() {
    let server = Server::with_news().await;
    let body = example("put_document.request");
    let put = async |header: (&str, &str)| server.send_with(Method::PUT, PATH, header, &body).await;
    put(("if-match", "*")).await.assert_error(412, "precondition_failed", "", &["fr-1", "does not exist"]);
    put(("if-match", "\"1\"")).await.assert_error(412, "precondition_failed", "", &["does not exist"]);
    let created = put(("if-none-match", "*")).await;
    assert_eq!(created.status, 201);
    put(("if-none-match", "*")).await.assert_error(412, "precondition_failed", "", &["has version 1"]);
    put(("if-match", "\"999\"")).await.assert_error(412, "precondition_failed", "", &["has version 1"]);
    put(("if-match", "W/\"1\"")).await.assert_error(
        412,
        "precondition_failed",
        "",
        &["has version", "a weak tag (W/) never does"],
    );
    let second = put(("if-match", &format!("\"999\", {}", etag(&created)))).await;
    assert_eq!(second.status, 200);
    put(("if-match", &etag(&created))).await.assert_error(412, "precondition_failed", "", &["has version"]);
    put(("if-match", "1")).await.assert_error(422, "invalid_request", "if-match", &["double quotes"]);
    put(("if-none-match", "\"1\"")).await.assert_error(422, "invalid_request", "if-none-match", &["must be *"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn path_keywords_are_valid_document_ids() {
    let server = Server::with_news().await;
    for word in ["scroll", "count", "delete", "update"] {
        let path = format!("/v1/collections/news/documents/{word}");
        assert_eq!(server.put(&path, &json!({"text": "Bonjour"})).await.status, 201);
        assert_eq!(server.patch(&path, &json!({"language": "fr"})).await.body["id"], word);
        assert_eq!(server.get(&path).await.body["language"], "fr");
        assert_eq!(server.delete(&path).await.status, 204);
        server.get(&path).await.assert_error(404, "document_not_found", "", &[word]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_document_is_refused_and_not_stored() {
    let server = Server::with_news().await;
    let check = async |body: Value, code: &str, place: &str, words: &[&str]| {
        server.put(PATH, &body).await.assert_error(422, code, place, words);
    };
    check(json!({"text": " "}), "invalid_request", "/text", &["not be blank"]).await;
    check(json!({"text": "a", "language": "xx"}), "unknown_language", "/language", &["\"xx\""]).await;
    check(json!({"id": "x", "text": "a"}), "invalid_request", "/id", &["the id of the path", "got \"x\""]).await;
    assert_eq!(server.get(PATH).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields_of_a_document_are_referred_to_its_metadata() {
    let server = Server::with_documents(json!([{"id": "fr-1", "text": "Bonjour"}])).await;
    let belong = |response: &Response| {
        response.assert_error(422, "invalid_request", "/topic", &["`topic`", "; other fields belong in `metadata`"]);
    };
    belong(&server.put(PATH, &json!({"text": "Bonjour", "topic": "greeting"})).await);
    belong(&server.patch(PATH, &json!({"topic": "greeting"})).await);
    let update = json!({"ids": ["fr-1"], "topic": "greeting"});
    belong(&server.post("/v1/collections/news/documents/update", &update).await);
    let once = json!({"documents": [{"text": "Bonjour", "topic": "greeting"}]});
    let batch = server.post("/v1/collections/news/documents", &once).await;
    assert_eq!(batch.body["errors"][0]["detail"].as_str().unwrap_or_default().matches("belong").count(), 1, "{}", batch.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_merges_metadata_and_leaves_the_document_indexed() {
    let metadata = json!({"topic": "transport", "year": 2026, "author": {"name": "Ada", "city": "Lyon"}});
    let server = Server::paused_with_news().await;
    let control = server.control.clone();
    control.resume();
    assert_eq!(server.put(PATH, &json!({"text": "Le tramway ouvrira.", "metadata": metadata})).await.status, 201);
    let before = server.get(PATH).await;
    // A patch needs no encoder.
    control.pause();
    let patch = json!({"metadata": {"topic": null, "year": 2027, "author": {"city": null}, "tags": ["tram"]}, "language": "ca"});
    let patched = server.patch(PATH, &patch).await;
    assert_eq!(patched.status, 200, "{}", patched.text);
    assert_eq!(patched.body["metadata"], json!({"year": 2027, "author": {"name": "Ada"}, "tags": ["tram"]}));
    assert_eq!((&patched.body["language"], patched.body.get("language_confidence")), (&json!("ca"), None));
    assert_eq!((&patched.body["text"], &patched.body["indexed"]), (&before.body["text"], &json!(true)));
    assert!(patched.body["version"].as_u64() > before.body["version"].as_u64());
    assert_eq!(server.get(PATH).await.body, patched.body);
    control.resume();
    let found = async |filter: Value| {
        let body = json!({"query": "Le tramway ouvrira.", "filter": filter});
        server.post("/v1/collections/news/search", &body).await.body["hits"].as_array().expect("hits").len()
    };
    assert_eq!(found(json!({"field": "year", "eq": 2027})).await, 1);
    assert_eq!(found(json!({"field": "year", "eq": 2026})).await, 0);
    assert_eq!(found(json!({"field": "language", "eq": "ca"})).await, 1);
    let languages = &server.get("/v1/collections/news").await.body["languages"];
    assert_eq!(*languages, json!([{"language": "ca", "documents": 1}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_that_changes_nothing_keeps_the_version() {
    let server = Server::with_documents(json!([{"id": "fr-1", "text": "Bonjour", "language": "fr", "metadata": {"a": 1}}])).await;
    let before = server.get(PATH).await;
    let after = server.patch(PATH, &json!({"metadata": {"a": 1, "b": null}, "language": "fr"})).await;
    assert_eq!((etag(&after), after.body), (etag(&before), before.body));
}

#[tokio::test(flavor = "multi_thread")]
async fn patch_honors_if_match_and_refuses_invalid_or_oversized_changes() {
    let server = Server::with_limits(Limits { metadata_bytes_max: 100, metadata_depth_max: 3, ..Limits::default() });
    server.post("/v1/collections", &json!({"name": "news"})).await;
    server.patch(PATH, &json!({"language": "fr"})).await.assert_error(404, "document_not_found", "", &["fr-1"]);
    let created = server.put(PATH, &json!({"text": "Bonjour", "metadata": {"a": "x".repeat(40)}})).await;
    let patch = json!({"metadata": {"b": 1}});
    let stale = server.send_with(Method::PATCH, PATH, ("if-match", "\"999\""), &patch).await;
    stale.assert_error(412, "precondition_failed", "", &["has version 1"]);
    assert_eq!(server.send_with(Method::PATCH, PATH, ("if-match", &etag(&created)), &patch).await.status, 200);
    let check = async |body: Value, code: &str, place: &str, words: &[&str]| {
        server.patch(PATH, &body).await.assert_error(422, code, place, words);
    };
    check(json!({"metadata": {"c": "y".repeat(60)}}), "invalid_request", "", &["at most 100 bytes", "got"]).await;
    check(json!({"metadata": {"c": {"d": {"e": {}}}}}), "invalid_request", "", &["at most 3 levels", "got 4"]).await;
    check(json!({}), "invalid_request", "", &["metadata or language"]).await;
    check(json!({"language": "xx"}), "unknown_language", "/language", &["\"xx\""]).await;
    check(json!({"language": "und"}), "unknown_language", "/language", &["must name a language", "PUT the document"]).await;
    check(json!({"title": " "}), "invalid_request", "/title", &["not be blank", "null"]).await;
    check(json!({"metadata": {"a\0": 1}}), "invalid_request", "/metadata", &["U+0000"]).await;
    check(json!({"metadata": {"a": [{"b\0": 1}]}}), "invalid_request", "/metadata", &["U+0000"]).await;
    check(json!({"text": "a"}), "invalid_request", "/text", &["unknown field `text`", "; PUT changes it"]).await;
    assert_eq!(server.get(PATH).await.body["metadata"], json!({"a": "x".repeat(40), "b": 1}));
    let three_levels = json!({"metadata": {"d": [{"b": "\0"}]}});
    assert_eq!(server.patch(PATH, &three_levels).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_honors_if_match() {
    let server = Server::with_documents(json!([{"id": "fr-1", "text": "Bonjour"}])).await;
    let tag = etag(&server.get(PATH).await);
    let delete = async |tag: &str| server.send_with(Method::DELETE, PATH, ("if-match", tag), &Value::Null).await;
    delete("\"999\"").await.assert_error(412, "precondition_failed", "", &["has version 1"]);
    assert_eq!(delete(&tag).await.status, 204);
    delete(&tag).await.assert_error(404, "document_not_found", "", &["fr-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_concurrent_write_with_the_same_if_match_succeeds() {
    let server = Server::with_documents(json!([{"id": "fr-1", "text": "Bonjour", "metadata": {"n": 0}}])).await;
    let tag = etag(&server.get(PATH).await);
    let bodies: Vec<Value> = (1..=8).map(|n| json!({"metadata": {"n": n}})).collect();
    let writes = bodies.iter().map(|body| server.send_with(Method::PATCH, PATH, ("if-match", &tag), body));
    let mut statuses: Vec<u16> = futures::future::join_all(writes).await.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412, 412, 412, 412, 412, 412, 412]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_in_a_put_body_must_match_the_path() {
    let server = Server::with_news().await;
    let put = async |body: serde_json::Value| server.put("/v1/collections/news/documents/a", &body).await;
    assert_eq!(put(json!({"id": "a", "text": "Il pleut."})).await.status, 201);
    put(json!({"id": "b", "text": "Il pleut."})).await.assert_error(422, "invalid_request", "/id", &["\"a\"", "got \"b\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn get_with_a_matching_if_none_match_returns_304() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Il pleut."}])).await;
    let path = "/v1/collections/news/documents/a";
    let read = async |tags: &str| server.send_with(Method::GET, path, ("if-none-match", tags), &serde_json::Value::Null).await;
    let first = server.get(path).await;
    let etag = first.header("etag").expect("an entity tag").to_owned();
    for tags in [etag.clone(), format!("\"0\", W/{etag}"), "*".to_owned()] {
        let known = read(&tags).await;
        assert_eq!((known.status, known.text.as_str(), known.header("etag")), (304, "", Some(etag.as_str())), "{tags}");
    }
    assert_eq!(read("\"0\"").await.status, 200);
    server.patch(path, &json!({"metadata": {"year": 2026}})).await;
    let changed = read(&etag).await;
    assert_eq!((changed.status, &changed.body["metadata"]), (200, &json!({"year": 2026})));
    let none = serde_json::Value::Null;
    let gone = server.send_with(Method::GET, "/v1/collections/news/documents/b", ("if-none-match", "*"), &none).await;
    gone.assert_error(404, "document_not_found", "", &[]);
}
