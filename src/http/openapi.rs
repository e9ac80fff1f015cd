//! The OpenAPI document: assembled from the operations, completed with all errors and examples, and served.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{Html, IntoResponse};
use serde_json::{Map, Value, json};
use utoipa::OpenApi;
use utoipa_swagger_ui::{Config, SwaggerUi};

use super::access::{self, Access};
use super::api::Api;
use super::documents::WaitFor;
use super::error::{ApiError, CHALLENGE, OpenAiProblem, PROBLEM_JSON, Problem, retry_after_s};
use super::operation_errors::OperationErrors;
use super::transfer::ExportInclude;
use super::{
    aliases, classifiers, collections, detection, documents, embeddings, health, job_streams, jobs, keys, mining, mining_results,
    models, patterns, reembedding, revisions, search, selections, similarity, snapshots, transfer,
};
use crate::domain::Code;

/// The security scheme's name in the document.
const SCHEME: &str = "key";

/// The id of jobs, snapshots and requests in examples.
const EXAMPLE_ID: &str = "0198c0de-7a11-7000-8000-2f1de5c0ffee";

/// Every operation's codes.
const ERRORS: &[&[OperationErrors]] = &[
    collections::ERRORS,
    reembedding::ERRORS,
    aliases::ERRORS,
    documents::ERRORS,
    revisions::ERRORS,
    selections::ERRORS,
    transfer::ERRORS,
    search::ERRORS,
    jobs::ERRORS,
    job_streams::ERRORS,
    snapshots::ERRORS,
    classifiers::definitions::ERRORS,
    classifiers::predictions::ERRORS,
    classifiers::evaluations::ERRORS,
    classifiers::applications::ERRORS,
    embeddings::ERRORS,
    similarity::ERRORS,
    detection::ERRORS,
    mining::ERRORS,
    mining_results::ERRORS,
    models::ERRORS,
    keys::ERRORS,
    health::ERRORS,
];

macro_rules! examples {
    ($($name:literal),+ $(,)?) => {
        /// Every example by its name: the operation's id, then `request` or the status of the response.
        const EXAMPLES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../openapi/examples/", $name, ".json"))),)+];
    };
}

examples![
    "create_collection.request",
    "create_collection.201",
    "list_collections.200",
    "get_collection.200",
    "change_collection.request",
    "change_collection.200",
    "reembed_collection.request",
    "reembed_collection.202",
    "list_aliases.200",
    "put_alias.request",
    "put_alias.200",
    "upsert_documents.request",
    "upsert_documents.200",
    "upsert_documents.207",
    "list_documents.200",
    "get_document.200",
    "put_document.request",
    "put_document.200",
    "put_document.201",
    "patch_document.request",
    "patch_document.200",
    "scroll_documents.request",
    "scroll_documents.200",
    "count_documents.request",
    "count_documents.200",
    "delete_documents.request",
    "delete_documents.200",
    "count_facets.request",
    "count_facets.200",
    "search_documents.request",
    "search_documents.200",
    "search_batch.request",
    "search_batch.200",
    "recommend_documents.request",
    "recommend_documents.200",
    "import_documents.202",
    "list_jobs.200",
    "get_job.200",
    "cancel_job.200",
    "create_snapshot.request",
    "create_snapshot.202",
    "list_snapshots.200",
    "get_snapshot.200",
    "restore_snapshot.request",
    "restore_snapshot.202",
    "upload_snapshot.201",
    "create_classifier.request",
    "create_classifier.201",
    "list_classifiers.200",
    "get_classifier.200",
    "predict_labels.request",
    "predict_labels.200",
    "train_classifier.202",
    "start_evaluation.request",
    "start_evaluation.202",
    "get_evaluation.200",
    "evaluate_classifier.request",
    "evaluate_classifier.200",
    "apply_classifier.request",
    "apply_classifier.202",
    "create_embeddings.request",
    "create_embeddings.200",
    "compare_pairs.request",
    "compare_pairs.200",
    "compare_sets.request",
    "compare_sets.200",
    "detect_languages.request",
    "detect_languages.200",
    "mine_pairs.request",
    "mine_pairs.202",
    "find_duplicates.request",
    "find_duplicates.202",
    "list_models.200",
    "create_key.request",
    "create_key.201",
    "list_keys.200",
    "check_health.200",
    "check_readiness.200",
];

