//! `/v1/collections`.

use serde_json::json;

use crate::example;
use crate::server::{DIMENSION, Server};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_collection_is_empty_and_ready() {
    let server = Server::start();
    let response = server.post("/v1/collections", &example("create_collection.request")).await;
    assert_eq!((response.status, response.header("location")), (201, Some("/v1/collections/news")));
    assert_eq!(response.body["name"], "news");
    assert_eq!(response.body["dimension"], DIMENSION);
    assert_eq!((&response.body["documents"], &response.body["passages_pending"]), (&json!(0), &json!(0)));
    assert_eq!((&response.body["index_state"], &response.body["metric"]), (&json!("ready"), &json!("cosine")));
    let created_at = response.body["created_at"].as_str().expect("a time");
    assert!(created_at.parse::<jiff::Timestamp>().is_ok(), "{created_at}");
    let read = server.get("/v1/collections/news").await;
    assert_eq!((read.status, &read.body["created_at"]), (200, &response.body["created_at"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_without_description_omits_it() {
    let server = Server::start();
    let response = server.post("/v1/collections", &json!({"name": "a"})).await;
    assert_eq!((response.status, response.body.get("description")), (201, None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_collection_with_the_same_name_conflicts() {
    let server = Server::with_news().await;
    server.post("/v1/collections", &json!({"name": "news"})).await.assert_error(409, "collection_exists", "", &["news"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_request_creates_no_collection() {
    let server = Server::start();
    let check = async |body: serde_json::Value, code: &str, place: &str, words: &[&str]| {
        server.post("/v1/collections", &body).await.assert_error(422, code, place, words);
    };
    for name in ["a b", "-a", "ä", "a/b"] {
        check(json!({ "name": name }), "invalid_request", "/name", &["ASCII"]).await;
    }
    check(json!({"name": ""}), "invalid_request", "/name", &["1 to 64", "got 0"]).await;
    check(json!({"name": "x".repeat(65)}), "invalid_request", "/name", &["1 to 64", "got 65"]).await;
    check(json!({}), "invalid_request", "/name", &["missing field `name`"]).await;
    check(json!({"name": 7}), "invalid_request", "/name", &["expected a string"]).await;
    check(json!({"name": "a", "hnsw": [16, 128, 96]}), "invalid_request", "/hnsw", &["array", "expected an object"]).await;
    check(json!({"name": "a", "passage_bounds": [64, 0]}), "invalid_request", "/passage_bounds", &["expected an object"]).await;
    check(json!({"name": "a", "size": 7}), "invalid_request", "/size", &["unknown field `size`"]).await;
    check(json!({"name": "a", "description": "x".repeat(5000)}), "invalid_request", "/description", &["4096", "5000"]).await;
    check(json!({"name": "a", "model": "other"}), "unknown_model", "", &["other"]).await;
    assert_eq!(server.get("/v1/collections").await.body, json!({"collections": []}));
    for name in ["News-2026_v1.2", "0"] {
        server.create(json!({ "name": name })).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn collections_are_listed_by_name_in_pages() {
    let server = Server::start();
    for name in ["c", "a", "e", "b", "d"] {
        server.create(json!({"name": name})).await;
    }
    let (mut path, mut pages) = ("/v1/collections?limit=2".to_owned(), Vec::new());
    loop {
        let response = server.get(&path).await;
        assert_eq!(response.status, 200);
        let names = response.body["collections"].as_array().expect("a list").iter();
        pages.push(names.map(|one| one["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>().concat());
        match response.body["next_cursor"].as_str() {
            Some(cursor) => path = format!("/v1/collections?limit=2&cursor={cursor}"),
            None => break,
        }
    }
    assert_eq!(pages, ["ab", "cd", "e"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_page_parameters_are_refused() {
    let server = Server::start();
    let check = async |query: &str, code: &str, place: &str, words: &[&str]| {
        server.get(&format!("/v1/collections?{query}")).await.assert_error(422, code, place, words);
    };
    check("limit=0", "invalid_request", "limit", &["from 1 to 1000", "\"0\""]).await;
    check("limit=1001", "invalid_request", "limit", &["from 1 to 1000"]).await;
    check("limit=ten", "invalid_request", "limit", &["\"ten\""]).await;
    check("lmit=1", "invalid_request", "lmit", &["unknown parameter `lmit`", "`limit`"]).await;
    check("limit=1&limit=2", "invalid_request", "limit", &["duplicate"]).await;
    check("cursor=abc", "invalid_cursor", "cursor", &["next_cursor"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_invalid_query_parameter_is_reported() {
    let server = Server::start();
    let response = server.get("/v1/collections?lmit=1&limit=0&cursor=abc&limit=2&x=y").await;
    response.assert_error(422, "invalid_request", "lmit", &["unknown parameter `lmit`", "and 4 more"]);
    assert_eq!(response.places(), ["lmit", "limit", "x", "limit", "cursor"]);
    let jobs = server.get("/v1/jobs?type=dance&status=done&collection=%20&limit=0&wait=1").await;
    assert_eq!(jobs.places(), ["wait", "type", "status", "collection", "limit"], "{}", jobs.text);
    let none = server.get("/v1/jobs/0198c0de-7a11-7000-8000-2f1de5c0ffee?a=1&b=2").await;
    none.assert_error(422, "invalid_request", "a", &["there are no parameters", "and 1 more"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_collection_frees_its_name() {
    let server = Server::with_documents(json!([{"id": "a", "text": "Il pleut."}])).await;
    assert_eq!(server.delete("/v1/collections/news").await.status, 204);
    server.get("/v1/collections/news").await.assert_error(404, "collection_not_found", "", &["news"]);
    server.delete("/v1/collections/news").await.assert_error(404, "collection_not_found", "", &["news"]);
    let again = server.post("/v1/collections", &json!({"name": "news"})).await;
    assert_eq!((again.status, &again.body["documents"]), (201, &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_collection_name_in_the_path_is_refused() {
    let server = Server::start();
    server.get("/v1/collections/a%20b").await.assert_error(422, "invalid_request", "collection", &["ASCII"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collection_reports_its_document_passage_and_language_counts() {
    let documents = json!([{"text": "Il pleut.", "language": "fr"}, {"text": "Il neige.", "language": "fr"}]);
    let server = Server::with_documents(documents).await;
    let response = server.get("/v1/collections/news").await;
    assert_eq!((&response.body["documents"], &response.body["passages"]), (&json!(2), &json!(2)));
    assert_eq!(response.body["languages"], json!([{"language": "fr", "documents": 2}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn adding_or_dropping_metadata_indexes_changes_no_results() {
    let server = Server::start();
    let created = server.post("/v1/collections", &json!({"name": "news", "metadata_indexes": ["year", "year"]})).await;
    assert_eq!((created.status, &created.body["metadata_indexes"]), (201, &json!(["year"])), "{}", created.text);
    let documents = [
        json!({"id": "a", "text": "un", "metadata": {"year": 2020, "author": {"name": "Ada"}}}),
        json!({"id": "b", "text": "deux", "metadata": {"year": "2020", "author": {"name": "Abe"}}}),
        json!({"id": "c", "text": "trois", "metadata": {"year": true, "author": {"name": ["Ada"]}}}),
        json!({"id": "d", "text": "quatre", "metadata": {"year": 1}}),
    ];
    server.post("/v1/collections/news/documents", &json!({"documents": documents})).await;
    let filters = [
        (json!({"field": "year", "eq": 2020}), json!(["a"])),
        (json!({"field": "year", "eq": true}), json!(["c"])),
        (json!({"field": "year", "gte": 1}), json!(["a", "d"])),
        (json!({"not": {"field": "year", "in": [1, "2020"]}}), json!(["a", "c"])),
        (json!({"field": "author.name", "prefix": "A"}), json!(["a", "b"])),
    ];
    for paths in [json!(["author.name", "year"]), json!([]), json!(["author.name"])] {
        let changed = server.patch("/v1/collections/news", &json!({"metadata_indexes": paths})).await;
        assert_eq!((changed.status, &changed.body["metadata_indexes"]), (200, &paths), "{}", changed.text);
        assert_eq!(server.get("/v1/collections/news").await.body["metadata_indexes"], paths);
        for (filter, expect) in &filters {
            let found = server.post("/v1/collections/news/documents/scroll", &json!({"filter": filter})).await;
            let ids: Vec<_> = found.body["documents"].as_array().expect("documents").iter().map(|one| &one["id"]).collect();
            assert_eq!(json!(ids), *expect, "{filter} with {paths}");
        }
    }
    let unchanged = server.patch("/v1/collections/news", &json!({})).await;
    assert_eq!((unchanged.status, &unchanged.body["metadata_indexes"]), (200, &json!(["author.name"])));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_metadata_index_is_refused() {
    let server = Server::with_news().await;
    let check = async |paths: serde_json::Value, place: &str, words: &[&str]| {
        let body = json!({"metadata_indexes": paths});
        server.patch("/v1/collections/news", &body).await.assert_error(422, "invalid_request", place, words);
    };
    check(json!(["year", "a..b"]), "/metadata_indexes/1", &["single dots"]).await;
    check(json!(["language"]), "/metadata_indexes/0", &["metadata.language"]).await;
    check(json!((0..17).map(|n| format!("p{n}")).collect::<Vec<_>>()), "/metadata_indexes", &["at most 16", "got 17"]).await;
    check(json!(["a\"b"]), "/metadata_indexes/0", &["quotes"]).await;
    check(json!("year"), "/metadata_indexes", &["expected an array"]).await;
    assert_eq!(server.get("/v1/collections/news").await.body["metadata_indexes"], json!([]));
    let unknown = server.patch("/v1/collections/blog", &json!({})).await;
    unknown.assert_error(404, "collection_not_found", "", &["blog"]);
}
