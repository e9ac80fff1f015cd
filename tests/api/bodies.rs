//! Bodies of requests to operations that have none.

use axum::body::Body;
use axum::http::Method;
use dragoman::http;
use futures::{StreamExt as _, stream};
use serde_json::json;

use crate::server::Server;

/// The operations that need a key and have no request body: method and path.
fn operations_without_body() -> Vec<(Method, String)> {
    const ID: &str = "0198c0de-7a11-7000-8000-2f1de5c0ffee";
    let names = [("collection", "news"), ("id", "fr-1"), ("job", ID), ("snapshot", ID), ("key", "0198c0de7a1170008000")];
    let mut found = Vec::new();
    for (template, item) in
        http::document()["paths"].as_object().expect("paths").iter().filter(|(path, _)| path.starts_with("/v1/"))
    {
        for (method, operation) in item.as_object().expect("operations") {
            if operation["requestBody"].is_null() {
                let path = names.iter().fold(template.clone(), |path, (name, value)| path.replace(&format!("{{{name}}}"), value));
                let path: Vec<&str> = path.split('/').map(|part| if part.starts_with('{') { "none" } else { part }).collect();
                found.push((method.to_uppercase().parse().expect("a method"), path.join("/")));
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_without_a_body_refuse_one() {
    let server = Server::with_documents(json!([{"id": "fr-1", "text": "Bonjour"}])).await;
    let operations = operations_without_body();
    assert!(operations.len() > 30, "{operations:?}");
    for (method, path) in operations {
        let response = server.call(method.clone(), &path, Body::from(r#"{"ids": ["fr-2"]}"#)).await;
        let status = if path.starts_with("/v1/models/") { 400 } else { 422 };
        assert_eq!((response.status, response.code()), (status, Some("invalid_request")), "{method} {path}: {}", response.text);
        assert!(response.text.contains("this operation has no request body"), "{method} {path}: {}", response.text);
    }
    assert_eq!(server.get("/v1/collections/news/documents/fr-1").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_without_a_body_accept_an_empty_one() {
    let server = Server::with_documents(json!([{"id": "fr-1", "text": "Bonjour"}])).await;
    let path = "/v1/collections/news/documents/fr-1";
    for body in ["", "{}", " { }\n", "null"] {
        let response = server.call(Method::GET, path, Body::from(body)).await;
        assert_eq!(response.status, 200, "{body:?}: {}", response.text);
    }
    let chunks = stream::iter(["", "{", "}"]).map(Ok::<_, std::io::Error>);
    assert_eq!(server.call(Method::DELETE, path, Body::from_stream(chunks)).await.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_or_unfinished_body_is_refused_where_there_is_none() {
    let server = Server::with_news().await;
    let long = Body::from(" ".repeat(100_000));
    server.call(Method::DELETE, "/v1/collections/news", long).await.assert_error(
        422,
        "invalid_request",
        "",
        &["no request body"],
    );
    let torn = stream::iter([Ok("{"), Err(std::io::Error::other("gone"))]);
    let response = server.call(Method::DELETE, "/v1/collections/news", Body::from_stream(torn)).await;
    response.assert_error(422, "invalid_request", "", &["before it was complete"]);
    assert_eq!(server.get("/v1/collections/news").await.status, 200);
}
