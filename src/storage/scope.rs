//! The scope of a search.

use std::sync::Arc;

use super::passage_set::PassageSet;
use crate::store::{Demanded, SearchFilter};

/// The scope of a search: the documents that match a filter, and among their passages those that have the required words.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The filter that documents must match.
    pub filter: &'a SearchFilter,
    /// The passages that have the required words. `None` if no words are required.
    pub words: Option<&'a WordPassages>,
}

/// The passages that have the words that a query requires.
#[derive(Debug, Clone)]
pub enum WordPassages {
    /// Only these passages.
    Only(Arc<PassageSet>),
    /// All passages except these.
    AllBut(Arc<PassageSet>),
}

impl Scope<'_> {
    /// Whether the scope includes everything.
    pub fn is_all(&self) -> bool {
        self.words.is_none() && *self.filter == SearchFilter::default()
    }
}

impl WordPassages {
    /// Returns `None` if all passages have what is required.
    pub(super) fn of(demanded: Option<Demanded>) -> Option<Self> {
        match demanded? {
            Demanded::Only(passages) => Some(Self::Only(Arc::new(passages.into_iter().collect()))),
            Demanded::AllBut(passages) if passages.is_empty() => None,
            Demanded::AllBut(passages) => Some(Self::AllBut(Arc::new(passages.into_iter().collect()))),
        }
    }
}
