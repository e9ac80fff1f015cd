//! `/v1/classifiers/{classifier}/evaluations` and `/v1/jobs/{job}/evaluation`.

use serde_json::json;

use super::{documents, text, weather_and_sports};
use crate::server::Server;

const PATH: &str = "/v1/classifiers/topics/evaluations";

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_job_gives_the_same_result_as_a_request() {
    let server = Server::with_documents(documents()).await;
    server.classifier(&json!({"name": "topics", "kind": "knn", "examples": weather_and_sports()})).await;
    let body = json!({"documents": {"collection": "news", "field": "topic"}, "threshold": 0.1});
    let accepted = server.post(PATH, &body).await;
    let job = server.finished(&accepted).await;
    assert_eq!((&job["status"], &job["type"], &job["progress"]["done"]), (&json!("succeeded"), &json!("evaluate"), &json!(8)));
    assert_eq!((&job["details"]["classifier"], &job["details"]["version"]), (&json!("topics"), &json!(1)));
    assert_eq!((&job["details"]["examples"], &job["details"]["accuracy"]), (&json!(8), &json!(1.0)));
    let found = server.get(&format!("/v1/jobs/{}/evaluation", text(&job["id"]))).await;
    let at_once = server.post("/v1/classifiers/topics/evaluate", &body).await;
    let (found, at_once) = ((found.status, &found.body), (at_once.status, &at_once.body));
    for member in ["all", "majority", "labels", "confusion", "languages", "transfer"] {
        assert_eq!((found.0, &found.1[member]), (at_once.0, &at_once.1[member]), "{member}");
    }
    // A number read back from a file may differ in its last digit.
    let error = |body: &serde_json::Value| body["calibration"]["expected_error"].as_f64().expect("a number");
    assert!((error(found.1) - error(at_once.1)).abs() < 1e-9, "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_evaluation_requests_are_refused() {
    let server = Server::with_documents(documents()).await;
    server.classifier(&json!({"name": "topics", "kind": "knn", "examples": weather_and_sports()})).await;
    let documents = json!({"collection": "news", "field": "topic"});
    let with = |member: &str, value: serde_json::Value| {
        let mut documents = documents.clone();
        documents[member] = value;
        json!({"documents": documents})
    };
    let none = server.post(PATH, &with("field", json!("mood"))).await;
    none.assert_error(422, "invalid_request", "", &["no labeled example"]);
    server.post(PATH, &with("collection", json!("blog"))).await.assert_error(404, "collection_not_found", "", &["blog"]);
    let filter = server.post(PATH, &with("filter", json!({"field": "x"}))).await;
    filter.assert_error(422, "invalid_filter", "/documents/filter", &[]);
    server.post(PATH, &with("field", json!("id"))).await.assert_error(422, "invalid_request", "/documents/field", &["metadata"]);
    let examples = json!({"documents": documents, "examples": []});
    server.post(PATH, &examples).await.assert_error(422, "invalid_request", "/examples", &["unknown field"]);
    let threshold = json!({"documents": documents, "threshold": 2});
    server.post(PATH, &threshold).await.assert_error(422, "invalid_request", "/threshold", &["0 to 1"]);
    let absent = server.post("/v1/classifiers/absent/evaluations", &json!({"documents": documents})).await;
    absent.assert_error(404, "classifier_not_found", "", &["absent"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_label_unknown_to_the_classifier_fails_the_evaluation_job() {
    let server = Server::with_documents(documents()).await;
    server.classifier(&json!({"name": "topics", "kind": "knn", "examples": weather_and_sports()})).await;
    let strange = json!({"documents": [{"id": "e0", "text": "stocks fall", "metadata": {"topic": "economy"}}]});
    server.post("/v1/collections/news/documents", &strange).await;
    let accepted = server.post(PATH, &json!({"documents": {"collection": "news", "field": "topic"}})).await;
    let job = server.finished(&accepted).await;
    assert_eq!((&job["status"], &job["error"]["code"]), (&json!("failed"), &json!("unknown_label")));
    assert!(text(&job["error"]["detail"]).contains("document e0"), "{job}");
    let result = server.get(&format!("/v1/jobs/{}/evaluation", text(&job["id"]))).await;
    result.assert_error(409, "no_results", "", &["failed"]);
    let other = "0198c0de-0000-7000-8000-00000000000f";
    server.get(&format!("/v1/jobs/{other}/evaluation")).await.assert_error(404, "job_not_found", "", &[other]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_another_type_has_no_evaluation() {
    let server = Server::start();
    let made = server.classifier(&json!({"name": "topics", "kind": "knn", "examples": weather_and_sports()})).await;
    let result = server.get(&format!("/v1/jobs/{}/evaluation", text(&made["job"]))).await;
    result.assert_error(409, "no_results", "", &["train", "expected evaluate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_key_cannot_evaluate_or_train_in_other_collections() {
    let admin = Server::with_admin_key();
    for collection in ["news", "blog"] {
        admin.post("/v1/collections", &json!({"name": collection})).await;
        admin.post(&format!("/v1/collections/{collection}/documents"), &json!({"documents": documents()})).await;
        let source = json!({"collection": collection, "field": "topic"});
        admin.classifier(&json!({"name": collection, "kind": "knn", "source": source})).await;
    }
    let key = admin.post("/v1/keys", &json!({"name": "news", "scope": "write", "collections": ["news"]})).await.body;
    let restricted = admin.with_key(text(&key["secret"]));
    let of = |collection: &str| json!({"documents": {"collection": collection, "field": "topic"}});
    let job = restricted.finished(&restricted.post("/v1/classifiers/news/evaluations", &of("news")).await).await;
    assert_eq!(restricted.get(&format!("/v1/jobs/{}/evaluation", text(&job["id"]))).await.status, 200);
    let others = admin.finished(&admin.post("/v1/classifiers/blog/evaluations", &of("blog")).await).await;
    let hidden = [
        restricted.post("/v1/classifiers/blog/evaluations", &of("news")).await,
        restricted.post("/v1/classifiers/blog/train", &json!(null)).await,
    ];
    for response in hidden {
        response.assert_error(404, "classifier_not_found", "", &["there is no classifier blog"]);
    }
    let refused = [
        restricted.post("/v1/classifiers/news/evaluations", &of("blog")).await,
        restricted.get(&format!("/v1/jobs/{}/evaluation", text(&others["id"]))).await,
    ];
    for response in refused {
        response.assert_error(403, "forbidden", "", &["restricted"]);
    }
}
