//! The tools: which operation each of them calls, with which of its arguments. Everything else about them comes from the
//! OpenAPI document.

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::domain::{Caller, Code, Scope};
use crate::http::error::ApiError;
use crate::http::middleware::access::Access;
use crate::http::middleware::request_id::REQUEST_ID;
use crate::http::middleware::traffic::ClientAddress;
use crate::http::openapi::description::Description;
use crate::http::request::body_schemas::{BodySchema, resolve_reference};
use crate::http::request::extract::schema_error;

/// The path of schemas in the document, and that of the schemas which a tool needs.
const SCHEMAS: &str = "#/components/schemas/";
const DEFINITIONS: &str = "#/$defs/";

/// How a tool affects stored data.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    /// Adds data, and replaces data with the same id.
    Stores,
    Deletes,
}

/// The name of a tool, its operation and effect, and its required and optional arguments, which are parameters of the operation's
/// path or query, or members of its body.
type ToolDefinition = (&'static str, &'static str, Effect, &'static [&'static str], &'static [&'static str]);

/// The argument of `get_document` that its operation does not have: a text may be longer than what an agent can read at once.
const TEXT_START: &str = "start";
/// Maximum characters of a text in one response of `get_document`.
const TEXT_CHARACTERS_MAX: usize = 20_000;

const TOOL_DEFINITIONS: &[ToolDefinition] = &[
    ("list_collections", "list_collections", Effect::Reads, &[], &["limit", "cursor"]),
    (
        "search",
        "search_documents",
        Effect::Reads,
        &["collection", "query"],
        &["limit", "offset", "languages", "prefer_language", "filter", "mode", "score_min"],
    ),
    ("count_values", "count_facets", Effect::Reads, &["collection", "facets"], &["filter"]),
    ("get_document", "get_document", Effect::Reads, &["collection", "id"], &[TEXT_START]),
    ("add_documents", "upsert_documents", Effect::Stores, &["collection", "documents"], &[]),
    ("delete_documents", "delete_documents", Effect::Deletes, &["collection"], &["ids", "filter"]),
    ("list_classifiers", "list_classifiers", Effect::Reads, &[], &["limit", "cursor"]),
    ("classify", "predict_labels", Effect::Reads, &["classifier"], &["texts", "documents", "threshold", "scores", "explain"]),
    ("detect_language", "detect_languages", Effect::Reads, &["texts"], &[]),
    ("compare_texts", "compare_pairs", Effect::Reads, &["pairs"], &[]),
];

/// Descriptions that replace those of the operation, which mention arguments, headers or routes that the tool does not have: of
/// the tool with this name, either of the tool itself (an empty pointer) or at this place in its schema.
const DESCRIPTIONS: &[(&str, &str, &str)] = &[
    ("search", "/properties/mode", "The search mode. Default: `full`."),
    (
        "search",
        "/properties/score_min",
        "Only hits with at least this score. In mode `full`, a score is between 0 and 1: how likely the passage answers the query.",
    ),
    (
        "search",
        "/properties/prefer_language",
        "Languages to prefer, 1 to 62, most preferred first, as BCP 47 tags; `auto` means the query's own. Their documents rank \
            before others whose score is less than a quarter better; scores do not change.",
    ),
    (
        "get_document",
        "",
        "Returns a stored document with its text, its language and whether it is searchable. Of a long text it returns a part of \
            20000 characters; if the text goes on, `next_start` is the `start` of the next part.",
    ),
    (
        "add_documents",
        "",
        "Stores one or more documents. A document whose id already exists is replaced, so a call can be repeated. Each document \
            succeeds or fails by itself, with one result per document in the order of the call. If none can be stored, the result \
            is an error with every document's place in `errors`.",
    ),
    (
        "add_documents",
        "/$defs/DocumentInput/properties/language",
        "The text's language, as a BCP 47 tag such as `pt` or `pt-BR`. Without a language, the server detects it.",
    ),
];

/// Removes from a response what agents cannot use: the places of the matching words in the texts of hits.
pub fn leave_out_marks(response: &mut Value) {
    let hits = response.get_mut("hits").and_then(Value::as_array_mut);
    for hit in hits.into_iter().flatten().filter_map(Value::as_object_mut) {
        hit.shift_remove("title_marks");
        if let Some(passage) = hit.get_mut("passage").and_then(Value::as_object_mut) {
            passage.shift_remove("marks");
        }
    }
}

/// Cuts the text of a document to a part that an agent can read, from the character `start`.
pub fn cut_text(document: &mut Value, start: usize) {
    let Some(text) = document["text"].as_str() else { return };
    let mut rest = text.chars().skip(start);
    let part: String = rest.by_ref().take(TEXT_CHARACTERS_MAX).collect();
    let goes_on = rest.next().is_some();
    document["text"] = json!(part);
    if goes_on {
        document["next_start"] = json!(start + TEXT_CHARACTERS_MAX);
    }
}

