//! Caches which passages match a filter. There is one set per filter. A set is valid for one state of the database and is
//! updated from the changes since then. The size of the cache is bounded; the least recently used sets are dropped first.
//!
//! A set only decides where a search looks. Whether a hit matches is decided by the row that is read at the end. So a set that
//! a write has just made out of date can lose a hit, but never produce a wrong one. The words of a passage never change,
//! because a passage with another text gets another key. So passages that have the words a query requires need not be checked
//! again.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::domain::Sequence;
use crate::store::{DocumentStore, PassageSet, SearchFilter, StoreError};

/// Maximum bytes of the sets of one collection together. A set of a tenth of a million passages, chosen at random, takes 200
/// kB.
const BYTES_MAX: usize = 32 << 20;

/// Maximum number of sets of one collection, because a lookup scans them one by one.
const ENTRIES_MAX: usize = 256;

/// The sets of one collection. The least recently used are dropped first.
#[derive(Debug, Default)]
pub(super) struct FilterSets {
    /// Most recently used last.
    entries: Mutex<Vec<Entry>>,
}

/// The set of one filter, valid for one state of the database.
#[derive(Debug, Clone)]
struct Entry {
    filter: SearchFilter,
    sequence: Sequence,
    bytes: usize,
    set: Arc<PassageSet>,
}

impl FilterSets {
    /// Returns the passages of the documents that match now.
    pub(super) fn passages(&self, store: &DocumentStore, filter: &SearchFilter) -> Result<Arc<PassageSet>, StoreError> {
        let known = self.take(filter);
        let read = store.matching_passages(filter, known.as_ref().map(|entry| entry.sequence))?;
        let sequence = read.sequence;
        let set = match known {
            Some(entry) if !read.complete && read.dropped.is_empty() && read.passages.is_empty() => entry.set,
            Some(entry) if !read.complete => {
                let PassageSet(mut set) = entry.set.without(&read.dropped);
                set.extend(read.passages.iter().map(|passage| passage.0));
                Arc::new(PassageSet(set))
            }
            _ => Arc::new(read.passages.into_iter().collect()),
        };
        // Estimates the memory of a filter by the length of its debug text.
        let bytes = set.0.serialized_size() + size_of::<Entry>() + format!("{filter:?}").len();
        self.put(Entry { filter: filter.clone(), sequence, bytes, set: Arc::clone(&set) });
        Ok(set)
    }

    fn take(&self, filter: &SearchFilter) -> Option<Entry> {
        let entries = self.entries.lock();
        entries.iter().find(|entry| entry.filter == *filter).cloned()
    }

    /// Puts an entry last, unless there is a newer one of the same filter in the meantime. Drops the first entries if the
    /// cache is too large.
    fn put(&self, entry: Entry) {
        let mut entries = self.entries.lock();
        let index = entries.iter().position(|other| other.filter == entry.filter);
        let known = index.map(|index| entries.remove(index));
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
    fn the_least_recently_used_set_is_dropped_first() {
        let sets = FilterSets::default();
        let third = BYTES_MAX / 3;
        for id in ["a", "b", "c", "a"] {
            sets.put(entry(id, 1, third));
        }
        sets.put(entry("d", 1, third));
        let known = |id: &str| sets.take(&entry(id, 0, 0).filter).is_some();
        assert_eq!([known("a"), known("b"), known("c"), known("d")], [true, false, true, true]);
    }

    #[test]
    fn a_set_larger_than_the_limit_is_cached_alone() {
        let sets = FilterSets::default();
        sets.put(entry("a", 1, 10));
        sets.put(entry("b", 1, BYTES_MAX + 1));
        assert_eq!(sets.entries.lock().len(), 1);
    }

    #[test]
    fn an_older_set_does_not_replace_a_newer_one() {
        let sets = FilterSets::default();
        sets.put(entry("a", 7, 10));
        sets.put(entry("a", 6, 10));
        assert_eq!(sets.take(&entry("a", 0, 0).filter).unwrap().sequence, Sequence(7));
    }
}
