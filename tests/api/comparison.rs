//! `/v1/similarity` and `/v1/detect`.

use dragoman::domain::Limits;
use serde_json::{Value, json};

use crate::server::Server;

fn close(got: &Value, expect: f64) {
    let got = got.as_f64().expect("a number");
    assert!((got - expect).abs() < 1e-4, "{got} is not {expect}");
}

/// The cosine computed from `/v1/embeddings`.
async fn cosine(server: &Server, one: &str, other: &str) -> f64 {
    let body = server.post("/v1/embeddings", &json!({"input": [one, other]})).await.body;
    let values = |index: usize| -> Vec<f64> {
        let values = body["data"][index]["embedding"].as_array().expect("values").iter();
        values.map(|value| value.as_f64().expect("a number")).collect()
    };
    values(0).iter().zip(values(1)).map(|(a, b)| a * b).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn pairs_are_compared_by_the_cosine_of_their_embeddings() {
    let server = Server::start();
    let (one, other) = ("Der Zug hat Verspätung.", "Der Zug ist pünktlich.");
    let pairs = json!({"pairs": [{"first": one, "second": one}, {"first": one, "second": other}]});
    let results = server.post("/v1/similarity", &pairs).await.body["results"].clone();
    close(&results[0]["score"], 1.0);
    close(&results[1]["score"], cosine(&server, one, other).await);
    assert_eq!(results[0].get("truncated"), None);
    let long = "many words ".repeat(40);
    let response = server.post("/v1/similarity", &json!({"pairs": [{"first": "few words", "second": long}]})).await;
    assert_eq!(response.body["results"][0]["truncated"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_similarity_matrix_has_a_row_for_each_first_text() {
    let server = Server::start();
    let (first, second) = (["ein Haus", "eine Brücke"], ["une maison", "ein Haus", "一座桥"]);
    let body = server.post("/v1/similarity/matrix", &json!({"first": first, "second": second})).await.body;
    let scores = body["scores"].as_array().expect("rows");
    assert_eq!((scores.len(), scores[0].as_array().map(Vec::len)), (2, Some(3)));
    for (row, one) in first.iter().enumerate() {
        for (column, other) in second.iter().enumerate() {
            close(&scores[row][column], cosine(&server, one, other).await);
        }
    }
    let long = "many words ".repeat(40);
    let body = server.post("/v1/similarity/matrix", &json!({"first": ["a b", long]})).await.body;
    close(&body["scores"][0][1], body["scores"][1][0].as_f64().expect("a number"));
    close(&body["scores"][1][1], 1.0);
    assert_eq!((&body["first_truncated"], &body["second_truncated"]), (&json!([1]), &json!([1])));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_comparison_and_detection_requests_are_refused() {
    let server = Server::with_limits(Limits { embedding_inputs_max: 4, text_bytes_max: 20, ..Limits::default() });
    let check = async |path: &str, body: Value, place: &str, words: &[&str]| {
        server.post(path, &body).await.assert_error(422, "invalid_request", place, words);
    };
    let pair = json!({"first": "a", "second": "b"});
    check("/v1/similarity", json!({"pairs": []}), "/pairs", &["1 to 2", "got 0"]).await;
    check("/v1/similarity", json!({"pairs": [pair, pair, pair]}), "/pairs", &["embedding_inputs_max", "got 3"]).await;
    check("/v1/similarity", json!({"pairs": [pair, {"first": "a", "second": "\t"}]}), "/pairs/1/second", &["not be blank"]).await;
    check("/v1/similarity", json!({"pairs": [["a", "b"]]}), "/pairs/0", &["expected an object"]).await;
    check("/v1/similarity/matrix", json!({"first": []}), "/first", &["1 to 4", "got 0"]).await;
    check("/v1/similarity/matrix", json!({"first": ["a"], "second": []}), "/second", &["got 0"]).await;
    check("/v1/similarity/matrix", json!({"first": ["a", "b", "c"], "second": ["d", "e"]}), "/second", &["both sets", "got 5"])
        .await;
    check("/v1/detect", json!({"texts": ["a", "b", "c", "d", "e"]}), "/texts", &["1 to 4", "got 5"]).await;
    check("/v1/detect", json!({"texts": ["a", ""]}), "/texts/1", &["not be blank"]).await;
    check("/v1/detect", json!({"texts": ["more than twenty bytes"]}), "/texts/0", &["text_bytes_max", "20"]).await;
    check("/v1/detect", json!({"text": "a"}), "/text", &["unknown field"]).await;
    server.post("/v1/detect", &json!([])).await.assert_error(422, "invalid_request", "", &["expected an object"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn languages_are_detected_with_a_confidence() {
    let server = Server::start();
    let texts = ["Поезд сегодня опаздывает на два часа.", "今日は朝から雨が降っています。", "12345 !?"];
    let body = server.post("/v1/detect", &json!({"texts": texts})).await.body;
    assert_eq!((&body["detections"][0]["language"], &body["detections"][1]["language"]), (&json!("ru"), &json!("ja")));
    let confidence = body["detections"][1]["confidence"].as_f64().expect("a number");
    assert!((0.0..=1.0).contains(&confidence));
    assert_eq!(body["detections"][2], json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_set_compared_with_itself_may_hold_half_as_many_texts() {
    let server = Server::with_limits(Limits { embedding_inputs_max: 4, ..Limits::default() });
    let response = server.post("/v1/similarity/matrix", &json!({"first": ["a", "b"]})).await;
    assert_eq!((response.status, response.body["scores"].as_array().map(Vec::len)), (200, Some(2)), "{}", response.text);
    let response = server.post("/v1/similarity/matrix", &json!({"first": ["a", "b", "c"]})).await;
    response.assert_error(422, "invalid_request", "/first", &["at most 2", "got 3"]);
}
