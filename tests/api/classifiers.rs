//! `/v1/classifiers`.

mod evaluations;
mod labels;
mod retraining;
mod training;

use dragoman::domain::Limits;
use serde_json::{Value, json};

use crate::example;
use crate::merged;
use crate::server::{Response, Server};

const RAIN: [&str; 4] = ["rain storm", "rain cloud", "rain flood", "rain wind"];
const GOAL: [&str; 4] = ["goal keeper", "goal match", "goal team", "goal striker"];

fn labeled(label: &str, texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| json!({"text": text, "labels": [label]})).collect()
}

fn weather_and_sports() -> Value {
    json!([labeled("weather", &RAIN), labeled("sports", &GOAL)].concat())
}

/// Documents with their topic in the metadata, ids `w0`… and `s0`….
fn documents() -> Value {
    let of = |prefix: &str, topic: &str, texts: &[&str]| {
        let one = |(place, text): (usize, &&str)| json!({"id": format!("{prefix}{place}"), "text": text, "language": "en", "metadata": {"topic": topic}});
        texts.iter().enumerate().map(one).collect::<Vec<_>>()
    };
    json!([of("w", "weather", &RAIN), of("s", "sports", &GOAL)].concat())
}

impl Server {
    /// Creates a classifier and waits until it is trained.
    async fn classifier(&self, body: &Value) -> Value {
        let made = self.post("/v1/classifiers", body).await;
        assert_eq!(made.status, 201, "{}", made.text);
        assert_eq!(made.header("location"), Some(format!("/v1/classifiers/{}", text(&made.body["name"])).as_str()));
        let job = self.job(text(&made.body["job"])).await;
        assert_eq!(job["status"], "succeeded", "{job}");
        self.get(&format!("/v1/classifiers/{}", text(&body["name"]))).await.body
    }

    async fn job(&self, id: &str) -> Value {
        for _ in 0..10_000 {
            let job = self.get(&format!("/v1/jobs/{id}")).await.body;
            if !["queued", "running"].contains(&text(&job["status"])) {
                return job;
            }
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        }
        panic!("job {id} does not end");
    }

    async fn predict(&self, name: &str, body: Value) -> Response {
        self.post(&format!("/v1/classifiers/{name}/predict"), &body).await
    }

