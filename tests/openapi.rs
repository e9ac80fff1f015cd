//! The OpenAPI document: the committed file is the generated one, and it keeps the rules that generators need. After a change
//! to the API, `DRAGOMAN_BLESS=1 cargo test --test openapi` writes the file.

#[path = "openapi/errors_page.rs"]
mod errors_page;
#[path = "openapi/layout.rs"]
mod layout;
#[path = "support/schema.rs"]
mod schema;
#[path = "openapi/walk.rs"]
mod walk;

use std::collections::BTreeSet;

use dragoman::domain::{Code, CollectionName, DocumentId, Scope};
use dragoman::http;
use dragoman::http::error::Shape;
use dragoman::http::middleware::access::{Access, CollectionAccess};
use serde_json::Value;
use walk::each_schema;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi/openapi.json");
/// The operations that answer with hits.
const SEARCHES: [&str; 3] = ["search_documents", "search_batch", "recommend_documents"];
const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];
/// The members for which null means something: OpenAI's errors contain it, and a patch uses it to remove a value.
const MAY_BE_NULL: [&str; 4] = [
    "OpenAiProblemDetail/param",
    "PatchDocumentRequest/title",
    "PatchDocumentRequest/expires_at",
    "UpdateDocumentsRequest/expires_at",
];
/// The operations that use a classifier.
const ASKING: &[&str] = &["predict_labels", "evaluate_classifier", "start_evaluation", "apply_classifier"];
/// The operations that train a classifier.
const TRAINING: &[&str] = &["create_classifier", "train_classifier"];
/// Maximum size of the committed file in bytes.
const BYTES_MAX: usize = 300_000;

/// An operation with its path.
struct Operation<'a> {
    document: &'a Value,
    path: &'a str,
    id: &'a str,
    body: &'a Value,
}

/// The access that an operation needs, as its route declares it.
fn access(id: &str) -> Access {
    http::description().operations.get(id).expect("an operation").access
}

fn operations(document: &Value) -> Vec<Operation<'_>> {
    let mut found = Vec::new();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, body) in item.as_object().expect("a path item") {
            assert!(METHODS.contains(&method.as_str()), "{path} has the member {method}");
            found.push(Operation { document, path, id: body["operationId"].as_str().expect("an operationId"), body });
        }
    }
    found
}

impl<'a> Operation<'a> {
    fn has_body(&self) -> bool {
        !self.body["requestBody"].is_null()
    }

    /// Whether its body's schema has a member with this name.
    fn has_member(&self, name: &str) -> bool {
        let schema = &self.body["requestBody"]["content"]["application/json"]["schema"];
        !schema::resolved(self.document, schema)["properties"][name].is_null()
    }

    /// Whether its body is JSON, not a file.
    fn takes_json(&self) -> bool {
        !self.body["requestBody"]["content"]["application/json"].is_null()
    }

    fn parameters(&self) -> impl Iterator<Item = &'a Value> {
        let parameters = self.body["parameters"].as_array().into_iter().flatten();
        let document = self.document;
        parameters.map(move |parameter| schema::resolved(document, parameter))
    }

    fn has_parameter(&self, name: &str) -> bool {
        self.parameters().any(|parameter| parameter["name"] == name)
    }

    fn media_type(&self) -> &'static str {
        if Shape::of_route(self.path) == Shape::OpenAi { "application/json" } else { "application/problem+json" }
    }

    /// The status of a code; for OpenAI-compatible operations, OpenAI's.
    fn status(&self, code: Code) -> String {
        Shape::of_route(self.path).status(code).to_string()
    }

    /// Whether it lists `code`, with an example in the response of the code's status.
    fn documents(&self, code: Code) -> bool {
        let listed = self.codes().any(|name| name == code.name());
        let status = self.status(code);
        let response = self.responses().find(|(known, _)| **known == status).map_or(&Value::Null, |(_, response)| response);
        let example = &response["content"][self.media_type()]["examples"][code.name()];
        listed && !schema::resolved(self.document, example)["value"].is_null()
    }

    /// The names of the codes that it lists, or that one of its responses lists.
    fn codes(&self) -> impl Iterator<Item = &'a str> {
        let parts = std::iter::once(self.body).chain(self.responses().map(|(_, response)| response));
        parts.filter_map(|part| part["x-error-codes"].as_array()).flatten().filter_map(Value::as_str)
    }

    fn responses(&self) -> impl Iterator<Item = (&'a String, &'a Value)> {
        let (document, responses) = (self.document, self.body["responses"].as_object().expect("responses"));
        responses.iter().map(move |(status, response)| (status, schema::resolved(document, response)))
    }
}

