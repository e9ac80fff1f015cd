//! A set of passages.

use roaring::RoaringTreemap;

use crate::domain::PassageId;

#[derive(Debug, Clone, Default)]
pub struct PassageSet(pub(super) RoaringTreemap);

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
        let mut rest = self.0.clone();
        for passage in passages {
            rest.remove(passage.0);
        }
        Self(rest)
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
