//! `/v1/collections`: creates, lists, reads, changes and deletes collections.

pub mod aliases;
pub mod projections;
pub mod put;
pub mod reembedding;
pub mod settings;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderName, LOCATION};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::api::Api;
use super::error::{ApiError, Checks, invalid};
use crate::domain::timestamps::rfc3339;
use crate::domain::{
    Caller, Code, CollectionChange, CollectionName, CollectionView, Damage, Field, HnswSettings, IndexState, MetadataPath,
    Metric, NewCollection, PassageBounds, Quantization,
};
use crate::http::middleware::auth::check_access;
use crate::http::request::cursor;
use crate::http::request::extract::{ABOUT_IDEMPOTENCY_KEY, CollectionPath, JsonBody, KeyedBody, PageParameters, Parameters};
use crate::http::request::values::{check_description, check_each, check_parsed, parse_languages};
use crate::service::Error;
use crate::service::json::some_object;
use settings::{HnswChange, HnswOptions, PassageOptions};

/// Maximum indexed paths per collection: each one slows down every write.
const METADATA_INDEXES_MAX: usize = 16;

/// A collection to create.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateCollectionRequest {
    /// The name, which every path of the collection contains: 1 to 64 ASCII letters, digits, `-`, `_` and `.`, beginning with a
    /// letter or digit.
    #[schema(value_type = String, required = true, min_length = 1, max_length = 64)]
    pub name: Option<String>,
    /// A description of what the collection is for; at most 4096 bytes.
    #[schema(max_length = 4096)]
    pub description: Option<String>,
    /// The model that embeds its texts, by a name that `GET /v1/models` lists. Defaults to the loaded model, unless there is a
    /// `dimension`.
    pub model: Option<String>,
    /// The dimension of your own vectors, for a collection without a model. Every document must then have a `vector`, and its
    /// text is optional.
    #[schema(minimum = 1, maximum = 8192)]
    pub dimension: Option<usize>,
    /// How vectors are compared; `cosine` by default, and always with a model.
    pub metric: Option<Metric>,
    /// How the index stores values; by default `i8` under `cosine` and `f16` under the other metrics.
    pub quantization: Option<Quantization>,
    /// Parameters of the index.
    #[serde(default, deserialize_with = "some_object")]
    pub hnsw: Option<HnswOptions>,
    /// How its texts are split into passages; not allowed with `dimension`, where each vector stands for a whole document.
    #[serde(default, deserialize_with = "some_object")]
    pub passage_bounds: Option<PassageOptions>,
    /// The languages of a search that does not name any, as BCP 47 tags; all by default.
    pub default_languages: Option<Vec<String>>,
    /// Metadata paths to index, written as in a filter, for fields that many filters use. At most 16.
    #[schema(max_items = 16)]
    pub metadata_indexes: Option<Vec<String>>,
}

/// Changes to a collection; what you leave out does not change. Everything else about a collection is fixed at creation; only
/// its model changes when it is re-embedded.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangeCollectionRequest {
    /// A description of what the collection is for, at most 4096 bytes; an empty text removes it.
    #[schema(max_length = 4096)]
    pub description: Option<String>,
    /// Parameters of the index.
    #[serde(default, deserialize_with = "some_object")]
    pub hnsw: Option<HnswChange>,
    /// The languages of a search that does not name any, as BCP 47 tags; an empty list means all.
    pub default_languages: Option<Vec<String>>,
    /// All metadata paths to index from now on. A new index is built before the response, while other
    /// writes to the collection wait; an index that is not named here is dropped. At most 16.
    #[schema(max_items = 16)]
    pub metadata_indexes: Option<Vec<String>>,
}

/// A collection and its contents.
#[derive(Debug, Serialize, ToSchema)]
pub struct CollectionInfo {
    /// The name.
    pub name: String,
    /// What the collection is for; omitted if not given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The model that embeds its texts; omitted if the caller sends vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// SHA-256 over everything that determines the model's embeddings; a collection never mixes two. Omitted without a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_fingerprint: Option<String>,
    /// Values per embedding.
    #[schema(minimum = 1)]
    pub dimension: usize,
    /// How embeddings are compared.
    pub metric: Metric,
    /// How the index stores values.
    pub quantization: Quantization,
    /// Parameters of the index.
    pub hnsw: HnswSettings,
    /// How its texts are split into passages; omitted without a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passage_bounds: Option<PassageBounds>,
    /// ISO 639-1 codes of the languages of a search that does not name any; empty means all.
    pub default_languages: Vec<String>,
    /// Indexed metadata paths, in order.
    pub metadata_indexes: Vec<String>,
    /// When it was created.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// Number of documents.
    pub documents: u64,
    /// Number of passages of all its documents.
    pub passages: u64,
    /// Number of passages that are stored but not searchable yet.
    pub passages_pending: u64,
    /// Number of documents per language, most documents first.
    pub languages: Vec<LanguageCount>,
    /// Size of its database, write-ahead log and index on disk, in bytes.
    pub disk_bytes: u64,
    /// True if an older version of the server split its texts into passages; `POST
    /// /v1/collections/{collection}/reembed` splits and embeds them by the current rules. Omitted otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cut_by_older_rules: bool,
    /// Whether searches find everything that is stored.
    pub index_state: IndexState,
    /// Damage in the collection's database found since the server started; omitted if there is none. Damaged data is
    /// never returned; requests that touch it get `collection_damaged`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub damage: Vec<Damage>,
}

