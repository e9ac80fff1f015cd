//! Answers that are packed, as `Accept-Encoding` asks for it: with zstd or gzip, piece by piece while they are sent.
//!
//! Events are not: a client waits for each. Nor are lines and tables, which are files that an operation packs by itself, nor what
//! is packed already.

use axum::http::header::CONTENT_TYPE;
use axum::http::{Extensions, HeaderMap, StatusCode, Version};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate, SizeAbove};

/// Bytes of an answer that is packed, at least: a smaller one takes one packet in any case.
const BYTES_MIN: u64 = 1_024;
/// Media types that are packed.
const PACKED: [&str; 8] = [
    "application/json",
    "application/problem+json",
    "application/openmetrics-text",
    "image/svg+xml",
    "text/css",
    "text/html",
    "text/javascript",
    "text/plain",
];

/// Packs the answers of the routes below it.
pub fn layer() -> CompressionLayer<impl Predicate> {
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(SizeAbove::new(BYTES_MIN).and(is_packed))
}

fn is_packed(_: StatusCode, _: Version, headers: &HeaderMap, _: &Extensions) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    PACKED.contains(&media_type)
}
