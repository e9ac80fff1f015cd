//! The state that all handlers share.

use jiff::Timestamp;

use crate::http::openapi::description::Description;
use crate::service::Service;

/// The state that all handlers share.
#[derive(Clone)]
pub struct Api {
    pub service: Service,
    /// When this server began to serve its model.
    pub started_at: Timestamp,
    /// What the OpenAPI document says about requests.
    pub description: &'static Description,
}