/// The schema of the argument `TEXT_START`.
fn text_start() -> Value {
    let about = "The character of the text to begin at, such as a hit's `passage.start`. Default: `0`.";
    json!({"type": "integer", "minimum": 0, "description": about})
}

/// A tool, and the operation that it calls.
pub struct RestTool {
    /// What clients see of the tool.
    pub definition: Tool,
    pub scope: Scope,
    method: Method,
    path: String,
    /// The arguments that belong to the query.
    in_query: Vec<&'static str>,
    optional: &'static [&'static str],
    /// A schema of the argument names and of the arguments in the path; the operation validates the others.
    arguments: Value,
}

/// An operation as the document describes it.
struct Described<'a> {
    document: &'a Value,
    operation: &'a Value,
}

pub fn build_tools(description: &Description) -> Vec<RestTool> {
    TOOL_DEFINITIONS.iter().filter_map(|definition| RestTool::new(*definition, description)).collect()
}

impl RestTool {
    /// `None` if the document does not have the operation.
    fn new((name, operation, effect, required, optional): ToolDefinition, description: &Description) -> Option<Self> {
        let operation = description.operations.get(operation)?;
        let Access::Key(scope, _) = operation.access else { return None };
        let described = Described { document: &description.document, operation: description.of_operation(operation) };
        let (mut properties, mut checked, mut definitions) = (Map::new(), Map::new(), Map::new());
        let mut in_query = Vec::new();
        for &argument in required.iter().chain(optional) {
            if argument == TEXT_START {
                checked.insert(argument.to_owned(), text_start());
                properties.insert(argument.to_owned(), text_start());
                continue;
            }
            let parameter = described.parameter(argument);
            let schema =
                parameter.as_ref().map_or_else(|| described.member(argument).cloned(), |(_, schema)| Some(schema.clone()))?;
            let location = parameter.as_ref().map(|(location, _)| location.as_str());
            if location == Some("query") {
                in_query.push(argument);
            }
            let check = if location == Some("path") { json!({"type": "string", "minLength": 1}) } else { json!({}) };
            checked.insert(argument.to_owned(), check);
            properties.insert(argument.to_owned(), described.localized(&schema, &mut definitions));
        }
        let all = |properties: Map<String, Value>| {
            json!({
                "type": "object", "properties": properties, "required": required, "additionalProperties": false,
            })
        };
        let mut schema = all(properties);
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        let text = |member: &str| described.operation[member].as_str().unwrap_or_default().replace('\n', " ");
        let mut tool_description = text("description");
        for (_, pointer, description) in DESCRIPTIONS.iter().filter(|(tool, ..)| *tool == name) {
            if pointer.is_empty() {
                (*description).clone_into(&mut tool_description);
            } else {
                schema.pointer_mut(pointer)?["description"] = json!(description);
            }
        }
        let schema = schema.as_object().cloned().unwrap_or_default();
        let annotations = ToolAnnotations::new().read_only(effect == Effect::Reads).open_world(false);
        let annotations = match effect {
            Effect::Reads => annotations,
            Effect::Stores => annotations.destructive(true).idempotent(false),
            Effect::Deletes => annotations.destructive(true).idempotent(true),
        };
        Some(Self {
            definition: Tool::new(name, tool_description, schema).with_title(text("summary")).with_annotations(annotations),
            scope,
            method: operation.method.clone(),
            path: operation.path.clone(),
            in_query,
            optional,
            arguments: all(checked),
        })
    }

    /// Where to begin in the text of the document that the tool returns; `None` if it returns none.
    pub fn text_start(&self, arguments: &Map<String, Value>) -> Option<usize> {
        let start = || arguments.get(TEXT_START).and_then(Value::as_u64).unwrap_or(0);
        self.optional.contains(&TEXT_START).then(|| usize::try_from(start()).unwrap_or(usize::MAX))
    }

    /// The request to the operation, on behalf of the caller that sent the request with this head. Some agents send null for each
    /// argument that they leave out.
    pub fn request(&self, mut arguments: Map<String, Value>, head: &Parts) -> Result<Request, ApiError> {
        arguments.retain(|name, value| !(value.is_null() && self.optional.contains(&name.as_str())));
        let arguments = Value::Object(arguments);
        let schema_violations = BodySchema::without_references(&self.arguments).schema_violations(&arguments);
        if !schema_violations.is_empty() {
            return Err(schema_error(schema_violations));
        }
        let (mut target, mut query, mut body) = (self.path.clone(), Vec::new(), Map::new());
        for (name, value) in arguments.as_object().into_iter().flatten().filter(|(name, _)| *name != TEXT_START) {
            let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let placeholder = format!("{{{name}}}");
            if target.contains(&placeholder) {
                target = target.replace(&placeholder, &percent_encode(&text()));
            } else if self.in_query.contains(&name.as_str()) {
                query.push(format!("{name}={}", percent_encode(&text())));
            } else {
                body.insert(name.clone(), value.clone());
            }
        }
        if !query.is_empty() {
            target = format!("{target}?{}", query.join("&"));
        }
        let content = if self.method == Method::GET { Body::empty() } else { Body::from(Value::Object(body).to_string()) };
        let request = Request::builder().method(&self.method).uri(target).header(CONTENT_TYPE, "application/json").body(content);
        let too_long = |error| ApiError::new(Code::InvalidRequest, format!("the arguments do not make a request: {error}"));
        let mut request = request.map_err(too_long)?;
        if let Some(id) = head.headers.get(REQUEST_ID) {
            request.headers_mut().insert(REQUEST_ID, id.clone());
        }
        if let Some(caller) = head.extensions.get::<Caller>() {
            request.extensions_mut().insert(caller.clone());
        }
        if let Some(address) = head.extensions.get::<ClientAddress>() {
            request.extensions_mut().insert(*address);
        }
        Ok(request)
    }
}

fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

impl<'a> Described<'a> {
    /// Where a parameter belongs, and its schema.
    fn parameter(&self, name: &str) -> Option<(String, Value)> {
        let all = self.operation["parameters"].as_array()?;
        let found = all
            .iter()
            .map(|parameter| resolve_reference(self.document, parameter))
            .find(|parameter| parameter["name"] == name)?;
        let mut schema = found["schema"].clone();
        // A tool call contains the value unencoded.
        let description = found["description"].as_str().unwrap_or_default().split(", percent-encoded").next();
        schema["description"] = json!(description);
        Some((found["in"].as_str()?.to_owned(), schema))
    }

    /// The schema of a member of the body.
    fn member(&self, name: &str) -> Option<&'a Value> {
        let body = self.operation.pointer("/requestBody/content/application~1json/schema")?;
        resolve_reference(self.document, body)["properties"].get(name)
    }

    /// The same schema, with the schemas that it references added to `definitions`.
    fn localized(&self, schema: &Value, definitions: &mut Map<String, Value>) -> Value {
        match schema {
            Value::Array(items) => items.iter().map(|item| self.localized(item, definitions)).collect(),
            Value::Object(members) => {
                let localized = members.iter().map(|(name, value)| {
                    let target = value.as_str().filter(|_| name == "$ref").and_then(|target| target.strip_prefix(SCHEMAS));
                    let Some(target) = target else { return (name.clone(), self.localized(value, definitions)) };
                    if !definitions.contains_key(target) {
                        // A schema may reference itself.
                        definitions.insert(target.to_owned(), Value::Null);
                        let definition = self.localized(&self.document["components"]["schemas"][target], definitions);
                        definitions.insert(target.to_owned(), definition);
                    }
                    (name.clone(), json!(format!("{DEFINITIONS}{target}")))
                });
                Value::Object(localized.collect())
            }
            other => other.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_requires_the_required_fields_of_its_operation() {
        let description = crate::http::description();
        let tools = build_tools(description);
        let names: Vec<&str> = tools.iter().map(|tool| tool.definition.name.as_ref()).collect();
        assert_eq!(names, TOOL_DEFINITIONS.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
        for (name, operation, _, required, _) in TOOL_DEFINITIONS {
            let BodySchema { document, schema } = description.body_schema(description.operations.get(operation).unwrap());
            for needed in resolve_reference(document, schema)["required"].as_array().into_iter().flatten() {
                assert!(required.iter().any(|name| needed == name), "{name} needs {needed}");
            }
        }
    }

    #[test]
    fn tool_schemas_resolve_without_the_openapi_document() {
        for tool in build_tools(crate::http::description()) {
            let schema = Value::Object((*tool.definition.input_schema).clone()).to_string();
            assert!(!schema.contains(SCHEMAS) && !schema.contains("percent-encoded"), "{schema}");
            for target in schema.split(DEFINITIONS).skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(tool.definition.input_schema["$defs"][target].is_object(), "{target} in {schema}");
            }
        }
    }

    #[test]
    fn descriptions_mention_only_arguments_that_the_tool_has() {
        let description = crate::http::description();
        for (tool, (name, operation, ..)) in build_tools(description).iter().zip(TOOL_DEFINITIONS) {
            let operation = description.operations.get(operation).unwrap();
            let BodySchema { document, schema } = description.body_schema(operation);
            let members = resolve_reference(document, schema)["properties"].as_object();
            let parameters = description.of_operation(operation)["parameters"].as_array().into_iter().flatten();
            let parameters = parameters.map(|parameter| resolve_reference(document, parameter)["name"].as_str().unwrap());
            let arguments = tool.definition.input_schema["properties"].as_object().unwrap();
            let lacking = members.into_iter().flatten().map(|(member, _)| member.as_str()).chain(parameters);
            let schema = Value::Object((*tool.definition.input_schema).clone()).to_string();
            let text = format!("{} {schema}", tool.definition.description.as_deref().unwrap());
            for word in lacking.filter(|member| !arguments.contains_key(*member)).chain(["GET /v1", "POST /v1", "The status"]) {
                assert!(!text.contains(&format!("`{word}")) && !text.contains(&format!("{word} is")), "{name}: {word} in {text}");
            }
        }
    }
}
