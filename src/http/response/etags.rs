//! Entity tags of content that is the same for all clients while the program runs (its pages, files and API document), and
//! whether a client already has it.

use axum::http::HeaderMap;
use axum::http::header::IF_NONE_MATCH;
use sha2::{Digest as _, Sha256};

/// The tag of a content; it changes with the content.
pub fn compute(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    format!("\"{}\"", digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>())
}

/// Whether the client already has the content with this tag.
pub fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|value| value.split(',')).map(|tag| tag.trim().trim_start_matches("W/"));
    known.any(|tag| tag == etag || tag == "*")
}
