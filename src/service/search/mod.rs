//! Answers searches, from the query to the hits.
//!
//! `resolve` turns the request into an embedding and terms, after `options` has separated options of commands from excluded
//! words. `ranking` ranks the nearest documents and those that share words (with `full`, `fusion`, `margin`, `boosts`,
//! `preference`, `diversity` and `groups`). `hits` reads the contents of the hits, and `marks` marks the words that match.
//! `labeled` searches among passages with labels.

mod boosts;
mod diversity;
mod full;
mod fusion;
mod groups;
mod hits;
mod known_tokens;
mod labeled;
mod literal;
mod margin;
mod marks;
mod options;
mod preference;
mod ranking;
mod resolve;
mod titles;
mod tokens;
mod warm_up;

pub(super) use known_tokens::CollectionTokens;
pub(super) use labeled::LabeledPassages;
pub(super) use tokens::fill;
pub(super) use warm_up::{precompute, start_preparing};

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use futures::{StreamExt as _, TryStreamExt as _};

use super::embedding::priority;
use super::error::Error;
use super::handle::CollectionHandle;
use crate::domain::{Embedded, FacetRequest, Facets, SearchMode, SearchRequest, SearchResults, SearchStatistics};
use crate::embed::{Embedder, QueryText};
use crate::service::limits::budget::AnswerBudget;
use crate::service::open_collection::OpenCollection;
use crate::store::SearchFilter;
use hits::HitContents;
use marks::Marking;
use ranking::Plan;
use resolve::Words;

/// Maximum number of searches of one batch that run at once.
const SEARCHES_AT_ONCE: usize = 4;

impl CollectionHandle {
    /// Runs a search. Every hit is read from the store after the index has found it, so a document that was deleted or replaced
    /// by then is not a hit.
    pub async fn search(&self, request: SearchRequest) -> Result<SearchResults, Error> {
        match self.search_batch(vec![request]).await {
            Ok(mut results) => results.pop().ok_or(Error::EncoderAnswers { expected: 1, got: 0 }),
            Err(Error::InBatch { source, .. }) => Err(*source),
            Err(error) => Err(error),
        }
    }

    /// Runs several searches, embedding their texts together. Returns the results in order. If one search fails, the whole
    /// batch fails with the first error and the position of that search.
    pub async fn search_batch(&self, requests: Vec<SearchRequest>) -> Result<Vec<SearchResults>, Error> {
        let (collection, state) = (&self.open(), &self.service.state);
        state.check_running()?;
        let options = match options::possible(&requests, &state.embedder) {
            possible if possible.is_empty() => HashSet::new(),
            possible => collection.read(move |collection| options::written(collection, possible)).await?,
        };
        let mut words: Vec<Words> = Vec::with_capacity(requests.len());
        for (index, request) in requests.iter().enumerate() {
            words.push(resolve::parse_words(request, &options, &state.embedder).map_err(|error| in_batch(index, error.into()))?);
        }
        if let Some(index) = words.iter().position(|words| !words.texts.is_empty()) {
            collection.check_model(self.service.model())?;
            if collection.row.model.is_none() {
                let error = Error::NoModel { collection: self.name.clone(), dimension: collection.row.dimension };
                return Err(in_batch(index, error));
            }
        }
        if requests.iter().any(|request| request.mode != SearchMode::Lexical) {
            // An index that is still catching up can be searched.
            collection.store.is_complete().map_err(|error| collection.report_damage(error.into()))?;
        }
        let (texts, queries): (Vec<_>, Vec<_>) = words.into_iter().map(|words| (words.texts, words.query)).unzip();
        let counts: Vec<usize> = texts.iter().map(Vec::len).collect();
        let started = Instant::now();
        let mut embedded = embed_all(&state.embedder, texts.concat()).await?.into_iter();
        let embedding_ms = milliseconds(started);
        let budget = Arc::new(AnswerBudget::new(state.limits.answer_bytes_max));
        let parts: Vec<Vec<Embedded>> = counts.into_iter().map(|count| embedded.by_ref().take(count).collect()).collect();
        let searches = requests.into_iter().zip(queries).zip(parts).enumerate().map(|(index, ((request, query), embedded))| {
            let budget = Arc::clone(&budget);
            let embedder = state.embedder.clone();
            async move {
                let first = Arc::clone(&collection.first_searches).try_acquire_owned().ok();
                let pool = if first.is_some() { &state.first_search_pool } else { &state.search_pool };
                // It runs to its end, even if its caller is gone.
                let searching = collection.read_on(Some(pool), move |collection| {
                    let _first = first;
                    search_open(collection, &request, (query, embedded), &embedder, &budget)
                });
                let mut results = searching.await.map_err(|error| in_batch(index, error))?;
                results.statistics.embedding_ms = embedding_ms;
                Ok(results)
            }
        });
        futures::stream::iter(searches).buffered(SEARCHES_AT_ONCE).try_collect().await
    }
}

