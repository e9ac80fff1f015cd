//! The id of a request: the header that carries it, and how it is chosen.

use axum::http::{HeaderMap, HeaderName};

use crate::new_id::new_uuid;

pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Maximum length of an id from a client, in bytes.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// The client's id if it is short printable ASCII without spaces, otherwise a new one.
pub fn request_id(headers: &HeaderMap) -> String {
    let sent = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let fits = |id: &&str| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic());
    sent.filter(fits).map_or_else(|| new_uuid().to_string(), str::to_owned)
}
