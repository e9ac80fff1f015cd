//! The OpenAPI document: assembled from the operations, completed with all errors and examples, and served.

pub mod description;
mod documented_errors;
pub mod operation_errors;
pub mod operations;
mod path_parameters;
mod patterns;
mod shared_parts;

use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, LOCATION};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{Html, Response};
use axum::routing::get;
use serde_json::{Map, Value, json};
use tower_http::decompression::DecompressionLayer;
use utoipa::OpenApi;
use utoipa_swagger_ui::SwaggerUi;

use super::api::Api;
use super::error::{OpenAiProblem, Problem, Shape};
use crate::domain::{Code, Wait};
use crate::http::documents::import_export::ExportInclude;
use crate::http::middleware::access::Access;
use crate::http::response::etags;
use documented_errors::DocumentedErrors;
use operations::{Operation, Operations};

/// The security scheme's name in the document.
const SCHEME: &str = "key";

/// Members for which null has a meaning, by schema: OpenAI's errors contain it, and in a patch it removes a value.
const MAY_BE_NULL: [(&str, &str); 4] = [
    ("OpenAiProblemDetail", "param"),
    ("PatchDocumentRequest", "title"),
    ("PatchDocumentRequest", "expires_at"),
    ("UpdateDocumentsRequest", "expires_at"),
];

/// The document without its operations.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Dragoman",
        description = "Vector search across languages, with the embedding model built in: store documents in any of 62 \
            languages and search them in any other.\n\nEvery error is an RFC 9457 problem with a `code` from a closed list, \
            which `/docs/errors` explains. An operation can return the codes that it lists as `x-error-codes`, and those that \
            its responses list. Errors of `/v1/embeddings` and `/v1/models/{model}` have OpenAI's format and status codes. An \
            unknown path returns `route_not_found` (404), and a method that a path does not have returns `method_not_allowed` \
            (405). HEAD works like GET, but returns no body. On a server with keys every request needs one, as `authorization: \
            Bearer KEY`, except for operations that are marked as open, this document and its pages. `/metrics` serves metrics \
            for Prometheus. Every response has the header `x-request-id`: the client's own, if it sent at most 128 printable \
            ASCII characters, otherwise a new one. Requests with unknown members are refused, and so is null where the \
            schema does not allow it: leave optional members out, as responses do. A JSON body may be compressed with gzip or \
            zstd, as its `content-encoding` says; responses are too if `accept-encoding` asks for it.",
        license(name = "Apache License 2.0", identifier = "Apache-2.0"),
    ),
    servers((url = "/", description = "The server that this document comes from.")),
    tags(
        (name = "collections", description = "Collections: documents that share a model and an index."),
        (name = "aliases", description = "Aliases: other names of collections."),
        (name = "documents", description = "Documents: texts with an id, a language and metadata."),
        (name = "projections", description = "Maps: the documents of a collection as points on a plane."),
        (name = "search", description = "Search a collection across languages."),
        (name = "import_export", description = "Import and export documents as files, streamed both ways."),
        (name = "jobs", description = "Jobs: work that outlives its request."),
        (name = "job_streams", description = "Streams of a job: progress as server-sent events, results line by line."),
        (name = "snapshots", description = "Snapshots: copies of collections, each taken at a single point in time."),
        (name = "snapshot_archives", description = "Download and upload the files of snapshots."),
        (name = "classifiers", description = "Classifiers: learn labels in some languages and predict them in all."),
        (name = "embeddings", description = "Embed texts, with an interface compatible with OpenAI's."),
        (name = "comparison", description = "Detect the languages of texts, and compare their meanings."),
        (name = "mining", description = "Find texts with the same meaning: translation pairs and clusters of duplicates."),
        (name = "mining_results", description = "The pairs and clusters that jobs found, as JSON lines and as tables."),
        (name = "models", description = "The loaded models."),
        (name = "keys", description = "Keys: what each caller may do."),
        (name = "health", description = "Liveness and readiness, for operators and their tools."),
    ),
    components(schemas(Problem, OpenAiProblem, Wait, ExportInclude)),
)]
struct Frame;

/// The document without operations.
pub fn frame() -> utoipa::openapi::OpenApi {
    Frame::openapi()
}

