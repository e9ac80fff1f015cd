//! Operations as their routes declare them: the access each needs, how it may fail, its examples. Requests are matched to
//! operations by method and route.
//!
//! A route enters the document only together with its access, so no operation can lack one. Anything that is not a documented
//! operation, such as a method that a path does not have, needs an unrestricted admin key.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::extract::{MatchedPath, Request};
use axum::http::Method;
use utoipa::openapi::path::{Operation as Described, Parameter, ParameterIn, PathItem};
use utoipa::openapi::{OpenApi, RefOr};
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};

use crate::domain::{Code, Scope};
use crate::http::console;
use crate::http::middleware::access::{self, Access, CollectionAccess};
use crate::http::openapi::path_parameters;

/// An example of a body: `request` or the status of the response, and its JSON.
pub type Example = (&'static str, &'static str);

/// An operation, as a request finds it.
#[derive(Debug, PartialEq, Eq)]
pub struct Operation {
    /// The operation's id in the document; also its name in the log and the metrics.
    pub id: String,
    pub method: Method,
    /// Its path in the document.
    pub path: String,
    pub access: Access,
    /// Whether its request or response is something other than JSON, such as lines, a file or events; then it has no timeout.
    pub streams: bool,
    /// Whether it has query parameters. If it has none, `middleware::auth` refuses any; otherwise its handler parses them.
    pub has_query: bool,
    /// Whether it has a request body. If it has none, `middleware::auth` refuses any.
    pub has_body: bool,
    /// Codes that it can return, without those of its access.
    own_codes: Vec<Code>,
    pub examples: Vec<Example>,
}

/// The documented operations by their routes.
#[derive(Default)]
pub struct Operations {
    by_route: HashMap<(Method, String), Operation>,
}

/// The routes of the documented operations, and what each of them declares.
pub struct DeclaredRoutes<S> {
    pub router: OpenApiRouter<S>,
    pub operations: Operations,
}

/// The path of the metrics, which only the document's introduction mentions.
pub const METRICS_PATH: &str = "/metrics";
/// The path of the Model Context Protocol, which is not a REST operation.
pub const MCP_PATH: &str = "/mcp";
/// Its name in the log and the metrics.
pub const MCP_ID: &str = "call_mcp";

static METRICS: LazyLock<Operation> =
    LazyLock::new(|| other("get_metrics", Access::Key(Scope::Read, CollectionAccess::Everything)));
/// A tool call may need more: the key that the operation behind it requires.
static MCP: LazyLock<Operation> = LazyLock::new(|| other(MCP_ID, Access::Key(Scope::Read, CollectionAccess::Server)));
/// The document with its pages, and the console.
static PAGE: LazyLock<Operation> = LazyLock::new(|| other("page", Access::Open));
/// A path without a route: 404 for every caller.
static UNMATCHED: LazyLock<Operation> = LazyLock::new(|| other("unmatched", Access::Open));
/// A method or a route that is not an operation.
static UNLISTED: LazyLock<Operation> =
    LazyLock::new(|| other("unlisted", Access::Key(Scope::Admin, CollectionAccess::Everything)));

/// Anything that is not an operation. Its handler may parse a query and a body or ignore them.
fn other(id: &str, access: Access) -> Operation {
    let (id, method, path) = (id.to_owned(), Method::GET, String::new());
    let (own_codes, examples) = (Vec::new(), Vec::new());
    Operation { id, method, path, access, streams: false, has_query: true, has_body: true, own_codes, examples }
}

impl<S: Clone + Send + Sync + 'static> DeclaredRoutes<S> {
    /// No operations yet, in a document that otherwise has the contents of `frame`.
    pub fn new(frame: OpenApi) -> Self {
        Self { router: OpenApiRouter::with_openapi(frame), operations: Operations::default() }
    }

    /// Adds an operation with its route. It can return the codes in `errors`, besides those of its access.
    pub fn with_operation(
        mut self,
        access: Access,
        errors: &[&[Code]],
        examples: &[Example],
        mut route: UtoipaMethodRouter<S>,
    ) -> Self {
        for (path, item) in &mut route.1.paths {
            for (method, described) in methods(item) {
                path_parameters::describe(path, described);
                let (id, path) = (described.operation_id.clone().unwrap_or_default(), path.clone());
                let (own_codes, examples) = (errors.concat(), examples.to_vec());
                let (streams, has_query) = (streams(described), has_query(described));
                let has_body = described.request_body.is_some();
                let operation = Operation { id, method, path, access, streams, has_query, has_body, own_codes, examples };
                self.operations.by_route.insert((operation.method.clone(), operation.path.clone()), operation);
            }
        }
        Self { router: self.router.routes(route), operations: self.operations }
    }
}

