//! A search for the nearest passages or documents, and what it finds.

use super::scope::Scope;
use crate::domain::{DenseMethod, Embedding, SearchParameters};
use crate::index::Neighbor;
use crate::store::PassageDocument;

/// What to find the nearest of, where, and how many.
#[derive(Debug, Clone, Copy)]
pub struct NearestSearch<'a> {
    /// The embedding to search near.
    pub query: &'a Embedding,
    /// Where to look.
    pub scope: Scope<'a>,
    /// How many to find.
    pub limit: usize,
    /// What to find.
    pub unit: Unit,
    /// Whether to compare with all passages in the scope instead of using an approximate index.
    pub exact: bool,
    /// How much work to spend in an approximate index.
    pub parameters: SearchParameters,
    /// The search width in case the parameters do not set one.
    pub ef_search: usize,
}

impl<'a> NearestSearch<'a> {
    /// Searches for the nearest passages that an approximate index finds.
    pub fn passages(query: &'a Embedding, limit: usize, scope: Scope<'a>, ef_search: usize) -> Self {
        Self { query, scope, limit, unit: Unit::Passage, exact: false, parameters: SearchParameters::default(), ef_search }
    }
}

/// What a search finds and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Passages, however many of them are of one document.
    Passage,
    /// Documents, each by its nearest passage.
    Document,
}

/// The nearest passages or documents, nearest first. They are compared by their stored values, unless the parameters allow
/// less. If there are fewer than requested, there are no more.
#[derive(Debug)]
pub struct Nearest {
    /// The passages, with their scores.
    pub neighbors: Vec<Neighbor>,
    /// Their documents in the same order, if the search was for documents.
    pub documents: Vec<PassageDocument>,
    /// How they were found.
    pub method: DenseMethod,
}
