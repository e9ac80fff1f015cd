//! Labels that classifiers read from documents and write into them.

use serde_json::json;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn an_array_of_labels_counts_as_one_metadata_level() {
    let server = Server::with_documents(json!([{"id": "a", "text": "rain storm"}])).await;
    let examples = json!([{"text": "rain storm", "labels": ["weather", "north"]}, {"text": "goal keeper", "labels": ["sports"]}]);
    let knn = json!({"neighbors": 1});
    server.classifier(&json!({"name": "many", "kind": "knn", "multi_label": true, "examples": examples, "knn": knn})).await;
    let apply = |keys: usize| json!({"collection": "news", "field": vec!["a"; keys].join(".")});
    let path = "/v1/classifiers/many/apply";
    server.post(path, &apply(8)).await.assert_error(422, "invalid_request", "/field", &["at most 8 levels", "got 9"]);
    let job = server.finished(&server.post(path, &apply(7)).await).await;
    assert_eq!((&job["details"]["labeled"], &job["details"]["failed"]), (&json!(1), &json!(0)), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_apply_job_writes_labels_into_documents() {
    let server = Server::with_documents(documents()).await;
    let unlabeled = json!({"documents": [
        {"id": "u0", "text": "rain storm", "metadata": {"predicted": {"topic": "old"}, "year": 2026}},
        {"id": "u1", "text": "goal keeper"},
        {"id": "u2", "text": "entirely unrelated", "metadata": {"predicted": {"topic": "sports"}}},
    ]});
    server.post("/v1/collections/news/documents", &unlabeled).await;
    let source = json!({"collection": "news", "field": "topic"});
    let knn = json!({"neighbors": 1, "weight": "equal", "score_min": 0.9});
    server.classifier(&json!({"name": "topics", "kind": "knn", "source": source, "knn": knn})).await;
    let body = json!({
        "collection": "news", "field": "predicted.topic", "probability_field": "predicted.probability",
        "filter": {"field": "topic", "exists": false},
    });
    let accepted = server.post("/v1/classifiers/topics/apply", &body).await;
    let job = server.finished(&accepted).await;
    assert_eq!(
        (&job["status"], &job["type"], &job["progress"]["unit"]),
        (&json!("succeeded"), &json!("classify"), &json!("documents"))
    );
    let counts = json!({"classifier": "topics", "documents": 3, "labeled": 2, "abstained": 1, "changed": 0, "failed": 0});
    assert_eq!(job["details"], counts);
    let metadata = async |id: &str| server.get(&format!("/v1/collections/news/documents/{id}")).await.body["metadata"].clone();
    assert_eq!(metadata("u0").await, json!({"predicted": {"topic": "weather", "probability": 1.0}, "year": 2026}));
    assert_eq!(metadata("u1").await["predicted"]["topic"], "sports");
    assert_eq!(metadata("u2").await, json!({"predicted": {}}), "an abstention removes the previous label");
    assert_eq!(metadata("w0").await, json!({"topic": "weather"}), "the filter leaves it out");
    let found = json!({"query": "goal", "filter": {"field": "predicted.topic", "eq": "sports"}});
    assert_eq!(server.post("/v1/collections/news/search", &found).await.body["hits"].as_array().map(Vec::len), Some(1));

    let path = "/v1/classifiers/topics/apply";
    for field in ["topic", "topic.inner"] {
        let own = json!({"collection": "news", "field": field});
        server.post(path, &own).await.assert_error(422, "invalid_request", "", &["learns from", field]);
    }
    let nested = |keys: usize| vec!["a"; keys].join(".");
    let beyond = [(nested(9), "at most 8 levels"), (nested(100_000), "at most 32 keys"), ("a\0b".to_owned(), "U+0000")];
    for (field, words) in beyond {
        let body = json!({"collection": "news", "field": "b", "probability_field": field});
        server.post(path, &body).await.assert_error(422, "invalid_request", "/probability_field", &[words]);
        let body = json!({"collection": "news", "field": field});
        server.post(path, &body).await.assert_error(422, "invalid_request", "/field", &[words]);
    }
    let same = json!({"collection": "news", "field": "a", "probability_field": "a.b"});
    server.post(path, &same).await.assert_error(422, "invalid_request", "/probability_field", &["must not overlap with field"]);
    server.post(path, &json!({"collection": "news", "field": "id"})).await.assert_error(
        422,
        "invalid_request",
        "/field",
        &["metadata"],
    );
    server.post(path, &json!({"collection": "blog", "field": "a"})).await.assert_error(
        404,
        "collection_not_found",
        "",
        &["blog"],
    );
    let filter = json!({"collection": "news", "field": "a", "filter": {"field": "x"}});
    server.post(path, &filter).await.assert_error(422, "invalid_filter", "/filter", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_with_a_conflicting_value_on_the_label_path_stay_unchanged() {
    let kept = [json!({"a": 5}), json!({"a": ["x"]}), json!({"a": "x", "year": 2026})];
    let document = |(n, metadata): (usize, &Value)| json!({"id": format!("d{n}"), "text": "rain storm", "metadata": metadata});
    let mut documents: Vec<Value> = kept.iter().enumerate().map(document).collect();
    documents.push(json!({"id": "d3", "text": "rain storm", "metadata": {"a": {"c": 1}}}));
    let server = Server::with_documents(documents.into()).await;
    server.classifier(&json!({"name": "topics", "kind": "knn", "examples": weather_and_sports()})).await;
    let body = json!({"collection": "news", "field": "a.b", "probability_field": "probability"});
    let job = server.finished(&server.post("/v1/classifiers/topics/apply", &body).await).await;
    let counts = json!({"classifier": "topics", "documents": 4, "labeled": 1, "abstained": 0, "changed": 0, "failed": 3});
    assert_eq!((&job["status"], &job["details"]), (&json!("succeeded"), &counts));
    let metadata = async |id: &str| server.get(&format!("/v1/collections/news/documents/{id}")).await.body["metadata"].clone();
    for (n, kept) in kept.iter().enumerate() {
        assert_eq!(&metadata(&format!("d{n}")).await, kept);
    }
    assert_eq!(metadata("d3").await["a"], json!({"c": 1, "b": "weather"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn integer_and_float_of_equal_value_are_one_label() {
    let document = |(id, text, label): (&str, &str, Value)| json!({"id": id, "text": text, "metadata": {"stars": label}});
    let documents = [("a", "rain storm", json!(1)), ("b", "rain cloud", json!(1.0)), ("c", "goal keeper", json!(2.0))];
    let server = Server::with_documents(documents.into_iter().map(document).collect::<Vec<_>>().into()).await;
    let source = json!({"collection": "news", "field": "stars"});
    let made = server.classifier(&json!({"name": "stars", "kind": "knn", "source": source})).await;
    assert_eq!(made["training"]["labels"], json!([{"label": "1", "examples": 2}, {"label": "2", "examples": 1}]));
}
