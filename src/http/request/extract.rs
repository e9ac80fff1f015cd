//! Parses bodies, path parameters and query parameters. Errors name the place, what was expected and what was given.

use std::fmt;

use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Uri};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use utoipa::IntoParams;

use super::body::{INLINE_BYTES_MAX, receive_json};
use super::body_scan::BodyScan;
use super::body_schemas::{BodySchema, SchemaViolation, list_choices};
use super::cursor;
use crate::domain::{Caller, Code, CollectionName, DocumentId, KeyId, Limits, Page, RequestKey, hex};
use crate::http::api::Api;
use crate::http::error::{ApiError, Checks, Violation, invalid};
use crate::http::middleware::traffic::limit_error;
use crate::service::json::{self, JsonError};
use crate::service::limits::budget::RequestMemory;

/// Default rows per page of a list.
pub const PAGE_DEFAULT: usize = 20;
/// Maximum bytes of a body that is parsed again to report every violation.
const EXPLAINED_BYTES_MAX: usize = 1 << 20;
/// Approximately how much more memory it then takes, in the worst case: an array of small numbers.
const EXPLAINED_COPIES: u64 = 36;

/// The header with a caller's name for a request.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A type that can be parsed from a JSON body.
pub trait RequestBody: Sized + Send + 'static {
    /// Parses a body with this schema.
    fn read(json: &[u8], schema: BodySchema<'_>) -> Result<Self, ApiError>;
}

pub const ABOUT_IDEMPOTENCY_KEY: &str = "A name of your choice for this request, 1 to 255 printable ASCII characters. If you \
    repeat the request with it within 24 hours, the server does nothing and returns the first response, with the current state \
    of a collection, job or classifier.";

pub struct JsonBody<T>(pub T);

/// A JSON body, and the caller's idempotency key if there is one.
pub struct KeyedBody<T>(pub T, pub Option<RequestKey>);

/// Defines the extractor of one parameter of the path.
macro_rules! path_parameter {
    ($name:ident, $parameter:literal, $type:ty, $parse:expr) => {
        #[doc = concat!("The path parameter `", $parameter, "`.")]
        pub struct $name(pub $type);

        impl axum::extract::FromRequestParts<crate::http::api::Api> for $name {
            type Rejection = crate::http::error::ApiError;

            async fn from_request_parts(
                parts: &mut axum::http::request::Parts,
                api: &crate::http::api::Api,
            ) -> Result<Self, Self::Rejection> {
                let params = crate::http::request::extract::path_params(parts, api).await?;
                crate::http::request::extract::path_param(&params, $parameter, $parse).map(Self)
            }
        }
    };
}
pub(crate) use path_parameter;

path_parameter!(CollectionPath, "collection", CollectionName, CollectionName::parse);
path_parameter!(AliasPath, "alias", CollectionName, CollectionName::parse);
path_parameter!(KeyPath, "key", KeyId, KeyId::parse);

pub struct DocumentPath(pub CollectionName, pub DocumentId);

/// Query parameters as strings. `read` reports unknown, repeated and invalid ones together.
pub struct Parameters<T> {
    given: T,
    checks: Checks,
}

/// Which rows of a list to return.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct PageParameters {
    /// Maximum rows, from 1 to the server's limit (1000 unless configured otherwise).
    #[param(value_type = Option<u32>, minimum = 1, default = 20)]
    pub limit: Option<String>,
    /// Where the page begins: the unchanged `next_cursor` of the previous page. Leave it out for the first page.
    pub cursor: Option<String>,
}

impl<T> Parameters<T> {
    /// Parses the values with `read`, and fails if there are unknown or repeated parameters.
    pub fn read<V>(mut self, read: impl FnOnce(T) -> Result<V, ApiError>) -> Result<V, ApiError> {
        let value = self.checks.add(read(self.given));
        self.checks.end_with(value)
    }
}

