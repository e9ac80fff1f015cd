//! Parses bodies, path parameters and query parameters. Errors name the place, what was expected and
//! what was given.

use std::fmt;
use std::marker::PhantomData;

use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use futures::StreamExt as _;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::Segment;
use sha2::{Digest as _, Sha256};
use utoipa::IntoParams;

use super::api::Api;
use super::cursor::{self, List};
use super::error::ApiError;
use super::nulls::Bodies;
use super::traffic::refused;
use crate::domain::{Caller, Code, CollectionName, DocumentId, KeyId, Limits, Page, RequestKey};
use crate::service::budget::RequestMemory;

/// Default rows per page of a list.
pub const PAGE_DEFAULT: usize = 20;

/// Size up to which a body is parsed where it arrives.
const INLINE_BYTES_MAX: usize = 64 << 10;
/// How often a body is in memory: as sent, and as parsed.
const BODY_COPIES: u64 = 2;

/// The header with a caller's name for a request.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A JSON body.
pub struct JsonBody<T>(pub T);

/// A JSON body, and the caller's idempotency key if there is one.
pub struct KeyedBody<T>(pub T, pub Option<RequestKey>);

/// The path parameter `collection`.
pub struct CollectionPath(pub CollectionName);

/// The path parameter `alias`.
pub struct AliasPath(pub CollectionName);

/// The path parameters `collection` and `id`.
pub struct DocumentPath(pub CollectionName, pub DocumentId);

/// The path parameter `key`.
pub struct KeyPath(pub KeyId);

/// Query parameters; unknown ones are refused by name. Their values stay text, so that each gets our error message.
pub struct Parameters<T>(pub T);

/// Which rows of a list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct PageParameters {
    /// Maximum rows, from 1 to the server's limit (1000 unless configured otherwise).
    #[param(value_type = Option<u32>, minimum = 1, default = 20)]
    pub limit: Option<String>,
    /// Where the page begins: the unchanged `next_cursor` of the previous page. Leave it out for the first page.
    pub cursor: Option<String>,
}

impl PageParameters {
    /// The requested page of `list`; `parse` reads the last row's key from the cursor.
    pub fn page<T, E>(&self, api: &Api, list: &List<'_>, parse: impl Fn(&str) -> Result<T, E>) -> Result<Page<T>, ApiError> {
        let max = api.service.limits().page_max;
        let limit = match &self.limit {
            None => PAGE_DEFAULT.min(max),
            Some(text) => text.parse().ok().filter(|limit| (1..=max).contains(limit)).ok_or_else(|| {
                let detail = format!("must be an integer from 1 to {max} (page_max), got {text:?}");
                ApiError::parameter(Code::InvalidRequest, "limit", detail)
            })?,
        };
        let after = match &self.cursor {
            None => None,
            Some(text) => Some(parse(&cursor::decode(list, text)?).map_err(|_| cursor::invalid())?),
        };
        Ok(Page { limit, after })
    }
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<Api> for JsonBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        require_json(request.headers())?;
        let (bodies, operation) = (&api.description.bodies, api.description.operations.of(&request).id.as_str());
        let bytes = read_body(request, api.service.limits().body_bytes_max).await?;
        let read = move |bytes: &[u8]| parse_body(bodies, operation, bytes).map(Self);
        off_thread(bytes, read).await
    }
}

impl<T: DeserializeOwned + Send + 'static> FromRequest<Api> for KeyedBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, api: &Api) -> Result<Self, ApiError> {
        require_json(request.headers())?;
        let key = request.headers().get(IDEMPOTENCY_KEY).map(|key| String::from_utf8_lossy(key.as_bytes()).into_owned());
        let caller = request.extensions().get::<Caller>().cloned();
        let (bodies, operation) = (&api.description.bodies, api.description.operations.of(&request).id.as_str());
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let head = format!("{} {path}?{query}\n", request.method());
        let bytes = read_body(request, api.service.limits().body_bytes_max).await?;
        let read = move |bytes: &[u8]| {
            let hash = key.as_ref().map(|_| Sha256::new().chain_update(head.as_bytes()).chain_update(bytes).finalize());
            Ok((parse_body(bodies, operation, bytes)?, key.zip(hash)))
        };
        let (body, key) = off_thread(bytes, read).await?;
        let key = key.map(|(key, hash)| {
            let fingerprint = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            let key = RequestKey::new(&key, fingerprint);
            let key = key.map(|key| match &caller {
                Some(Caller::Holder(holder)) => key.of(&holder.id),
                _ => key,
            });
            key.map_err(|detail| ApiError::parameter(Code::InvalidRequest, IDEMPOTENCY_KEY.as_str(), detail))
        });
        Ok(Self(body, key.transpose()?))
    }
}

impl FromRequestParts<Api> for CollectionPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let params = path_params(parts, api).await?;
        Ok(Self(path_param(&params, "collection", CollectionName::parse)?))
    }
}

impl FromRequestParts<Api> for AliasPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let params = path_params(parts, api).await?;
        Ok(Self(path_param(&params, "alias", CollectionName::parse)?))
    }
}

