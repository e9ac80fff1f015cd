//! What surrounds every request: its id, its log line and the body of its error.

use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::ALLOW;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument as _;
use uuid::Uuid;

use super::access::{self, Operation};
use super::browsers;
use super::error::{self, ApiError, Shape};
use super::metrics::RequestMeter;
use crate::domain::Blame;

/// The header that carries the request id, both ways.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is taken from a client, in bytes.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Puts `routes` into the envelope: every path, also one that no route has, and every handler, also one that panics.
pub fn wrap<S: Clone + Send + Sync + 'static>(routes: Router<S>, requests: RequestMeter) -> Router<S> {
    routes.layer(CatchPanicLayer::custom(error::panicked)).layer(axum::middleware::from_fn_with_state(requests, surround))
}

/// The operation that a routed request asks for.
pub fn operation(request: &Request) -> &'static Operation {
    access::find(request.method(), request.extensions().get::<MatchedPath>().map(MatchedPath::as_str))
}

/// Gives the request an id, runs it, renders its error if it failed, counts it and logs one line.
async fn surround(State(requests): State<RequestMeter>, request: Request, next: Next) -> Response {
    let started = Instant::now();
    let running = requests.begin();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();

    let operation = operation(&request).id.as_str();

    let span = tracing::info_span!("request", request_id = %id, operation, status = tracing::field::Empty);
    #[cfg(feature = "otel")]
    super::trace_context::adopt(&span, request.headers());
    let mut response = next.run(request).instrument(span.clone()).await;

    let failure = error::take(&mut response);
    if let Some(failure) = &failure {
        let shape = if path == super::embeddings::PATH { Shape::OpenAi } else { Shape::Problem };
        let headers = std::mem::take(response.headers_mut());
        response = failure.render(shape, &id, &path, kept(headers));
    }
    browsers::protect(&path, response.headers_mut());
    if response.status() == StatusCode::METHOD_NOT_ALLOWED
        && let Ok(allowed) = HeaderValue::from_str(&access::methods(&route).join(", "))
        && !allowed.is_empty()
    {
        response.headers_mut().insert(ALLOW, allowed);
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    span.record("status", response.status().as_u16());
    running.end(operation, response.status().as_u16(), started.elapsed());
    let line = Line { method: method.as_str(), route: &route, operation, status: response.status().as_u16(), id: &id };
    line.log(started.elapsed().as_secs_f64() * 1e3, failure.as_ref());
    response
}

/// What the log says of one request besides time and failure.
struct Line<'a> {
    method: &'a str,
    route: &'a str,
    operation: &'a str,
    status: u16,
    id: &'a str,
}

impl Line<'_> {
    fn log(&self, took_ms: f64, failure: Option<&ApiError>) {
        let Self { method, route, operation, status, id } = *self;
        let code = failure.map(|failure| failure.code.name());
        let cause = failure.and_then(|failure| failure.cause.as_deref());
        match failure.map(|failure| failure.code.blame()) {
            None | Some(Blame::Client) => {
                tracing::info!(method, route, operation, status, took_ms, request_id = id, code, "request");
            }
            Some(Blame::Capacity) => {
                tracing::warn!(method, route, operation, status, took_ms, request_id = id, code, cause, "request refused");
            }
            Some(Blame::Server) => {
                tracing::error!(method, route, operation, status, took_ms, request_id = id, code, cause, "request failed");
            }
        }
    }
}

/// Headers of a refusal that its rendered form keeps: those that say something besides the replaced body.
fn kept(mut headers: HeaderMap) -> HeaderMap {
    headers.remove(axum::http::header::CONTENT_LENGTH);
    headers.remove(axum::http::header::CONTENT_TYPE);
    headers
}

/// The client's id when it is short printable ASCII without spaces, else a new one.
fn request_id(headers: &HeaderMap) -> String {
    let sent = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let fits = |id: &&str| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    sent.filter(fits).map_or_else(|| Uuid::now_v7().to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sent: &str, taken: bool) {
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_bytes(sent.as_bytes()).unwrap());
        assert_eq!(request_id(&headers) == sent, taken, "{sent:?}");
    }

    #[test]
    fn request_ids_are_bounded_printable_ascii() {
        check("abc-123", true);
        check(&"x".repeat(128), true);
        check(&"x".repeat(129), false);
        check("a b", false);
        check("é", false);
        check("", false);
    }
}
