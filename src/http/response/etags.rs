//! Entity tags of content that is the same for all clients while the program runs (its pages, files and API document), and
//! whether a client already has it.

use axum::http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

use crate::domain::hex;

const WEAK: &str = "W/";

/// The tag of a content; it changes with the content. It is weak, because the compressed content has the same one.
pub fn compute(content: &[u8]) -> String {
    format!("{WEAK}\"{}\"", hex(&Sha256::digest(content)[..16]))
}

/// Whether the client already has the content with this tag.
pub fn is_known(headers: &HeaderMap, etag: &str) -> bool {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|value| value.split(',')).map(|tag| without_weakness(tag.trim()));
    known.any(|tag| tag == without_weakness(etag) || tag == "*")
}

fn without_weakness(etag: &str) -> &str {
    etag.strip_prefix(WEAK).unwrap_or(etag)
}

/// A content, or 304 if the client already has it. Clients ask each time, so that none mixes the contents of two versions.
pub fn serve(headers: &HeaderMap, etag: &str, media_type: &'static str, content: impl IntoResponse) -> Response {
    let described = [(ETAG, etag), (CACHE_CONTROL, "no-cache"), (VARY, ACCEPT_ENCODING.as_str())];
    if is_known(headers, etag) {
        return (StatusCode::NOT_MODIFIED, described).into_response();
    }
    (described, [(CONTENT_TYPE, media_type)], content).into_response()
}