async fn embed_all(embedder: &Embedder, texts: Vec<String>) -> Result<Vec<Embedded>, Error> {
    let expected = texts.len();
    if expected == 0 {
        return Ok(Vec::new());
    }
    let embedded = embedder.embed_queries(texts, priority(expected)).await?;
    if embedded.len() == expected { Ok(embedded) } else { Err(Error::EncoderAnswers { expected, got: embedded.len() }) }
}

/// Makes the error of a batch in which this search failed.
fn in_batch(index: usize, error: Error) -> Error {
    Error::InBatch { index, source: Box::new(error) }
}

/// Runs one search. Blocks.
fn search_open(
    collection: &OpenCollection,
    request: &SearchRequest,
    (query, embedded): (Option<QueryText>, Vec<Embedded>),
    embedder: &Embedder,
    budget: &AnswerBudget,
) -> Result<SearchResults, Error> {
    // Checked before the search, because a response only counts as complete if the collection was complete the whole time.
    let complete = request.mode == SearchMode::Lexical || collection.store.is_complete()?;
    let started = Instant::now();
    let mut resolved = resolve::resolve(collection, request, query, embedded, embedder)?;
    resolved.preferred = preference::preferred_languages(request, embedder);
    let page = Plan { collection, request, resolved: &mut resolved, evidence: embedder.into(), words: None }.page()?;
    let index_ms = milliseconds(started);
    let started = Instant::now();
    let query_truncated = resolved.truncated;
    let marking = Marking::new(&request.target, resolved, page.matcher, embedder);
    let wanted = HitContents { parts: request.parts, filter: &page.filter, marking: &marking };
    let hits = hits::read(collection, page.candidates, wanted, budget)?;
    let facets = match request.facets.as_slice() {
        [] => Vec::new(),
        facets => collection.facets(&page.filter, facets, budget)?.counts,
    };
    let rows_ms = milliseconds(started);
    let (candidates, method) = (page.ranked, page.method);
    let statistics = SearchStatistics { candidates, method, embedding_ms: 0.0, index_ms, rows_ms };
    Ok(SearchResults { hits, facets, query_truncated, complete, statistics })
}

impl OpenCollection {
    /// Counts the values of fields. Fails if they take more than the budget has left. Blocks.
    pub(crate) fn facets(
        &self,
        filter: &SearchFilter,
        requests: &[FacetRequest],
        budget: &AnswerBudget,
    ) -> Result<Facets, Error> {
        let left = (budget.limit() as u64).saturating_sub(budget.charged());
        let reserved = budget.reserve(left);
        let facets = self.store.facets(filter, requests, reserved)?;
        if facets.bytes <= reserved {
            budget.settle(reserved, facets.bytes)?;
            return Ok(facets);
        }
        // The counts may be incomplete, because less was reserved than the budget has left.
        if reserved < left {
            return Err(budget.memory_refusal().into());
        }
        budget.settle(reserved, facets.bytes)?;
        Err(budget.too_large("ask for fewer facets, or fewer values of each with limit"))
    }
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::RwLock;

    use super::*;
    use crate::domain::{CollectionName, NewCollection, SearchTarget};
    use crate::service::lifecycle::SEARCHES_MAX;
    use crate::service::{Parts, Service};

    /// Searches while as many as permitted are running. Returns whether the search ended meanwhile.
    async fn ends_while_others_run(first: bool) -> bool {
        let data = tempfile::tempdir().unwrap();
        let (data_dir, embedder) = (data.path().to_owned(), Embedder::fake(64));
        let service = Service::open(Parts { data_dir, embedder, limits: Default::default(), power_safe: false }).unwrap();
        let name = CollectionName::parse("news").unwrap();
        service.create_collection(NewCollection::new(name.clone()), None).await.unwrap();
        let gate = Arc::new(RwLock::new(()));
        let closed = gate.write().await;
        for _ in 0..SEARCHES_MAX {
            let (gate, pool) = (Arc::clone(&gate), Arc::clone(&service.state.search_pool));
            tokio::spawn(async move {
                let search = move || {
                    drop(gate.blocking_read());
                    Ok(())
                };
                pool.run(search).await
            });
        }
        while service.state.search_pool.running() < SEARCHES_MAX {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let collection = service.collection(&name).unwrap();
        let _earlier = (!first).then(|| collection.open().first_searches.clone().try_acquire_many_owned(2).unwrap());
        let mut search =
            tokio::spawn(async move { collection.search(SearchRequest::new(SearchTarget::Text("rain".to_owned()), 1)).await });
        let pause = if first { Duration::from_secs(10) } else { Duration::from_millis(300) };
        let ended = tokio::time::timeout(pause, &mut search).await;
        drop(closed);
        let (ended, found) = match ended {
            Ok(found) => (true, found),
            Err(_) => (false, search.await),
        };
        assert_eq!(found.unwrap().unwrap().hits.len(), 0);
        ended
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_search_waits_while_as_many_as_permitted_are_running() {
        assert!(!ends_while_others_run(false).await);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_first_searches_of_a_collection_do_not_wait_for_those_of_others() {
        assert!(ends_while_others_run(true).await);
    }
}
