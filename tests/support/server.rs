//! The whole server in process: routes, service and store, with a deterministic fake encoder.
//!
//! Every response is checked against the OpenAPI document, so that no test passes with an undocumented body, status or error
//! code.

#[path = "fake_encoder.rs"]
mod fake_encoder;
#[path = "postgres.rs"]
mod postgres_server;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, HeaderValue, Method, Request};
use dragoman::domain::{Code, Limits};
use dragoman::embed::FakeOptions;
use dragoman::http;
use dragoman::http::settings::Settings;
use dragoman::service::{Error, Parts, PostgresOptions, Service};
use fake_encoder::FakeControl;
use http_body_util::BodyExt as _;
use postgres_server::Database;
use serde_json::{Value, json};
use tempfile::TempDir;
use tower::ServiceExt as _;

use crate::schema;

/// Opens a service in its data directory or, if `DRAGOMAN_TEST_STORE` is set, on its own database.
pub fn open(parts: Parts) -> Result<Service, Error> {
    if std::env::var_os("DRAGOMAN_TEST_STORE").is_none() {
        return Service::open(parts);
    }
    let runtime = tokio::runtime::Handle::current();
    let opening = || {
        let _entered = runtime.enter();
        let options = database_of(&parts.data_dir);
        Service::open_on_postgres(&PostgresOptions { connections_max: 8, ..options }, None, parts)
    };
    // Connecting to a database server blocks.
    std::thread::scope(|scope| scope.spawn(opening).join().expect("no panic"))
}

/// The database for a data directory: its own, a reused one whose data directory is gone, or a new one.
fn database_of(folder: &Path) -> PostgresOptions {
    static OPENED: Mutex<BTreeMap<PathBuf, PostgresOptions>> = Mutex::new(BTreeMap::new());
    let database = &Database::shared().0;
    let mut opened = OPENED.lock().expect("no panic");
    if let Some(options) = opened.get(folder) {
        return options.clone();
    }
    let free = opened.iter().find(|(folder, options)| !folder.exists() && database.reset(options));
    let free = free.map(|(folder, _)| folder.clone()).and_then(|folder| opened.remove(&folder));
    let options = free.unwrap_or_else(|| database.own());
    opened.insert(folder.to_owned(), options.clone());
    options
}

/// Values per embedding of the fake encoder.
pub const DIMENSION: usize = 64;
/// The admin key in the configuration of `Server::with_admin_key`.
pub const ADMIN_KEY: &str = "the key of the configuration, 42";

/// A server with its own empty data directory, which is removed at the end.
#[derive(Clone)]
pub struct Server {
    /// Pauses and resumes the encoder; resumes it when all clones are dropped. Dropped first, because a server waits for its
    /// encoder when it is dropped.
    pub control: FakeControl,
    pub router: Router,
    pub document: Value,
    pub key: Option<String>,
    pub _folder: Arc<TempDir>,
}

/// A response.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    /// The body; null if it is empty or not JSON.
    pub body: Value,
    pub text: String,
    pub bytes: Vec<u8>,
}

impl Server {
    pub fn start() -> Self {
        Self::with_limits(Limits::default())
    }

    pub fn with_limits(limits: Limits) -> Self {
        Self::with_settings(limits, Settings::default(), None)
    }

    /// A server with these HTTP settings and, optionally, an admin key in its configuration.
    pub fn with_settings(limits: Limits, settings: Settings, admin_key: Option<&str>) -> Self {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
        let opened = Self::try_on(&folder, &FakeOptions::of(DIMENSION), limits, settings, admin_key);
        opened.expect("an empty data directory opens")
    }

    /// A server on this folder with this fake encoder. A previous server may hold the folder for another moment.
    pub async fn on(folder: &Arc<TempDir>, encoder: &FakeOptions, limits: Limits) -> Self {
        loop {
            match Self::try_on(folder, encoder, limits.clone(), Settings::default(), None) {
                Err(error) if error.code() == Code::Unavailable => tokio::task::yield_now().await,
                opened => return opened.expect("the data directory opens"),
            }
        }
    }