impl Operation {
    /// The codes that it can return: its own, and those of its access.
    pub fn codes(&self) -> Vec<Code> {
        let mut codes = Vec::new();
        for code in self.own_codes.iter().copied().chain(access::codes(self.access)) {
            if !codes.contains(&code) {
                codes.push(code);
            }
        }
        codes
    }
}

impl Operations {
    pub fn all(&self) -> impl Iterator<Item = &Operation> {
        self.by_route.values()
    }

    pub fn get(&self, id: &str) -> Option<&Operation> {
        self.all().find(|operation| operation.id == id)
    }

    pub fn for_request(&self, request: &Request) -> &Operation {
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
        if route == MCP_PATH {
            return &MCP;
        }
        let method = if method == Method::HEAD { Method::GET } else { method.clone() };
        let operation_at = |route: String| self.by_route.get(&(method.clone(), route));
        // A word such as `count` after `documents/` is an id for the methods that operate on one document.
        let as_id = || operation_at(format!("{}/{{id}}", route.rsplit_once('/')?.0));
        operation_at(route.to_owned()).or_else(as_id).unwrap_or(&UNLISTED)
    }

    /// The methods that the document has for a route, including those of the operations on one document if the last part of the
    /// path can be an id; empty for a route that is not in the document.
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

fn methods(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Described)> {
    let all = [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
        (Method::PATCH, &mut item.patch),
    ];
    all.into_iter().filter_map(|(method, described)| Some((method, described.as_mut()?)))
}

/// Whether the request's body or a successful response has a media type other than JSON.
fn streams(described: &Described) -> bool {
    let other = |media_type: &String| media_type != "application/json";
    let request = match &described.request_body {
        Some(RefOr::T(body)) => body.content.keys().any(other),
        Some(RefOr::Ref(_)) | None => false,
    };
    let successes = described.responses.responses.iter().filter(|(status, _)| status.starts_with('2'));
    request || successes.into_iter().any(|(_, response)| matches!(response, RefOr::T(one) if one.content.keys().any(other)))
}

fn has_query(described: &Described) -> bool {
    let in_query =
        |parameter: &RefOr<Parameter>| matches!(parameter, RefOr::T(Parameter { parameter_in: ParameterIn::Query, .. }));
    described.parameters.iter().flatten().any(in_query)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_operations_need_an_unrestricted_admin_key() {
        let closed = Access::Key(Scope::Admin, CollectionAccess::Everything);
        let operations = &crate::http::description().operations;
        assert_eq!(operations.find(&Method::PATCH, Some("/healthz")).access, closed);
        assert_eq!(operations.find(&Method::GET, Some("/v1/new")).access, closed);
    }

    #[test]
    fn head_requests_use_the_get_operation() {
        let operations = &crate::http::description().operations;
        assert_eq!(operations.find(&Method::HEAD, Some("/v1/collections")).id, "list_collections");
        assert_eq!(operations.find(&Method::POST, Some("/v1/collections")).id, "create_collection");
        assert_eq!(operations.find(&Method::GET, None).access, Access::Open);
    }

    #[test]
    fn operations_with_lines_events_or_files_are_marked_as_streams() {
        let operations = &crate::http::description().operations;
        for (id, expect) in [
            ("search_documents", false),
            ("delete_collection", false),
            ("import_documents", true),
            ("export_documents", true),
            ("watch_job", true),
            ("download_snapshot", true),
            ("get_mined_pairs_table", true),
        ] {
            assert_eq!(operations.get(id).map(|operation| operation.streams), Some(expect), "{id}");
        }
    }
}
