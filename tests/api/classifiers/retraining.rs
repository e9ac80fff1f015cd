//! `/v1/classifiers/{classifier}/train`, and idempotent creation.

use axum::http::Method;
use serde_json::json;

use super::{documents, text, weather_and_sports};
use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn retraining_replaces_a_classifier_in_place() {
    let server = Server::with_documents(documents()).await;
    let source = json!({"collection": "news", "field": "topic"});
    let mlp = json!({"learning_rate": 0.05, "epochs_max": 60, "runs": 1, "validation_share": 0.0, "dropout": 0.0});
    let made = server.classifier(&json!({"name": "topics", "kind": "mlp", "source": source, "mlp": mlp})).await;
    assert_eq!((&made["version"], made.get("next_job")), (&json!(1), None));
    let stocks = |n: usize| json!({"id": format!("e{n}"), "text": format!("stocks fall {n}"), "metadata": {"topic": "economy"}});
    let new = json!({"documents": (0..6).map(stocks).collect::<Vec<_>>()});
    assert_eq!(server.post("/v1/collections/news/documents", &new).await.status, 200);
    let accepted = server.send_with(Method::POST, "/v1/classifiers/topics/train", ("accept", "*/*"), &json!(null)).await;
    let job = server.finished(&accepted).await;
    assert_eq!(
        (&job["status"], &job["type"], &job["details"]["classifier"]),
        (&json!("succeeded"), &json!("train"), &json!("topics"))
    );
    let now = server.get("/v1/classifiers/topics").await.body;
    assert_eq!((&now["state"], &now["version"], &now["job"]), (&json!("ready"), &json!(2), &job["id"]));
    assert_eq!((&now["name"], &now["created_at"]), (&made["name"], &made["created_at"]));
    assert_eq!(now["training"]["labels"].as_array().map(Vec::len), Some(3));
    assert_eq!(server.labels("topics", json!({"texts": ["stocks fall today"]})).await, [["economy"]]);
    let absent = server.post("/v1/classifiers/absent/train", &json!(null)).await;
    absent.assert_error(404, "classifier_not_found", "", &["absent"]);
    server.delete("/v1/collections/news").await;
    let gone = server.post("/v1/classifiers/topics/train", &json!(null)).await;
    gone.assert_error(404, "collection_not_found", "", &["news"]);
    assert_eq!(server.labels("topics", json!({"texts": ["stocks fall today"]})).await, [["economy"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_examples_vote_if_there_are_fewer_than_k() {
    let server = Server::start();
    let knn = json!({"neighbors": 1000, "weight": "equal"});
    server.classifier(&json!({"name": "topics", "kind": "knn", "examples": weather_and_sports(), "knn": knn})).await;
    let prediction = server.predict("topics", json!({"texts": ["rain"], "explain": 100})).await.body;
    let prediction = &prediction["predictions"][0];
    assert_eq!(prediction["neighbors"].as_array().map(Vec::len), Some(8));
    assert_eq!((&prediction["scores"][0]["probability"], &prediction["scores"][1]["probability"]), (&json!(0.5), &json!(0.5)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotency_key_creates_a_classifier_only_once() {
    let server = Server::start();
    let body = |name: &str| json!({"name": name, "kind": "knn", "examples": weather_and_sports()});
    let keyed = async |key: &str, name: &str| {
        server.send_with(Method::POST, "/v1/classifiers", ("idempotency-key", key), &body(name)).await
    };
    let first = keyed("k", "topics").await;
    server.job(text(&first.body["job"])).await;
    let again = keyed("k", "topics").await;
    assert_eq!((first.status, again.status), (201, 201));
    assert_eq!((again.header("location"), &again.body["job"]), (first.header("location"), &first.body["job"]));
    assert_eq!(again.body["state"], "ready");
    keyed("k", "moods").await.assert_error(409, "idempotency_conflict", "", &["\"k\""]);
    keyed("other", "topics").await.assert_error(409, "classifier_exists", "", &["topics"]);
    assert_eq!(server.delete("/v1/classifiers/topics").await.status, 204);
    keyed("k", "topics").await.assert_error(409, "idempotency_conflict", "", &["has been deleted"]);
    let together = futures::future::join_all((0..4).map(|_| keyed("j", "moods"))).await;
    assert!(together.iter().all(|one| one.status == 201 && one.body["job"] == together[0].body["job"]), "{together:?}");
}
