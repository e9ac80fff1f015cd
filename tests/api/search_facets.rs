//! Facet counts alongside the hits of a search.

use serde_json::{Value, json};

use crate::search::{PATH, ids};
use crate::server::{Response, Server};

const BATCH: &str = "/v1/collections/news/search/batch";
const QUERY: &str = "Der Zug nach Basel";

async fn with_trains() -> Server {
    let document = |id: &str, language: &str, text: &str, topic: Value| json!({"id": id, "language": language, "text": text, "metadata": {"topic": topic}});
    Server::with_documents(json!([
        document("de-1", "de", "Der Zug nach Basel fällt aus.", json!("trains")),
        document("de-2", "de", "Der Zug nach Genf ist pünktlich.", json!(["trains", "news"])),
        document("fr-1", "fr", "Le marché ouvre à sept heures.", json!("markets")),
        document("fr-2", "fr", "Le train de Lyon est en retard.", json!("trains")),
        document("ja-1", "ja", "図書館は月曜日が休みです。", Value::Null),
    ]))
    .await
}

fn values(response: &Response, facet: usize) -> Vec<(Value, u64)> {
    assert_eq!(response.status, 200, "{}", response.text);
    let values = response.body["facets"][facet]["values"].as_array().expect("values").iter();
    values.map(|value| (value["value"].clone(), value["documents"].as_u64().expect("a number"))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn facets_count_all_eligible_documents_not_only_the_hits() {
    let server = with_trains().await;
    for mode in ["dense", "lexical", "hybrid"] {
        let search =
            json!({"query": QUERY, "mode": mode, "limit": 1, "facets": [{"field": "topic"}, {"field": "language", "limit": 1}]});
        let response = server.post(PATH, &search).await;
        assert_eq!(ids(&response), ["de-1"], "{mode}");
        assert_eq!(values(&response, 0), [(json!("trains"), 3), (json!("markets"), 1), (json!("news"), 1)], "{mode}");
        assert_eq!(values(&response, 1), [(json!("de"), 2)], "{mode}");
        assert_eq!(response.body["facets"][0]["missing"], 1, "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn languages_and_filter_restrict_facet_counts() {
    let server = with_trains().await;
    let facets = json!([{"field": "topic"}]);
    let french = server.post(PATH, &json!({"query": QUERY, "languages": ["fr"], "facets": facets})).await;
    assert_eq!(values(&french, 0), [(json!("markets"), 1), (json!("trains"), 1)]);
    let filter = json!({"field": "topic", "any": ["news"]});
    let news = server.post(PATH, &json!({"query": QUERY, "filter": filter, "facets": facets})).await;
    assert_eq!(values(&news, 0), [(json!("news"), 1), (json!("trains"), 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_without_facets_returns_none() {
    let response = with_trains().await.post(PATH, &json!({"query": QUERY})).await;
    assert_eq!((response.status, response.body.get("facets")), (200, None), "{}", response.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_search_in_a_batch_gets_its_own_facets() {
    let server = with_trains().await;
    let facets = json!([{"field": "language"}]);
    let searches =
        json!([{"query": QUERY, "facets": facets}, {"query": QUERY}, {"query": QUERY, "languages": ["ja"], "facets": facets}]);
    let response = server.post(BATCH, &json!({ "searches": searches })).await;
    assert_eq!(response.status, 200, "{}", response.text);
    let counted = |index: usize| response.body["results"][index]["facets"][0]["values"].as_array().map(Vec::len);
    assert_eq!([counted(0), counted(1), counted(2)], [Some(3), None, Some(1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_facet_names_its_field_and_a_batch_has_at_most_twenty() {
    let server = with_trains().await;
    let check = async |facets: Value, place: &str, words: &[&str]| {
        let search = json!({"query": QUERY, "facets": facets});
        server.post(PATH, &search).await.assert_error(422, "invalid_request", place, words);
        let batch = json!({"searches": [{"query": QUERY}, search]});
        server.post(BATCH, &batch).await.assert_error(422, "invalid_request", &format!("/searches/1{place}"), words);
    };
    check(json!([]), "/facets", &["1 to 20", "got 0"]).await;
    check(json!([{"field": "id"}]), "/facets/0/field", &["language or a metadata path", "\"id\""]).await;
    check(json!([{"field": "topic"}, {"field": "topic", "limit": 1001}]), "/facets/1/limit", &["from 1 to 1000", "got 1001"])
        .await;
    check(json!(["topic"]), "/facets/0", &["expected an object"]).await;
    let search = json!({"query": QUERY, "facets": vec![json!({"field": "topic"}); 11]});
    let batch = json!({"searches": [search, search]});
    server.post(BATCH, &batch).await.assert_error(422, "invalid_request", "/searches", &["at most 20 facets together", "got 22"]);
    let search = json!({"query": QUERY, "facets": vec![json!({"field": "topic"}); 21]});
    server.post(PATH, &search).await.assert_error(422, "invalid_request", "/facets", &["1 to 20", "got 21"]);
}
