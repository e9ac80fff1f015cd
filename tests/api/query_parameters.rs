//! Query parameters of operations that have none.

use axum::body::Body;
use axum::http::Method;
use serde_json::json;

use crate::server::Server;

/// The operations on `/v1/collections/news` that have no query parameters: method and the rest of the path.
const ON_COLLECTION: &[(Method, &str)] = &[
    (Method::GET, ""),
    (Method::PUT, ""),
    (Method::PATCH, ""),
    (Method::DELETE, ""),
    (Method::POST, "/reembed"),
    (Method::GET, "/documents/fr-1"),
    (Method::DELETE, "/documents/fr-1"),
    (Method::GET, "/documents/count"),
    (Method::DELETE, "/documents/count"),
    (Method::POST, "/documents/scroll"),
    (Method::POST, "/documents/count"),
    (Method::POST, "/documents/delete"),
    (Method::POST, "/documents/update"),
    (Method::POST, "/facets"),
    (Method::GET, "/projections"),
    (Method::POST, "/projections"),
    (Method::POST, "/search"),
    (Method::POST, "/search/batch"),
    (Method::POST, "/recommend"),
    (Method::POST, "/duplicates"),
];

/// The other operations that have no query parameters.
const OTHERS: &[(Method, &str)] = &[
    (Method::POST, "/v1/collections"),
    (Method::PUT, "/v1/aliases/latest"),
    (Method::DELETE, "/v1/aliases/latest"),
    (Method::GET, "/v1/jobs/0198c0de-7a11-7000-8000-2f1de5c0ffee"),
    (Method::POST, "/v1/jobs/0198c0de-7a11-7000-8000-2f1de5c0ffee/cancel"),
    (Method::GET, "/v1/jobs/0198c0de-7a11-7000-8000-2f1de5c0ffee/events"),
    (Method::GET, "/v1/jobs/0198c0de-7a11-7000-8000-2f1de5c0ffee/evaluation"),
    (Method::GET, "/v1/jobs/0198c0de-7a11-7000-8000-2f1de5c0ffee/pairs"),
    (Method::GET, "/v1/jobs/0198c0de-7a11-7000-8000-2f1de5c0ffee/clusters.tsv"),
    (Method::POST, "/v1/snapshots"),
    (Method::DELETE, "/v1/snapshots/0198c0de-7a11-7000-8000-2f1de5c0ffee"),
    (Method::POST, "/v1/snapshots/0198c0de-7a11-7000-8000-2f1de5c0ffee/restore"),
    (Method::PUT, "/v1/snapshots/0198c0de-7a11-7000-8000-2f1de5c0ffee/archive"),
    (Method::POST, "/v1/classifiers"),
    (Method::GET, "/v1/classifiers/topics"),
    (Method::DELETE, "/v1/classifiers/topics"),
    (Method::POST, "/v1/classifiers/topics/train"),
    (Method::POST, "/v1/classifiers/topics/predict"),
    (Method::POST, "/v1/classifiers/topics/evaluate"),
    (Method::POST, "/v1/classifiers/topics/evaluations"),
    (Method::POST, "/v1/classifiers/topics/apply"),
    (Method::POST, "/v1/similarity"),
    (Method::POST, "/v1/similarity/matrix"),
    (Method::POST, "/v1/detect"),
    (Method::POST, "/v1/mine"),
    (Method::GET, "/v1/models"),
    (Method::POST, "/v1/keys"),
    (Method::DELETE, "/v1/keys/0198c0de7a1170008000"),
];

#[tokio::test(flavor = "multi_thread")]
async fn operations_without_query_parameters_refuse_any() {
    let server = Server::with_documents(json!([{"id": "fr-1", "text": "Bonjour"}])).await;
    let on_collection = ON_COLLECTION.iter().map(|(method, rest)| (method, format!("/v1/collections/news{rest}")));
    for (method, path) in on_collection.chain(OTHERS.iter().map(|(method, path)| (method, (*path).to_owned()))) {
        let body = Body::from(r#"{"ids": ["fr-1"]}"#);
        let response = server.call(method.clone(), &format!("{path}?dry_run=true"), body).await;
        let details = ["unknown parameter `dry_run`", "there are no parameters"];
        assert_eq!(response.status, 422, "{method} {path}: {}", response.text);
        response.assert_error(422, "invalid_request", "dry_run", &details);
    }
    assert_eq!(server.get("/v1/collections/news/documents/fr-1").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_of_openai_clients_refuse_query_parameters_with_400() {
    let server = Server::start();
    for (method, path) in [(Method::POST, "/v1/embeddings?dry_run=true"), (Method::GET, "/v1/models/any?dry_run=true")] {
        let response = server.call(method, path, Body::from(r#"{"input": "Bonjour"}"#)).await;
        assert_eq!((response.status, response.code()), (400, Some("invalid_request")), "{path}: {}", response.text);
        assert!(response.text.contains("unknown parameter `dry_run`"), "{path}: {}", response.text);
    }
}
