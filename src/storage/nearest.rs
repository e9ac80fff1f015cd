//! A search for the nearest passages or documents, its scope, and what it finds.

use crate::domain::{DenseMethod, Embedding, Metric, PassageId, SearchParameters};
use crate::index::{Neighbor, nearer_first, search_exact};
use crate::store::{PassageDocument, PassageSet, RequiredPassages, SearchFilter, StoreError};

/// Number of embeddings read from the store at a time. Bounds the memory of comparing with many.
pub const EMBEDDINGS_PER_READ: usize = 1_024;

/// What to find the nearest of, where, and how many.
#[derive(Debug, Clone, Copy)]
pub struct NearestSearch<'a> {
    pub query: &'a Embedding,
    pub scope: Scope<'a>,
    pub limit: usize,
    pub unit: Unit,
    /// Whether to compare with all passages in the scope instead of using an approximate index.
    pub exact: bool,
    /// Whether order and scores may be rough, because the caller compares what is found.
    pub rough: bool,
    /// How much work to spend in an approximate index.
    pub parameters: SearchParameters,
    /// The search width if the parameters do not set one.
    pub ef_search: usize,
}

impl<'a> NearestSearch<'a> {
    /// Searches for the nearest passages that an approximate index finds.
    pub fn passages(query: &'a Embedding, limit: usize, scope: Scope<'a>, ef_search: usize) -> Self {
        let (unit, parameters) = (Unit::Passage, SearchParameters::default());
        Self { query, scope, limit, unit, exact: false, rough: false, parameters, ef_search }
    }
}

/// The scope of a search: the documents that match a filter, and among their passages those that have the required words.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub filter: &'a SearchFilter,
    /// The passages that have the required words. `None` if no words are required.
    pub words: Option<&'a RequiredPassages>,
}

impl Scope<'_> {
    pub fn is_all(&self) -> bool {
        self.words.is_none() && *self.filter == SearchFilter::default()
    }
}

/// What a search finds and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Passages, no matter how many of them belong to one document.
    Passage,
    /// Documents, each by its nearest passage.
    Document,
}

/// The nearest passages or documents, nearest first. They are compared by their stored values, unless the parameters allow
/// less. If there are fewer than requested, there are no more.
#[derive(Debug)]
pub struct Nearest {
    pub neighbors: Vec<Neighbor>,
    /// Their documents in the same order, if the search was for documents.
    pub documents: Vec<PassageDocument>,
    pub method: DenseMethod,
}

/// Compares a query with passages one by one, nearest first. `read` returns their stored embeddings.
pub(super) fn compare_in_parts(
    passages: &PassageSet,
    (metric, query): (Metric, &Embedding),
    read: impl Fn(&[PassageId]) -> Result<Vec<(PassageId, Embedding)>, StoreError>,
) -> Result<Vec<Neighbor>, StoreError> {
    let passages: Vec<PassageId> = passages.iter().collect();
    let mut neighbors = Vec::with_capacity(passages.len());
    for part in passages.chunks(EMBEDDINGS_PER_READ) {
        let stored = read(part)?;
        let items = stored.iter().map(|(passage, embedding)| (*passage, embedding));
        neighbors.extend(search_exact(metric, items, query, part.len()));
    }
    neighbors.sort_unstable_by(nearer_first);
    Ok(neighbors)
}
