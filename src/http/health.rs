//! `/healthz` and `/readyz`: whether the process is alive, and whether every collection can be searched in full.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::api::Api;
use super::error::{ApiError, Violation};
use crate::domain::Code;
use crate::service;
use crate::service::error::DATABASE_UNREACHABLE;

/// Whether the server is alive or ready.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok` if the process is alive; `ready` if every collection can be searched in full.
    pub status: HealthStatus,
    /// Collections with a damaged database; omitted if there are none, and by `/healthz`. They do not prevent the server from
    /// being ready: everything that is not damaged is served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damaged_collections: Vec<String>,
}

/// `ok`: the process is alive. `ready`: every collection can be searched in full.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    Ok,
    Ready,
}

/// Check liveness
///
/// Responds as long as the process is alive. Restart the process if this fails.
#[utoipa::path(
    get, path = "/healthz", tag = "health",
    responses((status = 200, description = "The process is alive.", body = Health)),
)]
pub async fn check_health() -> Json<Health> {
    Json(Health { status: HealthStatus::Ok, damaged_collections: Vec::new() })
}

/// Check readiness
///
/// Responds with 200 once every collection can be searched in full, and with 503 while some are still recovering after a start,
/// with their progress in `errors`, or while the data directory or the database server is gone.
#[utoipa::path(
    get, path = "/readyz", tag = "health",
    responses((status = 200, description = "Every collection can be searched in full.", body = Health)),
)]
pub async fn check_readiness(State(api): State<Api>) -> Result<Json<Health>, ApiError> {
    let readiness = api.service.readiness();
    if readiness.ready {
        let damaged_collections = readiness.damaged.iter().map(|name| name.as_str().to_owned()).collect();
        return Ok(Json(Health { status: HealthStatus::Ready, damaged_collections }));
    }
    let progress = readiness.recovering.iter().map(|(collection, done, total)| Violation {
        pointer: None,
        parameter: None,
        detail: format!("collection {collection} has recovered {done} of {total} passages"),
    });
    let errors: Vec<Violation> = progress.collect();
    let detail = if readiness.directory_lost {
        service::Error::DirectoryLost.to_string()
    } else if readiness.store_unreachable {
        DATABASE_UNREACHABLE.to_owned()
    } else {
        format!("the server is not ready; collections still recovering: {}", errors.len())
    };
    Err(ApiError { errors, ..ApiError::new(Code::Unavailable, detail) })
}
