//! Members for which the OpenAPI document does not allow null.

use axum::http::Method;
use dragoman::http;
use serde_json::{Value, json};

use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn setting_any_example_member_to_null_is_refused() {
    let server = Server::with_news().await;
    let document = http::document();
    let mut tried = 0;
    for (template, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("a path item") {
            let example = &operation["requestBody"]["content"]["application/json"]["example"];
            let path = template.replace("{collection}", "news");
            let path = path.replace("{snapshot}", "0198c0de-7a11-7000-8000-2f1de5c0ffee");
            let path: Vec<&str> = path.split('/').map(|part| if part.starts_with('{') { "topics" } else { part }).collect();
            for name in example.as_object().into_iter().flat_map(serde_json::Map::keys) {
                let mut body = example.clone();
                body[name] = Value::Null;
                let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
                let response = server.call(method, &path.join("/"), body.to_string().into()).await;
                let expect = if template == "/v1/embeddings" { 400 } else { 422 };
                assert_eq!(response.status, expect, "{template} {name}: {}", response.text);
                let place = format!("/{name}");
                let named = response.places() == [place.as_str()] || response.body["error"]["param"] == json!(name);
                assert!(named, "{template} {name}: {}", response.text);
                tried += 1;
            }
        }
    }
    assert!(tried > 30, "{tried}");
}

#[tokio::test(flavor = "multi_thread")]
async fn null_is_refused_in_members_but_kept_in_metadata() {
    let server = Server::with_news().await;
    let path = "/v1/collections/news/documents";
    let refused = server.post(path, &json!({"documents": [{"id": "a", "text": "Il pleut.", "language": null}]})).await;
    refused.assert_error(422, "invalid_request", "/documents/0/language", &["null", "leave it out"]);
    assert_eq!(server.get(&format!("{path}/a")).await.status, 404);
    let stored = server.post(path, &json!({"documents": [{"id": "a", "text": "Il pleut.", "metadata": {"mood": null}}]})).await;
    assert_eq!(stored.status, 200, "{}", stored.text);
    assert_eq!(server.get(&format!("{path}/a")).await.body["metadata"], json!({"mood": null}));
    let search = server.post("/v1/collections/news/search", &json!({"query": "pluie", "limit": null})).await;
    search.assert_error(422, "invalid_request", "/limit", &["null"]);
}