/// A language and its number of documents.
#[derive(Debug, Serialize, ToSchema)]
pub struct LanguageCount {
    /// ISO 639-1 code; omitted for documents without a recognized language.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Number of documents in this language.
    pub documents: u64,
}

/// One page of collections.
#[derive(Debug, Serialize, ToSchema)]
pub struct CollectionList {
    /// Collections in the order of their names.
    pub collections: Vec<CollectionInfo>,
    /// Where the next page begins; omitted on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Create a collection
///
/// Creates an empty collection, for texts that the loaded model embeds or, with `dimension`, for your own vectors.
/// The name must be free. Once the response arrives, the collection is durable.
#[utoipa::path(
    post, path = "/v1/collections", tag = "collections",
    params(("idempotency-key" = Option<String>, Header, description = ABOUT_IDEMPOTENCY_KEY)),
    request_body(content = CreateCollectionRequest, description = "The collection's name and settings."),
    responses((
        status = 201, description = "The collection was created.", body = CollectionInfo,
        headers(("location" = String, description = "Path of the new collection.")),
    )),
)]
pub async fn create_collection(
    State(api): State<Api>,
    caller: Caller,
    KeyedBody(body, key): KeyedBody<CreateCollectionRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<CollectionInfo>), ApiError> {
    let mut checks = Checks::default();
    let name = body.name.as_deref().ok_or_else(|| "missing field `name`".to_owned());
    let name = name.and_then(|name| CollectionName::parse(name).map_err(|error| error.to_string()));
    let name = checks.add(check_parsed("/name", name));
    if let Some(name) = &name {
        check_access(&caller, name)?;
    }
    let new = check_new(body, checks, name, api.service.model().tokens_max)?;
    let created = api.service.create_collection(new, key).await;
    let view = created.map_err(|error| refused(error, &caller))?;
    let location = format!("/v1/collections/{}", view.collection.name);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(view.into())))
}

/// List collections
///
/// Lists collections by name, page by page; with a restricted key only its own, including its aliases.
#[utoipa::path(
    get, path = "/v1/collections", tag = "collections", params(PageParameters),
    responses((status = 200, description = "One page of collections.", body = CollectionList)),
)]
pub async fn list_collections(
    State(api): State<Api>,
    caller: Caller,
    parameters: Parameters<PageParameters>,
) -> Result<Json<CollectionList>, ApiError> {
    let page = parameters.page(&api, "collections", CollectionName::parse)?;
    let (views, next) = api.service.list_collections(page, &caller).await?;
    Ok(Json(CollectionList {
        collections: views.into_iter().map(CollectionInfo::from).collect(),
        next_cursor: next.map(|name| cursor::encode("collections", name.as_str())),
    }))
}

/// Get a collection
///
/// Returns a collection's model, its counts and the state of its index.
#[utoipa::path(
    get, path = "/v1/collections/{collection}", tag = "collections",
    responses((status = 200, description = "The collection.", body = CollectionInfo)),
)]
pub async fn get_collection(
    State(api): State<Api>,
    CollectionPath(name): CollectionPath,
) -> Result<Json<CollectionInfo>, ApiError> {
    Ok(Json(api.service.get_collection(&name).await?.into()))
}

/// Change a collection
///
/// Changes a collection's description, its `hnsw.ef_search`, its default languages, or its indexed metadata paths. Once the
/// response arrives, the change is durable.
#[utoipa::path(
    patch, path = "/v1/collections/{collection}", tag = "collections",
    request_body(content = ChangeCollectionRequest, description = "What to change."),
    responses((status = 200, description = "The collection as it is now.", body = CollectionInfo)),
)]
pub async fn change_collection(
    State(api): State<Api>,
    CollectionPath(name): CollectionPath,
    JsonBody(body): JsonBody<ChangeCollectionRequest>,
) -> Result<Json<CollectionInfo>, ApiError> {
    let mut checks = Checks::default();
    checks.add(check_description(body.description.as_deref()));
    let ef_search = checks.add_or_default(settings::check_ef_search(body.hnsw.and_then(|hnsw| hnsw.ef_search)));
    let default_languages = body.default_languages.map(|tags| parse_languages(&tags, "/default_languages"));
    let default_languages = checks.add_or_default(default_languages.transpose());
    let metadata_indexes = checks.add_or_default(body.metadata_indexes.as_deref().map(metadata_paths).transpose());
    checks.end()?;
    let change = CollectionChange { description: body.description, ef_search, default_languages, metadata_indexes };
    Ok(Json(api.service.collection(&name)?.change(change).await?.into()))
}

