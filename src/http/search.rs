//! `/v1/collections/{collection}/search`: from a query in any language to hits.

use std::time::Instant;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::Api;
use super::documents::{Metadata, unknown_language};
use super::error::ApiError;
use super::extract::{CollectionPath, JsonBody};
use super::filter::{self, FilterNode};
use super::openapi::{BODY_ERRORS, OperationErrors, READ_ERRORS};
use crate::domain::{Code, Hit, Language, Limits, SearchRequest};

/// Hits when the caller does not say how many.
const LIMIT_DEFAULT: usize = 10;

/// What each operation can answer besides success.
pub const ERRORS: &[OperationErrors] = &[(
    "search_documents",
    &[
        READ_ERRORS,
        BODY_ERRORS,
        &[Code::UnknownLanguage, Code::InvalidFilter, Code::CollectionNotFound, Code::ModelMismatch, Code::Overloaded],
    ],
)];

/// A search.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchDocumentsRequest {
    /// The query, in any language: not blank, at most the server's limit for texts (1 MiB unless configured otherwise).
    #[schema(min_length = 1)]
    pub query: String,
    /// Hits at most, from 1 to the server's limit (1000 unless configured otherwise).
    #[serde(default = "limit_default")]
    #[schema(minimum = 1, default = 10)]
    pub limit: usize,
    /// Hits only in these languages, by ISO 639-1 code; empty or left out for all.
    #[serde(default)]
    #[schema(nullable = false)]
    pub languages: Option<Vec<String>>,
    /// Hits only where this holds.
    #[serde(default)]
    #[schema(value_type = Option<FilterNode>, nullable = false)]
    pub filter: Option<Value>,
    /// How hits are found; `dense` when left out.
    #[serde(default)]
    #[schema(default = "dense")]
    pub mode: SearchMode,
}

/// `dense`: by the similarity of embeddings, across languages.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchMode {
    /// By the similarity of embeddings.
    #[default]
    Dense,
}

/// The answer to a search.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchResult {
    /// Hits, nearest first; each document at most once.
    pub hits: Vec<SearchHit>,
    /// Whether the query was longer than what the model reads, so that its end had no influence.
    pub query_truncated: bool,
    /// Milliseconds from the parsed request to the answer.
    #[schema(minimum = 0)]
    pub took_ms: f64,
}

/// A document that answers a search.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchHit {
    /// The document's id.
    pub id: String,
    /// Cosine similarity of the query and the best passage, -1 to 1, higher is nearer.
    #[schema(minimum = -1, maximum = 1)]
    pub score: f32,
    /// ISO 639-1 code of the document's language; omitted when none was recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub language: Option<String>,
    /// The document's text.
    pub text: String,
    /// The document's metadata.
    pub metadata: Metadata,
    /// The passage of the text that answers best.
    pub passage: PassageMatch,
}

/// A passage of a document's text.
#[derive(Debug, Serialize, ToSchema)]
pub struct PassageMatch {
    /// The passage's text.
    pub text: String,
    /// Where it begins in the document's text, in characters (Unicode code points) from 0.
    pub start: usize,
    /// Where it ends, exclusive, in the same unit.
    pub end: usize,
}

/// Search documents
///
/// Finds the documents whose passages are nearest in meaning to the query, whatever language each is in.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/search", tag = "search",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news")),
    request_body(content = SearchDocumentsRequest, description = "The query and what restricts its hits."),
    responses((status = 200, description = "The hits, nearest first.", body = SearchResult)),
)]
pub async fn search_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    JsonBody(body): JsonBody<SearchDocumentsRequest>,
) -> Result<Json<SearchResult>, ApiError> {
    let started = Instant::now();
    let request = check(body, api.service.limits())?;
    let answer = api.service.search(&collection, request).await?;
    Ok(Json(SearchResult {
        hits: answer.hits.into_iter().map(SearchHit::from).collect(),
        query_truncated: answer.query_truncated,
        took_ms: (started.elapsed().as_secs_f64() * 1e6).round() / 1e3,
    }))
}

fn limit_default() -> usize {
    LIMIT_DEFAULT
}

fn check(body: SearchDocumentsRequest, limits: &Limits) -> Result<SearchRequest, ApiError> {
    let invalid = |pointer: &str, detail: String| Err(ApiError::at(Code::InvalidRequest, pointer, detail));
    if body.query.trim().is_empty() {
        return invalid("/query", "must hold something besides white space".to_owned());
    }
    let (max, got) = (limits.text_bytes_max, body.query.len());
    if got > max {
        return invalid("/query", format!("must have at most {max} bytes, got {got}"));
    }
    let (max, got) = (limits.page_max, body.limit);
    if !(1..=max).contains(&got) {
        return invalid("/limit", format!("must be an integer from 1 to {max}, got {got}"));
    }
    let languages = body.languages.unwrap_or_default();
    let languages = languages.iter().enumerate().map(|(index, code)| {
        Language::parse(code)
            .ok_or_else(|| ApiError::at(Code::UnknownLanguage, format!("/languages/{index}"), unknown_language(code)))
    });
    let languages = languages.collect::<Result<_, _>>()?;
    let SearchMode::Dense = body.mode;
    Ok(SearchRequest { query: body.query, limit: body.limit, languages, filter: filter::parse(body.filter)? })
}

impl From<Hit> for SearchHit {
    fn from(hit: Hit) -> Self {
        Self {
            id: hit.id.as_str().to_owned(),
            score: hit.score,
            language: hit.language.map(|language| language.code().to_owned()),
            text: hit.text,
            metadata: Metadata(hit.metadata),
            passage: PassageMatch { text: hit.passage.text, start: hit.passage.start, end: hit.passage.end },
        }
    }
}
