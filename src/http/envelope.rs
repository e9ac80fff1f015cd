//! What surrounds every request: its id, its log line and the body of its error.

use std::time::Instant;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::ALLOW;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::Instrument as _;

use super::access::Operations;
use super::browsers;
use super::error::{self, ApiError, Shape};
use super::metrics::RequestMeter;
use super::request_id::{REQUEST_ID, request_id};
use crate::domain::Blame;

/// Wraps `routes` in the envelope: every path, even without a route, and every handler, even if it panics.
pub fn wrap<S: Clone + Send + Sync + 'static>(
    routes: Router<S>,
    requests: RequestMeter,
    operations: &'static Operations,
) -> Router<S> {
    let surround = axum::middleware::from_fn_with_state((requests, operations), surround);
    routes.layer(CatchPanicLayer::custom(error::panicked)).layer(surround)
}

/// Gives the request an id, runs it, renders its error if it failed, counts it and logs one line.
async fn surround(
    State((requests, operations)): State<(RequestMeter, &'static Operations)>,
    request: Request,
    next: Next,
) -> Response {
    let started = Instant::now();
    let running = requests.begin();
    let id = request_id(request.headers());
    let method = request.method().clone();
    let path = request.uri().path().to_owned();
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();

    let operation = operations.of(&request).id.as_str();

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
        && let Ok(allowed) = HeaderValue::from_str(&operations.methods(&route).join(", "))
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

/// The fields of a request's log line besides time and failure.
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

/// Headers of a refusal that its rendered form keeps: those that do not describe the replaced body.
fn kept(mut headers: HeaderMap) -> HeaderMap {
    headers.remove(axum::http::header::CONTENT_LENGTH);
    headers.remove(axum::http::header::CONTENT_TYPE);
    headers
}
