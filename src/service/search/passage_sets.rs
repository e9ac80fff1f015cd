//! Sets of passages that filters leave, as far as a collection remembers them: bounded, the least recently used go first.

use std::sync::Arc;

use parking_lot::Mutex;
use roaring::RoaringTreemap;

use crate::domain::{PassageId, Sequence};
use crate::store::SearchFilter;

/// Bytes that the sets of one collection may take together. A set of a tenth of a million passages, in no order, takes 200 kB.
const BYTES_MAX: usize = 32 << 20;

/// Sets of one collection at most: they are looked for one by one.
const ENTRIES_MAX: usize = 256;

/// The passages of the documents that match a filter.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassageSet(pub(super) RoaringTreemap);

/// The sets of one collection, the least recently used go first.
#[derive(Debug, Default)]
pub(crate) struct PassageSets {
    /// Most recently used last.
    entries: Mutex<Vec<Entry>>,
}

/// The set of one filter, true of one state of the database.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) filter: SearchFilter,
    pub(super) sequence: Sequence,
    pub(super) bytes: usize,
    pub(super) set: Arc<PassageSet>,
}

impl PassageSet {
    /// Whether it holds a passage.
    pub(crate) fn contains(&self, passage: PassageId) -> bool {
        self.0.contains(passage.0)
    }

    /// How many passages it holds.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }

    /// Without some of its passages.
    pub(crate) fn without(&self, passages: &[PassageId]) -> Self {
        let mut rest = self.0.clone();
        for passage in passages {
            rest.remove(passage.0);
        }
        Self(rest)
    }

    /// Its passages, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = PassageId> + '_ {
        self.0.iter().map(PassageId)
    }
}

impl FromIterator<PassageId> for PassageSet {
    fn from_iter<I: IntoIterator<Item = PassageId>>(passages: I) -> Self {
        Self(passages.into_iter().map(|passage| passage.0).collect())
    }
}

impl PassageSets {
    /// The entry of a filter.
    pub(super) fn take(&self, filter: &SearchFilter) -> Option<Entry> {
        let entries = self.entries.lock();
        entries.iter().find(|entry| entry.filter == *filter).cloned()
    }

    /// Puts an entry last, unless a newer one of the same filter came meanwhile, and drops the first ones beyond the bound.
    pub(super) fn put(&self, entry: Entry) {
        let mut entries = self.entries.lock();
        let place = entries.iter().position(|other| other.filter == entry.filter);
        let known = place.map(|place| entries.remove(place));
        let newest = match known {
            Some(known) if known.sequence > entry.sequence => known,
            _ => entry,
        };
        entries.push(newest);
        let mut bytes: usize = entries.iter().map(|entry| entry.bytes).sum();
        while entries.len() > ENTRIES_MAX || (bytes > BYTES_MAX && entries.len() > 1) {
            bytes -= entries.remove(0).bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Field, Filter, Scalar, Test};

    fn entry(id: &str, sequence: u64, bytes: usize) -> Entry {
        let filter = Filter::Field(Field::Id, Test::Eq(Scalar::Text(id.to_owned())));
        let filter = SearchFilter { languages: Vec::new(), filter };
        Entry { filter, sequence: Sequence(sequence), bytes, set: Arc::default() }
    }

    #[test]
    fn the_least_recently_used_goes_first() {
        let sets = PassageSets::default();
        let third = BYTES_MAX / 3;
        for id in ["a", "b", "c", "a"] {
            sets.put(entry(id, 1, third));
        }
        sets.put(entry("d", 1, third));
        let known = |id: &str| sets.take(&entry(id, 0, 0).filter).is_some();
        assert_eq!([known("a"), known("b"), known("c"), known("d")], [true, false, true, true]);
    }

    #[test]
    fn a_set_larger_than_the_bound_is_kept_alone() {
        let sets = PassageSets::default();
        sets.put(entry("a", 1, 10));
        sets.put(entry("b", 1, BYTES_MAX + 1));
        assert_eq!(sets.entries.lock().len(), 1);
    }

    #[test]
    fn an_older_set_does_not_replace_a_newer_one() {
        let sets = PassageSets::default();
        sets.put(entry("a", 7, 10));
        sets.put(entry("a", 6, 10));
        assert_eq!(sets.take(&entry("a", 0, 0).filter).unwrap().sequence, Sequence(7));
    }
}