#[test]
fn the_committed_file_is_up_to_date() {
    let generated = layout::file(&http::document());
    assert!(generated.len() <= BYTES_MAX, "openapi/openapi.json would have {} bytes, more than {BYTES_MAX}", generated.len());
    assert_eq!(serde_json::from_str::<Value>(&generated).expect("JSON"), http::document());
    if std::env::var_os("DRAGOMAN_BLESS").is_some() {
        std::fs::write(FILE, &generated).expect("the file can be written");
    }
    let committed = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(committed == generated, "openapi/openapi.json is out of date: run DRAGOMAN_BLESS=1 cargo test --test openapi");
}

#[test]
fn the_document_header_has_what_generators_require() {
    let document = http::document();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(document["info"]["license"]["identifier"], "Apache-2.0");
    assert!(document["info"]["license"]["name"].is_string());
    assert_eq!(document["servers"].as_array().map(Vec::len), Some(1));
    assert_eq!(document["servers"][0]["url"], "/", "the server that the document comes from");
    assert!(document["security"].is_array());
}

#[test]
fn every_operation_is_named_tagged_and_described() {
    let document = http::document();
    let tags: BTreeSet<&str> = document["tags"].as_array().expect("tags").iter().filter_map(|tag| tag["name"].as_str()).collect();
    let mut ids = BTreeSet::new();
    for operation in operations(&document) {
        let Operation { path, id, body, .. } = operation;
        assert!(ids.insert(id), "{id} is used twice");
        assert!(id.split_once('_').is_some() && id.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{id}: verb_noun");
        let own: Vec<&str> = body["tags"].as_array().expect("tags").iter().filter_map(Value::as_str).collect();
        assert!(own.len() == 1 && tags.contains(own[0]), "{path}: {own:?}");
        for member in ["summary", "description"] {
            assert!(body[member].as_str().is_some_and(|text| !text.is_empty()), "{id} has no {member}");
        }
        assert!(body.get("parameters").is_none_or(Value::is_array), "{id} has parameters that are no list");
        for parameter in operation.parameters() {
            let types = &parameter["schema"]["type"];
            assert!(types.is_string() || parameter["schema"]["$ref"].is_string(), "{id}: {parameter} may be null");
            assert!(parameter["description"].as_str().is_some_and(|text| !text.is_empty()), "{id}: {parameter}");
            assert!(parameter["schema"]["type"] != "object", "{id}: no parameter is an object: {parameter}");
        }
        for (status, response) in operation.responses() {
            assert!(response["description"].as_str().is_some_and(|text| !text.is_empty()), "{id} {status}");
        }
    }
}

#[test]
fn every_schema_and_property_is_described_and_no_object_is_inline() {
    each_schema(&http::document(), &mut |place, schema| {
        let (depth, last) = (place.matches('/').count(), place.rsplit('/').next().unwrap_or_default());
        let element = ["items", "additionalProperties"].contains(&last) || place.contains("oneOf");
        if !element {
            assert!(schema["description"].as_str().is_some_and(|text| !text.is_empty()), "{place} is not described: {schema}");
        }
        assert!(depth == 0 || schema["type"] != "object", "{place} is an inline object");
        assert!(schema["anyOf"].is_null() && schema["allOf"].is_null(), "{place}: {schema}");
        assert!(schema["oneOf"].is_null() || place == "EmbeddingInput", "{place} is an untagged union: {schema}");
    });
}

#[test]
fn schema_names_do_not_collide_with_generator_runtimes() {
    let taboo =
        ["Error", "ResponseError", "Response", "ApiResponse", "Configuration", "Document", "Collection", "Model", "Object"];
    for name in http::document()["components"]["schemas"].as_object().expect("schemas").keys() {
        assert!(!taboo.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn bodies_are_named_components_with_one_success_and_one_error_type() {
    let document = http::document();
    for operation in operations(&document) {
        let (mut success, mut failure) = (BTreeSet::new(), BTreeSet::new());
        for (status, response) in operation.responses() {
            for (media_type, content) in response["content"].as_object().into_iter().flatten() {
                let name = content["schema"]["$ref"].as_str().unwrap_or_else(|| panic!("{} {status} is inline", operation.id));
                let side = if status.starts_with('2') { &mut success } else { &mut failure };
                side.insert((media_type.as_str(), name));
            }
        }
        assert!(success.len() <= 1, "{}: {success:?}", operation.id);
        assert_eq!(failure.len(), 1, "{}: {failure:?}", operation.id);
        if operation.has_body() {
            let contents = operation.body["requestBody"]["content"].as_object().expect("media types");
            let names: BTreeSet<_> = contents.values().map(|content| content["schema"]["$ref"].as_str()).collect();
            assert!(names.len() == 1 && !names.contains(&None), "{} has an inline body: {names:?}", operation.id);
        }
    }
}

#[test]
fn optional_members_are_omitted_not_null() {
    each_schema(&http::document(), &mut |place, schema| {
        let nullable = schema["type"].as_array().is_some_and(|types| types.iter().any(|one| one == "null"));
        assert!(!nullable || MAY_BE_NULL.contains(&place), "{place} may be null");
    });
}

#[test]
fn every_code_is_documented_on_each_route_that_can_return_it() {
    let document = http::document();
    let all = operations(&document);
    for &code in Code::ALL {
        let routes: Vec<&Operation> = all.iter().filter(|operation| operation.documents(code)).collect();
        if matches!(code, Code::RouteNotFound | Code::MethodNotAllowed) {
            assert!(routes.is_empty(), "no operation answers {}", code.name());
            let about = document["info"]["description"].as_str().unwrap_or_default();
            assert!(
                about.contains(code.name()),
                "{} must be described in `info.description`, which applies to all operations",
                code.name()
            );
            continue;
        }
        assert!(!routes.is_empty(), "{} is documented nowhere", code.name());
        for operation in &all {
            if let Some(must) = can_answer(operation, code) {
                assert_eq!(operation.documents(code), must, "{} and {}", operation.id, code.name());
            }
        }
    }
}

/// Whether an operation can answer with a code, as far as its parameters and body tell.
fn can_answer(operation: &Operation, code: Code) -> Option<bool> {
    let is = |ids: &[&str]| ids.contains(&operation.id);
    let under = |starts: &[&str]| starts.iter().any(|start| operation.path.starts_with(start));
    Some(match code {
        Code::Internal => true,
        Code::MalformedJson => operation.takes_json(),
        Code::MalformedFile => operation.has_body() && !operation.takes_json(),
        Code::BodyTooLarge | Code::UnsupportedMediaType => operation.has_body(),
        Code::JobNotFound => operation.has_parameter("job"),
        Code::SnapshotNotFound => operation.has_parameter("snapshot") && operation.id != "upload_snapshot",
        Code::InvalidRequest => access(operation.id) != Access::Open,
        Code::InvalidCursor => operation.has_parameter("cursor") || operation.has_member("cursor"),
        Code::CollectionNotFound => {
            operation.path.contains("{collection}")
                || is(&["put_alias", "create_snapshot", "restore_snapshot", "mine_pairs"])
                || is(ASKING)
                || is(TRAINING)
        }
        Code::AliasNotFound => operation.id == "delete_alias",
        Code::AliasExists => is(&["create_collection", "put_collection", "delete_collection", "restore_snapshot"]),
        // Putting an absent document creates it.
        Code::DocumentNotFound => {
            is(&SEARCHES) || operation.id == "predict_labels" || (operation.has_parameter("id") && operation.id != "put_document")
        }
        Code::NoModel => is(&SEARCHES) || is(ASKING) || is(TRAINING) || operation.id == "reembed_collection",
        Code::ModelCurrent => operation.id == "reembed_collection",
        Code::NotSupported => is(&["create_snapshot", "restore_snapshot", "upload_snapshot"]),
        Code::JobRunning => is(&["reembed_collection", "create_projection"]),
        Code::TooFewDocuments => operation.id == "create_projection",
        Code::ProjectionNotFound => operation.has_parameter("center"),
        Code::AnswerTooLarge => is(&SEARCHES) || is(&["count_facets", "predict_labels", "get_projection"]),
        // Labeled documents are selected with their own filter.
        Code::InvalidFilter => {
            operation.has_member("filter")
                || is(&["search_batch", "mine_pairs", "create_classifier", "evaluate_classifier", "start_evaluation"])
        }
        Code::ClassifierNotFound => operation.has_parameter("classifier"),
        Code::ClassifierNotReady => is(ASKING) || operation.id == "train_classifier",
        Code::ClassifierExists | Code::TooManyClassifiers => is(&["create_classifier", "restore_snapshot"]),
        Code::UnknownLabel => is(&["create_classifier", "evaluate_classifier"]),
        Code::InvalidTrainingSet => is(TRAINING),
        Code::NoResults => operation.body["tags"][0] == "mining_results" || is(&["get_evaluation", "get_job_results"]),
        Code::IdempotencyConflict => operation.has_parameter("idempotency-key"),
        Code::PreconditionFailed => operation.has_parameter("if-match"),
        Code::CollectionExists => is(&["create_collection", "put_collection", "put_alias", "restore_snapshot"]),
        Code::TooManyCollections => is(&["create_collection", "put_collection", "put_alias", "restore_snapshot"]),
        Code::Unauthorized | Code::RateLimited | Code::RequestTimeout => access(operation.id) != Access::Open,
        Code::Forbidden => !matches!(access(operation.id), Access::Open | Access::Key(Scope::Read, CollectionAccess::Server)),
        Code::KeyNotFound => operation.has_parameter("key"),
        Code::TooManyKeys => operation.id == "create_key",
        Code::LastAdminKey => operation.id == "revoke_key",
        Code::Unavailable => operation.id != "check_health",
        Code::StorageUnavailable | Code::CollectionDamaged => {
            under(&["/v1/collections", "/v1/aliases", "/v1/classifiers", "/v1/jobs", "/v1/snapshots", "/v1/mine"])
                || is(&["create_key", "revoke_key"])
        }
        _ => return None,
    })
}

#[test]
fn every_operation_documents_the_access_its_route_declares() {
    let document = http::document();
    let declared = &http::description().operations;
    let documented: BTreeSet<&str> = operations(&document).iter().map(|operation| operation.id).collect();
    let ids: BTreeSet<&str> = declared.all().map(|operation| operation.id.as_str()).collect();
    assert_eq!(documented, ids);
    assert_eq!(declared.all().count(), ids.len(), "two operations have one id");
    for operation in operations(&document) {
        let open = access(operation.id) == Access::Open;
        assert_eq!(operation.body["security"] == serde_json::json!([]), open, "{}", operation.id);
        let by_path = matches!(access(operation.id), Access::Key(_, CollectionAccess::Path));
        assert!(!by_path || operation.has_parameter("collection"), "{}: no collection in the path", operation.id);
    }
}

#[test]
fn each_operation_documents_exactly_the_statuses_of_its_codes() {
    let document = http::document();
    let mut used = BTreeSet::new();
    for operation in operations(&document) {
        let mut statuses = BTreeSet::new();
        for name in operation.codes() {
            let code = Code::ALL.iter().find(|code| code.name() == name).expect("a code of the list");
            assert!(operation.documents(*code), "{} lists {name} without a response", operation.id);
            let status = operation.status(*code);
            let response = operation.body["responses"][&status]["$ref"].as_str().expect("a shared answer");
            used.insert((response.to_owned(), name.to_owned()));
            statuses.insert(status);
        }
        let responses = operation.responses().map(|(status, _)| status.clone()).filter(|status| status.as_str() >= "400");
        assert_eq!(responses.collect::<BTreeSet<_>>(), statuses, "{}", operation.id);
        for (status, response) in operation.responses() {
            let retry = !response["headers"]["retry-after"].is_null();
            assert_eq!(retry, ["429", "503"].contains(&status.as_str()), "{} {status}: retry-after", operation.id);
            assert!(!response["headers"]["x-request-id"].is_null(), "{} {status}: x-request-id", operation.id);
            assert_eq!(status == "401", !response["headers"]["www-authenticate"].is_null(), "{} {status}", operation.id);
        }
    }
    let mut described = BTreeSet::new();
    for (response, content) in document["components"]["responses"].as_object().expect("shared answers") {
        for content in content["content"].as_object().expect("media types").values() {
            for name in content["examples"].as_object().expect("one example per code").keys() {
                described.insert((format!("#/components/responses/{response}"), name.clone()));
            }
        }
    }
    assert_eq!(described, used, "a shared answer has the codes of the operations that refer to it, and no others");
}

#[test]
fn error_codes_are_a_closed_enum() {
    let document = http::document();
    let schemas = &document["components"]["schemas"];
    let names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(schemas["ErrorCode"]["enum"], serde_json::json!(names));
    for schema in ["Problem", "OpenAiProblemDetail", "DocumentFailure", "JobProblem"] {
        assert_eq!(schemas[schema]["properties"]["code"]["$ref"], "#/components/schemas/ErrorCode", "{schema}");
    }
}

#[test]
fn result_tables_are_strings_and_imports_list_their_media_types() {
    let document = http::document();
    for schema in ["MinedPairsTable", "DuplicateClustersTable"] {
        let schema = &document["components"]["schemas"][schema];
        assert!(schema["type"] == "string" && schema.get("format").is_none(), "{schema}");
    }
    let import = &document["paths"]["/v1/collections/{collection}/import"]["post"]["requestBody"]["content"];
    for media_type in ["application/x-ndjson", "application/octet-stream", "text/csv", "text/tab-separated-values"] {
        assert!(!import[media_type].is_null(), "{media_type}");
    }
}

#[test]
fn every_body_has_examples_that_match_its_schema() {
    let document = http::document();
    let check = |place: String, content: &Value| {
        let single = content["example"].clone();
        let several = content["examples"].as_object().into_iter().flat_map(|all| all.values());
        let several = several.map(|example| schema::resolved(&document, example)["value"].clone());
        let examples: Vec<Value> = several.chain(Some(single).filter(|one| !one.is_null())).collect();
        assert!(!examples.is_empty(), "{place} has no example");
        for example in examples {
            let problems = schema::violations(&document, &content["schema"], &example);
            assert!(problems.is_empty(), "{place}: {problems:?}");
        }
    };
    for operation in operations(&document) {
        for content in operation.body["requestBody"]["content"].as_object().into_iter().flat_map(|all| all.values()) {
            check(format!("{} request", operation.id), content);
        }
        for (status, response) in operation.responses() {
            for content in response["content"].as_object().into_iter().flat_map(|all| all.values()) {
                check(format!("{} {status}", operation.id), content);
            }
        }
    }
}

#[test]
fn every_reference_resolves_and_every_component_is_used() {
    fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
        match value {
            Value::Object(members) => members.iter().for_each(|(name, member)| match member.as_str() {
                Some(target) if name == "$ref" => {
                    found.insert(target);
                }
                _ => references(member, found),
            }),
            Value::Array(elements) => elements.iter().for_each(|element| references(element, found)),
            _ => {}
        }
    }
    let document = http::document();
    let mut referenced = BTreeSet::new();
    references(&document, &mut referenced);
    let mut components = BTreeSet::new();
    for kind in ["schemas", "responses", "parameters", "headers", "examples"] {
        for name in document["components"][kind].as_object().expect("components").keys() {
            components.insert(format!("#/components/{kind}/{name}"));
        }
    }
    assert_eq!(referenced, components.iter().map(String::as_str).collect());
}

/// openapi-typescript treats a member with a default as always present, so requests could not omit it.
#[test]
fn member_defaults_are_stated_only_in_descriptions() {
    each_schema(&http::document(), &mut |place, schema| {
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            assert!(member.get("default").is_none(), "{place}: {name} has a default");
        }
    });
    let request = &http::document()["components"]["schemas"]["SearchDocumentsRequest"];
    assert!(request["properties"]["limit"]["description"].as_str().unwrap().ends_with("Default: `10`."), "{request}");
}

#[test]
fn every_default_matches_its_schema() {
    let document = http::document();
    each_schema(&document, &mut |place, schema| {
        if !schema["default"].is_null() {
            let problems = schema::violations(&document, schema, &schema["default"]);
            assert!(problems.is_empty(), "{place}: {problems:?}");
        }
    });
}

/// The pattern of the parameter or member at `pointer`.
fn pattern(document: &Value, pointer: &str) -> regex::Regex {
    let pattern = document.pointer(&format!("{pointer}/pattern")).and_then(Value::as_str);
    regex::Regex::new(pattern.unwrap_or_else(|| panic!("{pointer} has no pattern"))).expect("a pattern")
}

#[test]
fn name_id_and_cursor_patterns_match_what_the_server_accepts() {
    let document = http::document();
    let (name, id) = (
        pattern(&document, "/components/schemas/CreateCollectionRequest/properties/name"),
        pattern(&document, "/components/schemas/DocumentInput/properties/id"),
    );
    for text in ["news", "0", "News-2026_v1.2", "", "-a", ".a", "a b", "ä", "a/b", &"x".repeat(64), &"x".repeat(65)] {
        assert_eq!(name.is_match(text), CollectionName::parse(text).is_ok(), "{text:?}");
    }
    for text in ["a", "été 1/2", "文書", "a\nb", "\u{7f}", "\u{85}", "", &"x".repeat(512), &"x".repeat(513)] {
        assert_eq!(id.is_match(text), DocumentId::parse(text).is_ok(), "{text:?}");
    }
    let cursor = pattern(&document, "/components/schemas/ScrollDocumentsRequest/properties/cursor");
    assert!(cursor.is_match("eyJ2IjoxLCJsaXN0IjoiY29sbGVjdGlvbnMiLCJhZnRlciI6ImEifQ") && !cursor.is_match("a=b"));
    for operation in operations(&document) {
        for parameter in operation.parameters() {
            if parameter["in"] == "path" || parameter["name"] == "cursor" {
                let pattern = parameter["schema"]["pattern"].as_str();
                let pattern = pattern.unwrap_or_else(|| panic!("{} {} has no pattern", operation.id, parameter["name"]));
                let example = parameter["example"].as_str();
                assert!(
                    example.is_none_or(|text| regex::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))),
                    "{parameter}"
                );
            }
        }
    }
    for (schema, content) in document["components"]["schemas"].as_object().expect("schemas") {
        for member in ["cursor", "next_cursor"].iter().filter(|member| !content["properties"][**member].is_null()) {
            pattern(&document, &format!("/components/schemas/{schema}/properties/{member}"));
        }
    }
}