impl Parameters<PageParameters> {
    /// The requested page of `list`; `parse` reads the last row's key from the cursor.
    pub fn page<T, E>(self, api: &Api, list: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<Page<T>, ApiError> {
        self.read(|given| given.page(api, list, parse))
    }
}

impl PageParameters {
    /// The requested page of `list`; `parse` reads the last row's key from the cursor.
    pub fn page<T, E>(&self, api: &Api, list: &str, parse: impl Fn(&str) -> Result<T, E>) -> Result<Page<T>, ApiError> {
        let max = api.service.limits().page_max;
        let mut checks = Checks::default();
        let limit = checks.add_or_default(match &self.limit {
            None => Ok(PAGE_DEFAULT.min(max)),
            Some(text) => text.parse().ok().filter(|limit| (1..=max).contains(limit)).ok_or_else(|| {
                let detail = format!("must be an integer from 1 to {max} (page_max), got {text:?}");
                ApiError::parameter(Code::InvalidRequest, "limit", detail)
            }),
        });
        let read = |text: &String| parse(&cursor::decode(list, text)?).map_err(|_| cursor::invalid());
        let after = checks.add_or_default(self.cursor.as_ref().map(read).transpose());
        checks.end().map(|()| Page { limit, after })
    }
}

impl<T: DeserializeOwned + Send + 'static> RequestBody for T {
    fn read(json: &[u8], schema: BodySchema<'_>) -> Result<Self, ApiError> {
        read_json(json, schema)
    }
}

impl<T: RequestBody> FromRequest<Api> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        let schema = api.description.body_schema(api.description.operations.for_request(&request));
        let bytes = receive_json(request, api.service.limits().body_bytes_max).await?;
        off_thread(bytes, move |json| T::read(json, schema).map(Self)).await
    }
}

impl<T: RequestBody> FromRequest<Api> for KeyedBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        let key = idempotency_key(request.headers())?;
        let caller = request.extensions().get::<Caller>().cloned();
        let schema = api.description.body_schema(api.description.operations.for_request(&request));
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let head = format!("{} {path}?{query}\n", request.method());
        let bytes = receive_json(request, api.service.limits().body_bytes_max).await?;
        let read = move |bytes: &[u8]| {
            let hash = key.as_ref().map(|_| Sha256::new().chain_update(head.as_bytes()).chain_update(bytes).finalize());
            Ok((T::read(bytes, schema)?, key.zip(hash)))
        };
        let (body, key) = off_thread(bytes, read).await?;
        let key = key.map(|(key, hash)| {
            let key = RequestKey::new(&key, hex(&hash));
            let key = key.map(|key| match caller.as_ref().and_then(Caller::key) {
                Some(holder) => key.scoped_to(&holder.id),
                None => key,
            });
            key.map_err(|detail| ApiError::parameter(Code::InvalidRequest, IDEMPOTENCY_KEY.as_str(), detail))
        });
        Ok(Self(body, key.transpose()?))
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut keys = headers.get_all(IDEMPOTENCY_KEY).iter().map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
    let key = keys.next();
    match keys.next() {
        None => Ok(key),
        Some(_) => Err(ApiError::parameter(Code::InvalidRequest, IDEMPOTENCY_KEY.as_str(), "must be given only once")),
    }
}

impl FromRequestParts<Api> for DocumentPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let params = path_params(parts, api).await?;
        let collection = path_param(&params, "collection", CollectionName::parse)?;
        // The paths of operations on many documents could also be those of documents. Unless the route has the id as a
        // parameter, the last word is not an id.
        let word = parts.uri.path().rsplit('/').next().filter(|_| params.iter().all(|(key, _)| key != "id"));
        match word {
            Some(word) => Ok(Self(collection, DocumentId::parse(word).map_err(|error| invalid_parameter("id", &error))?)),
            None => Ok(Self(collection, path_param(&params, "id", DocumentId::parse)?)),
        }
    }
}

impl<T: DeserializeOwned + IntoParams> FromRequestParts<Api> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _api: &Api) -> Result<Self, ApiError> {
        let known: Vec<String> = T::into_params(|| None).into_iter().map(|parameter| parameter.name).collect();
        let (given, checks) = query(&parts.uri, &known)?;
        let given = serde_json::from_value(given);
        let given = given.map_err(|error| ApiError::internal(format!("query parameters are no optional texts: {error}")))?;
        Ok(Self { given, checks })
    }
}

pub fn check_no_parameters(uri: &Uri) -> Result<(), ApiError> {
    query(uri, &[])?.1.end()
}

/// The `known` parameters of a query as an object of strings, with checks that fail if there are unknown or repeated
/// parameters.
fn query(uri: &Uri, known: &[String]) -> Result<(Value, Checks), ApiError> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let Query(pairs) = pairs.map_err(|rejection| ApiError::new(Code::InvalidRequest, rejection.body_text()))?;
    let (mut given, mut checks) = (Map::new(), Checks::default());
    for (name, value) in pairs {
        let detail = if !known.contains(&name) {
            match known {
                [] => format!("unknown parameter `{name}`, there are no parameters"),
                _ => format!("unknown parameter `{name}`, expected {}", list_choices(known.iter().map(String::as_str))),
            }
        } else if given.contains_key(&name) {
            format!("duplicate parameter `{name}`")
        } else {
            given.insert(name, Value::String(value));
            continue;
        };
        checks.add::<()>(Err(ApiError::parameter(Code::InvalidRequest, name, detail)));
    }
    Ok((Value::Object(given), checks))
}

