//! Which passages a filter leaves, remembered: a set per filter, true of one state of the database and brought up to date from
//! what changed since.
//!
//! A set decides only where a search looks. Whether a hit matches is decided by the row that is read in the end, so a set that
//! a write has just overtaken can cost a hit its place, but never make a wrong one. Which words a passage has never changes: with its
//! text it gets another key. So passages that have what a query demands need no second look.

use std::sync::{Arc, Mutex};

use roaring::RoaringTreemap;

use super::super::Error;
use super::super::locks::lock;
use super::super::runtime::OpenCollection;
use crate::domain::{PassageId, QueryTerms, Sequence};
use crate::store::{Demanded, SearchFilter, StoreError};

/// Bytes that the sets of one collection may take together. A set of a tenth of a million passages, in no order, takes 200 kB.
const BYTES_MAX: usize = 32 << 20;

/// Sets of one collection at most: they are looked for one by one.
const ENTRIES_MAX: usize = 256;

/// The passages of the documents that match a filter.
#[derive(Debug, Clone, Default)]
pub(crate) struct PassageSet(RoaringTreemap);

/// Where a search looks: in the documents that match a filter, there in the passages that have what its words demand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) filter: &'a SearchFilter,
    /// `None` where words demand nothing.
    pub(super) words: Option<&'a WordPassages>,
}

/// The passages that have what the words of a query demand.
#[derive(Debug, Clone)]
pub(super) enum WordPassages {
    /// These.
    Only(PassageSet),
    /// All but these.
    AllBut(PassageSet),
}

/// The sets of one collection, the least recently used go first.
#[derive(Debug, Default)]
pub(crate) struct PassageSets {
    /// Most recently used last.
    entries: Mutex<Vec<Entry>>,
}

#[derive(Debug, Clone)]
struct Entry {
    filter: SearchFilter,
    sequence: Sequence,
    bytes: usize,
    set: Arc<PassageSet>,
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

impl Scope<'_> {
    /// Whether it looks everywhere.
    pub(super) fn is_all(&self) -> bool {
        self.words.is_none() && *self.filter == SearchFilter::default()
    }

    /// The passages there are in it now.
    pub(super) fn passages(&self, collection: &OpenCollection) -> Result<Arc<PassageSet>, Error> {
        let set = match self.words {
            Some(WordPassages::Only(words)) if *self.filter == SearchFilter::default() => return Ok(Arc::new(words.clone())),
            _ => passages(collection, self.filter)?,
        };
        Ok(match self.words {
            None => set,
            Some(WordPassages::Only(words)) => Arc::new(PassageSet(&set.0 & &words.0)),
            Some(WordPassages::AllBut(words)) => Arc::new(PassageSet(&set.0 - &words.0)),
        })
    }
}

impl WordPassages {
    /// Looks which passages have what is demanded; `None` when all have.
    pub(super) fn of(collection: &OpenCollection, terms: &QueryTerms) -> Result<Option<Self>, StoreError> {
        Ok(match collection.store.demanded(terms)? {
            Some(Demanded::Only(passages)) => Some(Self::Only(passages.into_iter().collect())),
            Some(Demanded::AllBut(passages)) if !passages.is_empty() => Some(Self::AllBut(passages.into_iter().collect())),
            Some(Demanded::AllBut(_)) | None => None,
        })
    }
}

impl FromIterator<PassageId> for PassageSet {
    fn from_iter<I: IntoIterator<Item = PassageId>>(passages: I) -> Self {
        Self(passages.into_iter().map(|passage| passage.0).collect())
    }
}

impl PassageSets {
    fn take(&self, filter: &SearchFilter) -> Option<Entry> {
        let entries = lock(&self.entries);
        entries.iter().find(|entry| entry.filter == *filter).cloned()
    }

    /// Puts an entry last, unless a newer one of the same filter came meanwhile, and drops the first ones beyond the bound.
    fn put(&self, entry: Entry) {
        let mut entries = lock(&self.entries);
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

/// The passages of the documents that match now.
pub(super) fn passages(collection: &OpenCollection, filter: &SearchFilter) -> Result<Arc<PassageSet>, Error> {
    let known = collection.passage_sets.take(filter);
    let read = collection.store.matching_passages(filter, known.as_ref().map(|entry| entry.sequence))?;
    let sequence = read.sequence;
    let set = match known {
        Some(entry) if !read.complete && read.dropped.is_empty() && read.passages.is_empty() => entry.set,
        Some(entry) if !read.complete => {
            let mut set = RoaringTreemap::clone(&entry.set.0);
            for passage in &read.dropped {
                set.remove(passage.0);
            }
            set.extend(read.passages.iter().map(|passage| passage.0));
            Arc::new(PassageSet(set))
        }
        _ => Arc::new(PassageSet(read.passages.iter().map(|passage| passage.0).collect())),
    };
    let bytes = set.0.serialized_size() + size_of::<Entry>() + filter_bytes(filter);
    collection.passage_sets.put(Entry { filter: filter.clone(), sequence, bytes, set: Arc::clone(&set) });
    Ok(set)
}

/// About how much a filter takes. Its text is as long as what it holds.
fn filter_bytes(filter: &SearchFilter) -> usize {
    format!("{filter:?}").len()
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
        assert_eq!(lock(&sets.entries).len(), 1);
    }

    #[test]
    fn an_older_set_does_not_replace_a_newer_one() {
        let sets = PassageSets::default();
        sets.put(entry("a", 7, 10));
        sets.put(entry("a", 6, 10));
        assert_eq!(sets.take(&entry("a", 0, 0).filter).unwrap().sequence, Sequence(7));
    }
}
