//! `/v1/collections/{collection}/search`, `/search/batch` and `/recommend`: from a query in any language, or from examples, to
//! hits. Their requests are in `request`, `boosts` and `recommend`.

mod boosts;
mod checks;
pub mod facets;
mod recommend;
mod request;

use std::time::Instant;

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::api::Api;
use super::error::ApiError;
use crate::domain::{Facet, Hit, SearchResults, SearchStatistics};
use crate::http::request::extract::{CollectionPath, JsonBody};
use crate::http::response::streamed::Streamed;
use crate::http::response::{elapsed_ms, rounded};
use recommend::RecommendDocumentsRequest;
use request::{SearchBatchRequest, SearchDocumentsRequest};

/// The result of a search.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchResult {
    /// Hits, best first; each document at most once.
    pub hits: Vec<Hit>,
    /// The counts that `facets` asks for, in its order; omitted if it asks for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facets: Option<Vec<Facet>>,
    /// Whether a query was longer than the model reads, or had more words than are searched for (200), so that its end was
    /// ignored.
    pub query_truncated: bool,
    /// True while the collection's index is still catching up after a restart of the server: documents that were added shortly
    /// before it stopped may be missing. Omitted otherwise.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// Statistics of the search; omitted unless `explain` asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explanation: Option<SearchStatistics>,
    /// Milliseconds from the parsed request to the response; for a search in a batch, only its own steps.
    #[schema(minimum = 0)]
    pub took_ms: f64,
}

/// The results of a batch of searches.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchBatchResult {
    /// One result per search, in order.
    pub results: Vec<SearchResult>,
    /// Milliseconds from the parsed request to the response.
    #[schema(minimum = 0)]
    pub took_ms: f64,
}

/// Search documents
///
/// Finds the documents whose passages are nearest in meaning to the query, in any language, or that share words with it, or
/// both.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/search", tag = "search",
    request_body(content = SearchDocumentsRequest, description = "What to search for, and which hits to return."),
    responses((status = 200, description = "The hits, best first.", body = SearchResult)),
)]
pub async fn search_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    JsonBody(body): JsonBody<SearchDocumentsRequest>,
) -> Result<Streamed<Hit>, ApiError> {
    let started = Instant::now();
    let explain = body.explain.unwrap_or_default();
    let collection = api.service.collection(&collection)?;
    let request = checks::check(body, &collection.row(), api.service.limits())?;
    let results = collection.search(request).await?;
    let (result, hits) = split_hits(results, explain);
    Ok(Streamed::with_items(&SearchResult { took_ms: elapsed_ms(started), ..result }, hits))
}

/// Search several times
///
/// Runs several searches of one collection and returns their results in order. Their queries are embedded together, which is
/// faster than one request each. If a search is invalid, the whole batch is refused, and the error names the search.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/search/batch", tag = "search",
    request_body(content = SearchBatchRequest, description = "The searches."),
    responses((status = 200, description = "One result per search, in order.", body = SearchBatchResult)),
)]
pub async fn search_batch(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    JsonBody(body): JsonBody<SearchBatchRequest>,
) -> Result<Streamed<Hit>, ApiError> {
    let started = Instant::now();
    let explain: Vec<bool> = body.searches.iter().map(|search| search.explain.unwrap_or_default()).collect();
    let collection = api.service.collection(&collection)?;
    let requests = checks::check_batch(body, &collection.row(), api.service.limits())?;
    let results = collection.search_batch(requests).await?;
    let frame = SearchBatchResult { results: Vec::new(), took_ms: elapsed_ms(started) };
    let bodies = results.into_iter().zip(explain).map(|(found, explain)| {
        let (result, hits) = split_hits(found, explain);
        Streamed::with_items(&result, hits)
    });
    Ok(Streamed::nested(&frame, bodies))
}

/// Recommend documents
///
/// Finds documents like the positive examples and unlike the negative ones: those nearest to the mean of the positive examples
/// minus the mean of the negative ones. A document counts as the mean of its passages, and is never a hit if it is an example.
/// With the metric l2, negative examples move the target: it is twice the positive mean minus the negative mean.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/recommend", tag = "search",
    request_body(content = RecommendDocumentsRequest, description = "The examples, and which hits to return."),
    responses((status = 200, description = "The hits, best first.", body = SearchResult)),
)]
pub async fn recommend_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    JsonBody(body): JsonBody<RecommendDocumentsRequest>,
) -> Result<Streamed<Hit>, ApiError> {
    let started = Instant::now();
    let explain = body.explain.unwrap_or_default();
    let collection = api.service.collection(&collection)?;
    let request = recommend::check_examples(body, &collection.row(), api.service.limits())?;
    let results = collection.search(request).await?;
    let (result, hits) = split_hits(results, explain);
    Ok(Streamed::with_items(&SearchResult { took_ms: elapsed_ms(started), ..result }, hits))
}

/// The result without its hits, and the hits.
fn split_hits(results: SearchResults, explain: bool) -> (SearchResult, impl Iterator<Item = Hit>) {
    let SearchResults { hits, facets, query_truncated, complete, statistics } = results;
    let took_ms = rounded(statistics.embedding_ms + statistics.index_ms + statistics.rows_ms);
    let explanation = explain.then(|| SearchStatistics {
        embedding_ms: rounded(statistics.embedding_ms),
        index_ms: rounded(statistics.index_ms),
        rows_ms: rounded(statistics.rows_ms),
        ..statistics
    });
    let hits = hits.into_iter().map(move |hit| Hit { explanation: hit.explanation.filter(|_| explain), ..hit });
    let facets = (!facets.is_empty()).then_some(facets);
    (SearchResult { hits: Vec::new(), facets, query_truncated, incomplete: !complete, explanation, took_ms }, hits)
}
