//! `/v1/models`.

use serde_json::json;

use crate::server::{DIMENSION, Server};

#[tokio::test(flavor = "multi_thread")]
async fn the_loaded_model_is_described() {
    let response = Server::start().get("/v1/models").await;
    assert_eq!((response.status, &response.body["object"]), (200, &json!("list")));
    let models = response.body["data"].as_array().expect("a list");
    assert_eq!(models.len(), 1);
    let model = &models[0];
    assert_eq!((&model["object"], &model["owned_by"]), (&json!("model"), &json!("dragoman")));
    assert_eq!((&model["dimension"], &model["device"]), (&json!(DIMENSION), &json!("cpu")));
    assert!(
        model["languages"].as_array().is_some_and(|all| all.iter().any(|one| one["code"] == "ja" && one["script"] == "Jpan"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loaded_model_is_found_by_its_name() {
    let server = Server::start();
    let list = server.get("/v1/models").await;
    let name = list.body["data"][0]["id"].as_str().expect("a name");
    let response = server.get(&format!("/v1/models/{name}")).await;
    assert_eq!((response.status, &response.body), (200, &list.body["data"][0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_model_returns_a_404_in_the_openai_error_format() {
    let response = Server::start().get("/v1/models/text-embedding-3-small").await;
    let error = &response.body["error"];
    assert_eq!((response.status, &error["code"], &error["param"]), (404, &json!("unknown_model"), &json!(null)));
    assert_eq!(error["type"], "invalid_request_error");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("text-embedding-3-small") && message.contains("the loaded one is"), "{message}");
}