/// Checks the requested number of items, the member `pointer`.
pub fn check_limit(got: usize, pointer: &str, limits: &Limits) -> Result<usize, ApiError> {
    let max = limits.page_max;
    if (1..=max).contains(&got) {
        return Ok(got);
    }
    invalid(pointer, format!("must be an integer from 1 to {max} (page_max), got {got}"))
}

/// Parses JSON against its schema, if there is enough memory. The error names all violations. Null is accepted only where the
/// schema allows it.
pub fn read_json<T: DeserializeOwned>(json: &[u8], schema: BodySchema<'_>) -> Result<T, ApiError> {
    let memory = RequestMemory::current();
    let max = memory.bytes_max();
    let scan = schema.scan(json, max);
    if scan.parsed_bytes > max {
        let detail = format!("the values in the body take more than {max} bytes of memory: send fewer at once");
        return Err(ApiError::new(Code::BodyTooLarge, detail));
    }
    memory.add_body(scan.parsed_bytes).map_err(limit_error)?;
    read_scanned(json, schema, scan)
}

/// Parses a part of a body whose memory has been counted already.
pub fn read_part<T: DeserializeOwned>(json: &[u8], schema: BodySchema<'_>) -> Result<T, ApiError> {
    read_scanned(json, schema, schema.scan(json, u64::MAX))
}

fn read_scanned<T: DeserializeOwned>(json: &[u8], schema: BodySchema<'_>, scan: BodyScan) -> Result<T, ApiError> {
    match parse_json(json) {
        Ok(parsed) if scan.nulls.is_empty() => Ok(parsed),
        Ok(_) => Err(schema_error(scan.nulls)),
        Err(error) if error.code == Code::InvalidRequest => {
            Err(with_schema_violations(error, schema_violations(json, schema).unwrap_or(scan.nulls)))
        }
        Err(error) => Err(error),
    }
}

/// All violations of the schema. `None` if finding them would take too much memory.
fn schema_violations(json: &[u8], schema: BodySchema<'_>) -> Option<Vec<SchemaViolation>> {
    let (memory, bytes) = (RequestMemory::current(), json.len() as u64 * EXPLAINED_COPIES);
    if json.len() > EXPLAINED_BYTES_MAX || memory.add_body(bytes).is_err() {
        return None;
    }
    let found = serde_json::from_slice(json).map_or_else(|_| Vec::new(), |value: Value| schema.schema_violations(&value));
    memory.remove_body(bytes);
    Some(found)
}

pub fn schema_error(schema_violations: Vec<SchemaViolation>) -> ApiError {
    let violations = schema_violations.into_iter().map(|SchemaViolation { pointer, detail, .. }| {
        let remedy = json::unknown_field_remedy(&detail);
        Violation::at(pointer, detail + remedy)
    });
    ApiError::several(Code::InvalidRequest, violations.collect())
}

/// Adds the violations of the schema to the error of parsing, which stopped at the first violation. For the same place, the
/// error of parsing is more precise than the schema, except for a null and for a number outside its range.
fn with_schema_violations(error: ApiError, mut schema_violations: Vec<SchemaViolation>) -> ApiError {
    let Some((first, pointer)) = error.errors.first().and_then(|first| Some((first, first.pointer.as_deref()?))) else {
        return error;
    };
    let within = |violation: &SchemaViolation| {
        violation.pointer.strip_prefix(pointer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let more_exact = schema_violations.iter().any(within);
    match schema_violations.iter_mut().find(|violation| violation.pointer == pointer) {
        Some(violation) if violation.is_precise => {}
        Some(violation) => violation.detail.clone_from(&first.detail),
        None if more_exact => {}
        None => schema_violations
            .insert(0, SchemaViolation { pointer: pointer.to_owned(), detail: first.detail.clone(), is_precise: false }),
    }
    schema_error(schema_violations)
}

/// Parses JSON; the error says where and why it does not fit.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    json::parse_object(bytes).map_err(|error| match error {
        JsonError::Malformed(problem) => ApiError::new(Code::MalformedJson, format!("the body {problem}")),
        JsonError::Invalid { pointer, problem } => ApiError::at(Code::InvalidRequest, pointer, problem),
    })
}

