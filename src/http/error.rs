//! How requests fail, and the only place that sets an error status.
//!
//! An `ApiError` travels to the outermost middleware in the extensions of an empty response. There it gets the request id and
//! becomes a body: RFC 9457 problem+json, or OpenAI's shape on the routes of OpenAI's clients. Extractors, handlers, the
//! fallback, caught panics and rejections by the framework all take this path.

use std::any::Any;

use axum::Json;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::domain::{Code, ErrorClass, panic_text};
use crate::service;
use crate::service::json::shorten;

pub const PROBLEM_JSON: &str = "application/problem+json";

/// The detail that a client gets if the server is to blame.
const FAILED: &str = "the server failed; its log has the cause under this request id";

/// The routes whose errors are in OpenAI's shape.
const OPEN_AI_ROUTES: [&str; 2] = ["/v1/embeddings", "/v1/models/{model}"];

/// Approximate maximum number of violations that several checks report together.
const VIOLATIONS_MAX: usize = 100;

/// The challenge for a client without a valid key.
pub const CHALLENGE: &str = "Bearer realm=\"dragoman\"";

#[derive(Debug, Clone, PartialEq)]
pub struct ApiError {
    pub code: Code,
    /// Shown to the client; a fixed text if the server failed.
    pub detail: String,
    /// The places in the request that are wrong.
    pub errors: Vec<Violation>,
    /// The chain of causes, for the log alone.
    pub cause: Option<String>,
    /// Seconds until a retry; `None` means the default of the code.
    pub retry_after_s: Option<u64>,
}

/// An error response as in RFC 9457, with the members `code`, `request_id` and `errors`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Problem {
    /// Where this kind of error is documented, relative to the server.
    #[serde(rename = "type")]
    #[schema(format = "uri-reference")]
    pub kind: String,
    /// A summary of this kind of error; the same for every error with this code.
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What is wrong with this request: the field, the limit, what was expected and what was given.
    pub detail: String,
    /// The path of the request.
    #[schema(format = "uri-reference")]
    pub instance: String,
    /// The error code, from a closed list. Programs should branch on it.
    pub code: Code,
    /// The id of the request, which is also in the server's log and in the header `x-request-id`.
    pub request_id: String,
    /// Every place in the request that is wrong; omitted if the error concerns the request as a whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Violation>,
}

/// One wrong place in a request.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Violation {
    /// JSON pointer (RFC 6901) into the request body; empty for the whole body, omitted if the place is not in the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// Name of the path parameter, query parameter or header; omitted if the place is in the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// What was expected and what was given.
    pub detail: String,
}

/// An error response in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiProblem {
    /// What is wrong.
    pub error: OpenAiProblemDetail,
}

/// What is wrong, in OpenAI's shape.
#[derive(Debug, Serialize, ToSchema)]
pub struct OpenAiProblemDetail {
    /// The field, the limit, what was expected and what was given.
    pub message: String,
    /// `invalid_request_error`, `authentication_error`, `permission_error`, `rate_limit_error`, `overloaded_error` or
    /// `server_error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The field that is wrong; null if the error concerns the request as a whole.
    #[schema(required = true)]
    pub param: Option<String>,
    /// The error code, from the same closed list as in other errors.
    pub code: Code,
}

/// Marks an error response whose body is in the form of another protocol, and must not be replaced.
#[derive(Debug, Clone)]
pub struct ForeignErrorBody;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// RFC 9457.
    Problem,
    OpenAi,
}

/// Collects the results of several checks of one request, so that their violations are reported together.
#[derive(Default)]
pub struct Checks(Option<ApiError>);

impl Checks {
    /// The value that was checked; `None` if the check failed.
    pub fn add<T>(&mut self, checked: Result<T, ApiError>) -> Option<T> {
        match (checked, &mut self.0) {
            (Ok(value), _) => return Some(value),
            // An error without a place concerns the whole request, and is reported alone.
            (Err(error), Some(first)) if (1..VIOLATIONS_MAX).contains(&first.errors.len()) && !error.errors.is_empty() => {
                let all = first.errors.drain(..).chain(error.errors).collect();
                *first = ApiError::several(first.code, all);
            }
            (Err(_), Some(_)) => {}
            (Err(error), None) => self.0 = Some(error),
        }
        None
    }

