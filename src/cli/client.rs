//! The HTTP client: sends requests, reads JSON responses and streams, and converts problem responses to errors.
//!
//! Retries a repeatable call if the server is busy (429, 503), after the delay in `Retry-After`. Never retries after a broken
//! connection: the command fails with an error.

use std::error::Error;
use std::io::{BufReader, Read};
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Method, Request, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::{Agent, Body, SendBody};

use super::error::{CliError, ErrorResponse};
use super::output::Output;
use super::server::{ServerArgs, check_key};
use crate::domain::Secret;

const TRIES_MAX: u32 = 6;
/// Maximum wait between two attempts. If the server asks for a longer one, the call fails.
const WAIT_S_MAX: u64 = 60;
/// Minimum wait that is reported to the user.
const WAIT_S_NOTED: u64 = 2;
const CONNECT_S_MAX: u64 = 10;
const RESPONSE_BYTES_MAX: u64 = 1 << 30;
/// Maximum bytes to read of an error response.
const ERROR_BYTES_MAX: u64 = 1 << 20;

/// A client for one server. Threads can share it.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    base: String,
    key: Option<Secret>,
    /// Where a command writes its results, notes and progress.
    pub output: Output,
}

#[derive(Debug, Clone)]
pub struct Call {
    method: Method,
    path: String,
    query: String,
    body: Option<Vec<u8>>,
    accept_encoding: Option<&'static str>,
    repeatable: bool,
}

pub struct Upload<'a> {
    pub content_type: &'static str,
    /// The compression (`content-encoding`), if any.
    pub content_encoding: Option<&'static str>,
    pub bytes: Option<u64>,
    pub content: &'a mut dyn Read,
}

pub struct Download {
    /// The size, if the server sends it.
    pub bytes: Option<u64>,
    /// The compression (`content-encoding`), if any.
    pub encoding: Option<String>,
    /// The content, without decompression.
    pub content: Box<dyn Read>,
}

impl Call {
    /// Creates a GET request. The path is the API's version and these parts, percent-encoded.
    pub fn get(parts: &[&str]) -> Self {
        Self::new(Method::GET, parts, true)
    }

    /// Creates a DELETE request. It is not repeatable, because a second one would find nothing.
    pub fn delete(parts: &[&str]) -> Self {
        Self::new(Method::DELETE, parts, false)
    }

    pub fn post(parts: &[&str]) -> Self {
        Self::new(Method::POST, parts, false)
    }

    /// Creates a PATCH request. It is repeatable, because it is idempotent.
    pub fn patch(parts: &[&str]) -> Self {
        Self::new(Method::PATCH, parts, true)
    }

    pub fn put(parts: &[&str]) -> Self {
        Self::new(Method::PUT, parts, false)
    }

    fn new(method: Method, parts: &[&str], repeatable: bool) -> Self {
        let path = ["v1"].iter().chain(parts).map(|part| format!("/{}", percent_encoded(part))).collect();
        Self { method, path, query: String::new(), body: None, accept_encoding: None, repeatable }
    }

    pub fn with_query(mut self, name: &str, value: &str) -> Self {
        self.query.push(if self.query.is_empty() { '?' } else { '&' });
        self.query.push_str(&format!("{name}={}", percent_encoded(value)));
        self
    }

    pub fn with_optional_query(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with_query(name, value),
            None => self,
        }
    }

    pub fn json(mut self, body: impl Into<Value>) -> Self {
        self.body = Some(body.into().to_string().into_bytes());
        self
    }

    pub fn compressed(mut self, encoding: Option<&'static str>) -> Self {
        self.accept_encoding = encoding;
        self
    }

    /// Allows a retry after an error response, because the call is idempotent or has no effect if it is refused.
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }
}