    fn try_on(
        folder: &Arc<TempDir>,
        encoder: &FakeOptions,
        limits: Limits,
        settings: Settings,
        admin_key: Option<&str>,
    ) -> Result<Self, Error> {
        let (embedder, control) = fake_encoder::start(encoder);
        let service = open(Parts { data_dir: folder.path().to_owned(), embedder, limits, power_safe: false })?;
        admin_key.into_iter().for_each(|key| service.set_admin_key(key));
        let (router, document) = (http::router_with(service, settings), http::document());
        Ok(Self { control, router, document, key: None, _folder: Arc::clone(folder) })
    }

    /// A server with an admin key in its configuration, which is used for calls.
    pub fn with_admin_key() -> Self {
        Self::with_settings(Limits::default(), Settings::default(), Some(ADMIN_KEY)).with_key(ADMIN_KEY)
    }

    /// A server with the empty collection `news` and a paused encoder.
    pub async fn paused_with_news() -> Self {
        let server = Self::with_news().await;
        server.control.pause();
        server
    }

    /// The same server, called with a key.
    pub fn with_key(&self, secret: &str) -> Self {
        Self { key: Some(secret.to_owned()), ..self.clone() }
    }

    /// A server with the empty collection `news`.
    pub async fn with_news() -> Self {
        let server = Self::start();
        let response = server.post("/v1/collections", &json!({"name": "news"})).await;
        assert_eq!(response.status, 201, "{response:?}");
        server
    }

    /// A server whose collection `news` contains `documents`.
    pub async fn with_documents(documents: Value) -> Self {
        let server = Self::with_news().await;
        let response = server.post("/v1/collections/news/documents", &json!({"documents": documents})).await;
        assert_eq!(response.status, 200, "{response:?}");
        server
    }

    pub async fn get(&self, path: &str) -> Response {
        self.call(Method::GET, path, Body::empty()).await
    }