    /// The value that was checked; if the check failed, a default, because `end` refuses the request.
    pub fn add_or_default<T: Default>(&mut self, checked: Result<T, ApiError>) -> T {
        self.add(checked).unwrap_or_default()
    }

    /// The error of all checks that failed: the code of the first one, and the places of all.
    pub fn end(self) -> Result<(), ApiError> {
        self.end_with(Some(()))
    }

    /// The same, or what was made of the checked values; `None` only if a check failed.
    pub fn end_with<T>(self, made: Option<T>) -> Result<T, ApiError> {
        self.0.map_or_else(|| made.ok_or_else(|| ApiError::internal("no check refused, but a value is missing")), Err)
    }

    /// The values of the checks if all succeed, otherwise the error of those that failed.
    pub fn all<T>(checked: impl IntoIterator<Item = Result<T, ApiError>>) -> Result<Vec<T>, ApiError> {
        let mut checks = Self::default();
        let values = checked.into_iter().filter_map(|result| checks.add(result)).collect();
        checks.end().map(|()| values)
    }
}

pub fn invalid<T>(pointer: impl Into<String>, detail: impl Into<String>) -> Result<T, ApiError> {
    Err(ApiError::at(Code::InvalidRequest, pointer, detail))
}

impl ApiError {
    /// An error of the request as a whole.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        Self { code, detail: shorten(detail.into()), errors: Vec::new(), cause: None, retry_after_s: None }
    }

    /// An error at one place of the body, which `pointer` names.
    pub fn at(code: Code, pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::several(code, vec![Violation::at(pointer, detail)])
    }

    /// An error of one path or query parameter or header.
    pub fn parameter(code: Code, name: impl Into<String>, detail: impl Into<String>) -> Self {
        let violation = Violation { pointer: None, parameter: Some(name.into()), detail: shorten(detail.into()) };
        Self::several(code, vec![violation])
    }

    /// An error at several places; the detail has the first one and the number of the others.
    pub fn several(code: Code, errors: Vec<Violation>) -> Self {
        let first = errors.first().map(Violation::summary).unwrap_or_default();
        let detail = match errors.len() {
            0 | 1 => first,
            n => format!("{first}; and {} more", n - 1),
        };
        Self { code, detail, errors, cause: None, retry_after_s: None }
    }

    pub fn with_base_pointer(self, base: &str) -> Self {
        if self.errors.is_empty() {
            return self;
        }
        Self::several(self.code, self.errors.into_iter().map(|violation| violation.with_base_pointer(base)).collect())
    }

    /// A failure of the server: the client gets a fixed text, the log gets `cause`.
    pub fn internal(cause: impl Into<String>) -> Self {
        Self { cause: Some(cause.into()), ..Self::new(Code::Internal, FAILED) }
    }

    /// The HTTP status in the shape of RFC 9457.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The response: body and headers, added to `headers` of the response that carried the error.
    pub fn render(&self, shape: Shape, request_id: &str, instance: &str, headers: HeaderMap) -> Response {
        let (body, media_type) = match shape {
            Shape::Problem => (Json(self.problem(request_id, instance)).into_response(), PROBLEM_JSON),
            Shape::OpenAi => (Json(self.open_ai()).into_response(), "application/json"),
        };
        let status = StatusCode::from_u16(shape.status(self.code)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, body).into_response();
        response.headers_mut().extend(headers);
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        if let Some(seconds) = self.retry_after_s.or(retry_after_s(self.code)) {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == Code::Unauthorized {
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
        }
        response
    }

    /// The error in the shape of RFC 9457.
    pub fn problem(&self, request_id: &str, instance: &str) -> Problem {
        Problem {
            kind: format!("/docs/errors#{}", self.code.name()),
            title: self.code.summary().trim_end_matches('.').to_owned(),
            status: self.code.status(),
            detail: self.detail.clone(),
            instance: instance.to_owned(),
            code: self.code,
            request_id: request_id.to_owned(),
            errors: self.errors.clone(),
        }
    }

    pub fn open_ai(&self) -> OpenAiProblem {
        let kind = match (self.code, self.code.class()) {
            (Code::Unauthorized, _) => "authentication_error",
            (Code::Forbidden, _) => "permission_error",
            (Code::RateLimited, _) => "rate_limit_error",
            (_, ErrorClass::Client) => "invalid_request_error",
            (_, ErrorClass::Capacity) => "overloaded_error",
            (_, ErrorClass::Server) => "server_error",
        };
        let pointer = self.errors.first().and_then(|violation| violation.pointer.as_deref());
        let field = pointer.and_then(|pointer| pointer.split('/').nth(1));
        OpenAiProblem {
            error: OpenAiProblemDetail {
                message: shorten(self.detail.clone()),
                kind: kind.to_owned(),
                param: field.map(str::to_owned),
                code: self.code,
            },
        }
    }
}

