//! The filter of every request that takes one: which documents it keeps, and that an invalid one is refused with its location.

use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};

use crate::server::Server;

fn documents() -> Value {
    json!([
        {"id": "de-1", "text": "Der Zug nach Basel fällt heute aus.", "language": "de", "metadata": {"year": 2021, "tags": ["rail", "news"], "open": true}},
        {"id": "fr-1", "text": "Le marché ouvre à sept heures.", "language": "fr", "metadata": {"year": 2020, "author": {"name": "Ada"}, "price": 2.5}},
        {"id": "fr-2", "text": "La bibliothèque ferme le lundi.", "language": "fr", "metadata": {"year": "2020", "tags": "news", "open": null}},
        {"id": "ja-1", "text": "図書館は月曜日が休みです。", "language": "ja", "metadata": {"year": 2019, "tags": [], "author": {"name": "Abe"}}},
        {"id": "zxx", "text": "0123456789", "metadata": {}},
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn every_filter_operator_works_in_scroll_count_and_search() {
    let server = Server::with_documents(documents()).await;
    let check = async |filter: Value, expect: &[&str]| {
        let scrolled = server.post("/v1/collections/news/documents/scroll", &json!({"filter": filter})).await;
        let ids: Vec<_> = scrolled.body["documents"].as_array().expect("documents").iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, expect, "{filter}");
        let counted = server.post("/v1/collections/news/documents/count", &json!({"filter": filter})).await;
        assert_eq!(counted.body["documents"], expect.len(), "{filter}");
        let found = server.post("/v1/collections/news/search", &json!({"query": "Zug", "filter": filter})).await;
        let mut ids: Vec<_> = found.body["hits"].as_array().expect("hits").iter().filter_map(|hit| hit["id"].as_str()).collect();
        ids.sort_unstable();
        assert_eq!(ids, expect, "{filter}");
    };
    check(json!({"field": "year", "eq": 2020}), &["fr-1"]).await;
    check(json!({"field": "year", "ne": 2020}), &["de-1", "fr-2", "ja-1", "zxx"]).await;
    check(json!({"field": "year", "in": [2019, "2020", true]}), &["fr-2", "ja-1"]).await;
    check(json!({"field": "year", "gte": 2020}), &["de-1", "fr-1"]).await;
    check(json!({"field": "year", "gt": 2019.5}), &["de-1", "fr-1"]).await;
    check(json!({"field": "year", "lt": "3"}), &["fr-2"]).await;
    check(json!({"field": "price", "lte": 2.5}), &["fr-1"]).await;
    check(json!({"field": "tags", "any": ["news", "weather"]}), &["de-1"]).await;
    check(json!({"field": "tags", "eq": "news"}), &["fr-2"]).await;
    check(json!({"field": "tags", "exists": true}), &["de-1", "fr-2", "ja-1"]).await;
    check(json!({"field": "open", "exists": false}), &["fr-1", "fr-2", "ja-1", "zxx"]).await;
    check(json!({"field": "author.name", "prefix": "A"}), &["fr-1", "ja-1"]).await;
    check(json!({"field": "author.name", "prefix": "Ad"}), &["fr-1"]).await;
    check(json!({"field": "language", "eq": "fr"}), &["fr-1", "fr-2"]).await;
    check(json!({"field": "language", "ne": "fr"}), &["de-1", "ja-1", "zxx"]).await;
    check(json!({"field": "language", "exists": false}), &["zxx"]).await;
    check(json!({"field": "id", "prefix": "fr-"}), &["fr-1", "fr-2"]).await;
    check(json!({"field": "id", "gt": "fr-2"}), &["ja-1", "zxx"]).await;
    check(json!({"field": "created_at", "gte": "2020-01-01T00:00:00Z"}), &["de-1", "fr-1", "fr-2", "ja-1", "zxx"]).await;
    check(json!({"field": "updated_at", "lt": "2020-01-01T00:00:00+02:00"}), &[]).await;
    check(json!({"or": [{"field": "year", "eq": 2019}, {"field": "open", "eq": true}]}), &["de-1", "ja-1"]).await;
    check(json!({"not": {"or": [{"field": "language", "in": ["fr", "de"]}, {"field": "id", "eq": "zxx"}]}}), &["ja-1"]).await;
    check(json!({"and": [{"field": "language", "eq": "fr"}, {"not": {"field": "author", "exists": true}}]}), &["fr-2"]).await;
    check(json!({"or": []}), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_filter_is_refused_everywhere_with_its_location() {
    let server = Server::with_news().await;
    let filter = json!({"and": [{"not": {"field": "year", "gte": true}}]});
    let documents = "/v1/collections/news/documents";
    for (path, body) in [
        ("/v1/collections/news/search".to_owned(), json!({"query": "a", "filter": filter})),
        (format!("{documents}/scroll"), json!({"filter": filter})),
        (format!("{documents}/count"), json!({"filter": filter})),
        (format!("{documents}/delete"), json!({"filter": filter})),
        ("/v1/collections/news/facets".to_owned(), json!({"filter": filter, "facets": [{"field": "language"}]})),
    ] {
        let response = server.post(&path, &body).await;
        response.assert_error(422, "invalid_filter", "/filter/and/0/not/gte", &["string or a number", "got a boolean"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_field_path_has_at_most_32_keys() {
    let server = Server::with_news().await;
    let count = async |keys: usize| {
        let filter = json!({"field": vec!["a"; keys].join("."), "exists": true});
        server.post("/v1/collections/news/documents/count", &json!({"filter": filter})).await
    };
    assert_eq!(count(32).await.body, json!({"documents": 0}));
    for keys in [33, 100_000] {
        let got = format!("got {keys}");
        count(keys).await.assert_error(422, "invalid_filter", "/filter/field", &["at most 32 keys", &got]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_repeated_languages_are_accepted() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Il pleut.", "language": "fr"}])).await;
    // More than SQLite allows as parameters of one statement.
    let languages = vec!["fr"; 40_000];
    let found = server.post("/v1/collections/news/search", &json!({"query": "pluie", "languages": languages})).await;
    assert_eq!((found.status, &found.body["hits"][0]["id"]), (200, &json!("a")), "{}", found.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_boolean_values_are_accepted_but_many_empty_conditions_refused() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Il pleut.", "metadata": {"wet": true}}])).await;
    let count = async |filter: Value| server.post("/v1/collections/news/documents/count", &json!({"filter": filter})).await;
    let truths: Vec<bool> = (0..5_000).map(|n| n % 2 == 0).collect();
    assert_eq!(count(json!({"field": "wet", "in": truths})).await.body, json!({"documents": 1}));
    let empty = vec![json!({"and": []}); 5_000];
    count(json!({"and": empty})).await.assert_error(422, "invalid_filter", "/filter/and/100/and", &["filter_conditions_max"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_for_an_undetermined_language_says_how_to_find_such_documents() {
    let server = Server::with_news().await;
    let count = async |filter: Value| server.post("/v1/collections/news/documents/count", &json!({"filter": filter})).await;
    let hint = r#"{"field": "language", "exists": false}"#;
    for (filter, place) in [
        (json!({"field": "language", "eq": "und"}), "/filter/eq"),
        (json!({"field": "language", "in": ["fr", "und"]}), "/filter/in/1"),
    ] {
        count(filter).await.assert_error(422, "invalid_filter", place, &["must name a language", "\"und\"", hint]);
    }
    let other = count(json!({"field": "language", "eq": "xx"})).await;
    assert!(other.status == 422 && !other.text.contains("exists"), "{}", other.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_filter_with_a_repeated_member_is_refused() {
    let server = Server::with_documents(documents()).await;
    let check = async |filter: &str, place: &str| {
        let body = format!("{{\"filter\": {filter}}}");
        let refused = server.call(Method::POST, "/v1/collections/news/documents/count", Body::from(body)).await;
        refused.assert_error(422, "invalid_request", place, &["duplicate field"]);
    };
    check(r#"{"field": "year", "eq": 2020, "eq": 2021}"#, "/filter").await;
    check(r#"{"not": {"and": [], "and": [{"field": "year", "exists": true}]}}"#, "/filter/not").await;
    assert_eq!(server.post("/v1/collections/news/documents/count", &json!({})).await.body["documents"], 5);
}
