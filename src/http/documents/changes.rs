//! The members that changes to one document and changes to many have in common.

use crate::domain::{Code, Metadata, MetadataObject, metadata};
use crate::http::error::{ApiError, invalid};
use crate::service::documents::input::{NUL_IN_KEY, expiry};

pub fn merge_patch(patch: Option<MetadataObject>) -> Result<Metadata, ApiError> {
    let patch = patch.unwrap_or_default().0;
    if metadata::has_nul_in_key(&patch) {
        return invalid("/metadata", NUL_IN_KEY);
    }
    Ok(patch)
}

/// When documents expire after a change at `now_ms`; `None` if that does not change.
pub fn expiry_change(
    expires_at: Option<Option<String>>,
    ttl_seconds: Option<u64>,
    now_ms: i64,
) -> Result<Option<Option<i64>>, ApiError> {
    match (&expires_at, ttl_seconds) {
        (None, None) => return Ok(None),
        (Some(None), Some(_)) => return invalid("/ttl_seconds", "must not be given with expires_at, got both"),
        _ => (),
    }
    let expires_at_ms = expiry(expires_at.flatten().as_deref(), ttl_seconds, now_ms);
    expires_at_ms.map(Some).map_err(|problem| ApiError::at(Code::InvalidRequest, problem.pointer, problem.detail))
}
