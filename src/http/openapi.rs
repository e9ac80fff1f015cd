//! The OpenAPI document: assembled from the operations, completed with every error and example, and served.

use std::sync::LazyLock;

use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use serde_json::{Map, Value, json};
use utoipa::OpenApi;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::documents::WaitFor;
use super::error::{ApiError, OpenAiProblem, PROBLEM_JSON, Problem, retry_after_s};
use super::{collections, documents, embeddings, health, models, search};
use crate::domain::Code;

/// An operation's id and the codes that it can answer with, in groups.
pub type OperationErrors = (&'static str, &'static [&'static [Code]]);

/// Codes of every operation that reads a JSON body, besides `invalid_request`.
pub const BODY_ERRORS: &[Code] = &[Code::MalformedJson, Code::BodyTooLarge, Code::UnsupportedMediaType];

/// Codes of every operation that reads the store.
pub const READ_ERRORS: &[Code] = &[Code::InvalidRequest, Code::Unavailable, Code::StorageUnavailable, Code::Internal];

/// Codes of every operation that reads a JSON body and writes to the store.
pub const WRITE_ERRORS: &[Code] = &[
    Code::MalformedJson,
    Code::BodyTooLarge,
    Code::UnsupportedMediaType,
    Code::InvalidRequest,
    Code::Overloaded,
    Code::Unavailable,
    Code::StorageUnavailable,
    Code::Internal,
];

/// Every operation's codes.
const ERRORS: [&[OperationErrors]; 6] =
    [collections::ERRORS, documents::ERRORS, search::ERRORS, embeddings::ERRORS, models::ERRORS, health::ERRORS];

macro_rules! examples {
    ($($name:literal),+ $(,)?) => {
        /// Every example by its name: the operation's id, then `request` or the status of the answer.
        const EXAMPLES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../openapi/examples/", $name, ".json"))),)+];
    };
}

examples![
    "create_collection.request",
    "create_collection.201",
    "list_collections.200",
    "get_collection.200",
    "upsert_documents.request",
    "upsert_documents.200",
    "upsert_documents.207",
    "list_documents.200",
    "get_document.200",
    "search_documents.request",
    "search_documents.200",
    "create_embeddings.request",
    "create_embeddings.200",
    "list_models.200",
    "check_health.200",
    "check_readiness.200",
];

/// What the document says besides its operations.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Dragoman",
        description = "Vector search across languages, with the embedder built in: send documents in any of 62 languages, ask in \
            any other.\n\nEvery error is an RFC 9457 problem with a `code` from a closed list, which `/docs/errors` explains; \
            errors of `/v1/embeddings` have OpenAI's shape. A path that does not exist answers `route_not_found` (404), a method \
            that a path does not have `method_not_allowed` (405). Every answer carries `x-request-id`: the client's own, if it \
            sent one of at most 128 printable ASCII characters, else a new one. Unknown members of a request are refused by \
            name; null in an optional member means the same as leaving it out. In answers optional members are omitted, \
            not null.",
        license(name = "Apache License 2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "http://127.0.0.1:7700", description = "A server on this machine, with its default address.")),
    tags(
        (name = "collections", description = "Collections: documents that share one model and one index."),
        (name = "documents", description = "Documents: texts with an id, a language and metadata."),
        (name = "search", description = "Searching a collection across languages."),
        (name = "embeddings", description = "The encoder by itself, as OpenAI's clients call it."),
        (name = "models", description = "What is loaded."),
        (name = "health", description = "Liveness and readiness, for whoever runs the server."),
    ),
    components(schemas(Problem, OpenAiProblem, WaitFor)),
)]
struct Frame;

/// The document without operations.
pub fn frame() -> utoipa::openapi::OpenApi {
    Frame::openapi()
}

/// Adds to the operations what they share: errors with their statuses, headers, examples, security.
pub fn complete(document: utoipa::openapi::OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    // No key is needed yet; generators and linters want that said.
    document["security"] = json!([]);
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    let operations = paths.flat_map(|(path, item)| {
        let instance = path.replace("{collection}", "news").replace("{id}", "fr-1");
        item.as_object_mut().into_iter().flat_map(Map::values_mut).map(move |operation| (instance.clone(), operation))
    });
    for (instance, operation) in operations {
        let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
        add_errors(&id, &instance, operation);
        add_examples(&id, operation);
        for response in operation["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            response["headers"]["x-request-id"] = json!({
                "description": "The id of the request.",
                "schema": {"type": "string"},
            });
        }
    }
    document
}

