//! The key that each operation needs: one table for all operations, and how a request finds its row.
//!
//! Anything outside the table is closed: a documented operation without a row, or a method that a path does not support, needs
//! an unrestricted admin key.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use serde_json::Value;

use super::console;
use crate::domain::{Code, Scope};

/// The key that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// No key.
    Open,
    /// A key of at least this scope.
    Key(Scope, Reach),
}

/// What an operation touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// No collection: a restricted key may call it.
    Server,
    /// The collection that the path names: a restricted key may call it for its own.
    Path,
    /// Collections that the request names elsewhere, or lists: the handler asks the caller.
    Handler,
    /// All collections, or the keys: a restricted key may not call it.
    Everything,
}

/// An operation as a request meets it.
#[derive(Debug, PartialEq, Eq)]
pub struct Operation {
    /// The operation's id in the document; also its name in the log and the metrics.
    pub id: String,
    /// What it needs.
    pub access: Access,
    /// Whether it reads or answers anything but JSON, such as lines, a file or events: then it may take its time.
    pub streams: bool,
}

const fn key(scope: Scope, reach: Reach) -> Access {
    Access::Key(scope, reach)
}

/// Every documented operation.
pub const OPERATIONS: &[(&str, Access)] = &[
    ("create_collection", key(Scope::Admin, Reach::Handler)),
    ("list_collections", key(Scope::Read, Reach::Handler)),
    ("get_collection", key(Scope::Read, Reach::Path)),
    ("change_collection", key(Scope::Admin, Reach::Path)),
    ("delete_collection", key(Scope::Admin, Reach::Path)),
    ("reembed_collection", key(Scope::Admin, Reach::Path)),
    ("list_aliases", key(Scope::Read, Reach::Everything)),
    ("put_alias", key(Scope::Admin, Reach::Everything)),
    ("delete_alias", key(Scope::Admin, Reach::Everything)),
    ("upsert_documents", key(Scope::Write, Reach::Path)),
    ("list_documents", key(Scope::Read, Reach::Path)),
    ("get_document", key(Scope::Read, Reach::Path)),
    ("put_document", key(Scope::Write, Reach::Path)),
    ("patch_document", key(Scope::Write, Reach::Path)),
    ("delete_document", key(Scope::Write, Reach::Path)),
    ("delete_documents", key(Scope::Write, Reach::Path)),
    ("scroll_documents", key(Scope::Read, Reach::Path)),
    ("count_documents", key(Scope::Read, Reach::Path)),
    ("count_facets", key(Scope::Read, Reach::Path)),
    ("search_documents", key(Scope::Read, Reach::Path)),
    ("search_batch", key(Scope::Read, Reach::Path)),
    ("recommend_documents", key(Scope::Read, Reach::Path)),
    ("import_documents", key(Scope::Write, Reach::Path)),
    ("export_documents", key(Scope::Read, Reach::Path)),
    ("list_jobs", key(Scope::Read, Reach::Handler)),
    ("get_job", key(Scope::Read, Reach::Handler)),
    ("watch_job", key(Scope::Read, Reach::Handler)),
    ("get_job_results", key(Scope::Read, Reach::Handler)),
    ("cancel_job", key(Scope::Write, Reach::Handler)),
    ("create_snapshot", key(Scope::Admin, Reach::Everything)),
    ("list_snapshots", key(Scope::Admin, Reach::Everything)),
    ("get_snapshot", key(Scope::Admin, Reach::Everything)),
    ("delete_snapshot", key(Scope::Admin, Reach::Everything)),
    ("restore_snapshot", key(Scope::Admin, Reach::Everything)),
    ("download_snapshot", key(Scope::Admin, Reach::Everything)),
    ("upload_snapshot", key(Scope::Admin, Reach::Everything)),
    ("create_classifier", key(Scope::Write, Reach::Handler)),
    ("list_classifiers", key(Scope::Read, Reach::Handler)),
    ("get_classifier", key(Scope::Read, Reach::Handler)),
    ("delete_classifier", key(Scope::Write, Reach::Handler)),
    ("predict_labels", key(Scope::Read, Reach::Handler)),
    ("train_classifier", key(Scope::Write, Reach::Handler)),
    ("evaluate_classifier", key(Scope::Read, Reach::Handler)),
    ("start_evaluation", key(Scope::Write, Reach::Handler)),
    ("get_evaluation", key(Scope::Read, Reach::Handler)),
    ("apply_classifier", key(Scope::Write, Reach::Handler)),
    ("create_embeddings", key(Scope::Read, Reach::Server)),
    ("compare_pairs", key(Scope::Read, Reach::Server)),
    ("compare_sets", key(Scope::Read, Reach::Server)),
    ("detect_languages", key(Scope::Read, Reach::Server)),
    ("mine_pairs", key(Scope::Write, Reach::Handler)),
    ("get_mined_pairs", key(Scope::Read, Reach::Handler)),
    ("get_mined_pairs_table", key(Scope::Read, Reach::Handler)),
    ("find_duplicates", key(Scope::Write, Reach::Path)),
    ("get_duplicate_clusters", key(Scope::Read, Reach::Handler)),
    ("get_duplicate_clusters_table", key(Scope::Read, Reach::Handler)),
    ("list_models", key(Scope::Read, Reach::Server)),
    ("create_key", key(Scope::Admin, Reach::Everything)),
    ("list_keys", key(Scope::Admin, Reach::Everything)),
    ("revoke_key", key(Scope::Admin, Reach::Everything)),
    ("check_health", Access::Open),
    ("check_readiness", Access::Open),
];