impl Client {
    /// Creates a client for the server in the options. It connects on the first call.
    pub fn new(args: &ServerArgs) -> Result<Self, CliError> {
        args.key.as_ref().map_or(Ok(()), check_key)?;
        let patience = Some(Duration::from_secs(args.timeout_s));
        let mut tls = TlsConfig::builder();
        if let Some(path) = &args.ca {
            let pem = std::fs::read(path).map_err(CliError::io(format!("read {}", path.display())))?;
            tls = tls.root_certs(RootCerts::new_with_certs(
                &certificates(&pem).map_err(|reason| CliError::Usage(format!("--ca: {} {reason}", path.display())))?,
            ));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("dragoman/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls.build())
            .timeout_connect(Some(Duration::from_secs(CONNECT_S_MAX)))
            .timeout_recv_response(patience)
            .timeout_per_read(patience)
            .timeout_per_write(patience)
            .build();
        let base = args.server.as_str().to_owned();
        let key = args.key.clone().filter(|key| !key.expose().is_empty());
        Ok(Self { agent: config.into(), base, key, output: Output::new(args.json, args.quiet) })
    }

    /// Sends a call and returns the body of the response; null if it is empty.
    pub fn send(&self, call: &Call) -> Result<Value, CliError> {
        self.read(self.send_with_retries(call)?)
    }

    /// Sends a call and returns the array `member` of the response. It must have `count` rows, which `expected` describes.
    pub fn rows(&self, call: &Call, member: &str, count: usize, expected: &str) -> Result<Vec<Value>, CliError> {
        match self.send(call)?.get_mut(member).map(Value::take) {
            Some(Value::Array(rows)) if rows.len() == count => Ok(rows),
            _ => Err(self.unexpected_response(format!("it does not have {expected}"))),
        }
    }

    /// Sends a call and streams the response.
    pub fn open(&self, call: &Call) -> Result<Download, CliError> {
        let response = self.send_with_retries(call)?;
        let encoding = response.headers().get("content-encoding").and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = response.into_body();
        let bytes = body.content_length();
        let content = body.into_with_config().limit(u64::MAX).reader();
        Ok(Download { bytes, encoding, content: Box::new(BufReader::new(content)) })
    }

    /// Streams a body to the server. Sends `Expect: 100-continue`, so that the server can refuse before the upload.
    pub fn upload(&self, call: &Call, upload: Upload<'_>) -> Result<Value, CliError> {
        let mut request = self.request(call).header("content-type", upload.content_type).header("expect", "100-continue");
        if let Some(encoding) = upload.content_encoding {
            request = request.header("content-encoding", encoding);
        }
        if let Some(bytes) = upload.bytes {
            request = request.header("content-length", bytes);
        }
        let request = request.body(SendBody::from_reader(upload.content)).map_err(|error| self.unreachable(error.into()))?;
        let response = self.agent.run(request).map_err(|source| self.unreachable(source))?;
        let body = self.read(self.check_status(response)?)?;
        // Without a body, it is not the server that answered.
        if body.is_null() { Err(self.unexpected_response("it is empty".to_owned())) } else { Ok(body) }
    }

    /// Calls `each` for every row of a list, page by page. `member` is the response's member with the rows.
    pub fn for_each_row(
        &self,
        call: &Call,
        member: &str,
        mut each: impl FnMut(Value) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let mut page = call.clone();
        loop {
            let mut body = self.send(&page)?;
            let Some(Value::Array(rows)) = body.get_mut(member).map(Value::take) else {
                return Err(self.unexpected_response(format!("it has no array {member:?}")));
            };
            rows.into_iter().try_for_each(&mut each)?;
            match body["next_cursor"].as_str() {
                Some(cursor) => page = call.clone().with_query("cursor", cursor),
                None => return Ok(()),
            }
        }
    }

    /// Returns an error for a response that a server of this version does not send.
    pub fn unexpected_response(&self, detail: String) -> CliError {
        CliError::Answer { server: self.base.clone(), detail }
    }

    /// Sends a call and retries it until it succeeds, fails with an error that is not temporary, or has no attempts left.
    fn send_with_retries(&self, call: &Call) -> Result<Response<Body>, CliError> {
        let mut attempt = 1;
        loop {
            match self.send_once(call) {
                Err(CliError::Refused(refusal)) if call.repeatable && attempt < TRIES_MAX => {
                    match retry_delay_s(&refusal, attempt) {
                        Some(seconds) => self.wait(seconds),
                        None => return Err(CliError::Refused(refusal)),
                    }
                }
                result => return result,
            }
            attempt += 1;
        }
    }

    fn send_once(&self, call: &Call) -> Result<Response<Body>, CliError> {
        let unreachable = |source| self.unreachable(source);
        let request = self.request(call);
        let response = match &call.body {
            Some(body) => {
                let request = request.header("content-type", "application/json").body(body.as_slice());
                self.agent.run(request.map_err(|error| unreachable(error.into()))?)
            }
            None => self.agent.run(request.body(()).map_err(|error| unreachable(error.into()))?),
        };
        self.check_status(response.map_err(unreachable)?)
    }

    fn wait(&self, seconds: u64) {
        if seconds >= WAIT_S_NOTED {
            self.output.note(&format!("the server is busy; trying again in {seconds} s"));
        }
        std::thread::sleep(Duration::from_secs(seconds));
    }

    fn request(&self, call: &Call) -> ureq::http::request::Builder {
        let uri = format!("{}{}{}", self.base, call.path, call.query);
        let mut request = Request::builder().method(call.method.clone()).uri(uri);
        if let Some(encoding) = call.accept_encoding {
            request = request.header("accept-encoding", encoding);
        }
        match &self.key {
            Some(key) => request.header("authorization", format!("Bearer {}", key.expose())),
            None => request,
        }
    }

    fn check_status(&self, mut response: Response<Body>) -> Result<Response<Body>, CliError> {
        if response.status().is_success() {
            return Ok(response);
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (id, retry) = (header("x-request-id"), header("retry-after").and_then(|text| text.trim().parse().ok()));
        let status = response.status().as_u16();
        let limited = response.body_mut().with_config().limit(ERROR_BYTES_MAX).lossy_utf8(true);
        let body = limited.read_to_string().unwrap_or_default();
        let refused = CliError::Refused(Box::new(ErrorResponse::read(status, &body, id, retry)));
        Err(match self.key {
            Some(_) => refused,
            None => refused.advise("unauthorized", "put a key into the variable DRAGOMAN_KEY"),
        })
    }

    fn read(&self, mut response: Response<Body>) -> Result<Value, CliError> {
        let limited = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX);
        let text = limited.read_to_string().map_err(|source| self.unreachable(source))?;
        if text.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).map_err(|error| self.unexpected_response(format!("it is not valid JSON: {error}")))
    }

    fn unreachable(&self, source: ureq::Error) -> CliError {
        let source: Box<dyn Error + Send + Sync> = match source {
            ureq::Error::Io(error) if error.to_string().ends_with("UnknownIssuer") => {
                format!("{error}; name the certificate authority with --ca").into()
            }
            ureq::Error::Io(error) if error.to_string().ends_with("InvalidContentType") => {
                format!("{error}; if it does not use TLS, its address begins with http://").into()
            }
            ureq::Error::Io(error) => error.into(),
            ureq::Error::Protocol(_) if self.base.starts_with("http:") => {
                format!("{source}; if it uses TLS, its address begins with https://").into()
            }
            other => other.into(),
        };
        CliError::Unreachable { server: self.base.clone(), source }
    }
}

/// Returns the seconds to wait before the next attempt, or `None` if the call must not be retried.
fn retry_delay_s(refusal: &ErrorResponse, attempt: u32) -> Option<u64> {
    let bounded = matches!(refusal.status, 429 | 503);
    let seconds = refusal.retry_after_s.unwrap_or(1 << attempt.min(5)).max(1);
    (bounded && seconds <= WAIT_S_MAX).then_some(seconds)
}

/// Percent-encodes one segment of a path or one value of a query.
fn percent_encoded(text: &str) -> String {
    let dots = text.bytes().all(|byte| byte == b'.');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~".contains(&byte) || (byte == b'.' && !dots);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

fn certificates(pem: &[u8]) -> Result<Vec<Certificate<'static>>, String> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| format!("cannot be read: {error}"))? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err("contains no certificate in PEM format".to_owned()) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, retry_after_s: Option<u64>) -> ErrorResponse {
        ErrorResponse { retry_after_s, ..ErrorResponse::read(status, "", None, None) }
    }

    #[test]
    fn paths_and_queries_are_encoded() {
        let call = Call::get(&["a/b c", "日", "..", "a.b"]).with_query("cursor", "x=&y").with_optional_query("limit", None);
        assert_eq!((call.path.as_str(), call.query.as_str()), ("/v1/a%2Fb%20c/%E6%97%A5/%2E%2E/a.b", "?cursor=x%3D%26y"));
    }

    #[test]
    fn only_429_and_503_are_retried_and_only_after_a_bounded_delay() {
        assert_eq!(retry_delay_s(&refusal(503, Some(7)), 1), Some(7));
        assert_eq!(retry_delay_s(&refusal(429, Some(0)), 1), Some(1));
        assert_eq!(retry_delay_s(&refusal(503, None), 1), Some(2));
        assert_eq!(retry_delay_s(&refusal(503, None), 5), Some(32));
        assert_eq!(retry_delay_s(&refusal(503, Some(3_600)), 1), None);
        assert_eq!(retry_delay_s(&refusal(500, Some(1)), 1), None);
        assert_eq!(retry_delay_s(&refusal(404, None), 1), None);
    }
}
