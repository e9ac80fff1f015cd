//! `/v1/collections/{collection}/reembed`: moves a collection to the server's model.

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::settings::{self, PassageOptions};
use crate::domain::NewSource;
use crate::http::api::Api;
use crate::http::error::ApiError;
use crate::http::jobs::AcceptedJob;
use crate::http::request::extract::{CollectionPath, JsonBody};
use crate::service::json::some_object;

/// How to re-embed a collection.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReembedCollectionRequest {
    /// How to split its texts into passages from now on, within what the server's model reads. By default as before, or into
    /// shorter passages if the model reads fewer tokens.
    #[serde(default, deserialize_with = "some_object")]
    pub passage_bounds: Option<PassageOptions>,
}

/// Re-embed a collection
///
/// Starts a job that moves a collection of another model to the server's model, splits its texts within other `passage_bounds`,
/// or applies the current splitting rules to a collection that an older version split. It splits and embeds all texts again in a
/// copy; the collection works as before meanwhile (with another model: reading, lexical search, `like` and vectors of that model,
/// but no writing of texts). You can change and delete documents. At the end the job switches to the new embeddings, model and
/// dimension atomically; documents keep their ids, versions and times. A job that fails or is canceled leaves the collection
/// unchanged. After a restart the job resumes. Its details estimate the memory and disk space needed; with too little of either,
/// it is refused.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/reembed", tag = "collections",
    request_body(content = ReembedCollectionRequest, description = "How to split its texts; `{}` keeps the current bounds."),
    responses(AcceptedJob),
)]
pub async fn reembed_collection(
    State(api): State<Api>,
    CollectionPath(name): CollectionPath,
    JsonBody(body): JsonBody<ReembedCollectionRequest>,
) -> Result<AcceptedJob, ApiError> {
    let tokens_max = api.service.model().tokens_max;
    let bounds = settings::check_passage_bounds(&NewSource::Model(None), body.passage_bounds, tokens_max)?;
    Ok(AcceptedJob(api.service.collection(&name)?.reembed(bounds).await?))
}