    async fn labels(&self, name: &str, body: Value) -> Vec<Vec<String>> {
        let response = self.predict(name, body).await;
        assert_eq!(response.status, 200, "{}", response.text);
        let of = |one: &Value| one["labels"].as_array().expect("labels").iter().map(|label| text(label).to_owned()).collect();
        response.body["predictions"].as_array().expect("predictions").iter().map(of).collect()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mlp_classifier_trains_on_the_examples_of_the_request() {
    let server = Server::start();
    // Few examples and a fast network: this tests the path, not the quality.
    let mlp = json!({"learning_rate": 0.02, "epochs_max": 60, "runs": 2, "validation_share": 0.25, "dropout": 0.0});
    let body = json!({"name": "topics", "kind": "mlp", "examples": weather_and_sports(), "mlp": mlp});
    let made = server.classifier(&body).await;
    assert_eq!((&made["state"], &made["kind"], &made["mlp"]["runs"]), (&json!("ready"), &json!("mlp"), &json!(2)));
    let training = &made["training"];
    assert_eq!((&training["examples"], &training["validation_examples"]), (&json!(8), &json!(2)));
    assert_eq!(training["labels"], json!([{"label": "sports", "examples": 4}, {"label": "weather", "examples": 4}]));
    assert_eq!(training["run_qualities"].as_array().map(Vec::len), Some(2));
    let asked = json!({"texts": ["rain noon", "goal winner"]});
    assert_eq!(server.labels("topics", asked.clone()).await, [["weather"], ["sports"]]);
    let response = server.predict("topics", asked).await.body;
    for prediction in response["predictions"].as_array().expect("predictions") {
        let sum: f64 =
            prediction["scores"].as_array().expect("scores").iter().filter_map(|one| one["probability"].as_f64()).sum();
        assert!((sum - 1.0).abs() < 1e-5, "{prediction}");
    }
    let listed = server.get("/v1/classifiers").await.body;
    assert_eq!(listed["classifiers"], json!([made]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_knn_classifier_uses_new_labels_immediately() {
    let server = Server::with_documents(documents()).await;
    let source = json!({"collection": "news", "field": "topic"});
    let made = server.classifier(&json!({"name": "topics", "kind": "knn", "source": source, "knn": {"neighbors": 3}})).await;
    assert_eq!((&made["source"], &made["training"]["trained_in"]), (&source, &json!("en")));
    assert_eq!((&made["training"]["examples"], &made["training"]["validation_examples"]), (&json!(8), &json!(8)));
    assert_eq!(server.labels("topics", json!({"texts": ["rain noon", "goal again"]})).await, [["weather"], ["sports"]]);
    let new = json!({"documents": [
        {"id": "e0", "text": "stocks fall", "metadata": {"topic": "economy"}},
        {"id": "e1", "text": "stocks fall again", "metadata": {"topic": "economy"}},
    ]});
    assert_eq!(server.post("/v1/collections/news/documents", &new).await.status, 200);
    assert_eq!(server.labels("topics", json!({"texts": ["stocks fall today"]})).await, [["economy"]]);
    let explained = server.predict("topics", json!({"texts": ["rain wind"], "explain": 2})).await.body;
    let neighbor = &explained["predictions"][0]["neighbors"][0];
    assert_eq!((&neighbor["id"], &neighbor["labels"], &neighbor["language"]), (&json!("w3"), &json!(["weather"]), &json!("en")));
    assert!(neighbor["score"].as_f64().expect("a score") > 0.99, "{neighbor}");
    // For the document itself, its own label does not count.
    let own = json!({"documents": {"collection": "news", "ids": ["w3"]}, "explain": 3});
    let own = server.predict("topics", own).await.body;
    assert_eq!((&own["predictions"][0]["id"], &own["predictions"][0]["labels"]), (&json!("w3"), &json!(["weather"])));
    assert!(own["predictions"][0]["neighbors"].as_array().expect("neighbors").iter().all(|one| one["id"] != "w3"));
    assert_eq!(own["predictions"][0]["neighbors"].as_array().map(Vec::len), Some(3));
    // A document of another collection is another one, even with the same id.
    server.create(json!({"name": "other"})).await;
    let same = json!({"documents": [{"id": "w3", "text": "rain wind", "language": "en"}, {"id": "e0", "text": "goal", "language": "en"}]});
    assert_eq!(server.post("/v1/collections/other/documents", &same).await.status, 200);
    let others = json!({"documents": {"collection": "other", "ids": ["w3"]}, "explain": 1});
    let others = server.predict("topics", others).await.body;
    assert_eq!(others["predictions"][0]["neighbors"][0]["id"], "w3", "{others}");
    // A deleted document no longer votes.
    for id in ["e0", "e1"] {
        server.delete(&format!("/v1/collections/news/documents/{id}")).await;
    }
    let scores = server.predict("topics", json!({"texts": ["stocks fall today"]})).await.body["predictions"][0]["scores"].clone();
    assert!(scores.as_array().expect("scores").iter().all(|one| one["label"] != "economy"), "{scores}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_knn_prediction_is_explained_by_the_neighbors_that_voted() {
    let server = Server::with_documents(documents()).await;
    let source = json!({"collection": "news", "field": "topic"});
    for (name, from) in [("documents", json!({"source": source})), ("texts", json!({"examples": weather_and_sports()}))] {
        let body =
            merged(json!({"name": name, "kind": "knn", "knn": {"neighbors": 4, "weight": "equal", "score_min": 0.52}}), &from);
        server.classifier(&body).await;
        let texts = json!(["rain storm", "rain wind goal match", "entirely unrelated"]);
        let predictions = server.predict(name, json!({"texts": texts, "explain": 100})).await.body["predictions"].clone();
        // Two are near enough to the first text. Five are to the second one, but only four may vote.
        for (prediction, count) in predictions.as_array().expect("predictions").iter().zip([2, 4]) {
            let neighbors = prediction["neighbors"].as_array().expect("neighbors");
            assert_eq!(neighbors.len(), count, "{name}: {prediction}");
            assert!(
                neighbors.is_sorted_by(|nearer, farther| nearer["score"].as_f64() >= farther["score"].as_f64()),
                "{prediction}"
            );
            let of_weather = neighbors.iter().filter(|near| near["labels"] == json!(["weather"])).count() as f64;
            let weather = prediction["scores"].as_array().expect("scores").iter().find(|score| score["label"] == "weather");
            let share = weather.and_then(|score| score["probability"].as_f64()).unwrap_or(0.0);
            assert!((share - of_weather / count as f64).abs() < 1e-6, "{name}: {prediction}");
        }
        assert_eq!(
            (&predictions[2]["abstained"], predictions[2].get("neighbors")),
            (&json!(true), None),
            "{name}: {predictions}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_mlp_prediction_is_explained_by_the_nearest_labeled_texts() {
    let server = Server::start();
    let mlp = json!({"runs": 1, "epochs_max": 5});
    server.classifier(&json!({"name": "topics", "kind": "mlp", "examples": weather_and_sports(), "mlp": mlp})).await;
    let response = server.predict("topics", json!({"texts": ["entirely unrelated"], "explain": 6})).await.body;
    assert_eq!(response["predictions"][0]["neighbors"].as_array().map(Vec::len), Some(6), "{response}");
}

#[tokio::test(flavor = "multi_thread")]
async fn prototype_classifiers_work_with_and_without_examples() {
    let server = Server::start();
    let labels = json!([{"name": "weather", "descriptions": ["rain", "rain wind"]}, {"name": "goal"}]);
    let made = server.classifier(&json!({"name": "topics", "kind": "prototype", "labels": labels})).await;
    assert_eq!((&made["training"]["examples"], &made["training"]["temperature"].is_number()), (&json!(0), &true));
    assert_eq!(server.labels("topics", json!({"texts": ["rain noon", "goal late"]})).await, [["weather"], ["goal"]]);
    let examples =
        json!([labeled("weather", &RAIN), labeled("goal", &GOAL), labeled("goal", &["rain stops the final"])].concat());
    let body = json!({"name": "calibrated", "kind": "prototype", "labels": labels, "examples": examples});
    let made = server.classifier(&body).await;
    assert_eq!((&made["training"]["validation_examples"], &made["training"]["examples"]), (&json!(9), &json!(9)));
    let explained = server.predict("calibrated", json!({"texts": ["rain wind"], "explain": 1})).await.body;
    assert_eq!(explained["predictions"][0]["neighbors"][0]["text"], "rain wind");
    let strange = json!([{"text": "x", "labels": ["economy"]}]);
    let body = json!({"name": "other", "kind": "prototype", "labels": labels, "examples": strange});
    server.post("/v1/classifiers", &body).await.assert_error(422, "unknown_label", "", &["economy", "other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multi_label_classifier_predicts_each_label_independently() {
    let server = Server::start();
    let both = json!({"text": "rain delays goal", "labels": ["weather", "sports", "weather"]});
    let none = json!({"text": "stocks fall", "labels": []});
    let examples = json!([labeled("weather", &RAIN), labeled("sports", &GOAL), vec![both, none]].concat());
    let knn = json!({"neighbors": 1});
    let body = json!({"name": "topics", "kind": "knn", "multi_label": true, "examples": examples, "knn": knn});
    server.classifier(&body).await;
    let asked = json!({"texts": ["rain delays goal", "stocks fall", "rain wind"]});
    let expect = json!([["sports", "weather"], [], ["weather"]]);
    assert_eq!(json!(server.labels("topics", asked).await), expect);
    let response = server.predict("topics", json!({"texts": ["stocks fall"]})).await.body;
    assert_eq!(
        (&response["abstained"], &response["predictions"][0]["abstained"]),
        (&json!(0), &json!(false)),
        "an empty label set is a prediction, not an abstention"
    );
    let mlp = json!({"learning_rate": 0.05, "epochs_max": 80, "runs": 1, "validation_share": 0.0, "dropout": 0.0});
    let body = json!({"name": "network", "kind": "mlp", "multi_label": true, "examples": body["examples"], "mlp": mlp});
    server.classifier(&body).await;
    let asked = json!({"texts": ["rain delays goal", "stocks fall", "rain wind"]});
    assert_eq!(json!(server.labels("network", asked.clone()).await), expect);
    let known = json!([{"text": "rain wind", "labels": ["weather"]}, {"text": "stocks fall", "labels": ["sports"]}]);
    let judged = server.post("/v1/classifiers/network/evaluate", &json!({"examples": known})).await.body;
    assert_eq!((&judged["all"]["accuracy"], &judged["all"]["micro_precision"]), (&json!(0.5), &json!(1.0)), "{judged}");
    assert_eq!(judged.get("confusion"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_classifier_abstains_below_the_threshold() {
    let server = Server::start();
    let knn = json!({"neighbors": 2, "weight": "equal", "score_min": 0.5});
    let body = json!({"name": "topics", "kind": "knn", "threshold": 0.9, "examples": weather_and_sports(), "knn": knn});
    let made = server.classifier(&body).await;
    assert_eq!(made["threshold"], 0.9_f32);
    let mixed = json!({"texts": ["rain storm goal keeper"], "threshold": 0.0});
    assert_eq!(server.labels("topics", mixed).await[0].len(), 1);
    let response = server.predict("topics", json!({"texts": ["rain storm goal keeper", "entirely unrelated"]})).await.body;
    assert_eq!((&response["abstained"], &response["predictions"][0]["labels"]), (&json!(2), &json!([])), "{response}");
    assert_eq!(response["predictions"][1]["scores"], json!([]), "nobody votes");
    for bad in [json!(-0.1), json!(1.5)] {
        let body = json!({"texts": ["x"], "threshold": bad});
        server.predict("topics", body).await.assert_error(422, "invalid_request", "/threshold", &["0 to 1"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_reports_labels_languages_and_the_transfer_gap() {
    let server = Server::with_documents(documents()).await;
    let source = json!({"collection": "news", "field": "topic"});
    server.classifier(&json!({"name": "topics", "kind": "knn", "source": source, "knn": {"neighbors": 3}})).await;
    let one = |text: &str, label: &str, language: &str| json!({"text": text, "labels": [label], "language": language});
    let examples = json!([
        one("rain noon", "weather", "en"),
        one("goal again", "sports", "en"),
        one("rain pluie", "weather", "fr"),
        one("rain rain", "sports", "fr"),
    ]);
    let judged = server.post("/v1/classifiers/topics/evaluate", &json!({"examples": examples})).await;
    assert_eq!(judged.status, 200, "{}", judged.text);
    let judged = judged.body;
    assert_eq!((&judged["all"]["examples"], &judged["all"]["accuracy"]), (&json!(4), &json!(0.75)));
    assert_eq!((&judged["majority"]["accuracy"], &judged["languages"].as_array().map(Vec::len)), (&json!(0.5), &Some(2)));
    let cell = json!({"expected": "sports", "answered": "weather", "count": 1});
    assert!(judged["confusion"].as_array().expect("cells").contains(&cell), "{judged}");
    let transfer = json!({"from": "en", "own": 1.0, "mean": 0.5, "gap": 0.5, "gaps": [{"language": "fr", "gap": 0.5}]});
    assert_eq!(judged["transfer"], transfer);
    let bins = judged["calibration"]["bins"].as_array().expect("bins");
    assert_eq!(bins.iter().filter_map(|bin| bin["examples"].as_u64()).sum::<u64>(), 4);
    // Its own documents, each evaluated without itself.
    let documents = json!({"documents": {"collection": "news", "field": "topic", "filter": {"field": "topic", "eq": "weather"}}});
    let own = server.post("/v1/classifiers/topics/evaluate", &documents).await.body;
    assert_eq!((&own["all"]["examples"], &own["labels"][0]["support"]), (&json!(4), &json!(4)), "{own}");
    let nothing = json!({"documents": {"collection": "news", "field": "mood"}});
    server.post("/v1/classifiers/topics/evaluate", &nothing).await.assert_error(422, "invalid_request", "", &["no labeled"]);
    let both = json!({"examples": examples, "documents": source});
    server.post("/v1/classifiers/topics/evaluate", &both).await.assert_error(422, "invalid_request", "", &["exactly one"]);
    server.classifier(&json!({"name": "fixed", "kind": "knn", "examples": weather_and_sports()})).await;
    let strange = json!({"examples": [one("stocks fall", "economy", "en")]});
    let refused = server.post("/v1/classifiers/fixed/evaluate", &strange).await;
    refused.assert_error(422, "unknown_label", "", &["economy", "example \"stocks fall\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_training_data_and_settings_are_refused() {
    let server = Server::with_documents(documents()).await;
    let check = async |body: Value, code: &str, place: &str, words: &[&str]| {
        let status = if code == "collection_not_found" { 404 } else { 422 };
        server.post("/v1/classifiers", &body).await.assert_error(status, code, place, words);
    };
    let of = |more: Value| merged(json!({"name": "topics", "kind": "knn"}), &more);
    let one = json!(labeled("weather", &RAIN));
    check(of(json!({"examples": one})), "invalid_training_set", "", &["at least two labels", "weather"]).await;
    check(of(json!({"examples": []})), "invalid_request", "/examples", &["1 to 10000"]).await;
    check(of(json!({})), "invalid_request", "", &["source or examples"]).await;
    let source = json!({"collection": "news", "field": "topic"});
    check(of(json!({"examples": one, "source": source})), "invalid_request", "/examples", &["source"]).await;
    check(of(json!({"source": {"collection": "blog", "field": "topic"}})), "collection_not_found", "", &["blog"]).await;
    check(
        of(json!({"source": {"collection": "news", "field": "mood"}})),
        "invalid_training_set",
        "",
        &["collection news, field mood: there are no labeled examples to learn from"],
    )
    .await;
    let weather = json!({"collection": "news", "field": "topic", "filter": {"field": "topic", "eq": "weather"}});
    check(of(json!({"source": weather})), "invalid_training_set", "", &["collection news, field topic: ", "two labels"]).await;
    let bad = json!({"collection": "news", "field": "topic", "filter": {"field": "topic", "like": "x"}});
    check(of(json!({"source": bad})), "invalid_filter", "/source/filter/like", &["like"]).await;
    check(of(json!({"source": {"collection": "news", "field": "language"}})), "invalid_request", "/source/field", &["metadata"])
        .await;
    let two = json!([{"text": "x", "labels": ["a", "b"]}]);
    check(of(json!({"examples": two})), "invalid_request", "/examples/0/labels", &["exactly one", "multi_label"]).await;
    let blank = json!([{"text": "x", "labels": [" "]}]);
    check(of(json!({"examples": blank})), "invalid_request", "/examples/0/labels/0", &["1 to 256"]).await;
    let nothing = json!([{"text": " ", "labels": ["a"]}]);
    check(of(json!({"examples": nothing})), "invalid_request", "/examples/0/text", &["not be blank"]).await;
    let language = json!([{"text": "x", "labels": ["a"], "language": "xx"}]);
    check(of(json!({"examples": language})), "unknown_language", "/examples/0/language", &["xx"]).await;
    check(of(json!({"examples": one, "mlp": {}})), "invalid_request", "/mlp", &["kind mlp"]).await;
    check(of(json!({"examples": one, "knn": {"neighbors": 0}})), "invalid_request", "/knn/neighbors", &["1 to 1000"]).await;
    check(of(json!({"examples": one, "knn": {"k": 3}})), "invalid_request", "/knn/k", &["unknown field"]).await;
    check(of(json!({"kind": "mlp", "examples": one, "mlp": {"dropout": 1.0}})), "invalid_request", "/mlp/dropout", &["below 1"])
        .await;
    check(of(json!({"kind": "tree", "examples": one})), "invalid_request", "/kind", &["tree"]).await;
    check(of(json!({"name": "a b", "examples": one})), "invalid_request", "/name", &["classifier name"]).await;
    check(of(json!({"kind": "prototype"})), "invalid_request", "", &["labels"]).await;
    let single = json!([{"name": "a"}]);
    check(of(json!({"kind": "prototype", "labels": single})), "invalid_training_set", "", &["two labels", "1"]).await;
    let twice = json!([{"name": "a"}, {"name": "a"}]);
    check(of(json!({"kind": "prototype", "labels": twice})), "invalid_request", "/labels/1/name", &["repeats the label"]).await;
    let empty = json!([{"name": "a", "descriptions": []}, {"name": "b"}]);
    check(of(json!({"kind": "prototype", "labels": empty})), "invalid_request", "/labels/0/descriptions", &["1 to 100"]).await;
    let sets = json!([{"name": "a"}, {"name": "b"}]);
    check(
        of(json!({"kind": "prototype", "multi_label": true, "labels": sets})),
        "invalid_request",
        "/multi_label",
        &["a single label"],
    )
    .await;
    let list = json!({"documents": [{"id": "w9", "text": "x", "metadata": {"topic": ["a", "b"]}}]});
    server.post("/v1/collections/news/documents", &list).await;
    check(of(json!({"source": source})), "invalid_training_set", "", &["collection news, document w9: topic is an array"]).await;
    assert_eq!(server.get("/v1/classifiers").await.body["classifiers"], json!([]), "nothing was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_too_large_for_f32_are_refused_with_the_allowed_range() {
    let server = Server::with_documents(documents()).await;
    for (settings, place, limit) in [
        (json!({"kind": "knn", "threshold": 1e39}), "/threshold", "0 to 1"),
        (json!({"kind": "knn", "knn": {"score_min": 1e39}}), "/knn/score_min", "-1 to 1"),
        (json!({"kind": "knn", "knn": {"temperature": 1e39}}), "/knn/temperature", "at most 100"),
        (json!({"kind": "mlp", "mlp": {"dropout": 1e39}}), "/mlp/dropout", "below 1"),
        (json!({"kind": "mlp", "mlp": {"learning_rate": 1e39}}), "/mlp/learning_rate", "at most 1"),
    ] {
        let body = merged(json!({"name": "topics", "examples": labeled("weather", &RAIN)}), &settings);
        server.post("/v1/classifiers", &body).await.assert_error(422, "invalid_request", place, &[limit]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_classifier_name_is_unique_until_the_classifier_is_deleted() {
    let server = Server::with_news().await;
    let body = json!({"name": "topics", "kind": "knn", "examples": weather_and_sports()});
    server.classifier(&body).await;
    server.post("/v1/classifiers", &body).await.assert_error(409, "classifier_exists", "", &["topics"]);
    let bad = |body: Value| server.predict("topics", body);
    bad(json!({})).await.assert_error(422, "invalid_request", "", &["exactly one"]);
    bad(json!({"texts": []})).await.assert_error(422, "invalid_request", "/texts", &["1 to"]);
    bad(json!({"texts": ["a", ""]})).await.assert_error(422, "invalid_request", "/texts/1", &["not be blank"]);
    bad(json!({"texts": ["a"], "explain": 101})).await.assert_error(422, "invalid_request", "/explain", &["0 to 100"]);
    let absent = json!({"documents": {"collection": "news", "ids": ["nobody"]}});
    bad(absent).await.assert_error(404, "document_not_found", "", &["nobody"]);
    assert_eq!(server.delete("/v1/classifiers/topics").await.status, 204);
    for path in ["", "/predict", "/evaluate", "/apply"] {
        let response = match path {
            "" => server.delete("/v1/classifiers/topics").await,
            "/predict" => bad(json!({"texts": ["a"]})).await,
            "/evaluate" => server.post("/v1/classifiers/topics/evaluate", &json!({"examples": body["examples"]})).await,
            _ => server.post("/v1/classifiers/topics/apply", &json!({"collection": "news", "field": "a"})).await,
        };
        response.assert_error(404, "classifier_not_found", "", &["topics"]);
    }
    server.get("/v1/classifiers/a%20b").await.assert_error(422, "invalid_request", "classifier", &["classifier name"]);
    server.classifier(&body).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn classifiers_are_listed_by_name_in_pages() {
    let server = Server::start();
    for name in ["b", "a", "c"] {
        server.classifier(&json!({"name": name, "kind": "knn", "examples": weather_and_sports()})).await;
    }
    let names = |list: &Value| {
        list["classifiers"].as_array().expect("classifiers").iter().map(|one| text(&one["name"]).to_owned()).collect::<Vec<_>>()
    };
    let first = server.get("/v1/classifiers?limit=2").await.body;
    assert_eq!(names(&first), ["a", "b"]);
    let second = server.get(&format!("/v1/classifiers?limit=2&cursor={}", text(&first["next_cursor"]))).await.body;
    assert_eq!((names(&second), second.get("next_cursor")), (vec!["c".to_owned()], None));
    server.get("/v1/classifiers?cursor=x").await.assert_error(422, "invalid_cursor", "cursor", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_the_source_collection_removes_a_classifiers_neighbors() {
    let server = Server::with_documents(documents()).await;
    let source = json!({"collection": "news", "field": "topic"});
    server.classifier(&json!({"name": "topics", "kind": "knn", "source": source})).await;
    let mlp = json!({"runs": 1, "epochs_max": 5});
    server.classifier(&json!({"name": "network", "kind": "mlp", "source": source, "mlp": mlp})).await;
    assert_eq!(server.delete("/v1/collections/news").await.status, 204);
    server.predict("topics", json!({"texts": ["rain"]})).await.assert_error(404, "collection_not_found", "", &["news"]);
    // The trained weights remain; only the passages can no longer be shown.
    assert_eq!(server.labels("network", json!({"texts": ["rain"]})).await.len(), 1);
    let explain = json!({"texts": ["rain"], "explain": 1});
    server.predict("network", explain).await.assert_error(404, "collection_not_found", "", &["news"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_key_cannot_use_classifiers_of_other_collections() {
    let admin = Server::with_admin_key();
    for collection in ["news", "blog"] {
        admin.post("/v1/collections", &json!({"name": collection})).await;
        admin.post(&format!("/v1/collections/{collection}/documents"), &json!({"documents": documents()})).await;
        let source = json!({"collection": collection, "field": "topic"});
        admin.classifier(&json!({"name": collection, "kind": "knn", "source": source})).await;
    }
    let key = admin.post("/v1/keys", &json!({"name": "news", "scope": "write", "collections": ["news"]})).await.body;
    let restricted = admin.with_key(text(&key["secret"]));
    let seen = restricted.get("/v1/classifiers").await.body;
    assert_eq!(seen["classifiers"].as_array().map(|all| all.iter().map(|one| text(&one["name"])).collect()), Some(vec!["news"]));
    assert_eq!(restricted.labels("news", json!({"texts": ["rain"]})).await, [["weather"]]);
    let texts = json!({"name": "news.mood", "kind": "knn", "examples": weather_and_sports()});
    let made = restricted.post("/v1/classifiers", &texts).await.body;
    let training = restricted.get(&format!("/v1/jobs/{}", text(&made["job"]))).await;
    assert_eq!(
        training.status, 200,
        "the training job of a classifier without a source collection is visible to every key: {}",
        training.text
    );
    let hidden = [
        restricted.get("/v1/classifiers/blog").await,
        restricted.delete("/v1/classifiers/blog").await,
        restricted.predict("blog", json!({"texts": ["rain"]})).await,
    ];
    for response in hidden {
        response.assert_error(404, "classifier_not_found", "", &["there is no classifier blog"]);
    }
    let refused = [
        restricted.predict("news", json!({"documents": {"collection": "blog", "ids": ["w0"]}})).await,
        restricted.post("/v1/classifiers/news/apply", &json!({"collection": "blog", "field": "a"})).await,
        restricted
            .post("/v1/classifiers", &json!({"name": "x", "kind": "knn", "source": {"collection": "blog", "field": "topic"}}))
            .await,
    ];
    for response in refused {
        response.assert_error(403, "forbidden", "", &["restricted"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn predictions_beyond_the_response_size_limit_are_refused() {
    let server = Server::with_limits(Limits { answer_bytes_max: 3_000, ..Limits::default() });
    let long = "rain storm ".repeat(100);
    let examples = json!([{"text": long, "labels": ["weather"]}, {"text": "goal", "labels": ["sports"]}]);
    server.classifier(&json!({"name": "topics", "kind": "knn", "examples": examples})).await;
    let predict = async |texts: usize, explain: usize| {
        server.predict("topics", json!({"texts": vec!["rain"; texts], "explain": explain})).await
    };
    let refused = predict(3, 2).await;
    refused.assert_error(422, "answer_too_large", "", &["at most 3000", "answer_bytes_max", "explain"]);
    assert_eq!((predict(2, 2).await.status, predict(3, 0).await.status), (200, 200));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_openapi_examples_for_classifiers_work() {
    let server = Server::with_news().await;
    let labeled = |n: usize, topic: &str, text: &str, year: u64| json!({"id": format!("d{n}"), "text": text, "metadata": {"topic": topic, "year": year, "split": "test"}});
    let documents: Vec<Value> = (0..20)
        .map(|n| if n % 2 == 0 { labeled(n, "weather", RAIN[n % 4], 2026) } else { labeled(n, "sports", GOAL[n % 4], 2026) })
        .collect();
    server.post("/v1/collections/news/documents", &json!({"documents": documents})).await;
    server.classifier(&example("create_classifier.request")).await;
    assert_eq!(server.predict("topics", example("predict_labels.request")).await.status, 200);
    let judged = server.post("/v1/classifiers/topics/evaluate", &example("evaluate_classifier.request")).await;
    assert_eq!((judged.status, &judged.body["all"]["examples"]), (200, &json!(20)));
    let job = server.finished(&server.post("/v1/classifiers/topics/apply", &example("apply_classifier.request")).await).await;
    assert_eq!(job["status"], "succeeded");
}