/// The codes that an operation can answer with.
pub fn codes(operation_id: &str) -> impl Iterator<Item = Code> {
    let groups = ERRORS.iter().flat_map(|errors| errors.iter()).find(|(id, _)| *id == operation_id);
    groups.into_iter().flat_map(|(_, groups)| groups.iter().flat_map(|group| group.iter().copied()))
}

fn add_errors(id: &str, instance: &str, operation: &mut Value) {
    let open_ai = id == "create_embeddings";
    let (media_type, schema) = if open_ai { ("application/json", "OpenAiProblem") } else { (PROBLEM_JSON, "Problem") };
    for code in codes(id) {
        let summary = code.summary().trim_end_matches('.');
        let detail = summary[..1].to_lowercase() + &summary[1..];
        let error = ApiError::new(code, detail);
        let example = match open_ai {
            true => json!(error.open_ai()),
            false => json!(error.problem("0198c0de-7a11-7000-8000-2f1de5c0ffee", instance)),
        };
        let response = &mut operation["responses"][code.status().to_string()];
        let line = format!("`{}`: {}", code.name(), code.summary());
        let description = match response["description"].as_str() {
            Some(others) => format!("{others}\n\n{line}"),
            None => line,
        };
        response["description"] = json!(description);
        response["content"][media_type]["schema"] = json!({"$ref": format!("#/components/schemas/{schema}")});
        response["content"][media_type]["examples"][code.name()] = json!({"summary": code.summary(), "value": example});
        if retry_after_s(code).is_some() {
            response["headers"]["retry-after"] = json!({
                "description": "Seconds after which to come again.",
                "schema": {"type": "integer", "minimum": 1},
            });
        }
    }
}

fn add_examples(id: &str, operation: &mut Value) {
    for (name, text) in EXAMPLES {
        let Some((owner, part)) = name.split_once('.').filter(|(owner, _)| *owner == id) else { continue };
        debug_assert_eq!(owner, id);
        let body = match part {
            "request" => &mut operation["requestBody"],
            status => &mut operation["responses"][status],
        };
        body["content"]["application/json"]["example"] = serde_json::from_str(text).unwrap_or_default();
    }
}

/// Serves the document.
pub async fn serve_document() -> impl IntoResponse {
    static TEXT: LazyLock<String> = LazyLock::new(|| super::document().to_string());
    ([(CONTENT_TYPE, "application/json")], TEXT.as_str())
}

/// Serves the list of error codes, where the member `type` of every problem points.
pub async fn serve_errors_page() -> Html<String> {
    let entry = |code: &Code| {
        let (name, status, summary) = (code.name(), code.status(), code.summary());
        format!("<h2 id=\"{name}\">{name}</h2>\n<p>Status {status}. {summary}</p>\n")
    };
    let entries: String = Code::ALL.iter().map(entry).collect();
    let head =
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Dragoman: errors</title></head>\n<body>\n";
    Html(format!("{head}<h1>Errors</h1>\n{entries}</body>\n</html>\n"))
}

/// The browser for the document, its assets inside the program. It loads nothing from elsewhere.
pub fn swagger_ui() -> SwaggerUi {
    SwaggerUi::new("/docs").config(Config::new(["/openapi.json"]).validator_url("none"))
}
