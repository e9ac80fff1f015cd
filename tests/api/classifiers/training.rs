//! How training treats labels: rare ones, many of them, and spellings that look alike.

use serde_json::json;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_knn_predicts_labels_with_one_example_beside_a_frequent_label() {
    let server = Server::start();
    let frequent = (0..40).map(|number| json!({"text": format!("rain storm {number}"), "labels": ["weather"]}));
    let rare = ["goal keeper", "stocks fall", "court ruling", "comet tail", "violin sonata"];
    let alone = rare.iter().map(|text| json!({"text": text, "labels": [text]}));
    let examples: Vec<Value> = frequent.chain(alone).collect();
    let made = server.classifier(&json!({"name": "topics", "kind": "knn", "examples": examples})).await;
    assert_eq!(made["training"].get("temperature"), None, "one label alone has several examples: nothing to fit");
    let predicted = server.labels("topics", json!({"texts": rare})).await;
    assert_eq!(predicted, rare.map(|label| [label]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mlp_has_as_many_hidden_values_as_labels_unless_their_number_is_given() {
    let server = Server::start();
    let examples: Vec<Value> = (0..12).flat_map(|number| labeled(&format!("label {number}"), &["rain storm", "goal"])).collect();
    let mut body = json!({"name": "own", "kind": "mlp", "examples": examples, "mlp": {"runs": 1, "epochs_max": 1}});
    assert_eq!(server.classifier(&body).await["mlp"]["hidden"], 12);
    (body["name"], body["mlp"]["hidden"]) = (json!("given"), json!(3));
    assert_eq!(server.classifier(&body).await["mlp"]["hidden"], 3);
    (body["name"], body["mlp"]["hidden"]) = (json!("null"), json!(null));
    server.post("/v1/classifiers", &body).await.assert_error(422, "invalid_request", "/mlp/hidden", &["null"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn labels_are_one_label_if_they_differ_only_in_white_space_at_the_ends_or_in_composition() {
    let (composed, apart) = ("caf\u{e9}", " cafe\u{301}\n");
    let document = |(id, text, label): (&str, &str, &str)| json!({"id": id, "text": text, "metadata": {"topic": label}});
    let documents = [("a", "rain storm", composed), ("b", "rain cloud", apart), ("c", "goal keeper", "sports ")].map(document);
    let server = Server::with_documents(json!(documents)).await;
    let labels = json!([{"label": composed, "examples": 2}, {"label": "sports", "examples": 1}]);
    let source = json!({"collection": "news", "field": "topic"});
    let made = server.classifier(&json!({"name": "documents", "kind": "knn", "source": source})).await;
    assert_eq!(made["training"]["labels"], labels);
    let examples =
        json!([labeled(composed, &["rain storm"]), labeled(apart, &["rain cloud"]), labeled("sports ", &["goal"])].concat());
    let made = server.classifier(&json!({"name": "texts", "kind": "knn", "examples": examples})).await;
    assert_eq!(made["training"]["labels"], labels);
    let twice = json!({"name": "x", "kind": "prototype", "labels": [{"name": composed}, {"name": apart}]});
    server.post("/v1/classifiers", &twice).await.assert_error(422, "invalid_request", "/labels/1/name", &["repeats the label"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_refuses_a_value_that_is_not_a_label() {
    let server = Server::with_documents(documents()).await;
    server.classifier(&json!({"name": "topics", "kind": "knn", "examples": weather_and_sports()})).await;
    let list = json!({"documents": [{"id": "w9", "text": "x", "metadata": {"topic": ["a", "b"]}}]});
    server.post("/v1/collections/news/documents", &list).await;
    let asked = json!({"documents": {"collection": "news", "field": "topic"}});
    let refused = server.post("/v1/classifiers/topics/evaluate", &asked).await;
    refused.assert_error(422, "invalid_request", "", &["document w9", "topic is an array"]);
}
