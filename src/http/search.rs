//! `/v1/collections/{collection}/search`, `/search/batch` and `/recommend`: from a query in any language, or from examples, to
//! hits. What they may ask for is in `request`, `reading` and `recommend`.

mod checks;
mod reading;
mod recommend;
mod request;

use std::ops::Range;
use std::time::Instant;

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::api::Api;
use super::error::ApiError;
use super::extract::{CollectionPath, JsonBody};
use super::facets::Facet;
use super::metadata::Metadata;
use super::operation_errors::{BODY_ERRORS, OperationErrors, READ_ERRORS};
use super::streamed::Streamed;
use crate::domain::{Code, DenseMethod, Hit, HitPassage, HitPlaces, ListPlace, SearchAnswer, SearchStatistics};
pub use recommend::{ExampleInputs, RecommendDocumentsRequest};
pub use request::{
    GroupBy, HitPart, MarginScoring, SearchBatchRequest, SearchDocumentsRequest, SearchMode, SearchWeights, WordMatching,
};

const SEARCH_ERRORS: &[Code] = &[
    Code::UnknownLanguage,
    Code::InvalidFilter,
    Code::CollectionNotFound,
    Code::DocumentNotFound,
    Code::DocumentPending,
    Code::NoModel,
    Code::ModelMismatch,
    Code::AnswerTooLarge,
    Code::Overloaded,
];

/// What each operation can answer besides success.
pub const ERRORS: &[OperationErrors] = &[
    ("search_documents", &[READ_ERRORS, BODY_ERRORS, SEARCH_ERRORS]),
    ("search_batch", &[READ_ERRORS, BODY_ERRORS, SEARCH_ERRORS]),
    ("recommend_documents", &[READ_ERRORS, BODY_ERRORS, SEARCH_ERRORS]),
];

/// The answer to a search.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchResult {
    /// Hits, best first; each document at most once.
    pub hits: Vec<SearchHit>,
    /// The counts that `facets` asks for, in its order; omitted when it asks for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub facets: Option<Vec<Facet>>,
    /// Whether a text to search by was longer than what the model reads, or had more words than are looked for (200), so that
    /// its end had no influence.
    pub query_truncated: bool,
    /// True while the collection's index is still catching up after a start of the server: hits that were added shortly before
    /// it stopped may be missing. Omitted otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(required = false)]
    pub incomplete: bool,
    /// What the search did; omitted unless `explain` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub explanation: Option<SearchExplanation>,
    /// Milliseconds from the parsed request to the answer; of a search in a batch, those of its own steps.
    #[schema(minimum = 0)]
    pub took_ms: f64,
}

/// The answers to a batch of searches.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchBatchResult {
    /// One answer per search, in order.
    pub results: Vec<SearchResult>,
    /// Milliseconds from the parsed request to the answer.
    #[schema(minimum = 0)]
    pub took_ms: f64,
}

/// A document that answers a search.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchHit {
    /// The document's id.
    pub id: String,
    /// Higher is better. In mode `full` the relevance, between 0 and 1: how likely the passage answers, the same in every collection and
    /// language. In mode `dense` how near query and best passage are by the collection's metric (cosine: -1 to 1; l2: the
    /// negative of the distance), or their ratio margin when `margin` asks for it; in mode `lexical` BM25; in mode `hybrid` the
    /// fused ranks. Scores of different modes cannot be compared.
    pub score: f32,
    /// ISO 639-1 code of the document's language; omitted when none was recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub language: Option<String>,
    /// The value that the hit's group shares, as text; omitted without `group_by`, and when the document has no such value.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub group: Option<String>,
    /// The document's title; omitted when it has none, and when `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub title: Option<String>,
    /// The document's text; omitted unless `include` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub text: Option<String>,
    /// The document's metadata; omitted when `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub metadata: Option<Metadata>,
    /// The passage of the text that answers best; omitted when `include` leaves it out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub passage: Option<PassageMatch>,
    /// The embedding of that passage; omitted unless `include` asks for it, and when the passage waits for its embedding.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub vector: Option<Vec<f32>>,
    /// How the hit was found; omitted unless `explain` asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub explanation: Option<HitExplanation>,
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
    /// Words of it that answer, in order, at most 100: those that the query has, compared as a search by words does, and in mode
    /// `full` those that are nearest to a word of the query in another language. None without a `query`.
    pub marks: Vec<PassageMark>,
}

