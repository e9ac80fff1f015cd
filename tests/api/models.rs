//! `/v1/models`.

use serde_json::json;

use crate::server::{DIMENSION, Server};

#[tokio::test(flavor = "multi_thread")]
async fn the_loaded_model_is_described() {
    let answer = Server::start().get("/v1/models").await;
    assert_eq!((answer.status, &answer.body["object"]), (200, &json!("list")));
    let models = answer.body["data"].as_array().expect("a list");
    assert_eq!(models.len(), 1);
    let model = &models[0];
    assert_eq!((&model["object"], &model["owned_by"]), (&json!("model"), &json!("dragoman")));
    assert_eq!((&model["dimension"], &model["device"]), (&json!(DIMENSION), &json!("cpu")));
    assert!(
        model["languages"].as_array().is_some_and(|all| all.iter().any(|one| one["code"] == "ja" && one["script"] == "Jpan"))
    );
}
