//! The middleware around every handler: request ids, the log line, keys, limits, host names, compression.

pub mod access;
pub mod auth;
pub mod caller_record;
pub(super) mod compression;
pub mod hosts;
pub mod permit_body;
pub mod read_progress;
pub mod request;
pub mod request_id;
mod security_headers;
pub(super) mod stream_length;
#[cfg(feature = "otel")]
mod trace_context;
pub mod traffic;
pub(super) mod trailing_slash;
