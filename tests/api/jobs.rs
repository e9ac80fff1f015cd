//! `/v1/jobs`.

use axum::body::Body;
use axum::http::Request;
use dragoman::domain::Limits;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::server::{Response, Server};

const NDJSON: &str = "application/x-ndjson";
const NO_JOB: &str = "/v1/jobs/0198c0de-7a11-7000-8000-2f1de5c0ffee";

async fn begin(server: &Server, lines: usize) -> Response {
    let body: String = (0..lines).map(|n| format!("{{\"id\":\"d{n}\",\"text\":\"line {n} of many\"}}\n")).collect();
    let request = Request::post("/v1/collections/news/import").header("content-type", NDJSON).body(Body::from(body));
    server.send(request.expect("a request")).await
}

fn ids(list: &Value) -> Vec<String> {
    let jobs = list["jobs"].as_array().expect("jobs").iter();
    jobs.map(|job| job["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_are_listed_newest_first_with_filters_and_pages() {
    let server = Server::with_news().await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.insert(0, server.import(NDJSON, "{\"text\":\"x\"}").await["id"].as_str().expect("an id").to_owned());
    }
    let first = server.get("/v1/jobs?limit=2").await.body;
    assert_eq!(ids(&first), made[..2]);
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    let second = server.get(&format!("/v1/jobs?limit=2&cursor={cursor}")).await.body;
    assert_eq!((ids(&second), second.get("next_cursor")), (made[2..].to_vec(), None));
    for (filter, expect) in [
        ("type=import", 3),
        ("type=restore", 0),
        ("status=succeeded&collection=news", 3),
        ("status=failed", 0),
        ("collection=blog", 0),
    ] {
        assert_eq!(ids(&server.get(&format!("/v1/jobs?{filter}")).await.body).len(), expect, "{filter}");
    }
    server.get("/v1/jobs?type=dance").await.assert_error(422, "invalid_request", "type", &["import", "dance"]);
    server.get("/v1/jobs?status=done").await.assert_error(422, "invalid_request", "status", &["succeeded"]);
    server.get("/v1/jobs?collection=%20").await.assert_error(422, "invalid_request", "collection", &[]);
    server.get("/v1/jobs?state=x").await.assert_error(422, "invalid_request", "state", &["unknown"]);
    server.get("/v1/jobs?cursor=x").await.assert_error(422, "invalid_cursor", "cursor", &[]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_job_is_not_found() {
    let server = Server::start();
    for path in ["", "/events", "/results"] {
        server.get(&format!("{NO_JOB}{path}")).await.assert_error(404, "job_not_found", "", &["0198c0de"]);
    }
    server.post(&format!("{NO_JOB}/cancel"), &json!({})).await.assert_error(404, "job_not_found", "", &[]);
    server.get("/v1/jobs/mine").await.assert_error(422, "invalid_request", "job", &["UUID"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn queued_jobs_are_canceled_at_once_and_running_ones_report_progress() {
    let server = Server::with_limits(Limits { jobs_running_max: 1, import_backlog_max: 0, ..Limits::default() });
    server.post("/v1/collections", &json!({"name": "news"})).await;
    let running = begin(&server, 20_000).await;
    let waiting = begin(&server, 1).await;
    assert_eq!((running.status, waiting.status), (202, 202));
    let [running_path, waiting_path] =
        [&running, &waiting].map(|response| response.header("location").expect("a place").to_owned());
    let canceled = server.post(&format!("{waiting_path}/cancel"), &Value::Null).await.body;
    assert_eq!((&canceled["status"], canceled.get("started_at")), (&json!("canceled"), None));
    let asked = server.post(&format!("{running_path}/cancel"), &Value::Null).await;
    assert_eq!((asked.status, &asked.body["cancel_requested"]), (200, &json!(true)));
    let ended = server.finished(&running).await;
    assert_eq!(ended["status"], "canceled");
    let again = server.post(&format!("{running_path}/cancel"), &Value::Null).await;
    assert_eq!((again.status, &again.body["status"]), (200, &json!("canceled")));
    let stored = server.get("/v1/collections/news").await.body["documents"].clone();
    assert_eq!(ended["details"]["created"].as_u64().unwrap_or(0), stored.as_u64().expect("a count"));
    let succeeded = server.finished(&begin(&server, 1).await).await;
    let path = format!("/v1/jobs/{}/cancel", succeeded["id"].as_str().expect("an id"));
    server.post(&path, &Value::Null).await.assert_error(409, "job_finished", "", &["succeeded"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_events_report_progress_and_end_with_the_job() {
    let server = Server::with_limits(Limits { import_backlog_max: 0, ..Limits::default() });
    server.post("/v1/collections", &json!({"name": "news"})).await;
    let job = begin(&server, 4_000).await;
    let path = format!("{}/events", job.header("location").expect("a place"));
    let events = server.get(&path).await;
    assert_eq!(events.header("content-type"), Some("text/event-stream"));
    let blocks: Vec<&str> = events.text.split("\n\n").filter(|block| block.contains("data:")).collect();
    let (last, before) = blocks.split_last().expect("an event");
    assert!(before.iter().all(|block| block.starts_with("event: progress\n")), "{}", events.text);
    assert!(last.starts_with("event: end\n"), "{last}");
    let data: Value = serde_json::from_str(last.split_once("data: ").expect("data").1).expect("JSON");
    assert_eq!((&data["status"], &data["details"]["created"]), (&json!("succeeded"), &json!(4_000)));
    let late = server.get(&path).await;
    assert_eq!(late.text.matches("event: ").count(), 1, "{}", late.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn job_events_can_be_asked_for_more_after_their_end() {
    let server = Server::with_news().await;
    let job = begin(&server, 1).await;
    let request = Request::get(format!("{}/events", job.header("location").expect("a place"))).header("host", "localhost");
    let request = request.body(Body::empty()).expect("a request");
    let mut events = server.router.clone().oneshot(request).await.expect("an answer").into_body();
    while events.frame().await.is_some() {}
    assert!(events.frame().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_fails_when_its_collection_is_deleted() {
    let server = Server::with_limits(Limits { import_backlog_max: 0, ..Limits::default() });
    server.post("/v1/collections", &json!({"name": "news"})).await;
    let job = begin(&server, 20_000).await;
    assert_eq!(server.delete("/v1/collections/news").await.status, 204);
    let ended = server.finished(&job).await;
    assert_eq!((&ended["status"], &ended["error"]["code"]), (&json!("failed"), &json!("collection_not_found")));
}

#[tokio::test(flavor = "multi_thread")]
async fn old_jobs_are_deleted_with_their_results() {
    let server = Server::with_limits(Limits { jobs_kept_max: 2, ..Limits::default() });
    server.post("/v1/collections", &json!({"name": "news"})).await;
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(server.import(NDJSON, "{\"text\":\"x\"}").await["id"].as_str().expect("an id").to_owned());
    }
    // The last job ends a moment before the first is forgotten.
    let path = format!("/v1/jobs/{}/results", made[0]);
    for _ in 0..1_000 {
        if server.get(&path).await.status == 404 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    server.get(&path).await.assert_error(404, "job_not_found", "", &[]);
    made.remove(0);
    made.reverse();
    assert_eq!(ids(&server.get("/v1/jobs").await.body), made);
}