impl FromRequestParts<Api> for DocumentPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let params = path_params(parts, api).await?;
        let collection = path_param(&params, "collection", CollectionName::parse)?;
        // On the paths of operations on many documents, which could also be ids, the id is no parameter.
        let word = parts.uri.path().rsplit('/').next().filter(|_| params.iter().all(|(key, _)| key != "id"));
        match word {
            Some(word) => Ok(Self(collection, DocumentId::parse(word).map_err(|error| invalid_parameter("id", &error))?)),
            None => Ok(Self(collection, path_param(&params, "id", DocumentId::parse)?)),
        }
    }
}

impl FromRequestParts<Api> for KeyPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let params = path_params(parts, api).await?;
        Ok(Self(path_param(&params, "key", KeyId::parse)?))
    }
}

impl<T: DeserializeOwned> FromRequestParts<Api> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _api: &Api) -> Result<Self, ApiError> {
        let read = Query::<T>::try_from_uri(&parts.uri);
        read.map(|Query(parameters)| Self(parameters)).map_err(|rejection| {
            let text = rejection.body_text();
            let detail = text.rsplit("query string: ").next().unwrap_or(&text);
            let name = detail.split('`').nth(1).unwrap_or_default();
            ApiError::parameter(Code::InvalidRequest, name, detail.replace("field", "parameter"))
        })
    }
}

/// A value that is parsed only from a JSON object. A derived struct alone would also take an array of its members.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }

        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

/// Parses an array of objects.
pub fn objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|Object(value)| value).collect())
}

/// Parses an array of objects that may be missing or null.
pub fn some_objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<T>>, D::Error> {
    let objects = Option::<Vec<Object<T>>>::deserialize(deserializer)?;
    Ok(objects.map(|objects| objects.into_iter().map(|Object(value)| value).collect()))
}

/// Checks the requested number of items, the member `pointer`.
pub fn check_limit(got: usize, pointer: &str, limits: &Limits) -> Result<usize, ApiError> {
    let max = limits.page_max;
    if (1..=max).contains(&got) {
        return Ok(got);
    }
    Err(ApiError::at(Code::InvalidRequest, pointer, format!("must be an integer from 1 to {max}, got {got}")))
}

/// Parses the body of an operation, which has null only where the document allows it.
fn parse_body<T: DeserializeOwned>(bodies: &Bodies, operation: &str, bytes: &[u8]) -> Result<T, ApiError> {
    let parsed = parse_json(bytes);
    // A null is also the better explanation of a parse error that it causes.
    bodies.check(operation, bytes).and(parsed)
}

/// Parses JSON and says where and why it does not fit.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        ApiError::new(Code::MalformedJson, format!("the body is not valid UTF-8 after byte {}", error.valid_up_to()))
    })?;
    if text.trim_ascii().is_empty() {
        return Err(ApiError::new(Code::MalformedJson, "the body is empty, expected JSON"));
    }
    // Tracking the place takes longer than everything else for a body of vectors, so it is done only after an error.
    if let Ok(Object(value)) = serde_json::from_str(text) {
        return Ok(value);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let Object(value) = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        if error.inner().is_data() {
            ApiError::at(Code::InvalidRequest, pointer(error.path()), readable(error.inner()))
        } else {
            malformed(error.inner())
        }
    })?;
    json.end().map_err(|error| malformed(&error))?;
    Ok(value)
}

fn malformed(error: &serde_json::Error) -> ApiError {
    ApiError::new(Code::MalformedJson, format!("the body is not well-formed JSON: {error}"))
}

/// The place of an error as a JSON pointer.
pub fn pointer(path: &serde_path_to_error::Path) -> String {
    let mut pointer = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => pointer.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

/// An error of serde in the words of JSON, without the position, which the pointer replaces.
pub fn readable(error: &serde_json::Error) -> String {
    const WORDS: [(&str, &str); 7] = [
        ("invalid type: map", "invalid type: object"),
        ("invalid type: sequence", "invalid type: array"),
        ("expected a sequence", "expected an array"),
        ("expected a map", "expected an object"),
        ("expected usize", "expected a non-negative integer"),
        ("expected u32", "expected a non-negative integer"),
        ("expected f32", "expected a number"),
    ];
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&position).unwrap_or(&text);
    WORDS.iter().fold(text.to_owned(), |text, (rust, json)| text.replace(rust, json))
}

fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let read = |name: HeaderName| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase());
    let refuse = |name: &str, detail: String| Err(ApiError::parameter(Code::UnsupportedMediaType, name, detail));
    if let Some(encoding) = read(CONTENT_ENCODING).filter(|encoding| encoding.trim() != "identity") {
        return refuse("content-encoding", format!("must be absent, got {encoding:?}"));
    }
    let Some(media_type) = read(CONTENT_TYPE) else {
        return refuse("content-type", "must be application/json, got none".to_owned());
    };
    let mut parts = media_type.split(';').map(str::trim);
    let json = parts.next() == Some("application/json");
    let utf8 =
        parts.all(|part| !part.starts_with("charset=") || part.trim_start_matches("charset=").trim_matches('"') == "utf-8");
    if json && utf8 { Ok(()) } else { refuse("content-type", format!("must be application/json, got {media_type:?}")) }
}

