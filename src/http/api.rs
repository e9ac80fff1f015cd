//! The state that all handlers share.

use axum::extract::FromRef;
use jiff::Timestamp;

use super::metrics::Metrics;
use crate::http::openapi::description::Description;
use crate::service::Service;

/// The state that all handlers share.
#[derive(Clone)]
pub struct Api {
    /// The use cases.
    pub service: Service,
    /// When this server began to serve its model.
    pub started_at: Timestamp,
    /// What `/metrics` shows.
    pub metrics: Metrics,
    /// What the OpenAPI document says about requests.
    pub description: &'static Description,
}

impl FromRef<Api> for Service {
    fn from_ref(api: &Api) -> Self {
        api.service.clone()
    }
}

impl FromRef<Api> for Metrics {
    fn from_ref(api: &Api) -> Self {
        api.metrics.clone()
    }
}
