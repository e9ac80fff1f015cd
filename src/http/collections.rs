//! `/v1/collections`: create, list, get, delete.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderName, LOCATION};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Api;
use super::cursor::{self, List};
use super::error::ApiError;
use super::extract::{CollectionPath, JsonBody, PageParameters, Parameters};
use super::openapi::{OperationErrors, READ_ERRORS, WRITE_ERRORS};
use crate::domain::{Code, CollectionName, CollectionView, IndexState, Metric, NewCollection};

/// Longest description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 4096;

/// What each operation can answer besides success.
pub const ERRORS: &[OperationErrors] = &[
    ("create_collection", &[WRITE_ERRORS, &[Code::UnknownModel, Code::CollectionExists, Code::TooManyCollections]]),
    ("list_collections", &[READ_ERRORS, &[Code::InvalidCursor]]),
    ("get_collection", &[READ_ERRORS, &[Code::CollectionNotFound]]),
    ("delete_collection", &[READ_ERRORS, &[Code::CollectionNotFound, Code::Overloaded]]),
];

/// A collection to be created.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCollectionRequest {
    /// The name, the collection's key in every path: 1 to 64 ASCII letters, digits, `-`, `_` and `.`, beginning with a letter
    /// or digit.
    #[schema(min_length = 1, max_length = 64, pattern = "^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    pub name: String,
    /// What the collection is for, in the caller's words; at most 4096 bytes.
    #[serde(default)]
    #[schema(nullable = false, max_length = 4096)]
    pub description: Option<String>,
    /// The model that embeds its texts, by a name that `GET /v1/models` lists; the loaded one when left out.
    #[serde(default)]
    #[schema(nullable = false)]
    pub model: Option<String>,
}

/// A collection and what it holds.
#[derive(Debug, Serialize, ToSchema)]
pub struct CollectionInfo {
    /// The name.
    pub name: String,
    /// What the collection is for; omitted when nothing was said.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub description: Option<String>,
    /// The model that embeds its texts.
    pub model: String,
    /// SHA-256 over what decides the model's embeddings; a collection never mixes two.
    pub model_fingerprint: String,
    /// Values per embedding.
    #[schema(minimum = 1)]
    pub dimension: usize,
    /// How embeddings are compared.
    pub metric: MetricName,
    /// When it was created.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Documents that it holds.
    pub documents: u64,
    /// Passages of all its documents.
    pub passages: u64,
    /// Passages that are stored but not searchable yet.
    pub passages_pending: u64,
    /// Documents per language, most first.
    pub languages: Vec<LanguageCount>,
    /// Bytes of its database and its index on disk.
    pub disk_bytes: u64,
    /// Whether searches find everything that is stored.
    pub index_state: IndexStateName,
}

/// How many documents a language has.
#[derive(Debug, Serialize, ToSchema)]
pub struct LanguageCount {
    /// ISO 639-1 code; omitted for documents of no recognized language.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub language: Option<String>,
    /// Documents in this language.
    pub documents: u64,
}

/// How two embeddings are compared.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricName {
    /// Cosine similarity, -1 to 1, higher is nearer.
    Cosine,
}

/// `ready`: searches find everything that is stored. `recovering`: the server is still loading the collection after its start.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum IndexStateName {
    /// Searches find everything that is stored.
    Ready,
    /// The server is still loading the collection after its start.
    Recovering,
}

