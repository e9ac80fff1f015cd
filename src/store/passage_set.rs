//! A set of passages.

use std::sync::Arc;

use roaring::RoaringTreemap;

use crate::domain::PassageId;

#[derive(Debug, Clone, Default)]
pub struct PassageSet(pub(crate) RoaringTreemap);

impl PassageSet {
    pub fn contains(&self, passage: PassageId) -> bool {
        self.0.contains(passage.0)
    }

    pub fn len(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn without(&self, passages: &[PassageId]) -> Self {
        Self(&self.0 - &passages.iter().map(|passage| passage.0).collect::<RoaringTreemap>())
    }

    /// Returns its passages in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = PassageId> + '_ {
        self.0.iter().map(PassageId)
    }
}

impl FromIterator<PassageId> for PassageSet {
    fn from_iter<I: IntoIterator<Item = PassageId>>(passages: I) -> Self {
        Self(passages.into_iter().map(|passage| passage.0).collect())
    }
}

/// The passages that have the words that a query requires.
#[derive(Debug, Clone)]
pub enum RequiredPassages {
    Only(Arc<PassageSet>),
    AllBut(Arc<PassageSet>),
}

impl RequiredPassages {
    /// Makes it of the passages that have everything required, or if nothing is required, of those that have something
    /// excluded. Returns `None` if all passages have what is required.
    pub(crate) fn new(found: PassageSet, requires: bool) -> Option<Self> {
        match requires {
            true => Some(Self::Only(Arc::new(found))),
            false => (!found.is_empty()).then(|| Self::AllBut(Arc::new(found))),
        }
    }
}
