//! `/v1/aliases`.

use serde_json::json;

use crate::server::Server;

async fn with_two() -> Server {
    let server = Server::start();
    for (name, text) in [("news-1", "Il pleut."), ("news-2", "Es regnet.")] {
        assert_eq!(server.post("/v1/collections", &json!({ "name": name })).await.status, 201);
        let documents = json!({"documents": [{"id": "a", "text": text}]});
        assert_eq!(server.post(&format!("/v1/collections/{name}/documents"), &documents).await.status, 200);
    }
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_stands_for_a_collection_and_changes_at_once() {
    let server = with_two().await;
    let set = async |collection: &str| server.put("/v1/aliases/current", &json!({ "collection": collection })).await;
    assert_eq!(set("news-1").await.body, json!({"alias": "current", "collection": "news-1"}));
    assert_eq!(server.get("/v1/collections/current").await.body["name"], "news-1");
    assert_eq!(server.get("/v1/collections/current/documents/a").await.body["text"], "Il pleut.");
    let found = server.post("/v1/collections/current/search", &json!({"query": "Il pleut."})).await;
    assert_eq!(found.body["hits"][0]["passage"]["text"], "Il pleut.");
    assert_eq!(set("news-2").await.status, 200);
    assert_eq!(server.get("/v1/collections/current/documents/a").await.body["text"], "Es regnet.");
    let written =
        server.post("/v1/collections/current/documents", &json!({"documents": [{"id": "b", "text": "Es schneit."}]})).await;
    assert_eq!(written.status, 200);
    assert_eq!(server.get("/v1/collections/news-2/documents/b").await.status, 200);
    assert_eq!(server.delete("/v1/aliases/current").await.status, 204);
    server.get("/v1/collections/current").await.assert_error(404, "collection_not_found", "", &["current"]);
    server.delete("/v1/aliases/current").await.assert_error(404, "alias_not_found", "", &["current"]);
    assert_eq!(server.get("/v1/collections/news-2").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_are_listed_by_name_in_pages() {
    let server = with_two().await;
    for (alias, collection) in [("c", "news-1"), ("a", "news-2"), ("b", "news-1")] {
        server.put(&format!("/v1/aliases/{alias}"), &json!({ "collection": collection })).await;
    }
    let first = server.get("/v1/aliases?limit=2").await;
    let row = |alias: &str, collection: &str| json!({"alias": alias, "collection": collection});
    assert_eq!(first.body["aliases"], json!([row("a", "news-2"), row("b", "news-1")]));
    let second = server.get(&format!("/v1/aliases?cursor={}", first.body["next_cursor"].as_str().expect("a cursor"))).await;
    assert_eq!(second.body, json!({"aliases": [row("c", "news-1")]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn aliases_and_collections_share_one_namespace() {
    let server = with_two().await;
    let set = async |alias: &str, collection: &str| {
        server.put(&format!("/v1/aliases/{alias}"), &json!({ "collection": collection })).await
    };
    set("news-1", "news-2").await.assert_error(409, "collection_exists", "", &["news-1"]);
    set("current", "blog").await.assert_error(404, "collection_not_found", "", &["blog"]);
    set("current", "a b").await.assert_error(422, "invalid_request", "/collection", &["ASCII"]);
    set("a%20b", "news-1").await.assert_error(422, "invalid_request", "alias", &["ASCII"]);
    assert_eq!(set("current", "news-1").await.status, 200);
    set("other", "current").await.assert_error(404, "collection_not_found", "", &["current"]);
    let create = server.post("/v1/collections", &json!({"name": "current"})).await;
    create.assert_error(409, "alias_exists", "", &["current", "news-1"]);
    server.delete("/v1/collections/current").await.assert_error(409, "alias_exists", "", &["news-1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_collection_takes_its_aliases_with_it() {
    let server = with_two().await;
    server.put("/v1/aliases/current", &json!({"collection": "news-1"})).await;
    assert_eq!(server.delete("/v1/collections/news-1").await.status, 204);
    assert_eq!(server.get("/v1/aliases").await.body, json!({"aliases": []}));
    server.get("/v1/collections/current").await.assert_error(404, "collection_not_found", "", &["current"]);
    assert_eq!(server.post("/v1/collections", &json!({"name": "current"})).await.status, 201);
}
