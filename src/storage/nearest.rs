//! A search for the nearest passages or documents, and what it finds.

use super::scope::Scope;
use crate::domain::{DenseMethod, Embedding, SearchParameters};
use crate::index::Neighbor;
use crate::store::PassageDocument;

/// What to find the nearest of, where, and how many.
#[derive(Debug, Clone, Copy)]
pub struct NearestSearch<'a> {
    /// What they are near to.
    pub query: &'a Embedding,
    /// Where to look.
    pub scope: Scope<'a>,
    /// How many are wanted.
    pub limit: usize,
    /// Of what.
    pub unit: Unit,
    /// Whether to compare with all passages in the scope, never by an approximate index.
    pub exact: bool,
    /// How much work an approximate index is worth.
    pub parameters: SearchParameters,
    /// Its candidates where the parameters do not say.
    pub ef_search: usize,
}

impl<'a> NearestSearch<'a> {
    /// For the nearest passages, as far as an approximate index finds them.
    pub fn passages(query: &'a Embedding, limit: usize, scope: Scope<'a>, ef_search: usize) -> Self {
        Self { query, scope, limit, unit: Unit::Passage, exact: false, parameters: SearchParameters::default(), ef_search }
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Passages, however many of them are of one document.
    Passage,
    /// Documents, each by its nearest passage.
    Document,
}

/// The nearest, by their stored values unless the parameters allow less, nearest first. Fewer than were wanted mean that there are
/// no more.
#[derive(Debug)]
pub struct Nearest {
    /// The passages, with their scores.
    pub neighbors: Vec<Neighbor>,
    /// Their documents in the same order, when documents were counted.
    pub documents: Vec<PassageDocument>,
    /// How they were found.
    pub method: DenseMethod,
}
