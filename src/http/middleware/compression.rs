//! Compresses responses with zstd or gzip, as `Accept-Encoding` asks, chunk by chunk while they are sent.
//!
//! Events are not compressed, because a client waits for each. Neither are lines and tables, except those of an export, nor
//! anything that is already compressed.
//!
//! A client that accepts none of the encodings, not even an uncompressed response, gets an uncompressed one: 406 would hide that
//! its request was carried out.

use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_TYPE};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode, Version};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{Predicate, SizeAbove};

/// Minimum bytes of a response to compress: a smaller one takes one packet in any case.
const BYTES_MIN: u64 = 1_024;
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

/// Accepts an uncompressed response if nothing else is possible.
const LAST_RESORT: &str = "identity;q=0.001";

/// Marks a response to compress whatever its media type.
#[derive(Debug, Clone)]
pub struct CompressLines;

/// Compresses the responses of the routes below it.
pub fn layer() -> CompressionLayer<impl Predicate> {
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(SizeAbove::new(BYTES_MIN).and(is_compressible))
}

/// The same request, which also accepts an uncompressed response if nothing else is possible.
pub fn accept_uncompressed(mut request: Request) -> Request {
    let accepted: Vec<&str> = request.headers().get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).collect();
    let accepted = accepted.join(",");
    let quality_of = |encoding: &str| accepted.split(',').find_map(|element| quality(element, encoding));
    if quality_of("identity").or_else(|| quality_of("*")) == Some(0.0) {
        // The layer below takes the first mention of an encoding.
        let accepted = format!("{LAST_RESORT},{accepted}");
        if let Ok(accepted) = HeaderValue::try_from(accepted) {
            request.headers_mut().insert(ACCEPT_ENCODING, accepted);
        }
    }
    request
}

/// Returns the quality of an element of `Accept-Encoding`, if it is about this encoding.
fn quality(element: &str, encoding: &str) -> Option<f32> {
    let (name, quality) = element.split_once(';').unwrap_or((element, "q=1"));
    let quality = || quality.trim().strip_prefix(['q', 'Q'])?.trim().strip_prefix('=')?.trim().parse().ok();
    if name.trim().eq_ignore_ascii_case(encoding) { quality() } else { None }
}

fn is_compressible(_: StatusCode, _: Version, headers: &HeaderMap, extensions: &Extensions) -> bool {
    let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    extensions.get::<CompressLines>().is_some() || COMPRESSIBLE_TYPES.contains(&media_type)
}
