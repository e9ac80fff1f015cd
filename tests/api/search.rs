//! `/v1/collections/{collection}/search`.

use serde_json::{Value, json};

use crate::example;
use crate::merged;
use crate::server::{Response, Server};

pub const PATH: &str = "/v1/collections/news/search";

pub fn documents() -> Value {
    json!([
        {"id": "fr", "text": "Le marché ouvre à sept heures.", "language": "fr", "metadata": {"year": 2020, "author": {"name": "Ada"}}},
        {"id": "de", "text": "Der Zug nach Basel fällt heute aus.", "language": "de", "metadata": {"year": 2021, "open": true}},
        {"id": "ja", "text": "図書館は月曜日が休みです。", "language": "ja", "metadata": {"year": 2020}},
    ])
}

pub fn ids(response: &Response) -> Vec<&str> {
    assert_eq!(response.status, 200, "{}", response.text);
    response.body["hits"].as_array().expect("hits").iter().filter_map(|hit| hit["id"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_nearest_document_comes_first_with_its_passage() {
    let server = Server::with_documents(documents()).await;
    let response = server.post(PATH, &json!({"query": "図書館は月曜日が休みです。", "mode": "dense"})).await;
    assert_eq!((ids(&response).len(), ids(&response)[0]), (3, "ja"));
    let hit = &response.body["hits"][0];
    assert!(hit["score"].as_f64().is_some_and(|score| score > 0.99), "{hit}");
    let marks = json!([{"start": 0, "end": 12}]);
    assert_eq!(hit["passage"], json!({"text": "図書館は月曜日が休みです。", "start": 0, "end": 13, "marks": marks}));
    assert_eq!((&hit["language"], &hit["metadata"]), (&json!("ja"), &json!({"year": 2020})));
    assert_eq!(response.body["query_truncated"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_example_finds_its_document() {
    let server = Server::with_news().await;
    server.post("/v1/collections/news/documents", &example("upsert_documents.request")).await;
    assert_eq!(ids(&server.post(PATH, &example("search_documents.request")).await), ["fr-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn hits_are_restricted_by_limit_language_and_filter() {
    let server = Server::with_documents(documents()).await;
    let check = async |restriction: Value, expect: &[&str]| {
        let body = merged(json!({"query": "Le marché ouvre à sept heures."}), &restriction);
        let response = server.post(PATH, &body).await;
        let mut found = ids(&response);
        found.sort_unstable();
        assert_eq!(found, expect, "{restriction}");
    };
    check(json!({"limit": 1}), &["fr"]).await;
    check(json!({"languages": ["de", "ja"]}), &["de", "ja"]).await;
    check(json!({"languages": []}), &["de", "fr", "ja"]).await;
    check(json!({"filter": {"field": "year", "eq": 2020}}), &["fr", "ja"]).await;
    check(json!({"filter": {"field": "metadata.year", "eq": 2020.0}}), &["fr", "ja"]).await;
    check(json!({"filter": {"field": "author.name", "eq": "Ada"}}), &["fr"]).await;
    check(json!({"filter": {"field": "open", "eq": true}}), &["de"]).await;
    check(json!({"filter": {"field": "open", "eq": 1}}), &[]).await;
    check(json!({"filter": {"and": [{"field": "year", "eq": 2020}, {"field": "author.name", "eq": "Eve"}]}}), &[]).await;
    check(json!({"filter": {"and": []}, "mode": "dense"}), &["de", "fr", "ja"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_documents_and_old_versions_are_never_found() {
    let server = Server::with_documents(documents()).await;
    assert_eq!(server.delete("/v1/collections/news/documents/de").await.status, 204);
    let update = json!({"documents": [{"id": "fr", "text": "Wir suchen einen Gärtner."}]});
    assert_eq!(server.post("/v1/collections/news/documents", &update).await.status, 200);
    let response = server.post(PATH, &json!({"query": "Le marché ouvre à sept heures."})).await;
    let mut found = ids(&response);
    found.sort_unstable();
    assert_eq!(found, ["fr", "ja"]);
    let texts =
        response.body["hits"].as_array().expect("hits").iter().map(|hit| hit["passage"]["text"].as_str().expect("a text"));
    assert!(!texts.into_iter().any(|text| text.contains("marché")), "{}", response.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_collection_has_no_hits() {
    let server = Server::with_news().await;
    assert_eq!(ids(&server.post(PATH, &json!({"query": "Hallo"})).await), Vec::<&str>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_search_names_the_offending_field() {
    let server = Server::with_news().await;
    let check = async |body: Value, code: &str, place: &str, words: &[&str]| {
        server.post(PATH, &body).await.assert_error(422, code, place, words);
    };
    check(json!({}), "invalid_request", "", &["exactly one of query, vector and like", "none"]).await;
    check(json!({"query": "a", "like": "b"}), "invalid_request", "", &["exactly one", "several"]).await;
    check(json!({"query": " "}), "invalid_request", "/query", &["not be blank"]).await;
    check(json!({"query": "x".repeat((1 << 20) + 1)}), "invalid_request", "/query", &["1048576", "1048577"]).await;
    check(json!({"query": "a", "limit": 0}), "invalid_request", "/limit", &["from 1 to 1000", "got 0"]).await;
    check(json!({"query": "a", "limit": 1001}), "invalid_request", "/limit", &["got 1001"]).await;
    check(json!({"query": "a", "limit": -1}), "invalid_request", "/limit", &["at least 1", "got -1"]).await;
    check(json!({"query": "a", "limit": "5"}), "invalid_request", "/limit", &["string \"5\""]).await;
    check(json!({"query": "a", "languages": ["fr", "xx"]}), "unknown_language", "/languages/1", &["\"xx\""]).await;
    check(json!({"query": "a", "languages": "fr"}), "invalid_request", "/languages", &["expected an array"]).await;
    check(json!({"query": "a", "mode": "sparse"}), "invalid_request", "/mode", &["unknown variant `sparse`", "`lexical`"]).await;
    check(json!({"query": "a", "top_k": 3}), "invalid_request", "/top_k", &["unknown field `top_k`", "`limit`"]).await;
    check(json!({"query": "a", "filter": {"field": "y", "greater": 1}}), "invalid_filter", "/filter/greater", &["`gte`"]).await;
    check(
        json!({"query": "a", "filter": {"and": [{"field": "y", "eq": {}}]}}),
        "invalid_filter",
        "/filter/and/0/eq",
        &["an object"],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn searching_an_unknown_collection_returns_404_with_its_name() {
    let server = Server::start();
    server.post(PATH, &json!({"query": "Hallo"})).await.assert_error(404, "collection_not_found", "", &["news"]);
}
