//! `POST /v1/collections/{collection}/reembed`.

use std::sync::Arc;

use dragoman::domain::Limits;
use dragoman::embed::FakeOptions;
use serde_json::json;
use tempfile::TempDir;

use crate::example;
use crate::server::Server;

const PATH: &str = "/v1/collections/news/reembed";

/// A server on this folder with a model of this dimension.
async fn server(folder: &Arc<TempDir>, dimension: usize) -> Server {
    Server::on(folder, &FakeOptions { tokens_max: 128, ..FakeOptions::of(dimension) }, Limits::default()).await
}

/// A server with a different model from the one that embedded its collection `news`.
async fn with_another_model() -> Server {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    let made = server(&folder, 64).await;
    made.create(json!({"name": "news"})).await;
    let documents = json!({"documents": [
        {"id": "pl", "text": "Pociąg spóźnia się o dziesięć minut.", "language": "pl", "metadata": {"line": 4}},
        {"id": "ko", "text": "기차가 십 분 늦습니다.", "language": "ko"},
    ]});
    assert_eq!(made.post("/v1/collections/news/documents", &documents).await.status, 200);
    drop(made);
    server(&folder, 32).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_mismatch_error_points_to_reembedding_which_resolves_it() {
    let server = with_another_model().await;
    let search = json!({"query": "Pociąg spóźnia się"});
    let words = [PATH, "fake-64", "fake-32"];
    server.post("/v1/collections/news/search", &search).await.assert_error(409, "model_mismatch", "", &words);
    let write = json!({"documents": [{"id": "fr", "text": "Le train a dix minutes de retard."}]});
    server.post("/v1/collections/news/documents", &write).await.assert_error(409, "model_mismatch", "", &words);

    let before = server.get("/v1/collections/news/documents/pl").await;
    let accepted = server.post(PATH, &json!({})).await;
    assert_eq!((accepted.status, &accepted.body["type"]), (202, &json!("reembed")), "{accepted:?}");
    let job = server.finished(&accepted).await;
    assert_eq!(job["status"], "succeeded", "{job}");
    let progress = &job["progress"];
    assert_eq!((&progress["done"], &progress["total"], &progress["unit"]), (&json!(2), &json!(2), &json!("documents")));
    assert_eq!((&job["details"]["passages"], &job["details"]["not_embedded"]), (&json!(2), &json!(0)));

    let collection = server.get("/v1/collections/news").await.body;
    assert_eq!((&collection["dimension"], &collection["model_fingerprint"]), (&json!(32), &json!("fake-32")));
    let after = server.get("/v1/collections/news/documents/pl").await;
    assert_eq!((&after.body, after.header("etag")), (&before.body, before.header("etag")));
    let found = server.post("/v1/collections/news/search", &search).await;
    assert_eq!(found.body["hits"][0]["id"], "pl", "{found:?}");
    assert_eq!(server.post("/v1/collections/news/documents", &write).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_or_unnecessary_reembed_requests_are_refused() {
    let server = with_another_model().await;
    server.post(PATH, &json!({"model": "other"})).await.assert_error(422, "invalid_request", "/model", &[]);
    let long = json!({"passage_bounds": {"tokens_max": 1_000_000}});
    server.post(PATH, &long).await.assert_error(422, "invalid_request", "/passage_bounds/tokens_max", &["128"]);
    server.post("/v1/collections/absent/reembed", &json!({})).await.assert_error(404, "collection_not_found", "", &[]);
    server.create(json!({"name": "points", "dimension": 3})).await;
    server.post("/v1/collections/points/reembed", &json!({})).await.assert_error(422, "no_model", "", &["points", "3 values"]);

    let control = server.control.clone();
    control.pause();
    let accepted = server.post(PATH, &example("reembed_collection.request")).await;
    let id = accepted.body["id"].as_str().expect("an id").to_owned();
    server.post(PATH, &json!({})).await.assert_error(409, "job_running", "", &["news", &id]);
    control.resume();
    assert_eq!(server.finished(&accepted).await["status"], "succeeded");
    let bounds = &server.get("/v1/collections/news").await.body["passage_bounds"];
    assert_eq!(*bounds, json!({"tokens_max": 96, "overlap_tokens": 16}));
    server.post(PATH, &json!({})).await.assert_error(409, "model_current", "", &["news", "fake"]);
}