/// The path of the metrics, which the document leaves to its introduction.
pub const METRICS_PATH: &str = "/metrics";

static METRICS: LazyLock<Operation> = LazyLock::new(|| other("get_metrics", key(Scope::Read, Reach::Everything)));
/// The document with its pages, and the console.
static PAGE: LazyLock<Operation> = LazyLock::new(|| other("page", Access::Open));
/// A path that no route has: it answers 404 to everybody.
static UNMATCHED: LazyLock<Operation> = LazyLock::new(|| other("unmatched", Access::Open));
/// A route that no row of the table covers.
static UNLISTED: LazyLock<Operation> = LazyLock::new(|| other("unlisted", key(Scope::Admin, Reach::Everything)));

fn other(id: &str, access: Access) -> Operation {
    Operation { id: id.to_owned(), access, streams: false }
}

/// What an operation needs, by its id.
pub fn access(id: &str) -> Access {
    OPERATIONS.iter().find(|(name, _)| *name == id).map_or(UNLISTED.access, |(_, access)| *access)
}

/// The documented operations by their routes.
pub struct Operations {
    by_route: HashMap<(Method, String), Operation>,
}

impl Operations {
    /// Finds the operations in the OpenAPI document.
    pub fn documented(document: &Value) -> Self {
        Self { by_route: by_route(document) }
    }

    /// The operation that a routed request asks for.
    pub fn of(&self, request: &Request) -> &Operation {
        self.find(request.method(), request.extensions().get::<MatchedPath>().map(MatchedPath::as_str))
    }

    /// The operation of a request, by its method and the route that it matched.
    pub fn find(&self, method: &Method, route: Option<&str>) -> &Operation {
        let Some(route) = route else { return &UNMATCHED };
        if ["/openapi.json", "/docs", console::PAGE_PATH, console::FILE_PATH].contains(&route) || route.starts_with("/docs/") {
            return &PAGE;
        }
        if route == METRICS_PATH {
            return &METRICS;
        }
        let method = if method == Method::HEAD { Method::GET } else { method.clone() };
        let listed = |route: String| self.by_route.get(&(method.clone(), route));
        // A word such as `count` after `documents/` is an id for the methods that operate on one document.
        let as_id = || listed(format!("{}/{{id}}", route.rsplit_once('/')?.0));
        listed(route.to_owned()).or_else(as_id).unwrap_or(&UNLISTED)
    }