/// Parses a body; a long one on a thread of its own, so that it does not occupy those that answer others.
async fn off_thread<T: Send + 'static>(
    bytes: Vec<u8>,
    read: impl FnOnce(&[u8]) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    if bytes.len() <= INLINE_BYTES_MAX {
        return read(&bytes);
    }
    let reading = tokio::task::spawn_blocking(move || read(&bytes));
    reading.await.map_err(|error| ApiError::internal(format!("reading a body failed: {error}")))?
}

/// Reads the whole body, at most `bytes_max`, and not more than memory allows beside the other requests.
///
/// A body over the limit is read and discarded up to twice the limit before the refusal is sent, because most clients read
/// the response only after they have sent everything. One that asks first (`Expect: 100-continue`) is refused at once.
async fn read_body(request: Request, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    let announced = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    let too_large = || {
        let got = announced.map_or("more".to_owned(), |bytes| bytes.to_string());
        ApiError::new(Code::BodyTooLarge, format!("the body may have at most {bytes_max} bytes (body_bytes_max), got {got}"))
    };
    let beyond = announced.is_some_and(|bytes| bytes > bytes_max);
    if beyond && request.headers().contains_key(EXPECT) {
        return Err(too_large());
    }
    let memory = RequestMemory::current();
    let mut body = Vec::with_capacity(announced.unwrap_or(0).min(INLINE_BYTES_MAX));
    let (mut received, mut no_room) = (0_usize, None);
    let mut stream = request.into_body().into_data_stream();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| ApiError::new(Code::MalformedJson, "the body ended before it was complete"))?;
        received = received.saturating_add(chunk.len());
        if received <= bytes_max && !beyond && no_room.is_none() {
            no_room = memory.add_body(chunk.len() as u64 * BODY_COPIES).err();
            body.extend_from_slice(&chunk);
        } else if received > bytes_max.saturating_mul(2) {
            break;
        } else {
            body = Vec::new();
            memory.release_body();
        }
    }
    if let Some(refusal) = no_room {
        return Err(refused(refusal));
    }
    if beyond || received > bytes_max { Err(too_large()) } else { Ok(body) }
}

/// The parameters of the path, percent-decoded.
pub async fn path_params(parts: &mut Parts, api: &Api) -> Result<RawPathParams, ApiError> {
    if let Some(at) = malformed_percent(parts.uri.path()) {
        let detail =
            format!("byte {at} of the path is not valid percent-encoding: '%' must be followed by two hexadecimal digits");
        return Err(ApiError::new(Code::InvalidRequest, detail));
    }
    let read = RawPathParams::from_request_parts(parts, api).await;
    read.map_err(|_| ApiError::new(Code::InvalidRequest, "the path is not valid UTF-8 after percent-decoding"))
}

/// Parses one parameter of the path.
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

/// The offset of the first `%` that two hexadecimal digits do not follow.
fn malformed_percent(path: &str) -> Option<usize> {
    let bytes = path.as_bytes();
    let digits = |at: usize| bytes.get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit));
    (0..bytes.len()).find(|&at| bytes[at] == b'%' && !digits(at))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_does_not_fit_is_named_with_its_place() {
        let invalid = Code::InvalidRequest;
        check(r#"{"name": 3}"#, invalid, "/name: invalid type: integer `3`, expected a string");
        check(r#"{"rows": []}"#, invalid, "missing field `name`");
        check(r#"[]"#, invalid, "invalid type: array, expected an object");
        check(r#"["a", []]"#, invalid, "invalid type: array, expected an object");
        check(r#"{"name": "a", "rows": [[1]]}"#, invalid, "/rows/0: invalid type: array, expected an object");
        check(r#"{"name": "a", "nmae": 1}"#, invalid, "/nmae: unknown field `nmae`, expected `name` or `rows`");
        check(r#"{"name": "a", "rows": {}}"#, invalid, "/rows: invalid type: object, expected an array");
        let negative = "/rows/1/limit: invalid value: integer `-1`, expected a non-negative integer";
        check(r#"{"name": "a", "rows": [{"limit": 1}, {"limit": -1}]}"#, invalid, negative);
    }

    #[test]
    fn what_is_no_json_is_malformed() {
        let malformed = Code::MalformedJson;
        check("", malformed, "the body is empty, expected JSON");
        check("{", malformed, "the body is not well-formed JSON: EOF while parsing an object at line 1 column 1");
        check(r#"{"name": "a"} x"#, malformed, "the body is not well-formed JSON: trailing characters at line 1 column 15");
        let error = parse_json::<Body>(b"{\"name\": \"\xff\"}").expect_err("no UTF-8");
        assert_eq!(error.detail, "the body is not valid UTF-8 after byte 10");
    }

    #[test]
    fn percent_encoding_is_checked() {
        for (path, at) in [("/a%2Fb", None), ("/%zz", Some(1)), ("/a%2", Some(2)), ("/%", Some(1)), ("/", None)] {
            assert_eq!(malformed_percent(path), at, "{path}");
        }
    }
}
