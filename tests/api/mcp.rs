//! `/mcp`: the Model Context Protocol, message by message. A tool does the same as the REST operation behind it.

use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request};
use dragoman::domain::Limits;
use dragoman::http::settings::Settings;
use serde_json::{Value, json};

use crate::server::Server;

/// Every tool, and whether it is read-only.
pub const TOOLS: [(&str, bool); 10] = [
    ("list_collections", true),
    ("search", true),
    ("count_values", true),
    ("get_document", true),
    ("add_documents", false),
    ("delete_documents", false),
    ("list_classifiers", true),
    ("classify", true),
    ("detect_language", true),
    ("compare_texts", true),
];

pub fn message(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

/// Sends a message that gets a result.
pub async fn ask(server: &Server, method: &str, params: Value) -> Value {
    let response = server.post("/mcp", &message(method, &params)).await;
    assert_eq!((response.status, response.header("content-type")), (200, Some("application/json")), "{response:?}");
    assert_eq!((&response.body["jsonrpc"], &response.body["id"]), (&json!("2.0"), &json!(7)), "{response:?}");
    assert!(response.body["result"].is_object(), "{}", response.text);
    response.body["result"].clone()
}

pub async fn call(server: &Server, tool: &str, arguments: Value) -> Value {
    ask(server, "tools/call", json!({"name": tool, "arguments": arguments})).await
}

/// Calls a tool that succeeds, and returns its response.
pub async fn value(server: &Server, tool: &str, arguments: Value) -> Value {
    let result = call(server, tool, arguments).await;
    assert_eq!(result["isError"], false, "{result}");
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert_eq!(
        serde_json::from_str::<Value>(text).expect("JSON"),
        result["structuredContent"],
        "the text and the structured content are equal"
    );
    result["structuredContent"].clone()
}

/// Calls a tool that fails, and returns the problem.
pub async fn problem(server: &Server, tool: &str, arguments: Value) -> Value {
    let result = call(server, tool, arguments).await;
    assert_eq!(result["isError"], true, "{result}");
    result["structuredContent"].clone()
}

/// A response without what differs between calls.
fn without_volatile_members(mut response: Value) -> Value {
    if let Some(members) = response.as_object_mut() {
        ["took_ms", "request_id", "instance"].into_iter().for_each(|name| drop(members.remove(name)));
    }
    response
}

pub async fn names(server: &Server) -> Vec<String> {
    let tools = ask(server, "tools/list", json!({})).await["tools"].clone();
    tools.as_array().expect("tools").iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

pub fn documents() -> Value {
    json!([
        {"id": "rain", "text": "rain tomorrow in the north", "metadata": {"topic": "weather"}},
        {"id": "a/b %2F?#", "text": "trains on friday", "title": "Strike", "language": "en"}
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn initialize_returns_the_protocol_version_and_no_session_id() {
    let server = Server::start();
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
        let response = server.post("/mcp", &message("initialize", &params)).await;
        let result = &response.body["result"];
        assert_eq!((response.status, &result["protocolVersion"]), (200, &json!(version)), "{}", response.text);
        assert_eq!((&result["serverInfo"]["name"], result["capabilities"].get("tools").is_some()), (&json!("dragoman"), true));
        assert!(result["instructions"].as_str().is_some_and(|text| text.contains("list_collections")), "{result}");
        assert_eq!(response.header("mcp-session-id"), None);
    }
    let ready = server.post("/mcp", &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    assert_eq!((ready.status, ready.text.as_str()), (202, ""));
    assert_eq!(ask(&server, "ping", json!({})).await, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_without_an_initialize_handshake_is_served() {
    let server = Server::with_documents(documents()).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}
    });
    let send = async |method: &str, tool: Option<&str>, mut params: Value| {
        params["_meta"] = meta.clone();
        let request = Request::post("/mcp").header("content-type", "application/json");
        let request = request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method);
        let request = tool.into_iter().fold(request, |request, tool| request.header("mcp-name", tool));
        server.send(request.body(Body::from(message(method, &params).to_string())).expect("a request")).await
    };
    let discovered = send("server/discover", None, json!({})).await;
    assert_eq!(discovered.status, 200, "{}", discovered.text);
    let versions = discovered.body["result"]["supportedVersions"].as_array().expect("versions");
    assert!(versions.contains(&json!("2026-07-28")), "{versions:?}");
    let found =
        send("tools/call", Some("search"), json!({"name": "search", "arguments": {"collection": "news", "query": "rain"}}));
    let found = found.await;
    assert_eq!(found.body["result"]["structuredContent"]["hits"][0]["id"], "rain", "{}", found.text);
    let mismatch = send("tools/call", Some("search"), json!({"name": "get_document", "arguments": {}})).await;
    assert_eq!(mismatch.status, 400);
    assert!(mismatch.body["error"]["message"].as_str().is_some_and(|text| text.contains("Mcp-Name")), "{}", mismatch.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_have_descriptions_annotations_and_input_schemas() {
    let server = Server::start();
    let tools = ask(&server, "tools/list", json!({})).await["tools"].clone();
    let tools = tools.as_array().expect("tools");
    assert_eq!(tools.len(), TOOLS.len());
    for (tool, (name, reads)) in tools.iter().zip(TOOLS) {
        assert_eq!((&tool["name"], &tool["annotations"]["readOnlyHint"]), (&json!(name), &json!(reads)));
        assert_eq!(tool["annotations"].get("destructiveHint"), (!reads).then_some(&json!(true)), "{name}");
        assert!(["title", "description"].iter().all(|text| tool[text].as_str().is_some_and(|text| text.len() > 8)), "{tool}");
        let schema = &tool["inputSchema"];
        assert_eq!((&schema["type"], &schema["additionalProperties"]), (&json!("object"), &json!(false)), "{name}");
    }
    let search = &tools[1]["inputSchema"];
    assert_eq!(search["required"], json!(["collection", "query"]));
    let request = &server.document["components"]["schemas"]["SearchDocumentsRequest"]["properties"];
    assert_eq!(search["properties"]["limit"], request["limit"]);
    assert_eq!(search["properties"]["filter"]["$ref"], "#/$defs/FilterNode");
    assert_eq!(search["$defs"]["FilterNode"]["properties"]["not"]["$ref"], "#/$defs/FilterNode");
    assert!(search["properties"]["collection"]["pattern"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_add_read_search_and_delete_documents() {
    let server = Server::with_news().await;
    let added = value(&server, "add_documents", json!({"collection": "news", "documents": documents()})).await;
    assert_eq!((&added["failed"], added["results"].as_array().map(Vec::len)), (&json!(0), Some(2)), "{added}");
    let read = value(&server, "get_document", json!({"collection": "news", "id": "a/b %2F?#"})).await;
    assert_eq!(read, server.get("/v1/collections/news/documents/a%2Fb%20%252F%3F%23").await.body);
    assert_eq!((&read["text"], &read["title"]), (&json!("trains on friday"), &json!("Strike")));
    let wanted = json!({"query": "rain tomorrow", "limit": 1, "filter": {"field": "topic", "eq": "weather"}, "mode": "dense"});
    let mut arguments = wanted.clone();
    arguments["collection"] = json!("news");
    let found = value(&server, "search", arguments).await;
    assert_eq!(found["hits"][0]["id"], "rain");
    let mut expect = server.post("/v1/collections/news/search", &wanted).await.body;
    // Agents cannot use the places of the matching words.
    let marks = expect["hits"][0]["passage"].as_object_mut().and_then(|passage| passage.shift_remove("marks"));
    assert_eq!(marks.and_then(|marks| marks.as_array().map(Vec::len)), Some(2));
    assert_eq!(without_volatile_members(found), without_volatile_members(expect));
    let deleted = value(&server, "delete_documents", json!({"collection": "news", "ids": ["rain"]})).await;
    assert_eq!(deleted["deleted"], 1, "{deleted}");
    assert_eq!(server.get("/v1/collections/news/documents/rain").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_text_is_read_part_by_part() {
    let text = "Снег. ".repeat(4_000);
    let server = Server::with_documents(json!([{"id": "long", "text": text.trim()}, {"id": "short", "text": "Снег."}])).await;
    let read =
        async |start: Value| value(&server, "get_document", json!({"collection": "news", "id": "long", "start": start})).await;
    let (first, rest) = (read(Value::Null).await, read(json!(20_000)).await);
    assert_eq!((&first["next_start"], rest.get("next_start")), (&json!(20_000), None));
    let parts = [&first, &rest].map(|part| part["text"].as_str().expect("a text"));
    assert_eq!(parts.concat(), text.trim());
    assert_eq!(read(json!(23_994)).await["text"], "Снег.");
    assert_eq!(read(json!(u64::MAX)).await["text"], "");
    let short = value(&server, "get_document", json!({"collection": "news", "id": "short"})).await;
    assert_eq!((&short["text"], short.get("next_start")), (&json!("Снег."), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_optional_argument_that_is_null_counts_as_left_out() {
    let server = Server::with_documents(documents()).await;
    let arguments = json!({"collection": "news", "query": "rain tomorrow", "limit": 1, "filter": null, "mode": null});
    assert_eq!(value(&server, "search", arguments).await["hits"][0]["id"], "rain");
    let unknown = problem(&server, "search", json!({"collection": "news", "query": "rain", "top_k": null})).await;
    assert_eq!(unknown["errors"][0]["pointer"], "/top_k");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_search_tool_leaves_out_the_marks_of_titles_and_keeps_metadata_of_that_name() {
    let server = Server::with_news().await;
    let document = json!({"id": "a", "title": "Rain", "text": "rain", "metadata": {"marks": [1], "title_marks": 2}});
    let added = value(&server, "add_documents", json!({"collection": "news", "documents": [document]})).await;
    assert_eq!(added["failed"], 0, "{added}");
    let hit = value(&server, "search", json!({"collection": "news", "query": "rain"})).await["hits"][0].clone();
    assert_eq!(hit["metadata"], document["metadata"], "{hit}");
    assert!(hit["title"] == "Rain" && hit.get("title_marks").is_none() && hit["passage"].get("marks").is_none(), "{hit}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tool_count_values_counts_the_documents_with_each_value() {
    let server = Server::with_documents(documents()).await;
    let counted = value(&server, "count_values", json!({"collection": "news", "facets": [{"field": "topic"}]})).await;
    assert_eq!(counted["facets"][0]["values"], json!([{"value": "weather", "documents": 1}]), "{counted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partly_failed_add_reports_the_failed_document() {
    let server = Server::with_news().await;
    let both = json!([{"id": "a", "text": "rain"}, {"id": "b", "text": " "}]);
    let added = value(&server, "add_documents", json!({"collection": "news", "documents": both})).await;
    assert_eq!((&added["failed"], &added["results"][1]["id"]), (&json!(1), &json!("b")), "{added}");
    assert!(added["results"][1]["error"].is_object(), "{added}");
    let none = problem(&server, "add_documents", json!({"collection": "news", "documents": [{"id": "b", "text": " "}]})).await;
    assert_eq!(none["errors"][0]["pointer"], "/documents/0/text", "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn collections_are_listed_page_by_page() {
    let server = Server::with_news().await;
    server.create(json!({"name": "shop"})).await;
    let first = value(&server, "list_collections", json!({"limit": 1})).await;
    assert_eq!(first["collections"][0]["name"], "news");
    let second = value(&server, "list_collections", json!({"limit": 1, "cursor": first["next_cursor"]})).await;
    assert_eq!(second["collections"][0]["name"], "shop");
    // Clients may omit `arguments` when none are required.
    let all = ask(&server, "tools/call", json!({"name": "list_collections"})).await;
    assert_eq!(all["structuredContent"]["collections"].as_array().map(Vec::len), Some(2), "{all}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_classify_tool_predicts_with_a_trained_classifier() {
    let server = Server::with_news().await;
    let examples: Vec<Value> =
        [("rain wind", "weather"), ("rain storm", "weather"), ("goal match", "sports"), ("goal team", "sports")]
            .map(|(text, label)| json!({"text": text, "labels": [label]}))
            .to_vec();
    let body = json!({"name": "topics", "kind": "knn", "examples": examples, "knn": {"neighbors": 1}});
    let made = server.post("/v1/classifiers", &body).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let job = format!("/v1/jobs/{}", made.body["job"].as_str().expect("a job"));
    while server.get(&job).await.body["status"] != "succeeded" {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let listed = value(&server, "list_classifiers", json!({})).await;
    assert_eq!(listed["classifiers"][0]["name"], "topics");
    let predicted = value(&server, "classify", json!({"classifier": "topics", "texts": ["goal", "rain"]})).await;
    let labels: Vec<&Value> =
        predicted["predictions"].as_array().expect("predictions").iter().map(|one| &one["labels"]).collect();
    assert_eq!(labels, [&json!(["sports"]), &json!(["weather"])], "{predicted}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_compare_texts_and_detect_languages() {
    let server = Server::start();
    let texts = json!({"texts": ["Der Zug hat heute leider Verspätung.", "Поезд сегодня опаздывает."]});
    let detected = value(&server, "detect_language", texts.clone()).await;
    assert_eq!(without_volatile_members(detected), without_volatile_members(server.post("/v1/detect", &texts).await.body));
    let pairs = json!({"pairs": [{"first": "the same", "second": "the same"}]});
    let compared = value(&server, "compare_texts", pairs).await;
    assert!(compared["results"][0]["score"].as_f64().is_some_and(|score| score > 0.999), "{compared}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_tool_returns_the_same_problem_as_its_rest_operation() {
    let server = Server::with_documents(documents()).await;
    let check = async |tool: &str, collection: &str, body: Value, path: &str, code: &str| {
        let mut arguments = body.clone();
        arguments["collection"] = json!(collection);
        let refused = problem(&server, tool, arguments).await;
        let expect = server.post(&format!("/v1/collections/{collection}/{path}"), &body).await.body;
        assert_eq!(refused["code"], code, "{refused}");
        assert_eq!(without_volatile_members(refused), without_volatile_members(expect));
    };
    check("search", "news", json!({"query": "a", "limit": 0}), "search", "invalid_request").await;
    check("search", "news", json!({"query": "a", "limit": "ten", "mode": "fast"}), "search", "invalid_request").await;
    check("search", "news", json!({"query": " "}), "search", "invalid_request").await;
    check("search", "news", json!({"query": null}), "search", "invalid_request").await;
    check("search", "news", json!({"query": "a", "languages": ["xx"]}), "search", "unknown_language").await;
    check("search", "news", json!({"query": "a", "filter": {"field": "x"}}), "search", "invalid_filter").await;
    check("search", "none", json!({"query": "a"}), "search", "collection_not_found").await;
    check("search", "a+b", json!({"query": "a"}), "search", "invalid_request").await;
    check("add_documents", "news", json!({"documents": []}), "documents", "invalid_request").await;
    check("add_documents", "news", json!({"documents": [{"texts": "a"}]}), "documents", "invalid_request").await;
    check("delete_documents", "news", json!({}), "documents/delete", "invalid_request").await;
    let missing = problem(&server, "get_document", json!({"collection": "news", "id": "gone"})).await;
    assert_eq!(missing["code"], "document_not_found");
    let limit = problem(&server, "list_collections", json!({"limit": "many"})).await;
    assert_eq!((&limit["code"], &limit["errors"][0]["parameter"]), (&json!("invalid_request"), &json!("limit")));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_missing_and_invalid_tool_arguments_are_reported() {
    let server = Server::with_news().await;
    let check = async |tool: &str, arguments: Value, expect: &[(&str, &str)]| {
        let refused = problem(&server, tool, arguments).await;
        assert_eq!(
            (&refused["code"], &refused["status"], &refused["instance"]),
            (&json!("invalid_request"), &json!(422), &json!("/mcp"))
        );
        let places = refused["errors"].as_array().expect("places").iter();
        let places: Vec<(&str, &str)> =
            places.map(|one| (one["pointer"].as_str().expect("a place"), one["detail"].as_str().expect("words"))).collect();
        assert_eq!(places, expect);
    };
    check("search", json!({"query": "a"}), &[("/collection", "missing field `collection`")]).await;
    check("search", json!({"collection": 3, "query": "a"}), &[("/collection", "invalid type: integer `3`, expected a string")])
        .await;
    let document = "must have at least 1 character, got 0";
    check("get_document", json!({"collection": "news", "id": ""}), &[("/id", document)]).await;
    let start = json!({"collection": "news", "id": "a", "start": "0"});
    check("get_document", start, &[("/start", "invalid type: string \"0\", expected an integer of at least 0")]).await;
    let unknown = "unknown field `text`, expected `texts`";
    check("detect_language", json!({"text": "a"}), &[("/text", unknown), ("/texts", "missing field `texts`")]).await;
    let long = problem(&server, "get_document", json!({"collection": "news", "id": "x".repeat(100_000)})).await;
    assert_eq!(long["code"], "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_tools_and_methods_are_protocol_errors() {
    let server = Server::start();
    let response = server.post("/mcp", &message("tools/call", &json!({"name": "drop_tables", "arguments": {}}))).await;
    assert_eq!((response.status, &response.body["error"]["code"]), (200, &json!(-32602)), "{}", response.text);
    assert!(response.text.contains("drop_tables"));
    let response = server.post("/mcp", &message("resources/list", &json!({}))).await;
    assert_eq!(response.body["error"]["code"], -32601, "{}", response.text);
    let response = server.post("/mcp", &message("songs/list", &json!({}))).await;
    assert_eq!(response.body["error"], json!({"code": -32601, "message": "unknown method: songs/list"}), "{}", response.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_that_do_not_fit_a_known_method_are_invalid_params() {
    let server = Server::start();
    let check = async |method: &str, params: Option<Value>, words: &str| {
        let mut message = json!({"jsonrpc": "2.0", "id": 7, "method": method});
        if let Some(params) = params {
            message["params"] = params;
        }
        let response = server.post("/mcp", &message).await;
        let error = &response.body["error"];
        assert_eq!((response.status, &error["code"]), (200, &json!(-32602)), "{}", response.text);
        assert!(error["message"].as_str().is_some_and(|text| text.contains(words)), "{words}: {}", response.text);
    };
    let call = |arguments: Value| Some(json!({"name": "search", "arguments": arguments}));
    check("tools/call", call(json!([])), "/arguments").await;
    check("tools/call", call(json!("x")), "/arguments").await;
    check("tools/call", Some(json!({"arguments": {}})), "`name`").await;
    check("tools/call", None, "an object").await;
    check("initialize", Some(json!({"protocolVersion": "2025-11-25"})), "missing field").await;
    check("initialize", None, "an object").await;
    check("server/discover", None, "an object").await;
    let listed = server.post("/mcp", &message("tools/list", &json!({"cursor": 5}))).await;
    assert!(listed.body["result"]["tools"].is_array(), "no page follows, so a cursor means nothing: {}", listed.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn malformed_messages_are_refused_like_any_invalid_request() {
    let limits = Limits { body_bytes_max: 1_000, ..Limits::default() };
    let server = Server::with_limits(limits);
    let send = async |body: &str| server.call(Method::POST, "/mcp", Body::from(body.to_owned())).await;
    send("{").await.assert_error(400, "malformed_json", "", &["not well-formed"]);
    send("[]").await.assert_error(422, "invalid_request", "", &["expected an object"]);
    send("{\"a\": 1}").await.assert_error(422, "invalid_request", "", &[]);
    send(&format!("\"{}\"", "x".repeat(1_000))).await.assert_error(413, "body_too_large", "", &["at most 1000 bytes"]);
    let plain = Request::post("/mcp").header("content-type", "text/plain").body(Body::from("{}")).expect("a request");
    server.send(plain).await.assert_error(415, "unsupported_media_type", "content-type", &["application/json"]);
    let unknown = Request::post("/mcp").header("content-type", "application/json").header("mcp-protocol-version", "1999-01-01");
    let unknown = unknown.body(Body::from(message("ping", &json!({})).to_string())).expect("a request");
    let response = server.send(unknown).await;
    // The protocol requires this status.
    assert_eq!((response.status, &response.body["error"]["code"]), (400, &json!(-32600)), "{}", response.text);
    assert!(response.text.contains("1999-01-01"), "{}", response.text);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_over_4_mib_is_refused_despite_a_higher_body_limit() {
    let server = Server::with_news().await;
    let text = "x".repeat(4 << 20);
    let arguments = json!({"collection": "news", "documents": [{"text": text}]});
    let response = server.post("/mcp", &message("tools/call", &json!({"name": "add_documents", "arguments": arguments}))).await;
    response.assert_error(413, "body_too_large", "", &["4194304"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn get_and_delete_are_not_allowed() {
    let server = Server::start();
    for method in [Method::GET, Method::DELETE] {
        let request = Request::builder().method(method).uri("/mcp").header("accept", "text/event-stream");
        let response = server.send(request.body(Body::empty()).expect("a request")).await;
        assert_eq!((response.status, response.code(), response.header("allow")), (405, Some("method_not_allowed"), Some("POST")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_can_disable_mcp() {
    let server = Server::with_settings(Limits::default(), Settings { mcp: false, ..Settings::default() }, None);
    server.post("/mcp", &message("ping", &json!({}))).await.assert_error(404, "route_not_found", "", &[]);
}
