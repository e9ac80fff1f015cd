//! Finds the nearest passages among labeled documents that match a filter, for votes and explanations. Several passages may be
//! of one document.

use std::sync::Arc;

use crate::domain::{Embedding, PassageId};
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;
use crate::storage::{EMBEDDINGS_PER_READ, NearestSearch, Neighbor, PassageSet, RequiredPassages, Scope, search_exact};
use crate::store::SearchFilter;

/// Up to this many matching passages are all compared. If there are more, the graph is searched.
const COMPARED_MAX: usize = 4_000;
/// The same limit if the embeddings were read into memory: 20,000 embeddings of 384 values take 31 MB, and comparing them takes
/// as long as searching the graph.
const READ_MAX: usize = 20_000;
/// Number of passages whose embeddings can be read in the time that one text saves by not searching the index.
const READ_PER_TEXT: usize = 500;
/// Number of passages searched in addition to those wanted, because some may belong to the text's own document or be gone.
const SPARE: usize = 8;
/// Factor by which a search is widened if it did not find enough.
const GROWTH: usize = 4;

/// The passages of labeled documents at one moment. Includes every label that was stored before.
pub(in crate::service) struct LabeledPassages {
    collection: Arc<OpenCollection>,
    set: Arc<PassageSet>,
    /// All of them with their embeddings, if reading them pays off.
    read: Option<Vec<(PassageId, Embedding)>>,
}

impl LabeledPassages {
    /// Finds the passages that match. `texts` is the number of texts that will be compared with them.
    pub(in crate::service) fn find(collection: &Arc<OpenCollection>, filter: &SearchFilter, texts: usize) -> Result<Self, Error> {
        let set = collection.with_store(|store| store.passages_in(Scope { filter, words: None }))?;
        let pays = set.len() <= READ_MAX.min(texts.saturating_mul(READ_PER_TEXT));
        let read = if pays { Some(read(collection, &set)?) } else { None };
        Ok(Self { collection: Arc::clone(collection), set, read })
    }

    pub(in crate::service) fn collection(&self) -> &Arc<OpenCollection> {
        &self.collection
    }

    /// Returns how many passages to search for at first if `limit` of them may vote.
    pub(in crate::service) fn initial_limit(limit: usize) -> usize {
        limit.saturating_add(SPARE)
    }

    /// Returns how many passages to search for if `wanted` were too few, or `None` if those were all.
    pub(in crate::service) fn next_limit(&self, wanted: usize) -> Option<usize> {
        (wanted < self.set.len()).then(|| wanted.saturating_mul(GROWTH))
    }

    /// Finds the nearest `wanted` passages, nearest first.
    pub(in crate::service) fn nearest(&self, query: &Embedding, wanted: usize) -> Result<Vec<Neighbor>, Error> {
        let collection = &self.collection;
        if let Some(read) = &self.read {
            let items = read.iter().map(|(passage, embedding)| (*passage, embedding));
            return Ok(search_exact(collection.row.metric, items, query, wanted));
        }
        let (everywhere, words) = (SearchFilter::default(), RequiredPassages::Only(Arc::clone(&self.set)));
        let scope = Scope { filter: &everywhere, words: Some(&words) };
        let search = NearestSearch {
            exact: self.set.len() <= COMPARED_MAX.max(wanted),
            ..NearestSearch::passages(query, wanted, scope, collection.current().hnsw.ef_search)
        };
        let found = collection.store.nearest(&search).map_err(|error| collection.failure(error.into()))?;
        Ok(found.neighbors)
    }
}

/// Reads the embeddings of a set of passages. Like the index, leaves out passages that wait for their embedding.
fn read(collection: &OpenCollection, set: &PassageSet) -> Result<Vec<(PassageId, Embedding)>, Error> {
    let passages: Vec<PassageId> = set.iter().collect();
    let mut found = Vec::with_capacity(passages.len());
    for part in passages.chunks(EMBEDDINGS_PER_READ) {
        found.extend(collection.with_store(|store| store.embeddings_of(part))?);
    }
    Ok(found)
}
