//! `PUT /v1/collections/{collection}`.

use serde_json::json;

use crate::server::Server;

const PATH: &str = "/v1/collections/news";

#[tokio::test(flavor = "multi_thread")]
async fn a_new_collection_is_created_with_its_settings() {
    let server = Server::start();
    let response = server.put(PATH, &json!({"description": "what happened", "hnsw": {"m": 24}})).await;
    assert_eq!((response.status, &response.body["name"], &response.body["hnsw"]["m"]), (201, &json!("news"), &json!(24)));
    assert_eq!(server.get(PATH).await.body["description"], "what happened");
}

#[tokio::test(flavor = "multi_thread")]
async fn repeating_a_put_keeps_the_collection_and_its_documents() {
    let server = Server::start();
    let settings = json!({"description": "a", "default_languages": ["pt-BR", "fr"], "metadata_indexes": ["year", "author.name"],
                          "passage_bounds": {"tokens_max": 12}});
    assert_eq!(server.put(PATH, &settings).await.status, 201);
    let documents = json!({"documents": [{"id": "a", "text": "Il pleut."}]});
    assert_eq!(server.post(&format!("{PATH}/documents"), &documents).await.status, 200);
    let again = server.put(PATH, &settings).await;
    assert_eq!((again.status, &again.body["documents"]), (200, &json!(1)), "{}", again.text);
    let sorted_otherwise = json!({"default_languages": ["fr", "pt"], "metadata_indexes": ["metadata.author.name", "year"]});
    assert_eq!(server.put(PATH, &sorted_otherwise).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_description_is_the_same_as_none() {
    let server = Server::start();
    let empty = json!({"description": ""});
    assert_eq!(server.put(PATH, &empty).await.body.get("description"), None);
    assert_eq!(server.patch(PATH, &empty).await.status, 200);
    assert_eq!(server.put(PATH, &empty).await.status, 200);
    server.put(PATH, &json!({"description": "a"})).await.assert_error(409, "collection_exists", "/description", &["got \"a\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn omitted_settings_match_any_value() {
    let server = Server::start();
    let points = json!({"name": "news", "dimension": 3, "metric": "l2", "hnsw": {"ef_search": 200}});
    assert_eq!(server.post("/v1/collections", &points).await.status, 201);
    let response = server.put(PATH, &json!({})).await;
    assert_eq!((response.status, &response.body["metric"]), (200, &json!("l2")));
    assert_eq!(server.put(PATH, &json!({"dimension": 3, "metric": "l2"})).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflicting_put_names_every_differing_setting_and_changes_nothing() {
    let server = Server::start();
    server.put(PATH, &json!({"description": "old"})).await;
    let asked = json!({"description": "new", "quantization": "f32", "hnsw": {"m": 32, "ef_search": 96}});
    let response = server.put(PATH, &asked).await;
    response.assert_error(409, "collection_exists", "/description", &["has \"old\"", "got \"new\"", "and 2 more"]);
    assert_eq!(response.places(), ["/description", "/quantization", "/hnsw/m"]);
    assert_eq!(server.get(PATH).await.body["description"], "old");
    let vectors = server.put(PATH, &json!({"dimension": 64})).await;
    vectors.assert_error(409, "collection_exists", "/dimension", &["has the model", "got 64"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_request_creates_no_collection() {
    let server = Server::start();
    let response = server.put(PATH, &json!({"name": "blog", "hnsw": {"m": 1}, "metadata_indexes": [""]})).await;
    response.assert_error(422, "invalid_request", "/name", &["must be \"news\"", "be left out", "got \"blog\"", "and 2 more"]);
    server.put(PATH, &json!({"colour": "red"})).await.assert_error(422, "invalid_request", "/colour", &["unknown field"]);
    server.put(PATH, &json!({"model": "other"})).await.assert_error(422, "unknown_model", "", &["other"]);
    server.put("/v1/collections/a%20b", &json!({})).await.assert_error(422, "invalid_request", "collection", &["ASCII"]);
    assert_eq!(server.get("/v1/collections").await.body, json!({"collections": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn creating_a_collection_with_an_alias_name_conflicts() {
    let server = Server::with_news().await;
    assert_eq!(server.put("/v1/aliases/current", &json!({"collection": "news"})).await.status, 200);
    server.put("/v1/collections/current", &json!({})).await.assert_error(409, "alias_exists", "", &["current"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_key_can_create_only_its_own_collections() {
    let admin = Server::with_admin_key();
    let body = json!({"name": "news", "scope": "admin", "collections": ["news"]});
    let created = admin.post("/v1/keys", &body).await;
    let keyed = admin.with_key(created.body["secret"].as_str().expect("a secret"));
    assert_eq!(keyed.put(PATH, &json!({})).await.status, 201);
    keyed.put("/v1/collections/blog", &json!({})).await.assert_error(403, "forbidden", "", &["blog"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_identical_puts_create_one_collection() {
    let server = Server::start();
    let settings = json!({"description": "shared"});
    let all = futures::future::join_all((0..8).map(|_| server.put(PATH, &settings))).await;
    let mut statuses: Vec<u16> = all.iter().map(|response| response.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 200, 200, 201]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_put_may_repeat_the_name_of_its_path() {
    let server = Server::start();
    let settings = json!({"name": "news", "description": "what happened"});
    assert_eq!(server.put(PATH, &settings).await.status, 201);
    let again = server.put(PATH, &settings).await;
    assert_eq!((again.status, &again.body["name"]), (200, &json!("news")), "{}", again.text);
    let refused = server.put(PATH, &json!({"name": "news", "colour": "red"})).await;
    refused.assert_error(422, "invalid_request", "/colour", &["unknown field"]);
    assert_eq!(refused.places(), ["/colour"]);
}
