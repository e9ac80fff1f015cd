//! `/v1/collections/{collection}/projections`: maps of a collection's documents.

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::domain::{Code, Field, MetadataPath, Projection, ProjectionCenter, ProjectionRequest, ProjectionSummary};
use crate::http::api::Api;
use crate::http::error::{ApiError, Checks};
use crate::http::jobs::AcceptedJob;
use crate::http::request::extract::{ABOUT_IDEMPOTENCY_KEY, CollectionPath, KeyedBody, Parameters, path_parameter};
use crate::http::request::values::check_integer;

/// Maximum points of a projection.
const DOCUMENTS_MAX: usize = 50_000;
const NEIGHBORS: std::ops::RangeInclusive<usize> = 2..=100;

/// What to compute.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CreateProjectionRequest {
    /// What is subtracted from the embeddings before they are projected.
    #[schema(default = "none")]
    pub center: ProjectionCenter,
    /// Maximum points. Of a larger collection, only a sample of the documents is projected, mostly the same ones every time.
    #[schema(minimum = 1, maximum = 50000, default = 50000)]
    pub max_documents: usize,
    /// How many nearest neighbors should stay near each document: few show small groups, many the overall structure.
    #[schema(minimum = 2, maximum = 100, default = 15)]
    pub neighbors: usize,
}

/// The projections of a collection.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProjectionList {
    /// At most one for each center.
    pub projections: Vec<ProjectionSummary>,
}

/// Which values of the documents to return.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct GetProjectionParameters {
    /// A metadata path, written as in a filter: `values` and `value` then say which documents have which value there. Strings,
    /// numbers and booleans are used as text of up to 256 bytes, and an array by its first element.
    #[param(example = "topic")]
    pub field: Option<String>,
}

path_parameter!(CenterPath, "center", ProjectionCenter, ProjectionCenter::try_parse);

pub type PointsJson = ([(HeaderName, &'static str); 1], Vec<u8>);

/// Compute a projection
///
/// Starts a job that projects a collection's documents onto a plane, where similar meanings are near each other: the principal
/// components of their embeddings, refined by UMAP. A document counts as the mean of its passages' embeddings; one without
/// embeddings is left out. The projection replaces an earlier one with this center. Snapshots do not contain it, and re-embedding
/// the collection deletes it. After a restart the job starts over.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/projections", tag = "projections",
    params(("idempotency-key" = Option<String>, Header, description = ABOUT_IDEMPOTENCY_KEY)),
    request_body(content = CreateProjectionRequest, description = "What to compute; `{}` for the defaults."),
    responses(AcceptedJob),
)]
pub async fn create_projection(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    KeyedBody(body, key): KeyedBody<CreateProjectionRequest>,
) -> Result<AcceptedJob, ApiError> {
    let CreateProjectionRequest { center, max_documents, neighbors } = body;
    let mut checks = Checks::default();
    checks.add(check_integer("/max_documents", max_documents, 1..=DOCUMENTS_MAX));
    checks.add(check_integer("/neighbors", neighbors, NEIGHBORS));
    checks.end()?;
    let request = ProjectionRequest { center, documents_max: max_documents, neighbors };
    Ok(AcceptedJob(api.service.create_projection(&collection, request, key).await?))
}

/// List projections
///
/// Lists the projections of a collection, at most one for each center.
#[utoipa::path(
    get, path = "/v1/collections/{collection}/projections", tag = "projections",
    responses((status = 200, description = "The projections, without their points.", body = ProjectionList)),
)]
pub async fn list_projections(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
) -> Result<Json<ProjectionList>, ApiError> {
    Ok(Json(ProjectionList { projections: api.service.collection(&collection)?.list_projections().await? }))
}

/// Get a projection
///
/// Returns the points of a projection, in columns. Positions are those of the time when it was computed; languages and values
/// are the current ones. Documents that were deleted since are left out, and new ones are not included.
#[utoipa::path(
    get, path = "/v1/collections/{collection}/projections/{center}", tag = "projections",
    params(GetProjectionParameters),
    responses((status = 200, description = "The points.", body = Projection)),
)]
pub async fn get_projection(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    CenterPath(center): CenterPath,
    parameters: Parameters<GetProjectionParameters>,
) -> Result<PointsJson, ApiError> {
    let field = parameters.read(|given| given.field.map(|name| field(&name)).transpose())?;
    let projection = api.service.collection(&collection)?.get_projection(center, field).await?;
    // The points are many: serializing them must not occupy threads that serve other requests.
    let written = tokio::task::spawn_blocking(move || serde_json::to_vec(&projection)).await;
    let json = written.map_err(|error| ApiError::internal(format!("writing a projection failed: {error}")))?;
    let json = json.map_err(|error| ApiError::internal(format!("writing a projection failed: {error}")))?;
    Ok(([(CONTENT_TYPE, "application/json")], json))
}

impl Default for CreateProjectionRequest {
    fn default() -> Self {
        Self { center: ProjectionCenter::None, max_documents: DOCUMENTS_MAX, neighbors: 15 }
    }
}

fn field(name: &str) -> Result<MetadataPath, ApiError> {
    let refuse = |detail: String| ApiError::parameter(Code::InvalidRequest, "field", detail);
    match Field::parse(name).map_err(refuse)? {
        Field::Metadata(path) => Ok(path),
        Field::Id | Field::Language | Field::CreatedAt | Field::UpdatedAt => {
            Err(refuse(format!("must be a path into the metadata, got {name:?}")))
        }
    }
}
