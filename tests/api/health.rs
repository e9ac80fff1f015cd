//! `/healthz` and `/readyz`.

use serde_json::json;

use crate::server::Server;

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_server_is_healthy_and_ready() {
    let server = Server::start();
    let (health, readiness) = (server.get("/healthz").await, server.get("/readyz").await);
    assert_eq!((health.status, health.body), (200, json!({"status": "ok"})));
    assert_eq!((readiness.status, readiness.body), (200, json!({"status": "ready"})));
}