    pub async fn delete(&self, path: &str) -> Response {
        self.call(Method::DELETE, path, Body::empty()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.call(Method::POST, path, Body::from(body.to_string())).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Response {
        self.call(Method::PUT, path, Body::from(body.to_string())).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Response {
        self.call(Method::PATCH, path, Body::from(body.to_string())).await
    }

    /// Imports a file, and waits for its job to end.
    pub async fn import(&self, media_type: &str, body: impl Into<Body>) -> Value {
        let request = Request::post("/v1/collections/news/import").header(CONTENT_TYPE, media_type);
        let response = self.send(request.body(body.into()).expect("a request")).await;
        self.finished(&response).await
    }

    /// Waits until an accepted job has ended, and returns it.
    pub async fn finished(&self, accepted: &Response) -> Value {
        assert_eq!(accepted.status, 202, "{accepted:?}");
        self.ended_job(accepted.header("location").expect("a place")).await
    }

    /// Waits until the job at this path has ended, and returns it.
    pub async fn ended_job(&self, path: &str) -> Value {
        for _ in 0..10_000 {
            let job = self.get(path).await.body;
            if !["queued", "running"].contains(&job["status"].as_str().expect("a status")) {
                return job;
            }
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
        }
        panic!("{path} does not end");
    }

    /// The same server, called with a new key of this scope for one collection or alias.
    pub async fn with_key_for(&self, scope: &str, collection: &str) -> Self {
        let made = self.post("/v1/keys", &json!({"name": "k", "scope": scope, "collections": [collection]})).await;
        self.with_key(made.body["secret"].as_str().expect("a secret"))
    }

    /// Sends a body, or none if it is null, with one more header.
    pub async fn send_with(&self, method: Method, path: &str, header: (&str, &str), body: &Value) -> Response {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        self.send(self.request(method, path).header(header.0, header.1).body(body).expect("a request")).await
    }

    pub async fn call(&self, method: Method, path: &str, body: Body) -> Response {
        self.send(self.request(method, path).body(body).expect("a request")).await
    }

    /// Starts a JSON request, with the key.
    fn request(&self, method: Method, path: &str) -> axum::http::request::Builder {
        let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
        match &self.key {
            Some(key) => request.header(AUTHORIZATION, format!("Bearer {key}")),
            None => request,
        }
    }

    /// Sends any request and checks the response against the OpenAPI document.
    pub async fn send(&self, request: Request<Body>) -> Response {
        let (method, path) = (request.method().as_str().to_lowercase(), request.uri().path().to_owned());
        let response = respond(self.router.clone(), request).await;
        self.check(&method, &path, &response);
        response
    }

    /// Sends a request whose answer the OpenAPI document describes only in prose.
    pub async fn send_unchecked(&self, request: Request<Body>) -> Response {
        respond(self.router.clone(), request).await
    }

    fn check(&self, method: &str, path: &str, response: &Response) {
        let paths = self.document["paths"].as_object().expect("paths");
        let mut items = paths.iter().filter(|(template, _)| fits(template, path)).map(|(_, item)| item).peekable();
        if items.peek().is_none() {
            return;
        }
        let Some(operation) = items.map(|item| &item[method]).find(|operation| !operation.is_null()) else {
            assert_eq!(response.status, 405);
            return;
        };
        let documented = schema::resolved(&self.document, &operation["responses"][response.status.to_string()]);
        assert!(!documented.is_null(), "{method} {path} does not document status {}: {}", response.status, response.text);
        let Some(contents) = documented["content"].as_object() else {
            assert_eq!(response.text, "", "{method} {path} documents no body");
            return;
        };
        let media_type = response.headers[CONTENT_TYPE].to_str().expect("ASCII");
        let without_charset = media_type.trim_end_matches("; charset=utf-8");
        let content = contents.get(media_type).or_else(|| contents.get(without_charset));
        let content = content.unwrap_or_else(|| panic!("{method} {path} does not document {media_type}"));
        // In the OpenAPI document, a file is a string.
        let text = Value::from(response.text.as_str());
        let body = if media_type.ends_with("json") && !media_type.ends_with("ndjson") { &response.body } else { &text };
        let problems = schema::violations(&self.document, &content["schema"], body);
        assert!(problems.is_empty(), "{method} {path} answers {}: {problems:?}", response.body);
        if let Some(code) = response.code().filter(|_| response.status >= 400) {
            let lists = |part: &Value| part["x-error-codes"].as_array().is_some_and(|codes| codes.iter().any(|one| one == code));
            let listed = lists(operation) || lists(documented);
            assert!(listed && !content["examples"][code].is_null(), "{method} {path} does not document {code}");
        }
    }
}

impl Response {
    /// The error's code, in either error format.
    pub fn code(&self) -> Option<&str> {
        self.body["code"].as_str().or_else(|| self.body["error"]["code"].as_str())
    }

    /// The locations that a problem names, in the body or in parameters.
    pub fn places(&self) -> Vec<&str> {
        let errors = self.body["errors"].as_array().into_iter().flatten();
        errors.filter_map(|error| error["pointer"].as_str().or_else(|| error["parameter"].as_str())).collect()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Asserts that this is an error with this status, code and location, whose detail contains all `words`.
    pub fn assert_error(&self, status: u16, code: &str, place: &str, words: &[&str]) {
        assert_eq!((self.status, self.code()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.body["status"], status);
        assert_eq!(self.places().first().copied().unwrap_or_default(), place, "{}", self.text);
        let detail = self.body["detail"].as_str().unwrap_or_default();
        for word in words {
            assert!(detail.contains(word), "{word:?} is not in {detail:?}");
        }
    }
}

/// Runs one request through `router`, with a host if it names none; every response has a request id.
pub async fn respond(router: Router, mut request: Request<Body>) -> Response {
    let host = request.uri().authority().map_or("localhost", |authority| authority.as_str()).to_owned();
    request.headers_mut().entry(HOST).or_insert(HeaderValue::try_from(host).expect("a host"));
    let response = router.oneshot(request).await.expect("the router always answers");
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.expect("a body").to_bytes();
    let text = String::from_utf8_lossy(&bytes).into_owned();
    assert!(head.headers.contains_key("x-request-id"), "no request id");
    let (status, body) = (head.status.as_u16(), serde_json::from_str(&text).unwrap_or_default());
    Response { status, headers: head.headers, body, text, bytes: bytes.to_vec() }
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template.iter().zip(&path).all(|(part, value)| part == value || part.starts_with('{') && !value.is_empty())
}
