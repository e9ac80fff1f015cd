//! Where a search looks.

use std::sync::Arc;

use super::passage_set::PassageSet;
use crate::store::{Demanded, SearchFilter};

/// Where a search looks: in the documents that match a filter, there in the passages that have what its words demand.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// What documents match.
    pub filter: &'a SearchFilter,
    /// `None` where words demand nothing.
    pub words: Option<&'a WordPassages>,
}

/// The passages that have what the words of a query demand.
#[derive(Debug, Clone)]
pub enum WordPassages {
    /// These.
    Only(Arc<PassageSet>),
    /// All but these.
    AllBut(Arc<PassageSet>),
}

impl Scope<'_> {
    /// Whether it looks everywhere.
    pub fn is_all(&self) -> bool {
        self.words.is_none() && *self.filter == SearchFilter::default()
    }
}

impl WordPassages {
    /// `None` when all passages have what is demanded.
    pub(super) fn of(demanded: Option<Demanded>) -> Option<Self> {
        match demanded? {
            Demanded::Only(passages) => Some(Self::Only(Arc::new(passages.into_iter().collect()))),
            Demanded::AllBut(passages) if passages.is_empty() => None,
            Demanded::AllBut(passages) => Some(Self::AllBut(Arc::new(passages.into_iter().collect()))),
        }
    }
}
