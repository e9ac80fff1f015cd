//! `/v1/collections/{collection}/search/batch`.

use serde_json::{Value, json};

use crate::example;
use crate::search::{PATH as SINGLE, documents};
use crate::server::Server;

const PATH: &str = "/v1/collections/news/search/batch";

/// The responses without their timings.
fn without_timings(mut response: Value) -> Value {
    response.as_object_mut().expect("an object").remove("took_ms");
    response
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_returns_the_results_of_single_searches_in_order() {
    let server = Server::with_documents(documents()).await;
    let searches = [
        json!({"query": "Le marché ouvre à sept heures."}),
        json!({"query": "Zug nach Basel", "mode": "lexical"}),
        json!({"like": "ja", "limit": 1}),
        json!({"query": "図書館", "mode": "hybrid", "explain": false, "languages": ["ja"]}),
        json!({"query": "Le marché ouvre à sept heures.", "include": []}),
    ];
    let batch = server.post(PATH, &json!({"searches": searches})).await;
    assert_eq!(batch.status, 200, "{}", batch.text);
    let results = batch.body["results"].as_array().expect("results");
    assert_eq!(results.len(), searches.len());
    for (search, result) in searches.iter().zip(results) {
        assert_eq!(without_timings(result.clone()), without_timings(server.post(SINGLE, search).await.body), "{search}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_example_request_succeeds() {
    let server = Server::with_news().await;
    server.post("/v1/collections/news/documents", &example("upsert_documents.request")).await;
    let response = server.post(PATH, &example("search_batch.request")).await;
    assert_eq!((response.status, response.body["results"].as_array().map(Vec::len)), (200, Some(3)), "{}", response.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_with_an_invalid_search_is_refused_and_the_error_names_it() {
    let server = Server::with_documents(documents()).await;
    let check = async |search: Value, status: u16, code: &str, place: &str, words: &[&str]| {
        let body = json!({"searches": [{"query": "good"}, search]});
        server.post(PATH, &body).await.assert_error(status, code, place, words);
    };
    check(json!({}), 422, "invalid_request", "/searches/1", &["exactly one"]).await;
    check(json!({"query": " "}), 422, "invalid_request", "/searches/1/query", &["not be blank"]).await;
    check(json!({"query": "a", "limit": 0}), 422, "invalid_request", "/searches/1/limit", &["got 0"]).await;
    check(json!({"query": "a", "top_k": 0}), 422, "invalid_request", "/searches/1/top_k", &["unknown field"]).await;
    check(json!({"query": "a", "languages": ["xx"]}), 422, "unknown_language", "/searches/1/languages/0", &["xx"]).await;
    check(
        json!({"query": "a", "filter": {"field": "y", "eq": []}}),
        422,
        "invalid_filter",
        "/searches/1/filter/eq",
        &["an array"],
    )
    .await;
    check(json!([]), 422, "invalid_request", "/searches/1", &["expected an object"]).await;
    check(json!({"like": "nobody"}), 404, "document_not_found", "", &["/searches/1: ", "nobody"]).await;
    check(json!({"vector": [1.0]}), 422, "invalid_request", "/searches/1/vector", &["64 values"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_searches_is_bounded() {
    let server = Server::with_news().await;
    let batch = |count: usize| json!({"searches": vec![json!({"query": "a", "mode": "lexical"}); count]});
    for count in [0, 101] {
        let response = server.post(PATH, &batch(count)).await;
        response.assert_error(422, "invalid_request", "/searches", &["1 to 100", &format!("got {count}")]);
    }
    assert_eq!(server.post(PATH, &batch(100)).await.body["results"].as_array().map(Vec::len), Some(100));
    server.post(PATH, &json!({})).await.assert_error(422, "invalid_request", "/searches", &["missing field `searches`"]);
    Server::start().post(PATH, &batch(1)).await.assert_error(404, "collection_not_found", "", &["news"]);
}
