//! `/v1/embeddings`, in OpenAI's format.

use axum::body::Body;
use axum::http::Request;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use dragoman::domain::Limits;
use serde_json::{Value, json};

use crate::server::{DIMENSION, Response, Server};

const PATH: &str = "/v1/embeddings";

fn assert_open_ai_error(response: &Response, status: u16, kind: &str, param: Option<&str>, code: &str, words: &[&str]) {
    assert_eq!(response.status, status, "{}", response.text);
    let error = &response.body["error"];
    assert_eq!((&error["type"], &error["param"], &error["code"]), (&json!(kind), &json!(param), &json!(code)), "{error}");
    for word in words {
        assert!(error["message"].as_str().is_some_and(|text| text.contains(word)), "{word:?} is not in {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn embeddings_are_normalized_and_in_input_order() {
    let server = Server::start();
    let response = server.post(PATH, &json!({"input": ["Guten Morgen", "おはよう"]})).await;
    assert_eq!((response.status, &response.body["object"]), (200, &json!("list")));
    let data = response.body["data"].as_array().expect("data");
    assert_eq!(data.iter().map(|item| &item["index"]).collect::<Vec<_>>(), [0, 1]);
    for item in data {
        let values: Vec<f64> = serde_json::from_value(item["embedding"].clone()).expect("numbers");
        assert_eq!((values.len(), &item["object"]), (DIMENSION, &json!("embedding")));
        assert!((values.iter().map(|x| x * x).sum::<f64>() - 1.0).abs() < 1e-5);
    }
    let usage = &response.body["usage"];
    assert!(usage["prompt_tokens"].as_u64() > Some(0) && usage["prompt_tokens"] == usage["total_tokens"], "{usage}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_single_text_equals_an_array_of_one_text() {
    let server = Server::start();
    let one = server.post(PATH, &json!({"input": "Guten Morgen"})).await;
    let many = server.post(PATH, &json!({"input": ["Guten Morgen"]})).await;
    assert_eq!((one.status, one.body), (200, many.body));
}

#[tokio::test(flavor = "multi_thread")]
async fn base64_encodes_the_same_floats() {
    let server = Server::start();
    let floats = server.post(PATH, &json!({"input": "Guten Morgen", "encoding_format": "float"})).await;
    let floats: Vec<f32> = serde_json::from_value(floats.body["data"][0]["embedding"].clone()).expect("numbers");
    // The OpenAPI document only describes the numeric form, so this response is not checked against it.
    let body = json!({"input": "Guten Morgen", "encoding_format": "base64", "user": "u"}).to_string();
    let request = Request::post(PATH).header("content-type", "application/json").body(Body::from(body)).expect("a request");
    let response = server.send_unchecked(request).await;
    let text = response.body["data"][0]["embedding"].as_str().expect("base64");
    let bytes = STANDARD.decode(text).expect("base64");
    let decoded: Vec<f32> = bytes.chunks_exact(4).map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]])).collect();
    assert_eq!(decoded, floats);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_without_a_query_encoder_embeds_queries_as_documents() {
    let server = Server::start();
    let plain = server.post(PATH, &json!({"input": "Guten Morgen"})).await;
    for input_type in ["document", "query"] {
        let response = server.post(PATH, &json!({"input": "Guten Morgen", "input_type": input_type})).await;
        assert_eq!((response.status, &response.body), (200, &plain.body), "{input_type}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_may_name_the_loaded_model() {
    let server = Server::start();
    let models = server.get("/v1/models").await;
    let body = json!({"input": "Hallo", "model": models.body["data"][0]["id"], "dimensions": DIMENSION});
    let response = server.post(PATH, &body).await;
    assert_eq!((response.status, &response.body["model"]), (200, &models.body["data"][0]["id"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_refused_in_the_openai_error_format() {
    let server = Server::with_limits(Limits { embedding_inputs_max: 2, text_bytes_max: 50, ..Limits::default() });
    let check = async |body: Value, param: Option<&str>, code: &str, words: &[&str]| {
        assert_open_ai_error(&server.post(PATH, &body).await, 400, "invalid_request_error", param, code, words);
    };
    let invalid = "invalid_request";
    check(json!({"input": []}), Some("input"), invalid, &["1 to 2 texts", "got 0"]).await;
    check(json!({"input": ["a", "b", "c"]}), Some("input"), invalid, &["got 3"]).await;
    check(json!({"input": ["a", " "]}), Some("input"), invalid, &["/input/1", "not be blank"]).await;
    check(json!({"input": "x".repeat(51)}), Some("input"), invalid, &["at most 50 bytes", "got 51"]).await;
    check(json!({"input": ["a", 1]}), Some("input"), invalid, &["integer `1`", "expected a string"]).await;
    check(json!({"input": [true]}), Some("input"), invalid, &["/input/0", "boolean `true`", "expected a string"]).await;
    check(json!({"input": {"a": 1}}), Some("input"), invalid, &["a string or an array of strings"]).await;
    check(json!({}), Some("input"), invalid, &["missing field `input`"]).await;
    check(json!({"input": "a", "dimensions": 3}), Some("dimensions"), invalid, &["must be 64", "shortened", "got 3"]).await;
    check(json!({"input": " ", "dimensions": 3}), Some("dimensions"), invalid, &["must be 64", "and 1 more"]).await;
    check(json!({"input": "a", "encoding_format": "hex"}), Some("encoding_format"), invalid, &["`float` or `base64`"]).await;
    check(json!({"input": "a", "input_type": "text"}), Some("input_type"), invalid, &["`document` or `query`"]).await;
    check(json!({"input": "a", "inputs": "b"}), Some("inputs"), invalid, &["unknown field `inputs`"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_not_loaded_is_not_found() {
    let server = Server::start();
    let response = server.post(PATH, &json!({"input": "a", "model": "other"})).await;
    assert_open_ai_error(&response, 404, "invalid_request_error", Some("model"), "unknown_model", &["\"other\""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn token_ids_are_refused_with_advice_to_send_texts() {
    let server = Server::start();
    for input in [json!([1, 2]), json!([[9906, 1917], [3]]), json!([[]])] {
        let response = server.post(PATH, &json!({"input": input})).await;
        let words = ["/input: ", "token ids", "check_embedding_ctx_length=False"];
        assert_open_ai_error(&response, 400, "invalid_request_error", Some("input"), "invalid_request", &words);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_web_framework_use_the_openai_format() {
    let server = Server::with_limits(Limits { body_bytes_max: 100, ..Limits::default() });
    let check = async |request: Request<Body>, status: u16, code: &str| {
        assert_open_ai_error(&server.send(request).await, status, "invalid_request_error", None, code, &[]);
    };
    let post = || Request::post(PATH).header("content-type", "application/json");
    check(post().body(Body::from("{")).expect("a request"), 400, "malformed_json").await;
    check(post().body(Body::from(vec![b' '; 101])).expect("a request"), 413, "body_too_large").await;
    check(Request::post(PATH).body(Body::from("{}")).expect("a request"), 415, "unsupported_media_type").await;
    check(Request::get(PATH).body(Body::empty()).expect("a request"), 405, "method_not_allowed").await;
}