/// Adds what the operations share: errors with their statuses, headers, examples, security.
pub fn complete(document: utoipa::openapi::OpenApi, declared: &Operations) -> Value {
    let mut document = serde_json::to_value(document).unwrap_or_default();
    document["components"]["securitySchemes"][SCHEME] = json!({
        "type": "http",
        "scheme": "bearer",
        "description": "A key of `/v1/keys`, or the admin key of the server's configuration. A server without keys needs none.",
    });
    document["security"] = json!([{SCHEME: []}]);
    let mut errors = DocumentedErrors::default();
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    let operations = paths.flat_map(|(path, item)| {
        let shape = Shape::of_route(path);
        let instance = path_parameters::example(path);
        item.as_object_mut().into_iter().flat_map(Map::values_mut).map(move |operation| (shape, instance.clone(), operation))
    });
    for (shape, instance, operation) in operations {
        let Some(declaration) = operation["operationId"].as_str().and_then(|id| declared.get(id)) else { continue };
        for response in operation["responses"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            response["headers"]["x-request-id"] = documented_errors::header("x-request-id");
        }
        errors.describe(operation, shape, declaration.codes(), &instance);
        add_examples(declaration, operation);
        for parameter in operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten() {
            path_parameters::add_pattern(parameter);
            forbid_null(&mut parameter["schema"]);
        }
        if declaration.access == Access::Open {
            operation["security"] = json!([]);
        }
    }
    let schemas = document.pointer_mut("/components/schemas").and_then(Value::as_object_mut);
    if let Some(schemas) = schemas {
        schemas.iter_mut().for_each(|(name, schema)| forbid_null_members(name, schema));
        schemas.values_mut().for_each(move_defaults_to_descriptions);
        patterns::add_schema_patterns(schemas);
    }
    errors.add_to(&mut document["components"]);
    documented_errors::share_codes(&mut document);
    shared_parts::share(&mut document);
    document
}

/// Makes optional members not null: they are left out instead, except where null has a meaning.
fn forbid_null_members(name: &str, schema: &mut Value) {
    let members = schema.get_mut("properties").and_then(Value::as_object_mut);
    for (member, schema) in members.into_iter().flatten() {
        if !MAY_BE_NULL.contains(&(name, member)) {
            forbid_null(schema);
        }
    }
}

/// Makes a header, a parameter or a member not null: it is left out instead.
fn forbid_null(schema: &mut Value) {
    if let Some(types) = schema.get_mut("type").and_then(Value::as_array_mut) {
        types.retain(|kind| kind != "null");
        if let [kind] = types.as_slice() {
            schema["type"] = kind.clone();
        }
    } else if let Some(kinds) = schema.get("oneOf").and_then(Value::as_array) {
        let others: Vec<Value> = kinds.iter().filter(|kind| kind["type"] != "null").cloned().collect();
        if let ([Value::Object(other)], Some(members)) = (others.as_slice(), schema.as_object_mut()) {
            members.shift_remove("oneOf");
            let original = std::mem::replace(members, other.clone());
            members.extend(original);
        }
    }
}

/// Moves the defaults of a schema's members from the keyword `default` into their descriptions: openapi-typescript treats a
/// member with a default as always present, so no client could leave it out of a request.
fn move_defaults_to_descriptions(schema: &mut Value) {
    let members = schema.get_mut("properties").and_then(Value::as_object_mut);
    for member in members.into_iter().flat_map(Map::values_mut) {
        // The default of a member that may be left out is no value; its own description says what that means.
        let default = member.as_object_mut().and_then(|member| member.remove("default"));
        let Some(default) = default.filter(|default| !default.is_null()) else { continue };
        let description = member["description"].as_str().unwrap_or_default();
        member["description"] = json!(format!("{description} Default: `{default}`.").trim_start());
    }
}

fn add_examples(declared: &Operation, operation: &mut Value) {
    for (part, text) in &declared.examples {
        let body = match *part {
            "request" => &mut operation["requestBody"],
            status => &mut operation["responses"][status],
        };
        body["content"]["application/json"]["example"] = serde_json::from_str(text).unwrap_or_default();
    }
}

/// Serves the document, or 304 if the client already has it.
pub async fn serve_document(State(api): State<Api>, headers: HeaderMap) -> Response {
    etags::serve(&headers, &api.description.etag, "application/json", api.description.text.as_str())
}

/// Serves the list of error codes, to which the member `type` of every problem points.
pub async fn serve_errors_page() -> Html<String> {
    let entry = |code: &Code| {
        let (name, status, summary, example, remedy) =
            (code.name(), code.status(), code.summary(), code.example(), code.remedy());
        format!(
            "<h2 id=\"{name}\">{name}</h2>\n<p>Status {status}. {summary}</p>\n<blockquote>{example}</blockquote>\n<p>{remedy}</p>\n"
        )
    };
    let entries: String = Code::ALL.iter().map(entry).collect();
    let head =
        "<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><title>Dragoman: errors</title></head>\n<body>\n";
    Html(format!("{head}<h1>Errors</h1>\n{entries}</body>\n</html>\n"))
}

/// Swagger UI for the document, with its assets inside the program. It loads nothing from elsewhere. The program contains the
/// assets compressed; they are sent in an encoding that the client accepts.
pub fn swagger_ui<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let start = ([(CONTENT_TYPE, "text/javascript; charset=utf-8")], include_str!("reference_page.js"));
    Router::from(SwaggerUi::new("/docs"))
        .route("/docs/swagger-initializer.js", get(async move || start))
        .layer(axum::middleware::map_response(keep_redirect_below_the_path_of_a_proxy))
        .layer(DecompressionLayer::new())
}

async fn keep_redirect_below_the_path_of_a_proxy(mut response: Response) -> Response {
    if let Some(location) = response.headers_mut().get_mut(LOCATION) {
        *location = HeaderValue::from_static("docs/");
    }
    response
}