impl Shape {
    pub fn of_route(route: &str) -> Self {
        if OPEN_AI_ROUTES.contains(&route) { Self::OpenAi } else { Self::Problem }
    }

    /// The HTTP status of a code. OpenAI answers invalid requests with 400, and unknown models with 404.
    pub fn status(self, code: Code) -> u16 {
        match (self, code.status()) {
            (Self::OpenAi, _) if code == Code::UnknownModel => 404,
            (Self::OpenAi, 422) => 400,
            (_, status) => status,
        }
    }
}

impl Violation {
    pub fn at(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: Some(pointer.into()), parameter: None, detail: shorten(detail.into()) }
    }

    pub fn with_base_pointer(self, base: &str) -> Self {
        Self { pointer: self.pointer.map(|pointer| format!("{base}{pointer}")), ..self }
    }

    fn summary(&self) -> String {
        match self.pointer.as_deref().or(self.parameter.as_deref()) {
            Some(location) if !location.is_empty() => format!("{location}: {}", self.detail),
            _ => self.detail.clone(),
        }
    }
}

impl IntoResponse for ApiError {
    /// An empty response that carries the error to `middleware::request::handle_request`.
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl From<service::Error> for ApiError {
    fn from(error: service::Error) -> Self {
        let code = error.code();
        match &error {
            service::Error::Query(problem) => return Self::at(code, "/query", problem.to_string()),
            service::Error::InBatch { index, source } => {
                if let service::Error::Query(problem) = &**source {
                    return Self::at(code, format!("/searches/{index}/query"), problem.to_string());
                }
            }
            _ => {}
        }
        let cause = (code.class() != ErrorClass::Client).then(|| error.chain());
        Self { cause, ..Self::new(code, client_detail(&error, code)) }
    }
}

/// The detail that the client gets. It reveals nothing about the server's internals if the client is not to blame.
fn client_detail(error: &service::Error, code: Code) -> String {
    use service::Error;
    if let Some(outage) = error.outage() {
        return outage.to_owned();
    }
    let fixed = || match code.class() {
        ErrorClass::Server => FAILED.to_owned(),
        _ => code.summary().trim_end_matches('.').to_owned(),
    };
    match (code.class(), error) {
        (_, Error::InBatch { index, source }) => format!("/searches/{index}: {}", client_detail(source, code)),
        // Its text is fixed, and the client must know that the documents are stored.
        (_, Error::NotIndexed(_)) => error.to_string(),
        // The damage must be named, so that an operator can repair it.
        (_, Error::Damaged { .. }) => error.to_string(),
        (ErrorClass::Server, _) => fixed(),
        (ErrorClass::Client, Error::Store(source)) => source.to_string(),
        (ErrorClass::Client, Error::Index(source)) => source.to_string(),
        (ErrorClass::Client, Error::Embed(source)) => source.to_string(),
        (ErrorClass::Client, _) => error.to_string(),
        (ErrorClass::Capacity, Error::Store(_) | Error::Index(_) | Error::Embed(_) | Error::File { .. }) => fixed(),
        (ErrorClass::Capacity, _) => error.to_string(),
    }
}

/// Takes the error out of a failed response. A rejection by the framework itself gets a code from its status. `methods` are the
/// documented ones of the route; a page has none.
pub fn take_error(response: &mut Response, route: &str, methods: &[&str]) -> Option<ApiError> {
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        return Some(error);
    }
    if response.extensions().get::<ForeignErrorBody>().is_some() {
        return None;
    }
    match response.status() {
        StatusCode::METHOD_NOT_ALLOWED => {
            let detail = match methods {
                [] => {
                    "the path exists, but does not support this method; the header Allow lists those that it supports".to_owned()
                }
                methods => {
                    // Callers also guess names of operations where an id stands.
                    let what = if route.ends_with("/documents/{id}") { "is that of one document, and" } else { "exists, but" };
                    format!("the path {what} supports only {}", methods.join(", "))
                }
            };
            Some(ApiError::new(Code::MethodNotAllowed, detail))
        }
        StatusCode::NOT_FOUND => Some(ApiError::new(Code::RouteNotFound, "there is no route with this path")),
        status if status.is_client_error() => Some(ApiError::new(Code::InvalidRequest, "the request cannot be read")),
        status if status.is_server_error() => Some(ApiError::internal(format!("a handler answered {status} without a cause"))),
        _ => None,
    }
}

