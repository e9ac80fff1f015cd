//! The operator's settings for HTTP: traffic limits, which browsers may call, and what needs a key.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LOCATION, RETRY_AFTER};
use axum::http::{HeaderName, Method};
use tokio::sync::watch;
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::http::middleware::hosts::{Hosts, Origin};
use crate::http::middleware::request_id::REQUEST_ID;

/// How long a browser may cache the allowed methods and headers.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(3_600);
/// Headers that a page may send.
const ALLOWED_HEADERS: [HeaderName; 10] = [
    AUTHORIZATION,
    CONTENT_TYPE,
    CONTENT_ENCODING,
    IF_MATCH,
    IF_NONE_MATCH,
    REQUEST_ID,
    HeaderName::from_static("idempotency-key"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
];
/// Response headers that a page may read.
const EXPOSED_HEADERS: [HeaderName; 4] = [ETAG, LOCATION, RETRY_AFTER, REQUEST_ID];

/// The settings for HTTP. `Default` has the server's defaults.
#[derive(Clone)]
pub struct Settings {
    /// Maximum concurrent requests of all callers together; one caller may run at most as many as it leaves free for others.
    pub requests_max: usize,
    /// Maximum concurrent event streams of all callers together.
    pub event_streams_max: usize,
    /// Maximum concurrent requests of one caller; more are refused with 429. `None` means no limit.
    pub caller_requests_max: Option<usize>,
    /// Rate limit of one caller; more are refused with 429. `None` means no limit.
    pub rate: Option<Rate>,
    /// How long a request may take until its response begins; streams are exempt.
    pub request_timeout: Duration,
    /// Origins of web pages that may call the server; none if empty.
    pub cors_origins: Vec<Origin>,
    /// The host names that the server answers to while it has no keys.
    pub hosts: Hosts,
    /// Whether `/metrics` needs no key.
    pub metrics_open: bool,
    pub mcp: bool,
    /// Becomes true when the server begins to stop: from then on new requests are refused while running ones finish.
    pub stop: watch::Receiver<bool>,
    /// The connections, as the listener counts them.
    pub connections: ConnectionMeter,
    /// What other parts of the program count for `/metrics`.
    pub readings: Readings,
}

/// Numbers that other parts of the program keep.
#[derive(Clone, Default)]
pub struct Readings {
    pub log_lines_dropped: Option<Reading>,
    /// When the TLS certificate expires, in seconds since the Unix epoch.
    pub certificate_expiry_s: Option<Reading>,
}

/// Reads a number at the moment of the call.
pub type Reading = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Connections, as the listener counts them. Clones share the counts.
pub type ConnectionMeter = Arc<ConnectionCounts>;

#[derive(Debug, Default)]
pub struct ConnectionCounts {
    pub open: AtomicU64,
    pub limit: AtomicU64,
    /// Connections that were closed to make room for others.
    pub evicted: AtomicU64,
}

/// A token bucket: `burst` requests at once, and `per_second` more every second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Requests per second on average; above zero.
    pub per_second: f64,
    /// Maximum requests at once, at least 1.
    pub burst: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            requests_max: 1_024,
            event_streams_max: 256,
            caller_requests_max: None,
            rate: None,
            request_timeout: Duration::from_secs(60),
            cors_origins: Vec::new(),
            hosts: Hosts::default(),
            metrics_open: false,
            mcp: true,
            stop: watch::channel(false).1,
            connections: ConnectionMeter::default(),
            readings: Readings::default(),
        }
    }
}

impl Settings {
    /// The CORS layer for the allowed origins; `None` if there are none. Keys are sent in a header, not in cookies, so no page
    /// can use a key that it does not have.
    pub fn cors(&self) -> Option<CorsLayer> {
        let exactly = self.cors_origins.iter().filter_map(|origin| match origin {
            Origin::Any => None,
            Origin::Exactly(value) => Some(value.clone()),
        });
        let origins = match self.cors_origins.as_slice() {
            [] => return None,
            all if all.contains(&Origin::Any) => AllowOrigin::any(),
            _ => AllowOrigin::list(exactly),
        };
        let layer = CorsLayer::new().allow_origin(origins).max_age(PREFLIGHT_MAX_AGE);
        let methods = [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE];
        Some(layer.allow_methods(methods).allow_headers(ALLOWED_HEADERS).expose_headers(EXPOSED_HEADERS))
    }
}
