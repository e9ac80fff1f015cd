//! `/v1/collections/{collection}/reembed`: a collection gets the server's model.

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::api::Api;
use super::collection_settings::{self, PassageOptions};
use super::error::ApiError;
use super::extract::{CollectionPath, JsonBody};
use super::jobs::{Accepted, JobInfo, accepted};
use super::operation_errors::{OperationErrors, WRITE_ERRORS};
use super::operations::{Example, examples};
use crate::domain::{Code, NewSource};

/// What each operation can answer besides success.
pub const ERRORS: &[OperationErrors] =
    &[("reembed_collection", &[WRITE_ERRORS, &[Code::CollectionNotFound, Code::NoModel, Code::ModelCurrent, Code::JobRunning]])];

/// Examples of their bodies.
pub const EXAMPLES: &[Example] = examples!["reembed_collection.request", "reembed_collection.202"];

/// How a collection is embedded anew.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReembedCollectionRequest {
    /// How its texts are cut into passages from now on, within what the server's model reads. When left out, they are cut as
    /// before, or into passages of as many tokens as the model reads when those are fewer.
    #[serde(default)]
    #[schema(nullable = false)]
    pub passage_bounds: Option<PassageOptions>,
}

/// Embed a collection anew
///
/// Accepts a job that gives a collection of another model the server's, or one that an older version of the server cut into passages
/// those of today's rules: it cuts and embeds all texts anew beside the collection,
/// which goes on answering as before (reading, lexical search, `like`, vectors of its old model; texts cannot be written). Documents
/// may be changed and deleted meanwhile. At its end the job puts the new embeddings in place all at once, with the model and its
/// dimension; documents keep their ids, versions and times. A job that fails or is canceled leaves the collection as it was. After
/// a restart of the server it goes on. The answer's details say how much memory and disk it will need, about; when that is not
/// there it is refused.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/reembed", tag = "collections",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news")),
    request_body(content = ReembedCollectionRequest, description = "How to cut its texts; `{}` for as before."),
    responses((
        status = 202, description = "The job is accepted.", body = JobInfo,
        headers(("location" = String, description = "Path of the job.")),
    )),
)]
pub async fn reembed_collection(
    State(api): State<Api>,
    CollectionPath(name): CollectionPath,
    JsonBody(body): JsonBody<ReembedCollectionRequest>,
) -> Result<Accepted, ApiError> {
    let tokens_max = api.service.model().tokens_max;
    let bounds = collection_settings::passage_bounds(&NewSource::Model(None), body.passage_bounds, tokens_max)?;
    Ok(accepted(api.service.collection(&name)?.reembed(bounds).await?))
}
