//! The scope of a search.

use std::sync::Arc;

use super::passage_set::PassageSet;
use crate::store::{RequiredMatches, SearchFilter};

/// The scope of a search: the documents that match a filter, and among their passages those that have the required words.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    pub filter: &'a SearchFilter,
    /// The passages that have the required words. `None` if no words are required.
    pub words: Option<&'a RequiredPassages>,
}

/// The passages that have the words that a query requires.
#[derive(Debug, Clone)]
pub enum RequiredPassages {
    Only(Arc<PassageSet>),
    AllBut(Arc<PassageSet>),
}

impl Scope<'_> {
    pub fn is_all(&self) -> bool {
        self.words.is_none() && *self.filter == SearchFilter::default()
    }
}

impl RequiredPassages {
    /// Returns `None` if all passages have what is required.
    pub(super) fn from_matches(required_matches: Option<RequiredMatches>) -> Option<Self> {
        match required_matches? {
            RequiredMatches::Only(passages) => Some(Self::Only(Arc::new(passages.into_iter().collect()))),
            RequiredMatches::AllBut(passages) if passages.is_empty() => None,
            RequiredMatches::AllBut(passages) => Some(Self::AllBut(Arc::new(passages.into_iter().collect()))),
        }
    }
}
