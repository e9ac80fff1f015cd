//! The outermost middleware: the request's id, its log line and the body of its error.

use std::net::IpAddr;
use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::ALLOW;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument as _;

use super::caller_record::CallerRecord;
use super::request_id::{REQUEST_ID, request_id};
use super::security_headers;
use super::traffic::ClientAddress;
use crate::domain::{CollectionName, ErrorClass};
use crate::http::error::{self, ApiError, Shape};
use crate::http::metrics::RequestMeter;
use crate::http::openapi::operations::Operations;

/// Operations that monitoring calls every few seconds.
const PROBES: [&str; 3] = ["check_health", "check_readiness", "get_metrics"];

/// Wraps `routes` in the middleware: every path, also one without a route, and every handler, also one that panics.
pub fn wrap<S: Clone + Send + Sync + 'static>(
    routes: Router<S>,
    requests: RequestMeter,
    operations: &'static Operations,
) -> Router<S> {
    let handle_request = axum::middleware::from_fn_with_state((requests, operations), handle_request);
    routes.layer(CatchPanicLayer::custom(error::panic_response)).layer(handle_request)
}

/// Gives the request an id, runs it, renders its error if it failed, counts it and logs one line.
async fn handle_request(
    State((requests, operations)): State<(RequestMeter, &'static Operations)>,
    mut request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let running = requests.begin();
    let id = request_id(request.headers());
    let id_header = HeaderValue::from_str(&id).ok();
    // A request inside another one has the same id.
    if let Some(value) = &id_header {
        request.headers_mut().insert(REQUEST_ID, value.clone());
    }
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();

    let operation = operations.for_request(&request).id.as_str();
    let address = request.extensions().get::<ClientAddress>().map(|ClientAddress(address)| *address);

    let caller = CallerRecord::default();
    request.extensions_mut().insert(caller.clone());
    let span = tracing::info_span!("request", request_id = %id, operation, status = tracing::field::Empty);
    #[cfg(feature = "otel")]
    super::trace_context::set_parent_span(&span, request.headers());
    let mut response = next.run(request).instrument(span.clone()).await;

    let methods = operations.methods(&route);
    let failure = error::take_error(&mut response, &route, &methods);
    if let Some(failure) = &failure {
        let headers = std::mem::take(response.headers_mut());
        response = failure.render(Shape::of_route(&route), &id, &path, without_body_headers(headers));
    }
    security_headers::protect(&path, response.headers_mut());
    if response.status() == StatusCode::METHOD_NOT_ALLOWED
        && let Ok(allowed) = HeaderValue::from_str(&methods.join(", "))
        && !allowed.is_empty()
    {
        response.headers_mut().insert(ALLOW, allowed);
    }
    if let Some(value) = id_header {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    span.record("status", response.status().as_u16());
    running.end(operation, response.status().as_u16(), started.elapsed());
    let (status, collection) = (response.status().as_u16(), collection(&route, &path));
    let line = Line { method: method.as_str(), route: &route, operation, status, id: &id, collection, caller, address };
    line.log(started.elapsed().as_secs_f64() * 1e3, failure.as_ref());
    response
}

/// The fields of a request's log line besides time and failure.
struct Line<'a> {
    method: &'a str,
    route: &'a str,
    operation: &'a str,
    status: u16,
    id: &'a str,
    /// The collection that the path names, perhaps by an alias.
    collection: Option<&'a str>,
    caller: CallerRecord,
    address: Option<IpAddr>,
}

impl Line<'_> {
    fn log(&self, took_ms: f64, failure: Option<&ApiError>) {
        let Self { method, route, operation, status, id, collection, ref caller, address } = *self;
        let (caller, key) = (caller.kind(), caller.key());
        let (address, took_ms) = (address.map(tracing::field::display), rounded(took_ms));
        let code = failure.map(|failure| failure.code.name());
        let class = failure.map(|failure| failure.code.class());
        let cause = failure.filter(|_| class != Some(ErrorClass::Client)).and_then(|failure| failure.cause.as_deref());
        macro_rules! event {
            ($level:ident, $message:literal) => {
                tracing::$level!(
                    method,
                    route,
                    operation,
                    collection,
                    status,
                    took_ms,
                    request_id = id,
                    caller,
                    key,
                    address,
                    code,
                    cause,
                    $message
                )
            };
        }
        match class {
            // A probe exists to find out that the server is not ready.
            None | Some(ErrorClass::Capacity) if PROBES.contains(&operation) => event!(debug, "request"),
            None | Some(ErrorClass::Client) => event!(info, "request"),
            Some(ErrorClass::Capacity) => event!(warn, "request refused"),
            Some(ErrorClass::Server) => event!(error, "request failed"),
        }
    }
}

/// The collection that a path names where its route has one.
fn collection<'a>(route: &str, path: &'a str) -> Option<&'a str> {
    let name = route.split('/').zip(path.split('/')).find_map(|(part, value)| (part == "{collection}").then_some(value));
    name.filter(|name| CollectionName::parse(name).is_ok())
}

/// Three significant digits: a single measurement of a time is not more precise.
fn rounded(value: f64) -> f64 {
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// Headers of an error response that are kept when the error is rendered: those that do not describe the replaced body.
fn without_body_headers(mut headers: HeaderMap) -> HeaderMap {
    headers.remove(axum::http::header::CONTENT_LENGTH);
    headers.remove(axum::http::header::CONTENT_TYPE);
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_to_three_significant_digits() {
        for (value, expect) in [
            (0.168_631, 0.169),
            (1.629_4, 1.63),
            (99.96, 100.0),
            (1_234.5, 1_230.0),
            (60_000.4, 60_000.0),
            (0.000_012_345, 0.000_012_3),
            (0.0, 0.0),
        ] {
            assert_eq!(rounded(value).to_string(), expect.to_string(), "{value}");
        }
        assert!(rounded(f64::NAN).is_nan());
    }

    #[test]
    fn the_collection_name_is_taken_from_the_path() {
        let documents = "/v1/collections/{collection}/documents/{id}";
        assert_eq!(collection(documents, "/v1/collections/news/documents/other"), Some("news"));
        assert_eq!(collection(documents, "/v1/collections/a%20b/documents/other"), None);
        assert_eq!(collection("/v1/collections", "/v1/collections"), None);
        assert_eq!(collection("unmatched", "/v1/collections/news"), None);
    }
}