/// A place in a passage, never within a character as readers see it.
#[derive(Debug, Serialize, ToSchema)]
pub struct PassageMark {
    /// Where it begins in the text of the passage, in characters (Unicode code points) from 0.
    pub start: usize,
    /// Where it ends, exclusive, in the same unit.
    pub end: usize,
}

/// Where a hit stood in the lists that it was found by; with `balance_languages`, in those of its language.
#[derive(Debug, Serialize, ToSchema)]
pub struct HitExplanation {
    /// Among the nearest embeddings; the score is that of the metric. Omitted when it was not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub dense: Option<ListRank>,
    /// Among the passages whose tokens are near to those of the query; the score is that of late interaction, 0 to 1. Omitted when it
    /// was not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub late: Option<ListRank>,
    /// Among the passages that share words; the score is BM25. Omitted when it was not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub lexical: Option<ListRank>,
    /// Among the passages that have the words of the query or translations of them, in any language; the score is about 0 to 1. Omitted
    /// when it was not found there.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub translated: Option<ListRank>,
}

/// A place in a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct ListRank {
    /// From 1.
    #[schema(minimum = 1)]
    pub rank: usize,
    /// The score there.
    pub score: f32,
}

/// What a search did.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchExplanation {
    /// Documents that were ranked.
    pub candidates: usize,
    /// How the nearest embeddings were found; omitted when none were looked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub method: Option<DenseSearchMethod>,
    /// Milliseconds for embedding texts; of a whole batch, whose texts are embedded together.
    #[schema(minimum = 0)]
    pub embedding_ms: f64,
    /// Milliseconds for finding and ranking candidates.
    #[schema(minimum = 0)]
    pub index_ms: f64,
    /// Milliseconds for reading the hits and counting facets.
    #[schema(minimum = 0)]
    pub rows_ms: f64,
}

/// `index`: named by the index, which compares with all passages while they are few and walks its graph when they are many.
/// `scan`: by comparing with all passages that match, for `exact` and for a filter that leaves few.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DenseSearchMethod {
    /// Named by the index.
    Index,
    /// By comparing with all that match.
    Scan,
}

/// Search documents
///
/// Finds the documents whose passages are nearest in meaning to the query, whatever language each is in, or that share words
/// with it, or both.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/search", tag = "search",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news")),
    request_body(content = SearchDocumentsRequest, description = "The query and what restricts its hits."),
    responses((status = 200, description = "The hits, best first.", body = SearchResult)),
)]
pub async fn search_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    JsonBody(body): JsonBody<SearchDocumentsRequest>,
) -> Result<Streamed<SearchHit>, ApiError> {
    let started = Instant::now();
    let explain = body.explain.unwrap_or_default();
    let row = api.service.collection_row(&collection)?;
    let request = checks::check(body, &row, api.service.limits())?;
    let answer = api.service.search(&collection, request).await?;
    let (result, hits) = result(answer, explain);
    Ok(Streamed::within(&SearchResult { took_ms: since(started), ..result }, hits))
}

/// Search several times
///
/// Runs several searches of one collection and answers them in order. Their queries are embedded together, which is faster than
/// one request each. A search that cannot be answered refuses the whole batch, with its place in the error.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/search/batch", tag = "search",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news")),
    request_body(content = SearchBatchRequest, description = "The searches."),
    responses((status = 200, description = "One answer per search, in order.", body = SearchBatchResult)),
)]
pub async fn search_batch(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    JsonBody(body): JsonBody<SearchBatchRequest>,
) -> Result<Streamed<SearchHit>, ApiError> {
    let started = Instant::now();
    let explain: Vec<bool> = body.searches.iter().map(|search| search.explain.unwrap_or_default()).collect();
    let row = api.service.collection_row(&collection)?;
    let requests = checks::check_batch(body, &row, api.service.limits())?;
    let answers = api.service.search_batch(&collection, requests).await?;
    let frame = SearchBatchResult { results: Vec::new(), took_ms: since(started) };
    let results = answers.into_iter().zip(explain).map(|(answer, explain)| {
        let (result, hits) = result(answer, explain);
        Streamed::within(&result, hits)
    });
    Ok(Streamed::nested(&frame, results))
}