/// Delete a collection
///
/// Deletes a collection with all its documents. This cannot be undone.
#[utoipa::path(
    delete, path = "/v1/collections/{collection}", tag = "collections",
    responses((status = 204, description = "The collection was deleted.")),
)]
pub async fn delete_collection(
    State(api): State<Api>,
    caller: Caller,
    CollectionPath(name): CollectionPath,
) -> Result<StatusCode, ApiError> {
    api.service.delete_collection(&name).await.map_err(|error| refused(error, &caller))?;
    Ok(StatusCode::NO_CONTENT)
}

/// The error for the caller. If the name is an alias, it names the collection only to a key that may access that collection.
fn refused(error: Error, caller: &Caller) -> ApiError {
    match error {
        Error::AliasExists { name, collection } if !caller.may_access(&collection) => {
            ApiError::new(Code::AliasExists, format!("{name} is an alias"))
        }
        other => other.into(),
    }
}

/// Validates a collection to create, except for its name.
pub fn check_new(
    body: CreateCollectionRequest,
    mut checks: Checks,
    name: Option<CollectionName>,
    model_tokens_max: usize,
) -> Result<NewCollection, ApiError> {
    checks.add(check_description(body.description.as_deref()));
    let source = checks.add(settings::check_source(body.model, body.dimension));
    let values = source.as_ref().map(|source| settings::check_metric_and_quantization(source, body.metric, body.quantization));
    let values = values.and_then(|values| checks.add(values));
    let passages = source.as_ref().map(|source| settings::check_passage_bounds(source, body.passage_bounds, model_tokens_max));
    let passages = passages.and_then(|passages| checks.add(passages));
    let hnsw = checks.add_or_default(settings::check_hnsw(body.hnsw));
    let default_languages = parse_languages(&body.default_languages.unwrap_or_default(), "/default_languages");
    let default_languages = checks.add_or_default(default_languages);
    let metadata_indexes = checks.add_or_default(metadata_paths(&body.metadata_indexes.unwrap_or_default()));
    let made = name.zip(source).zip(values).zip(passages);
    let (((name, source), (metric, quantization)), passages) = checks.end_with(made)?;
    let description = body.description.filter(|text| !text.is_empty());
    Ok(NewCollection { name, description, source, metric, quantization, hnsw, passages, default_languages, metadata_indexes })
}

fn metadata_paths(texts: &[String]) -> Result<Vec<MetadataPath>, ApiError> {
    let got = texts.len();
    if got > METADATA_INDEXES_MAX {
        return invalid("/metadata_indexes", format!("must have at most {METADATA_INDEXES_MAX} paths, got {got}"));
    }
    check_each("/metadata_indexes", texts, |pointer, text| {
        let refuse = |detail: String| ApiError::at(Code::InvalidRequest, pointer, detail);
        match Field::parse(text).map_err(refuse)? {
            Field::Metadata(path) if path.is_indexable() => Ok(path),
            Field::Metadata(_) => {
                Err(refuse("must not contain quotes, backslashes or control characters in its keys".to_owned()))
            }
            own => Err(refuse(format!("the document's own {own} needs no index; metadata of that name is metadata.{own}"))),
        }
    })
}

impl From<CollectionView> for CollectionInfo {
    fn from(view: CollectionView) -> Self {
        let CollectionView { collection, counts, index_state, metadata_indexes, damage } = view;
        let count = |(language, documents): (Option<crate::domain::Language>, u64)| LanguageCount {
            language: language.map(|language| language.code().to_owned()),
            documents,
        };
        // A caller's vector stands for a whole text, which is not split.
        let cut_by_older_rules = counts.cut_by_older_rules && collection.model.is_some();
        let (model, model_fingerprint) = collection.model.map(|model| (model.name, model.fingerprint)).unzip();
        Self {
            name: collection.name.as_str().to_owned(),
            description: collection.description,
            model,
            model_fingerprint,
            dimension: collection.dimension,
            metric: collection.metric,
            quantization: collection.quantization,
            hnsw: collection.hnsw,
            passage_bounds: collection.passages,
            default_languages: collection.default_languages.iter().map(ToString::to_string).collect(),
            metadata_indexes: metadata_indexes.iter().map(ToString::to_string).collect(),
            created_at: rfc3339(collection.created_at_ms),
            documents: counts.documents,
            passages: counts.passages,
            passages_pending: counts.passages_pending,
            languages: counts.languages.into_iter().map(count).collect(),
            disk_bytes: counts.disk_bytes,
            cut_by_older_rules,
            index_state,
            damage,
        }
    }
}
