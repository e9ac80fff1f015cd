//! From a query to hits.

use std::collections::HashSet;

use super::runtime::OpenCollection;
use super::{Error, Service};
use crate::domain::{CollectionName, DocumentId, Embedding, Hit, HitPassage, SearchAnswer, SearchRequest};
use crate::embed::Priority;
use crate::index::{Neighbor, search_exact};
use crate::store::{PassageRow, SearchFilter};

/// Passages asked of the index per hit wanted: several passages of one document may be near, and some may be gone.
const PASSAGES_PER_HIT: usize = 4;
/// Passages asked of the index at first, at least.
const PASSAGES_MIN: usize = 32;
/// How much more is asked of the index when that was not enough.
const GROWTH: usize = 4;
/// A filter that leaves at most so many documents is answered by comparing with all of them, which is exact and, for so few,
/// faster than looking for them in the index.
const EXACT_DOCUMENTS_MAX: usize = 4_000;
/// Rows read at a time: bounds the memory for texts that turn out to be of a document that is already among the hits.
const ROWS_PER_READ: std::ops::RangeInclusive<usize> = 8..=64;

impl Service {
    /// Searches a collection. Every hit is read from the store after the index named it: what is deleted or replaced by then
    /// is no hit.
    pub async fn search(&self, name: &CollectionName, request: SearchRequest) -> Result<SearchAnswer, Error> {
        let collection = self.collection(name)?;
        self.check_running()?;
        collection.check_model(self.model())?;
        collection.index()?;
        let SearchRequest { query, limit, languages, filter } = request;
        let embedded = self.state.embedder.embed(vec![query], Priority::Query).await?.pop();
        let embedded = embedded.ok_or(Error::EncoderAnswers { asked: 1, got: 0 })?;
        let filter = SearchFilter { languages, equals: filter };
        let query = embedded.embedding;
        let hits = self.on_collection(&collection, move |collection| find(collection, &query, limit, &filter)).await?;
        Ok(SearchAnswer { hits, query_truncated: embedded.truncated })
    }
}

fn find(collection: &OpenCollection, query: &Embedding, limit: usize, filter: &SearchFilter) -> Result<Vec<Hit>, Error> {
    let index = collection.index()?;
    let filter = (*filter != SearchFilter::default()).then_some(filter);
    if let Some(filter) = filter
        && collection.store.count_matching(filter, EXACT_DOCUMENTS_MAX + 1)? <= EXACT_DOCUMENTS_MAX
    {
        let matching = collection.store.matching_embeddings(filter)?;
        let items = matching.iter().map(|(passage, embedding)| (*passage, embedding));
        return collect(collection, &search_exact(items, query, matching.len()), None, limit);
    }
    let mut wanted = limit.saturating_mul(PASSAGES_PER_HIT).max(PASSAGES_MIN);
    loop {
        let neighbors = index.search(query, wanted)?;
        let exhausted = neighbors.len() < wanted;
        let hits = collect(collection, &neighbors, filter, limit)?;
        if hits.len() >= limit || exhausted {
            return Ok(hits);
        }
        wanted = wanted.saturating_mul(GROWTH).min(index.len() + 1);
    }
}

/// Makes hits of the nearest passages: the first passage of each document, up to `limit` documents.
fn collect(
    collection: &OpenCollection,
    mut neighbors: &[Neighbor],
    filter: Option<&SearchFilter>,
    limit: usize,
) -> Result<Vec<Hit>, Error> {
    let mut hits = Vec::new();
    let mut seen: HashSet<DocumentId> = HashSet::new();
    while hits.len() < limit && !neighbors.is_empty() {
        let size = (limit - hits.len()).clamp(*ROWS_PER_READ.start(), *ROWS_PER_READ.end());
        let (part, rest) = neighbors.split_at(size.min(neighbors.len()));
        neighbors = rest;
        let mut passages: Vec<_> = part.iter().map(|neighbor| neighbor.passage).collect();
        if let Some(filter) = filter {
            passages = collection.store.keep_matching(filter, &passages)?;
        }
        // Rows come in the order of the keys, without those that are gone.
        let mut scores = part.iter();
        for row in collection.store.passages(&passages)? {
            let Some(neighbor) = scores.find(|neighbor| neighbor.passage == row.passage.id) else { continue };
            if hits.len() < limit && seen.insert(row.document.id.clone()) {
                hits.push(hit(row, neighbor.score)?);
            }
        }
    }
    Ok(hits)
}

fn hit(row: PassageRow, score: f32) -> Result<Hit, Error> {
    let PassageRow { passage, document } = row;
    let (before, text) = match (document.text.get(..passage.start), document.text.get(passage.start..passage.end)) {
        (Some(before), Some(text)) => (before, text),
        _ => return Err(Error::PassageRange { id: document.id }),
    };
    let start = before.chars().count();
    let passage = HitPassage { text: text.to_owned(), start, end: start + text.chars().count() };
    let (id, language, text, metadata) = (document.id, document.language, document.text, document.metadata);
    Ok(Hit { id, score, language, text, metadata, passage })
}
