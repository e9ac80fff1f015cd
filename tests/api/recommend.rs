//! `/v1/collections/{collection}/recommend`.

use serde_json::{Value, json};

use crate::example;
use crate::search::{documents, ids};
use crate::server::{DIMENSION, Server};

const PATH: &str = "/v1/collections/news/recommend";

async fn with_topics() -> Server {
    Server::with_documents(json!([
        {"id": "tram", "text": "the new tram line opens in spring", "language": "en"},
        {"id": "bus", "text": "the new bus line opens in autumn", "language": "en", "metadata": {"year": 2026}},
        {"id": "road", "text": "the new road opens for cars in autumn", "language": "en", "metadata": {"year": 2026}},
        {"id": "bread", "text": "das Brot ist frisch aus dem Ofen", "language": "de"},
        {"id": "oven", "text": "der Ofen ist heiß und das Brot frisch", "language": "de"},
    ]))
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn hits_are_like_the_positive_and_unlike_the_negative_examples() {
    let server = with_topics().await;
    let found = async |body: Value| {
        let response = server.post(PATH, &body).await;
        ids(&response).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let plain = found(json!({"positive": {"ids": ["tram"]}})).await;
    assert_eq!((plain.len(), plain[0].as_str()), (4, "bus"));
    assert_eq!(found(json!({"positive": {"texts": ["frisches Brot aus dem Ofen"]}, "limit": 2})).await, ["bread", "oven"]);
    let away =
        found(json!({"positive": {"ids": ["tram"], "texts": ["das Brot ist frisch"]}, "negative": {"ids": ["bus", "road"]}}))
            .await;
    assert_eq!(away, ["bread", "oven"], "the example documents are not returned");
    let narrowed =
        found(json!({"positive": {"ids": ["tram"]}, "filter": {"field": "year", "eq": 2026}, "languages": ["en"]})).await;
    assert_eq!(narrowed, ["bus", "road"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_target_is_the_mean_of_positives_minus_the_mean_of_negatives() {
    let server = with_topics().await;
    let axis = |place: usize, value: f64| {
        let mut values = vec![0.0; DIMENSION];
        values[place] = value;
        values
    };
    let scores = async |path: &str, body: Value| {
        let response = server.post(path, &body).await;
        let hits = response.body["hits"].as_array().expect("hits");
        hits.iter().map(|hit| (hit["id"].clone(), hit["score"].clone())).collect::<Vec<_>>()
    };
    let body = json!({"positive": {"vectors": [axis(0, 3.0), axis(1, 1.0)]}, "negative": {"vectors": [axis(2, 0.5)]}});
    let mut target = vec![0.0; DIMENSION];
    target[..3].copy_from_slice(&[0.5, 0.5, -1.0]);
    assert_eq!(scores(PATH, body).await, scores("/v1/collections/news/search", json!({"vector": target})).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_example_request_succeeds() {
    let server = Server::with_news().await;
    server.post("/v1/collections/news/documents", &example("upsert_documents.request")).await;
    let response = server.post(PATH, &example("recommend_documents.request")).await;
    assert_eq!(response.status, 200, "{}", response.text);
    assert!(!ids(&response).contains(&"fr-1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn search_options_apply_to_recommendations() {
    let server = with_topics().await;
    let body = json!({
        "positive": {"ids": ["tram"]}, "offset": 1, "limit": 2, "include": ["vector"], "explain": true, "exact": true,
        "balance_languages": true, "group_by": {"field": "language"}, "score_min": -1.0,
    });
    let response = server.post(PATH, &body).await;
    assert_eq!(ids(&response).len(), 1, "{}", response.text);
    assert_eq!((&response.body["hits"][0]["group"], &response.body["explanation"]["method"]), (&json!("de"), &json!("scan")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_recommendation_request_names_the_offending_field() {
    let server = Server::with_documents(documents()).await;
    let check = async |body: Value, status: u16, code: &str, place: &str, words: &[&str]| {
        server.post(PATH, &body).await.assert_error(status, code, place, words);
    };
    let invalid = "invalid_request";
    check(json!({}), 422, invalid, "/positive", &["missing field `positive`"]).await;
    check(json!({"positive": {}}), 422, invalid, "/positive", &["at least one example"]).await;
    check(json!({"positive": []}), 422, invalid, "/positive", &["expected an object"]).await;
    check(json!({"positive": {"texts": ["a", " "]}}), 422, invalid, "/positive/texts/1", &["not be blank"]).await;
    check(json!({"positive": {"ids": ["fr"]}, "negative": {"ids": ["a\n"]}}), 422, invalid, "/negative/ids/0", &["control"])
        .await;
    check(json!({"positive": {"vectors": [vec![0.0; 64]]}}), 422, invalid, "/positive/vectors/0", &["all zeros"]).await;
    check(json!({"positive": {"vectors": [[1.0]]}}), 422, invalid, "/positive/vectors/0", &["64 values", "got 1"]).await;
    check(json!({"positive": {"texts": vec!["a"; 101]}}), 422, invalid, "/positive/texts", &["at most 100", "got 101"]).await;
    check(json!({"positive": {"ids": ["nobody"]}}), 404, "document_not_found", "", &["nobody"]).await;
    check(json!({"positive": {"ids": ["fr"]}, "negative": {"ids": ["fr"]}}), 422, invalid, "", &["cancel each other out"]).await;
    check(json!({"positive": {"ids": ["fr"]}, "query": "a"}), 422, invalid, "/query", &["unknown field"]).await;
    check(json!({"positive": {"ids": ["fr"]}, "limit": 0}), 422, invalid, "/limit", &["got 0"]).await;
    check(json!({"positive": {"ids": ["fr"]}, "exact": true, "ef_search": 9}), 422, invalid, "/ef_search", &["exact"]).await;
    check(
        json!({"positive": {"ids": ["fr"]}, "filter": {"field": "y", "eq": {}}}),
        422,
        "invalid_filter",
        "/filter/eq",
        &["object"],
    )
    .await;
}
