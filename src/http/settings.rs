//! What the operator sets about the wire: bounds on traffic, who may call from a browser, what needs a key.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, LOCATION, RETRY_AFTER};
use axum::http::{HeaderName, Method};
use tower_http::cors::{AllowOrigin, CorsLayer};

use super::hosts::Hosts;
use super::origins::Origin;
use super::request_id::REQUEST_ID;

/// How long a browser may remember what is allowed.
const PREFLIGHT_MAX_AGE: Duration = Duration::from_secs(3_600);
/// Headers that a page may send.
const READ_HEADERS: [HeaderName; 7] = [
    AUTHORIZATION,
    CONTENT_TYPE,
    CONTENT_ENCODING,
    IF_MATCH,
    IF_NONE_MATCH,
    REQUEST_ID,
    HeaderName::from_static("idempotency-key"),
];
/// Headers of answers that a page may look at.
const SHOWN_HEADERS: [HeaderName; 4] = [ETAG, LOCATION, RETRY_AFTER, REQUEST_ID];

/// The settings of the wire. `Default` is what the server starts with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Requests that run at once, over all callers, of one caller at most as many as are left for others; more are refused.
    pub requests_max: usize,
    /// Callers who wait for events at once, over all; more are refused.
    pub event_streams_max: usize,
    /// Requests of one caller that run at once; more are refused with 429. `None` means no bound.
    pub caller_requests_max: Option<usize>,
    /// Requests of one caller in time; more are refused with 429. `None` means no bound.
    pub rate: Option<Rate>,
    /// How long a request may take until its answer begins; those that stream are exempt.
    pub request_timeout: Duration,
    /// Web pages of these origins may call; none when empty.
    pub cors_origins: Vec<Origin>,
    /// Under which names the server answers while it has no keys.
    pub hosts: Hosts,
    /// Whether `/metrics` needs no key.
    pub metrics_open: bool,
    /// Turned when the server stops.
    pub drain: Drain,
    /// What the listener counts.
    pub connections: ConnectionMeter,
}

/// Connections, as the listener counts them. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct ConnectionMeter(Arc<ConnectionCounts>);

/// The counts of a `ConnectionMeter`.
#[derive(Debug, Default)]
pub struct ConnectionCounts {
    /// Open now.
    pub open: AtomicU64,
    /// As many as may be open.
    pub limit: AtomicU64,
    /// Closed because another one needed the place.
    pub gave_way: AtomicU64,
}

impl std::ops::Deref for ConnectionMeter {
    type Target = ConnectionCounts;

    fn deref(&self) -> &ConnectionCounts {
        &self.0
    }
}

/// A token bucket: `burst` requests at once, and `per_second` more every second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Requests per second in the long run; above zero.
    pub per_second: f64,
    /// Requests at once, at least 1.
    pub burst: u32,
}

/// A switch that is turned once: from then on new requests are refused while those that run end.
#[derive(Debug, Clone, Default)]
pub struct Drain(Arc<AtomicBool>);

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
            drain: Drain::default(),
            connections: ConnectionMeter::default(),
        }
    }
}

impl Settings {
    /// What lets web pages of the allowed origins in; `None` when there are none. Keys travel in a header, not in cookies, so no
    /// page can use one that it does not hold.
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
        Some(layer.allow_methods(methods).allow_headers(READ_HEADERS).expose_headers(SHOWN_HEADERS))
    }
}

impl Drain {
    /// Turns it.
    pub fn begin(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether it was turned.
    pub fn has_begun(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