/// What the document says besides its operations.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Dragoman",
        description = "Vector search across languages with a built-in embedder: send documents in any of 62 languages and \
            search in any other.\n\nEvery error is an RFC 9457 problem with a `code` from a closed list, which `/docs/errors` \
            explains. Errors of `/v1/embeddings` have OpenAI's shape. An unknown path gets `route_not_found` (404), and a \
            method that a path does not support gets `method_not_allowed` (405). HEAD is answered like GET, without a body. \
            If the server has keys, every request needs one, sent as `authorization: Bearer KEY`, except for operations \
            marked as open, this document and its pages. `/metrics` answers Prometheus. Every response carries \
            `x-request-id`: the client's own, if it sent one of at most 128 printable ASCII characters, or else a new one. \
            Unknown members of a request are refused by name, and so is null where the schema does not allow it: leave \
            optional members out. Responses omit optional members instead of sending null.",
        license(name = "Apache License 2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "http://127.0.0.1:7700", description = "A server on this machine at its default address.")),
    tags(
        (name = "collections", description = "Collections: documents that share a model and an index."),
        (name = "aliases", description = "Aliases: other names of collections."),
        (name = "documents", description = "Documents: texts with an id, a language and metadata."),
        (name = "search", description = "Search a collection across languages."),
        (name = "import_export", description = "Import and export documents as files, streamed both ways."),
        (name = "jobs", description = "Jobs: work that outlives its request."),
        (name = "job_streams", description = "Streams of a job: progress as server-sent events, results line by line."),
        (name = "snapshots", description = "Snapshots: copies of collections, each as of one moment."),
        (name = "snapshot_archives", description = "Download and upload the files of snapshots."),
        (name = "classifiers", description = "Classifiers: learn labels in some languages and predict them in all."),
        (name = "embeddings", description = "Embed texts, as OpenAI's clients do."),
        (name = "comparison", description = "Detect the languages of texts, and compare their meanings."),
        (name = "mining", description = "Find texts with the same meaning: translation pairs and clusters of duplicates."),
        (name = "mining_results", description = "The pairs and clusters that jobs found, as JSON lines and as tables."),
        (name = "models", description = "The loaded models."),
        (name = "keys", description = "Keys: who may do what."),
        (name = "health", description = "Liveness and readiness, for operators and their tools."),
    ),
    components(schemas(Problem, OpenAiProblem, WaitFor, ExportInclude)),
)]
struct Frame;

/// The document without operations.
pub fn frame() -> utoipa::openapi::OpenApi {
    Frame::openapi()
}

/// Adds what the operations share: errors with their statuses, headers, examples, security.
pub fn complete(document: utoipa::openapi::OpenApi) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    document["components"]["securitySchemes"][SCHEME] = json!({
        "type": "http",
        "scheme": "bearer",
        "description": "A key of `/v1/keys`, or the admin key of the server's configuration. A server without keys needs none.",
    });
    document["security"] = json!([{SCHEME: []}]);
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    let operations = paths.flat_map(|(path, item)| {
        let path = path.replace("{classifier}", "topics");
        let instance = path.replace("{collection}", "news").replace("{alias}", "current").replace("{id}", "fr-1");
        let instance = instance.replace("{key}", "0198c0de7a117000800000000000000a");
        let instance = ["{job}", "{snapshot}"].iter().fold(instance, |path, name| path.replace(name, EXAMPLE_ID));
        item.as_object_mut().into_iter().flat_map(Map::values_mut).map(move |operation| (instance.clone(), operation))
    });
    for (instance, operation) in operations {
        let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
        add_errors(&id, &instance, operation);
        add_examples(&id, operation);
        operation["parameters"].as_array_mut().into_iter().flatten().for_each(patterns::of_parameter);
        if access::access(&id) == Access::Open {
            operation["security"] = json!([]);
        }
        for response in operation["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            response["headers"]["x-request-id"] = json!({
                "description": "The id of the request.",
                "schema": {"type": "string"},
            });
        }
    }
    let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    if let Some(schemas) = schemas {
        schemas.values_mut().for_each(say_defaults_in_words);
        patterns::of_schemas(schemas);
    }
    document
}

/// Moves the defaults of a schema's members from the keyword `default` into their descriptions: openapi-typescript takes a member
/// with a default for one that is always present, so that nobody could leave it out of a request.
fn say_defaults_in_words(schema: &mut Value) {
    let members = schema.get_mut("properties").and_then(Value::as_object_mut);
    for member in members.into_iter().flat_map(Map::values_mut) {
        let Some(default) = member.as_object_mut().and_then(|member| member.remove("default")) else { continue };
        let description = member["description"].as_str().unwrap_or_default();
        member["description"] = json!(format!("{description} Default: `{default}`.").trim_start());
    }
}

/// The error codes of an operation: its own, and those of the guard.
pub fn codes(operation_id: &str) -> Vec<Code> {
    let groups = ERRORS.iter().flat_map(|errors| errors.iter()).find(|(id, _)| *id == operation_id);
    let own = groups.into_iter().flat_map(|(_, groups)| groups.iter().flat_map(|group| group.iter().copied()));
    let mut codes: Vec<Code> = own.collect();
    for &code in access::codes(access::access(operation_id)) {
        if !codes.contains(&code) {
            codes.push(code);
        }
    }
    codes
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
            false => json!(error.problem(EXAMPLE_ID, instance)),
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
        if code == Code::Unauthorized {
            response["headers"]["www-authenticate"] = json!({
                "description": "What to send: a key as a bearer token.",
                "schema": {"type": "string"},
                "example": CHALLENGE,
            });
        }
        if retry_after_s(code).is_some() {
            response["headers"]["retry-after"] = json!({
                "description": "Seconds to wait before retrying.",
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
pub async fn serve_document(State(api): State<Api>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], api.description.text.as_str())
}

/// Serves the list of error codes, to which the member `type` of every problem points.
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

/// The browser of the document, with its assets inside the program. It loads nothing from elsewhere.
pub fn swagger_ui() -> SwaggerUi {
    SwaggerUi::new("/docs").config(Config::new(["/openapi.json"]).validator_url("none"))
}
