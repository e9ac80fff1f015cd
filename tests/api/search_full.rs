//! The default search mode: all evidence combined into one relevance.

use serde_json::{Value, json};

use crate::merged;
use crate::search::{PATH, documents, ids};
use crate::server::{Response, Server};

const QUERY: &str = "図書館は月曜日";

fn scores(response: &Response) -> Vec<f64> {
    response.body["hits"].as_array().expect("hits").iter().filter_map(|hit| hit["score"].as_f64()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_without_a_mode_uses_full_mode() {
    let server = Server::with_documents(documents()).await;
    let plain = server.post(PATH, &json!({"query": QUERY, "explain": true})).await;
    let full = server.post(PATH, &json!({"query": QUERY, "mode": "full", "explain": true})).await;
    assert_eq!((&plain.body["hits"], ids(&plain)[0]), (&full.body["hits"], "ja"));
    let explanation = &plain.body["hits"][0]["explanation"];
    assert_eq!((&explanation["dense"]["rank"], &explanation["lexical"]["rank"]), (&json!(1), &json!(1)), "{explanation}");
}

#[tokio::test(flavor = "multi_thread")]
async fn relevance_is_between_0_and_1_and_hits_are_sorted_by_it() {
    let server = Server::with_documents(documents()).await;
    let found = scores(&server.post(PATH, &json!({"query": QUERY})).await);
    assert!(found.len() == 3 && found.is_sorted_by(|a, b| a >= b), "{found:?}");
    assert!(found.iter().all(|score| (0.0..=1.0).contains(score)), "{found:?}");
    let least = server.post(PATH, &json!({"query": QUERY, "score_min": found[0] - 1e-6})).await;
    assert_eq!(ids(&least), ["ja"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_sharing_the_query_words_ranks_first() {
    let texts = ["the harbor wall", "the harbor wall was built of stone", "a wall of the harbor"];
    let documents: Vec<Value> =
        (0..).zip(texts).map(|(n, text)| json!({"id": format!("d{n}"), "text": text, "language": "en"})).collect();
    let server = Server::with_documents(documents.into()).await;
    let response = server.post(PATH, &json!({"query": "built of stone"})).await;
    assert_eq!(ids(&response)[0], "d1");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_and_languages_restrict_the_hits() {
    let server = Server::with_documents(documents()).await;
    let only = |rest: Value| merged(json!({"query": QUERY}), &rest);
    assert_eq!(ids(&server.post(PATH, &only(json!({"languages": ["de"]}))).await), ["de"]);
    let mut found = server.post(PATH, &only(json!({"filter": {"field": "year", "eq": 2020}}))).await;
    assert_eq!(ids(&found), ["ja", "fr"]);
    found = server.post(PATH, &only(json!({"filter": {"field": "year", "eq": 1999}}))).await;
    assert_eq!(ids(&found), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn consecutive_pages_add_up_to_the_full_result() {
    let documents: Vec<Value> = (0..30)
        .map(|n| json!({"id": format!("d{n}"), "text": format!("rain {}", "and wind ".repeat(n)), "language": "en"}))
        .collect();
    let server = Server::with_documents(documents.into()).await;
    let page =
        |offset: usize, limit: usize| json!({"query": "rain and wind", "offset": offset, "limit": limit, "candidates": 10});
    let all = server.post(PATH, &page(0, 30)).await;
    assert_eq!(ids(&all).len(), 30, "the number of candidates grows with the page");
    let (first, second) = (server.post(PATH, &page(0, 15)).await, server.post(PATH, &page(15, 15)).await);
    assert_eq!([ids(&first), ids(&second)].concat(), ids(&all));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_document_does_not_crowd_out_the_others() {
    let long: String = (0..400).map(|n| format!("The sea is grey and cold {n}. ")).collect();
    let mut documents = vec![json!({"id": "long", "text": long, "language": "en"})];
    documents.extend((0..5).map(|n| json!({"id": format!("d{n}"), "text": format!("The sea {n}"), "language": "en"})));
    let server = Server::with_documents(documents.into()).await;
    let response = server.post(PATH, &json!({"query": "The sea is grey and cold", "limit": 6, "candidates": 10})).await;
    assert_eq!(ids(&response).len(), 6, "{:?}", ids(&response));
}

#[tokio::test(flavor = "multi_thread")]
async fn balance_languages_alternates_languages_by_relevance() {
    let document = |id: &str, text: &str, language: &str| json!({"id": id, "text": text, "language": language});
    let documents = json!([
        document("en-0", "grey sea", "en"),
        document("en-1", "grey sea again", "en"),
        document("fr-0", "grey sea, mer grise", "fr"),
        document("ja-0", "図書館", "ja"),
    ]);
    let server = Server::with_documents(documents).await;
    let body = |balance: bool| json!({"query": "grey sea", "limit": 3, "balance_languages": balance});
    assert_eq!(ids(&server.post(PATH, &body(false)).await)[..2], ["en-0", "en-1"]);
    assert_eq!(ids(&server.post(PATH, &body(true)).await)[..2], ["en-0", "fr-0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn balance_languages_lifts_a_hit_from_beyond_the_page() {
    let mut documents: Vec<Value> =
        (0..9).map(|n| json!({"id": format!("en-{n}"), "text": format!("grey sea {n}"), "language": "en"})).collect();
    documents.push(json!({"id": "fr-0", "text": "grey sea, et la mer grise au nord", "language": "fr"}));
    let server = Server::with_documents(documents.into()).await;
    let body = json!({"query": "grey sea", "limit": 2, "balance_languages": true});
    let found = server.post(PATH, &body).await;
    assert!(ids(&found)[0].starts_with("en-") && ids(&found)[1] == "fr-0", "{:?}", ids(&found));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_written_document_is_found_by_the_next_search() {
    let server = Server::with_documents(documents()).await;
    // From now on, the server keeps the tokens and words of all passages.
    assert_eq!(ids(&server.post(PATH, &json!({"query": QUERY, "limit": 1})).await), ["ja"]);
    let text = "The lighthouse keeper counts passing ships.";
    for id in ["new", "ja"] {
        let written = json!({"documents": [{"id": id, "text": text, "language": "en"}]});
        assert_eq!(server.post("/v1/collections/news/documents", &written).await.status, 200);
        let response = server.post(PATH, &json!({"query": text, "filter": {"field": "id", "eq": id}})).await;
        assert_eq!((ids(&response), &response.body["hits"][0]["passage"]["text"]), (vec![id], &json!(text)));
    }
    let response = server.post(PATH, &json!({"query": text, "limit": 2})).await;
    let mut first = ids(&response);
    first.sort_unstable();
    assert_eq!(first, ["ja", "new"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_document_is_gone_from_the_next_search() {
    let server = Server::with_documents(documents()).await;
    assert_eq!(ids(&server.post(PATH, &json!({"query": QUERY, "limit": 1})).await), ["ja"]);
    assert_eq!(server.delete("/v1/collections/news/documents/ja").await.status, 204);
    let response = server.post(PATH, &json!({"query": QUERY})).await;
    assert!(!ids(&response).contains(&"ja"), "{:?}", ids(&response));
}

#[tokio::test(flavor = "multi_thread")]
async fn options_that_do_not_fit_the_mode_are_refused() {
    let server = Server::with_documents(documents()).await;
    let many = server.post(PATH, &json!({"query": "a", "candidates": 10_001})).await;
    many.assert_error(422, "invalid_request", "/candidates", &["10 to 10000", "10001"]);
    let dense = server.post(PATH, &json!({"query": "a", "mode": "dense", "candidates": 50})).await;
    dense.assert_error(422, "invalid_request", "/candidates", &["mode full"]);
    let like = server.post(PATH, &json!({"like": "ja", "mode": "full"})).await;
    like.assert_error(422, "invalid_request", "/mode", &["need query"]);
}
