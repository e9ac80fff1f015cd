//! Passages of labeled documents, as a filter leaves them: what the nearest of them are, several of one document included, for
//! votes and explanations.

use std::sync::Arc;

use super::super::Error;
use crate::domain::{DocumentId, Embedding, PassageId};
use crate::service::open_collection::OpenCollection;
use crate::storage::{NearestSearch, Neighbor, PassageSet, Scope, WordPassages, search_exact};
use crate::store::{PassageRow, SearchFilter};

/// Up to so many matching passages are all compared with; among more, the graph is walked.
const COMPARED_MAX: usize = 4_000;
/// The same where their embeddings are in one place in memory: 20,000 of 384 values take 31 MB, and comparing with them as long
/// as a walk.
const READ_MAX: usize = 20_000;
/// Passages whose embeddings can be read in the time that one text saves by not asking the index.
const READ_PER_TEXT: usize = 500;
/// Embeddings read from the store together.
const EMBEDDINGS_PER_READ: usize = 1_024;
/// Passages asked for beyond those wanted: some may be of the text's own document, or be gone.
const SPARE: usize = 8;
/// How much more is asked for when that was not enough.
const GROWTH: usize = 4;

/// The passages of labeled documents as they were at one moment. Brought up to date at that moment, so a label that was stored
/// before counts.
pub(in crate::service) struct LabeledPassages {
    collection: Arc<OpenCollection>,
    set: Arc<PassageSet>,
    /// All of them with their embeddings, where that pays.
    read: Option<Vec<(PassageId, Embedding)>>,
}

impl LabeledPassages {
    /// Finds those that match; `texts` says how many will be compared with them.
    pub(in crate::service) fn of(collection: &Arc<OpenCollection>, filter: &SearchFilter, texts: usize) -> Result<Self, Error> {
        let set = collection.store.passages_in(Scope { filter, words: None })?;
        let pays = set.len() <= READ_MAX.min(texts.saturating_mul(READ_PER_TEXT));
        let read = if pays { Some(read(collection, &set)?) } else { None };
        Ok(Self { collection: Arc::clone(collection), set, read })
    }

    /// The collection.
    pub(in crate::service) fn collection(&self) -> &Arc<OpenCollection> {
        &self.collection
    }

    /// How many to ask for at first, for so many that may vote.
    pub(in crate::service) fn first_wanted(limit: usize) -> usize {
        limit.saturating_add(SPARE)
    }

    /// How many to ask for when `wanted` were too few; `None` when that were all.
    pub(in crate::service) fn next_wanted(&self, wanted: usize) -> Option<usize> {
        (wanted < self.set.len()).then(|| wanted.saturating_mul(GROWTH))
    }

    /// The nearest `wanted`, nearest first.
    pub(in crate::service) fn nearest(&self, query: &Embedding, wanted: usize) -> Result<Vec<Neighbor>, Error> {
        let collection = &self.collection;
        if let Some(read) = &self.read {
            let items = read.iter().map(|(passage, embedding)| (*passage, embedding));
            return Ok(search_exact(collection.row.metric, items, query, wanted));
        }
        let (everywhere, words) = (SearchFilter::default(), WordPassages::Only(Arc::clone(&self.set)));
        let scope = Scope { filter: &everywhere, words: Some(&words) };
        let search = NearestSearch {
            exact: self.set.len() <= COMPARED_MAX.max(wanted),
            ..NearestSearch::passages(query, wanted, scope, collection.current().hnsw.ef_search)
        };
        Ok(collection.store.nearest(&search)?.neighbors)
    }

    /// Up to `limit` passages with their texts and scores, nearest first, none of them of the document `except`.
    pub(in crate::service) fn rows(
        &self,
        query: &Embedding,
        limit: usize,
        except: Option<&DocumentId>,
    ) -> Result<Vec<(PassageRow, f32)>, Error> {
        let mut wanted = Self::first_wanted(limit);
        loop {
            let neighbors = self.nearest(query, wanted)?;
            let ids: Vec<_> = neighbors.iter().map(|neighbor| neighbor.passage).collect();
            let mut scores = neighbors.iter();
            let mut found = Vec::with_capacity(limit);
            for row in self.collection.store.passages(&ids)? {
                let Some(neighbor) = scores.find(|neighbor| neighbor.passage == row.passage.id) else { continue };
                if Some(&row.document.id) != except {
                    found.push((row, neighbor.score));
                }
            }
            match self.next_wanted(wanted).filter(|_| found.len() < limit) {
                Some(more) => wanted = more,
                None => {
                    found.truncate(limit);
                    return Ok(found);
                }
            }
        }
    }
}

/// Reads the embeddings of a set. Passages that wait for theirs are left out, as by the index.
fn read(collection: &OpenCollection, set: &PassageSet) -> Result<Vec<(PassageId, Embedding)>, Error> {
    let passages: Vec<PassageId> = set.iter().collect();
    let mut found = Vec::with_capacity(passages.len());
    for part in passages.chunks(EMBEDDINGS_PER_READ) {
        found.extend(collection.store.embeddings_of(part)?);
    }
    Ok(found)
}
