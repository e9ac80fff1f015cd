//! Which passages a filter leaves, remembered: a set per filter, true of one state of the database and brought up to date from
//! what changed since.
//!
//! A set decides only where a search looks. Whether a hit matches is decided by the row that is read in the end, so a set that
//! a write has just overtaken can cost a hit its place, but never make a wrong one. Which words a passage has never changes: with its
//! text it gets another key. So passages that have what a query demands need no second look.

use std::sync::Arc;

use roaring::RoaringTreemap;

use super::super::Error;
use super::super::runtime::OpenCollection;
use super::passage_sets::{Entry, PassageSet};
use crate::domain::QueryTerms;
use crate::store::{Demanded, SearchFilter, StoreError};

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
