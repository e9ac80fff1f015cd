//! The log: one JSON line per request with what an operator needs, and never a key or a text.

use super::program::{self, Program};
use serde_json::{Value, json};

const ADMIN_KEY: &str = "operator-key-that-nobody-may-see";
const TEXT: &str = "Die geheime Botschaft lautet Rhabarberkuchen.";
const QUERY: &str = "quetschkartoffel";

/// What the server logs at `level` while it is used.
fn log_at(level: &str) -> (Vec<String>, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program::command(folder.path(), "fake:8");
    command.args(["--log", level]).env("DRAGOMAN_ADMIN_KEY", ADMIN_KEY);
    let server = Program::run(command);
    let admin = server.client().with_key(ADMIN_KEY);
    let (status, made) = admin.post("/v1/keys", &json!({ "name": "search", "scope": "read" }));
    assert_eq!(status, 201, "{made}");
    let secret = made["secret"].as_str().unwrap().to_owned();
    assert_eq!(admin.post("/v1/collections", &json!({ "name": "news" })).0, 201);
    let documents = json!({ "documents": [{ "id": "a", "text": TEXT, "metadata": { "note": "Vanillesauce" } }] });
    assert_eq!(admin.post("/v1/collections/news/documents", &documents).0, 200);
    let reader = server.client().with_key(&secret);
    assert_eq!(reader.hits("news", &json!({ "query": QUERY })).len(), 1);
    let arguments = json!({ "collection": "news", "query": QUERY });
    let call = json!({ "name": "search", "arguments": arguments });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call });
    assert_eq!(reader.post("/mcp", &message).0, 200);
    assert_eq!(reader.post("/v1/collections/news/documents", &documents).0, 403);
    assert_eq!(server.client().with_key("a-wrong-key-of-somebody").get("/v1/models").0, 401);
    assert_eq!(admin.post("/v1/embeddings", &json!({ "input": TEXT, "model": QUERY })).0, 404);
    let digits = secret.rsplit('_').next().unwrap().to_owned();
    let forbidden = [ADMIN_KEY, &digits, "a-wrong-key-of-somebody", "Rhabarberkuchen", QUERY, "Vanillesauce"];
    (server.stop_and_read_log(), forbidden.iter().map(|word| (*word).to_owned()).collect())
}

/// The events that the server logs at `level` while it is used.
fn events_at(level: &str) -> Vec<Value> {
    log_at(level).0.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn keys_and_texts_are_not_logged_at_any_level() {
    for level in ["info", "debug", "trace"] {
        let (lines, forbidden) = log_at(level);
        assert!(lines.len() > 10, "{lines:?}");
        for word in forbidden {
            let found = lines.iter().find(|line| line.to_lowercase().contains(&word.to_lowercase()));
            assert_eq!(found, None, "at {level} the log has {word}");
        }
    }
}

#[test]
fn each_request_logs_its_id_operation_status_and_duration() {
    let events = events_at("info");
    let search = events.iter().find(|event| event["operation"] == "search_documents").unwrap();
    assert_eq!((&search["message"], &search["level"], &search["status"]), (&json!("request"), &json!("INFO"), &json!(200)));
    assert_eq!((&search["method"], &search["route"]), (&json!("POST"), &json!("/v1/collections/{collection}/search")));
    assert!(search["took_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{search}");
    assert!(search["request_id"].as_str().is_some_and(|id| id.len() == 36), "{search}");
    assert_eq!((&search["collection"], &search["caller"]), (&json!("news"), &json!("key")));
    assert!(search["key"].as_str().is_some_and(|id| id.len() == 32), "{search}");
    let created = events.iter().find(|event| event["operation"] == "create_collection").unwrap();
    assert_eq!((&created["caller"], created.get("key"), created.get("collection")), (&json!("operator"), None, None));
    let stranger = events.iter().find(|event| event["status"] == 401).unwrap();
    assert_eq!((stranger.get("caller"), stranger.get("key")), (None, None));
    let refused = events.iter().find(|event| event["status"] == 403).unwrap();
    assert_eq!((&refused["collection"], &refused["key"]), (&json!("news"), &search["key"]));
    assert_eq!((&refused["operation"], &refused["code"]), (&json!("upsert_documents"), &json!("forbidden")));
}

#[test]
fn an_mcp_call_logs_both_the_message_and_its_operation() {
    let events = events_at("info");
    let message = events.iter().find(|event| event["operation"] == "call_mcp").unwrap();
    let of_message = |event: &&Value| event["request_id"] == message["request_id"];
    let operations: Vec<&Value> = events.iter().filter(of_message).map(|event| &event["operation"]).collect();
    assert_eq!(operations, ["search_documents", "call_mcp"]);
    let search = events.iter().find(of_message).unwrap();
    assert_eq!((&search["collection"], &search["caller"]), (&json!("news"), &json!("key")), "{search}");
    assert_eq!((&search["key"], &search["address"]), (&message["key"], &message["address"]));
}

#[test]
fn each_request_logs_its_client_address() {
    let events = events_at("info");
    let requests: Vec<&Value> = events.iter().filter(|event| event.get("operation").is_some()).collect();
    assert!(!requests.is_empty(), "{events:#?}");
    for event in requests {
        assert_eq!(event["address"], "127.0.0.1", "{event}");
    }
}

#[test]
fn durations_have_at_most_three_significant_digits() {
    let events = events_at("info");
    let requests: Vec<&Value> = events.iter().filter(|event| event["message"] == "request").collect();
    assert!(!requests.is_empty(), "{events:#?}");
    for event in requests {
        let digits: String = event["took_ms"].to_string().chars().filter(char::is_ascii_digit).collect();
        let digits = digits.trim_start_matches('0').trim_end_matches('0');
        assert!(digits.len() <= 3, "{event}");
    }
}

#[test]
fn readiness_probes_are_logged_only_at_debug_level() {
    let probes = |events: &[Value]| events.iter().filter(|event| event["operation"] == "check_readiness").count();
    // Each start waits for `/readyz`.
    assert_eq!(probes(&events_at("info")), 0);
    let events = events_at("debug");
    assert!(probes(&events) > 0, "{events:#?}");
    assert!(events.iter().filter(|event| event["operation"] == "check_readiness").all(|event| event["level"] == "DEBUG"));
}
