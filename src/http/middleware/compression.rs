//! Compresses responses with zstd or gzip, as `Accept-Encoding` asks, chunk by chunk while they are sent.
//!
//! Events are not compressed, because a client waits for each. Neither are lines and tables, except those of an export, nor
//! anything that is already compressed.

use axum::http::header::CONTENT_TYPE;
use axum::http::{Extensions, HeaderMap, StatusCode, Version};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate, SizeAbove};

/// Minimum bytes of a response to compress: a smaller one takes one packet in any case.
const BYTES_MIN: u64 = 1_024;
/// Media types to compress.
const COMPRESSIBLE_TYPES: [&str; 8] = [
    "application/json",
    "application/problem+json",
    "application/openmetrics-text",
    "image/svg+xml",
    "text/css",
    "text/html",
    "text/javascript",
    "text/plain",
];

/// Marks a response to compress whatever its media type.
#[derive(Debug, Clone)]
pub struct CompressLines;

/// Compresses the responses of the routes below it.
pub fn layer() -> CompressionLayer<impl Predicate> {
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(SizeAbove::new(BYTES_MIN).and(is_compressible))
}

fn is_compressible(_: StatusCode, _: Version, headers: &HeaderMap, extensions: &Extensions) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    extensions.get::<CompressLines>().is_some() || COMPRESSIBLE_TYPES.contains(&media_type)
}