/// One page of collections.
#[derive(Debug, Serialize, ToSchema)]
pub struct CollectionList {
    /// Collections in the order of their names.
    pub collections: Vec<CollectionInfo>,
    /// Where the next page begins; omitted on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// Create a collection
///
/// Creates an empty collection for the loaded model. The name must be free. When this is answered, the collection is durable.
#[utoipa::path(
    post, path = "/v1/collections", tag = "collections",
    request_body(content = CreateCollectionRequest, description = "The collection's name and what it is for."),
    responses((
        status = 201, description = "The collection was created.", body = CollectionInfo,
        headers(("location" = String, description = "Path of the new collection.")),
    )),
)]
pub async fn create_collection(
    State(api): State<Api>,
    JsonBody(body): JsonBody<CreateCollectionRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<CollectionInfo>), ApiError> {
    let name =
        CollectionName::parse(&body.name).map_err(|error| ApiError::at(Code::InvalidRequest, "/name", error.to_string()))?;
    let bytes = body.description.as_ref().map_or(0, String::len);
    if bytes > DESCRIPTION_BYTES_MAX {
        let detail = format!("must have at most {DESCRIPTION_BYTES_MAX} bytes, got {bytes}");
        return Err(ApiError::at(Code::InvalidRequest, "/description", detail));
    }
    let new = NewCollection { name, description: body.description, model: body.model };
    let view = api.service.create_collection(new).await?;
    let location = format!("/v1/collections/{}", view.collection.name);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(view.into())))
}

/// List collections
///
/// Lists collections in the order of their names, page by page.
#[utoipa::path(
    get, path = "/v1/collections", tag = "collections", params(PageParameters),
    responses((status = 200, description = "One page of collections.", body = CollectionList)),
)]
pub async fn list_collections(
    State(api): State<Api>,
    Parameters(parameters): Parameters<PageParameters>,
) -> Result<Json<CollectionList>, ApiError> {
    let page = parameters.page(&api, &List::Collections, CollectionName::parse)?;
    let (views, next) = api.service.list_collections(page).await?;
    Ok(Json(CollectionList {
        collections: views.into_iter().map(CollectionInfo::from).collect(),
        next_cursor: next.map(|name| cursor::encode(&List::Collections, name.as_str())),
    }))
}

/// Get a collection
///
/// Gives a collection's model, its counts and the state of its index.
#[utoipa::path(
    get, path = "/v1/collections/{collection}", tag = "collections",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news")),
    responses((status = 200, description = "The collection.", body = CollectionInfo)),
)]
pub async fn get_collection(
    State(api): State<Api>,
    CollectionPath(name): CollectionPath,
) -> Result<Json<CollectionInfo>, ApiError> {
    Ok(Json(api.service.get_collection(&name).await?.into()))
}

/// Delete a collection
///
/// Deletes a collection with all its documents. This cannot be undone.
#[utoipa::path(
    delete, path = "/v1/collections/{collection}", tag = "collections",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news")),
    responses((status = 204, description = "The collection is gone.")),
)]
pub async fn delete_collection(State(api): State<Api>, CollectionPath(name): CollectionPath) -> Result<StatusCode, ApiError> {
    api.service.delete_collection(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Writes milliseconds since the Unix epoch as RFC 3339, in UTC with milliseconds.
pub fn rfc3339(milliseconds: i64) -> String {
    let instant = jiff::Timestamp::from_millisecond(milliseconds).unwrap_or_default();
    format!("{instant:.3}")
}

impl From<CollectionView> for CollectionInfo {
    fn from(view: CollectionView) -> Self {
        let CollectionView { collection, counts, index_state } = view;
        let count = |(language, documents): (Option<crate::domain::Language>, u64)| LanguageCount {
            language: language.map(|language| language.code().to_owned()),
            documents,
        };
        Self {
            name: collection.name.as_str().to_owned(),
            description: collection.description,
            model: collection.model,
            model_fingerprint: collection.model_fingerprint,
            dimension: collection.dimension,
            metric: match collection.metric {
                Metric::Cosine => MetricName::Cosine,
            },
            created_at: rfc3339(collection.created_at_ms),
            documents: counts.documents,
            passages: counts.passages,
            passages_pending: counts.passages_pending,
            languages: counts.languages.into_iter().map(count).collect(),
            disk_bytes: counts.disk_bytes,
            index_state: match index_state {
                IndexState::Ready => IndexStateName::Ready,
                IndexState::Recovering => IndexStateName::Recovering,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::rfc3339;

    #[test]
    fn times_are_rfc_3339_with_milliseconds() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(1_767_225_600_250), "2026-01-01T00:00:00.250Z");
    }
}