pub async fn route_not_found(uri: Uri) -> ApiError {
    no_route(uri.path())
}

/// The error for a path without a route. It says what callers most often do wrong.
pub fn no_route(path: &str) -> ApiError {
    let remedy = if path.starts_with("/v1/v1/") {
        "; give clients the server's address without /v1"
    } else if path.starts_with("/v1/collections/") && path.contains("/documents/") {
        "; a slash in an id is %2F in a path"
    } else if path.starts_with("/v1") {
        "; /openapi.json lists all routes"
    } else if path.contains("/v1/") {
        "; a proxy must remove the part before /v1"
    } else {
        "; paths of the API begin with /v1"
    };
    ApiError::new(Code::RouteNotFound, format!("there is no route {}{remedy}", shorten(path.to_owned())))
}

pub fn panic_response(payload: Box<dyn Any + Send + 'static>) -> Response {
    let text = panic_text(&*payload).unwrap_or("without a text");
    ApiError::internal(format!("a handler panicked: {text}")).into_response()
}

/// Seconds until a refused client should retry: short for a queue, longer for a disk that an operator must fix.
pub fn retry_after_s(code: Code) -> Option<u64> {
    match code {
        Code::StorageUnavailable => Some(30),
        _ => (code.class() == ErrorClass::Capacity).then_some(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_detail_shows_the_first_violation_and_how_many_more() {
        let violations = |n: usize| (0..n).map(|i| Violation::at(format!("/{i}"), "bad")).collect::<Vec<_>>();
        assert_eq!(ApiError::several(Code::InvalidRequest, violations(1)).detail, "/0: bad");
        assert_eq!(ApiError::several(Code::InvalidRequest, violations(3)).detail, "/0: bad; and 2 more");
    }

    #[test]
    fn checks_collect_every_violation() {
        let refuse = |pointer: &str| Err(ApiError::at(Code::InvalidRequest, pointer, "bad"));
        let pointers = |error: ApiError| error.errors.into_iter().filter_map(|violation| violation.pointer).collect::<Vec<_>>();
        assert_eq!(Checks::all([Ok(1), Ok(2)]), Ok(vec![1, 2]));
        let error = Checks::all([Ok(1), refuse("/a"), Ok(2), refuse("/b")]).unwrap_err();
        assert_eq!(error.detail, "/a: bad; and 1 more");
        assert_eq!(pointers(error), ["/a", "/b"]);
        let without_pointer = Err(ApiError::new(Code::NoModel, "there is no model"));
        assert_eq!(Checks::all([refuse("/a"), without_pointer, Ok(1)]).map_err(pointers), Err(vec!["/a".to_owned()]));
    }

    #[test]
    fn long_details_are_truncated_at_a_character_boundary() {
        // The maximum length is within a character of this text.
        let error = ApiError::at(Code::InvalidRequest, "/text", format!("a{}", "語".repeat(10_000)));
        let detail = &error.errors[0].detail;
        assert!(detail.starts_with("a語語") && detail.ends_with("語…"), "{detail}");
        assert!((500..700).contains(&detail.len()), "{} bytes", detail.len());
    }

    #[test]
    fn the_openai_param_is_the_outermost_field() {
        let error = ApiError::at(Code::InvalidRequest, "/input/3", "is blank");
        assert_eq!(error.open_ai().error.param.as_deref(), Some("input"));
        assert_eq!(ApiError::at(Code::InvalidRequest, "", "no object").open_ai().error.param, None);
    }

    #[test]
    fn exactly_the_capacity_codes_have_a_retry_delay() {
        for &code in Code::ALL {
            assert_eq!(retry_after_s(code).is_some(), code.class() == ErrorClass::Capacity, "{code:?}");
        }
    }
}