    /// The methods that the document has for a route, those of the operations on one document among them where the last part of
    /// the path can be an id; none for a route that is not in the document.
    pub fn methods(&self, route: &str) -> Vec<&str> {
        let as_id = route.rsplit_once('/').map(|(folder, _)| format!("{folder}/{{id}}"));
        let mut methods: Vec<&str> = self
            .by_route
            .keys()
            .filter(|(_, path)| path == route || Some(path) == as_id.as_ref())
            .map(|(method, _)| method.as_str())
            .collect();
        methods.sort_unstable();
        methods.dedup();
        methods
    }
}

/// Codes that every operation with this access can answer with, besides its own.
pub fn codes(access: Access) -> &'static [Code] {
    const KEYLESS: &[Code] = &[Code::InvalidHost];
    const ANY_KEY: &[Code] = &[
        Code::InvalidHost,
        Code::Unauthorized,
        Code::HostNotAllowed,
        Code::OriginNotAllowed,
        Code::RateLimited,
        Code::RequestTimeout,
        Code::Overloaded,
        Code::Unavailable,
    ];
    const SOME_KEYS: &[Code] = &[
        Code::InvalidHost,
        Code::Unauthorized,
        Code::HostNotAllowed,
        Code::OriginNotAllowed,
        Code::Forbidden,
        Code::RateLimited,
        Code::RequestTimeout,
        Code::Overloaded,
        Code::Unavailable,
    ];
    match access {
        Access::Open => KEYLESS,
        Access::Key(Scope::Read, Reach::Server) => ANY_KEY,
        Access::Key(..) => SOME_KEYS,
    }
}

fn by_route(document: &Value) -> HashMap<(Method, String), Operation> {
    let mut found = HashMap::new();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let Ok(method) = Method::from_bytes(method.to_uppercase().as_bytes()) else { continue };
            let id = operation["operationId"].as_str().unwrap_or_default();
            let operation = Operation { id: id.to_owned(), access: access(id), streams: streams(operation) };
            found.insert((method, path.clone()), operation);
        }
    }
    found
}

/// Whether the request's body or a successful answer has another media type than JSON.
fn streams(operation: &Value) -> bool {
    let other = |content: &Value| content.as_object().is_some_and(|types| types.keys().any(|name| name != "application/json"));
    let responses = operation["responses"].as_object().into_iter().flatten();
    other(&operation["requestBody"]["content"])
        || responses.filter(|(status, _)| status.starts_with('2')).any(|(_, response)| other(&response["content"]))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_no_row_covers_needs_an_unrestricted_admin_key() {
        let closed = key(Scope::Admin, Reach::Everything);
        let operations = &crate::http::description().operations;
        assert_eq!(operations.find(&Method::PATCH, Some("/healthz")).access, closed);
        assert_eq!(operations.find(&Method::GET, Some("/v1/new")).access, closed);
        assert_eq!(access("not_in_the_table"), closed);
    }

    #[test]
    fn head_is_as_get() {
        let operations = &crate::http::description().operations;
        assert_eq!(operations.find(&Method::HEAD, Some("/v1/collections")).id, "list_collections");
        assert_eq!(operations.find(&Method::POST, Some("/v1/collections")).id, "create_collection");
        assert_eq!(operations.find(&Method::GET, None).access, Access::Open);
    }

    #[test]
    fn lines_events_and_files_take_their_time() {
        let operation = |request: &str, answer: &str| {
            json!({"requestBody": {"content": {request: {}}}, "responses": {"200": {"content": {answer: {}}},
                "422": {"content": {"application/problem+json": {}}}}})
        };
        assert!(!streams(&operation("application/json", "application/json")));
        assert!(streams(&operation("application/x-ndjson", "application/json")));
        assert!(streams(&operation("application/json", "text/event-stream")));
        assert!(!streams(&json!({"responses": {"204": {}}})));
    }
}