/// Recommend documents
///
/// Finds the documents that are like the positive examples and unlike the negative ones: those nearest to the mean of the
/// positive examples minus the mean of the negative ones. A document counts as the mean of its passages. The documents given
/// as examples are no hits. Under the metric l2, and with negative examples, hits are nearest to the point that lies as far
/// beyond the mean of the positive examples as that is from the mean of the negative ones.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/recommend", tag = "search",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news")),
    request_body(content = RecommendDocumentsRequest, description = "The examples and what restricts the hits."),
    responses((status = 200, description = "The hits, best first.", body = SearchResult)),
)]
pub async fn recommend_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    JsonBody(body): JsonBody<RecommendDocumentsRequest>,
) -> Result<Streamed<SearchHit>, ApiError> {
    let started = Instant::now();
    let explain = body.explain.unwrap_or_default();
    let row = api.service.collection_row(&collection)?;
    let request = recommend::check_examples(body, &row, api.service.limits())?;
    let answer = api.service.search(&collection, request).await?;
    let (result, hits) = result(answer, explain);
    Ok(Streamed::within(&SearchResult { took_ms: since(started), ..result }, hits))
}

/// The answer without its hits, and these.
fn result(answer: SearchAnswer, explain: bool) -> (SearchResult, impl Iterator<Item = SearchHit>) {
    let SearchAnswer { hits, facets, query_truncated, complete, statistics } = answer;
    let took_ms = rounded(statistics.embedding_ms + statistics.index_ms + statistics.rows_ms);
    let explanation = explain.then(|| statistics.into());
    let hits = hits.into_iter().map(move |hit| search_hit(hit, explain));
    let facets = (!facets.is_empty()).then(|| facets.into_iter().map(Facet::from).collect());
    (SearchResult { hits: Vec::new(), facets, query_truncated, incomplete: !complete, explanation, took_ms }, hits)
}

fn search_hit(hit: Hit, explain: bool) -> SearchHit {
    SearchHit {
        id: hit.id.as_str().to_owned(),
        score: hit.score,
        language: hit.language.map(|language| language.code().to_owned()),
        group: hit.group,
        title: hit.title,
        text: hit.text,
        metadata: hit.metadata.map(Metadata),
        passage: hit.passage.map(PassageMatch::from),
        vector: hit.vector.map(|vector| vector.as_slice().to_vec()),
        explanation: explain.then(|| hit.places.into()),
    }
}

fn since(started: Instant) -> f64 {
    rounded(started.elapsed().as_secs_f64() * 1e3)
}

/// Milliseconds, to the microsecond.
fn rounded(milliseconds: f64) -> f64 {
    (milliseconds * 1e3).round() / 1e3
}

impl From<HitPassage> for PassageMatch {
    fn from(passage: HitPassage) -> Self {
        let HitPassage { text, start, end, marks } = passage;
        Self { text, start, end, marks: marks.into_iter().map(|Range { start, end }| PassageMark { start, end }).collect() }
    }
}

impl From<HitPlaces> for HitExplanation {
    fn from(places: HitPlaces) -> Self {
        let rank = |place: ListPlace| ListRank { rank: place.rank, score: place.score };
        Self {
            dense: places.dense.map(rank),
            late: places.late.map(rank),
            lexical: places.lexical.map(rank),
            translated: places.translated.map(rank),
        }
    }
}

impl From<SearchStatistics> for SearchExplanation {
    fn from(statistics: SearchStatistics) -> Self {
        Self {
            candidates: statistics.candidates,
            method: statistics.method.map(|method| match method {
                DenseMethod::Index => DenseSearchMethod::Index,
                DenseMethod::Scan => DenseSearchMethod::Scan,
            }),
            embedding_ms: rounded(statistics.embedding_ms),
            index_ms: rounded(statistics.index_ms),
            rows_ms: rounded(statistics.rows_ms),
        }
    }
}