/// Parses a body; a long one on a blocking thread, so that it does not hold up other requests.
async fn off_thread<T: Send + 'static>(
    bytes: Vec<u8>,
    read: impl FnOnce(&[u8]) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if bytes.len() <= INLINE_BYTES_MAX {
        return read(&bytes);
    }
    let memory = RequestMemory::current();
    let reading = tokio::task::spawn_blocking(move || memory.scope_blocking(|| read(&bytes)));
    reading.await.map_err(|error| ApiError::internal(format!("reading a body failed: {error}")))?
}

/// The parameters of the path, percent-decoded.
pub async fn path_params(parts: &mut Parts, api: &Api) -> Result<RawPathParams, ApiError> {
    if let Some(position) = malformed_percent(parts.uri.path()) {
        let detail =
            format!("byte {position} of the path is not valid percent-encoding: '%' must be followed by two hexadecimal digits");
        return Err(ApiError::new(Code::InvalidRequest, detail));
    }
    let read = RawPathParams::from_request_parts(parts, api).await;
    read.map_err(|_| ApiError::new(Code::InvalidRequest, "the path is not valid UTF-8 after percent-decoding"))
}

pub fn path_param<T, E: std::fmt::Display>(
    params: &RawPathParams,
    name: &'static str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, ApiError> {
    let value = params.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| value);
    parse(value).map_err(|error| invalid_parameter(name, &error))
}

fn invalid_parameter(name: &'static str, error: &impl fmt::Display) -> ApiError {
    ApiError::parameter(Code::InvalidRequest, name, error.to_string())
}

/// The offset of the first `%` that is not followed by two hexadecimal digits.
fn malformed_percent(path: &str) -> Option<usize> {
    let bytes = path.as_bytes();
    let digits = |position: usize| bytes.get(position + 1..position + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    (0..bytes.len()).find(|&position| bytes[position] == b'%' && !digits(position))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::json::objects;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors of reading it are looked at")]
    struct Body {
        name: String,
        #[serde(default, deserialize_with = "objects")]
        rows: Vec<Row>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only the errors of reading it are looked at")]
    struct Row {
        limit: usize,
    }

    fn check(body: &str, code: Code, detail: &str) {
        let error = parse_json::<Body>(body.as_bytes()).expect_err(body);
        assert_eq!((error.code, error.detail.as_str()), (code, detail), "{body}");
    }

    #[test]
    fn errors_point_to_the_invalid_field() {
        let invalid = Code::InvalidRequest;
        check(r#"{"name": 3}"#, invalid, "/name: invalid type: integer `3`, expected a string");
        check(r#"{"rows": []}"#, invalid, "/name: missing field `name`");
        check(r#"[]"#, invalid, "invalid type: array, expected an object");
        check(r#"["a", []]"#, invalid, "invalid type: array, expected an object");
        check(r#"{"name": "a", "rows": [[1]]}"#, invalid, "/rows/0: invalid type: array, expected an object");
        check(r#"{"name": "a", "nmae": 1}"#, invalid, "/nmae: unknown field `nmae`, expected `name` or `rows`");
        check(r#"{"name": "a", "rows": {}}"#, invalid, "/rows: invalid type: object, expected an array");
        let negative = "/rows/1/limit: invalid value: integer `-1`, expected a non-negative integer";
        check(r#"{"name": "a", "rows": [{"limit": 1}, {"limit": -1}]}"#, invalid, negative);
        for escape in [r"\ud800 x", r"\ud800\n", r"\ud800\u0041", r"\udc00"] {
            let body = format!(r#"{{"name": "caf{escape}"}}"#);
            check(&body, invalid, "/name: has half of a surrogate pair in an escape");
        }
    }

    #[test]
    fn bodies_that_are_not_json_are_malformed() {
        let malformed = Code::MalformedJson;
        check("", malformed, "the body is empty, expected JSON");
        check("{", malformed, "the body is not well-formed JSON: EOF while parsing an object at line 1 column 1");
        check(r#"{"name": "a"} x"#, malformed, "the body is not well-formed JSON: trailing characters at line 1 column 15");
        let error = parse_json::<Body>(b"{\"name\": \"\xff\"}").expect_err("no UTF-8");
        assert_eq!(error.detail, "the body is not valid UTF-8 after byte 10");
    }

    #[test]
    fn malformed_percent_encoding_is_located() {
        for (path, position) in [("/a%2Fb", None), ("/%zz", Some(1)), ("/a%2", Some(2)), ("/%", Some(1)), ("/", None)] {
            assert_eq!(malformed_percent(path), position, "{path}");
        }
    }
}
