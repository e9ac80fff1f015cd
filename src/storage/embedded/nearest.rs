//! The nearest passages or documents of a query's embedding: through the index, walking among the passages that a filter leaves,
//! or by comparing with all of them when they are few.
//!
//! Passages of one document may be as near as all others together: a long text that repeats itself has thousands. So once a
//! document is found, its other passages are no longer asked for, and the search goes on until there are enough documents or
//! no more passages.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use super::Embedded;
use crate::domain::{DenseMethod, HnswSettings, PassageId};
use crate::index::{Compared, Neighbor};
use crate::storage::error::StorageError;
use crate::storage::first_passages::FirstPassages;
use crate::storage::nearest::{Nearest, NearestSearch};
use crate::storage::operations::Storage as _;
use crate::storage::passage_set::PassageSet;
use crate::store::DocumentKey;

/// Passages asked of the index per hit wanted: several passages of one document may be near, and some may be gone.
const PASSAGES_PER_HIT: usize = 4;
/// Passages asked of the index at first, at least.
const PASSAGES_MIN: usize = 32;
/// How much more is asked of the index when that was not enough.
const GROWTH: usize = 4;
/// Candidates of a walk among matching passages per hit wanted, and at least. The walk comes by as many more as the filter leaves
/// out, and keeps only those that match, so fewer are needed than without a filter.
const MATCHING_PER_HIT: usize = 2;
/// See `MATCHING_PER_HIT`.
const MATCHING_MIN: usize = 16;
/// Passages that a walk compares with for each of its candidates, about. Chosen, as are the next two; what searches
/// with filters cost by them `tests/bench/filters.rs` shows.
const COMPARED_PER_CANDIDATE: usize = 16;
/// How many passages a walk compares with in the time that one takes to be looked up by its key and compared with.
const COMPARED_PER_LOOKUP: usize = 4;
/// The same for one that has to be read from the store, where the index keeps too little of its values.
const COMPARED_PER_READ: usize = 40;

/// Passages that a walk asks a filter about for each of its candidates, at most: as many more as the filter leaves less. Where what
/// matches lies everywhere, it is a half of that or less.
const ASKED_PER_CANDIDATE: usize = 5;
/// A walk is not given up before it took that part of the time of comparing with all that match.
const LOST_AFTER_PART: usize = 32;

impl Embedded {
    /// The nearest documents, each by its nearest passage.
    pub(super) fn nearest_documents(&self, search: &NearestSearch<'_>) -> Result<Nearest, StorageError> {
        let mut found = FirstPassages::new(search.limit);
        let method = if search.exact {
            self.take_in_order(search, &self.all(search)?, &mut found)?;
            DenseMethod::Scan
        } else if self.find_scanning(search, &mut found)? {
            DenseMethod::Scan
        } else if search.scope.is_all() {
            self.find_anywhere(search, &mut found)?;
            DenseMethod::Index
        } else {
            self.find_matching(search, &mut found)?
        };
        let (neighbors, documents) = found.into_vec().into_iter().unzip();
        Ok(Nearest { neighbors, documents, method })
    }

    /// The nearest passages, however many of them are of one document.
    pub(super) fn nearest_passages(&self, search: &NearestSearch<'_>) -> Result<Nearest, StorageError> {
        let NearestSearch { query, limit, .. } = *search;
        let nearest = |neighbors, method| Ok(Nearest { neighbors, documents: Vec::new(), method });
        let compared = |compared: Compared| -> Result<Nearest, StorageError> {
            let mut neighbors = Vec::new();
            self.in_order(query, &compared, limit, |part| {
                neighbors.extend_from_slice(part);
                Ok(neighbors.len() >= limit)
            })?;
            neighbors.truncate(limit);
            nearest(neighbors, DenseMethod::Scan)
        };
        if search.exact {
            return compared(self.all(search)?);
        }
        let set = self.set(search)?;
        let wanted = self.rescored_of(search.parameters, limit).unwrap_or(limit);
        let rescored = |found| if wanted > limit { self.rescored(query, limit, found) } else { Ok(found) };
        if let Some(found) = self.scanned(search, wanted, set.as_deref(), &HashSet::new())? {
            return nearest(rescored(found)?, DenseMethod::Scan);
        }
        let Some(set) = set else {
            return nearest(rescored(self.indexed(query, wanted, asked_ef(search), None)?)?, DenseMethod::Index);
        };
        match self.walk(search, &set, wanted)? {
            Some(found) if found.len() >= limit => nearest(rescored(found)?, DenseMethod::Index),
            _ => compared(self.among(query, &set)?),
        }
    }

    /// The passages in the scope; `None` when all are.
    fn set(&self, search: &NearestSearch<'_>) -> Result<Option<Arc<PassageSet>>, StorageError> {
        Ok((!search.scope.is_all()).then(|| self.passages_in(search.scope)).transpose()?)
    }

    /// Takes nearest passages from `ask` until they are of enough documents, or there are no more. `ask` is told how many, and which ones
    /// not: those of documents that were found. Says whether it answered to the end.
    fn gather(
        &self,
        search: &NearestSearch<'_>,
        found: &mut FirstPassages,
        ask: impl Fn(usize, &HashSet<PassageId>) -> Result<Option<Vec<Neighbor>>, StorageError>,
    ) -> Result<bool, StorageError> {
        let passages = self.index()?.0.len();
        let rescored = self.rescored_of(search.parameters, found.limit()).unwrap_or_default();
        let mut wanted = found.limit().saturating_mul(PASSAGES_PER_HIT).max(PASSAGES_MIN).max(rescored);
        let mut excluded: HashSet<PassageId> = HashSet::new();
        while let Some(neighbors) = ask(wanted, &excluded)? {
            let exhausted = neighbors.len() < wanted;
            let looked_at = self.take(search, neighbors, found)?;
            if found.is_full() || exhausted {
                return Ok(true);
            }
            excluded.extend(self.store.passages_of(&looked_at)?);
            wanted = wanted.saturating_mul(GROWTH).min(passages + 1);
        }
        Ok(false)
    }

    /// Compares with all there are, where that is the better way; says whether it did.
    fn find_scanning(&self, search: &NearestSearch<'_>, found: &mut FirstPassages) -> Result<bool, StorageError> {
        let set = self.set(search)?;
        self.gather(search, found, |wanted, excluded| self.scanned(search, wanted, set.as_deref(), excluded))
    }

    fn find_anywhere(&self, search: &NearestSearch<'_>, found: &mut FirstPassages) -> Result<(), StorageError> {
        let ask = |wanted, excluded: &HashSet<PassageId>| {
            let others = |passage| !excluded.contains(&passage);
            let accept: Option<&dyn Fn(PassageId) -> bool> = if excluded.is_empty() { None } else { Some(&others) };
            self.indexed(search.query, wanted, asked_ef(search), accept).map(Some)
        };
        self.gather(search, found, ask).map(drop)
    }

    /// Takes the documents of passages that the index found, nearest first. Where its values are coarse, passages are compared again by
    /// their stored values before, only as many as it takes: each costs a read.
    fn take(
        &self,
        search: &NearestSearch<'_>,
        neighbors: Vec<Neighbor>,
        found: &mut FirstPassages,
    ) -> Result<Vec<DocumentKey>, StorageError> {
        let documents_of = |passages: &[PassageId]| self.store.documents_of(passages);
        let Some(mut size) = self.rescored_of(search.parameters, found.limit()) else {
            return Ok(found.take(&neighbors, documents_of)?);
        };
        let (mut rest, mut taken) = (neighbors.as_slice(), Vec::new());
        while !rest.is_empty() && !found.is_full() {
            let (part, others) = rest.split_at(size.min(rest.len()));
            taken.extend(found.take(&self.rescored(search.query, part.len(), part.to_vec())?, documents_of)?);
            (rest, size) = (others, size.saturating_mul(2));
        }
        Ok(taken)
    }

    /// A walk that finds too few documents is followed by a wider one, until comparing with every matching passage is no more work;
    /// that finds all there are.
    fn find_matching(&self, search: &NearestSearch<'_>, found: &mut FirstPassages) -> Result<DenseMethod, StorageError> {
        let mut set = self.passages_in(search.scope)?;
        let rescored = self.rescored_of(search.parameters, found.limit()).unwrap_or_default();
        let mut wanted = found.limit().saturating_mul(MATCHING_PER_HIT).max(MATCHING_MIN).max(rescored);
        while let Some(neighbors) = self.walk(search, &set, wanted)? {
            let looked_at = self.take(search, neighbors, found)?;
            if found.is_full() {
                return Ok(DenseMethod::Index);
            }
            set = set.without(&self.store.passages_of(&looked_at)?).into();
            wanted = wanted.saturating_mul(GROWTH);
        }
        // All of them in order: any number of the nearest may be passages of the same document, or no longer match.
        self.take_in_order(search, &self.among(search.query, &set)?, found)?;
        Ok(DenseMethod::Scan)
    }

    /// Walks to `wanted` passages of a set, nearest first by the values of the index. `None` when comparing with all of them is less
    /// work, or the walk went too far without coming to them.
    fn walk(&self, search: &NearestSearch<'_>, set: &PassageSet, wanted: usize) -> Result<Option<Vec<Neighbor>>, StorageError> {
        let passages = self.index()?.0.len();
        let ef = ef(search, wanted);
        // Of a walk that comes by all passages there is no wider one.
        if ef >= set.len() || self.comparing_all(set) <= compared(set, passages, ef).min(passages) {
            return Ok(None);
        }
        let asked = ef.saturating_mul(ASKED_PER_CANDIDATE).saturating_mul(passages) / set.len().max(1);
        let walk = Walk { set, left: Cell::new(asked.max(self.comparing_all(set) / LOST_AFTER_PART)) };
        let neighbors = self.indexed(search.query, wanted, ef, Some(&|passage| walk.accepts(passage)))?;
        Ok(Some(neighbors).filter(|_| !walk.is_lost()))
    }

    fn take_in_order(
        &self,
        search: &NearestSearch<'_>,
        compared: &Compared,
        found: &mut FirstPassages,
    ) -> Result<(), StorageError> {
        self.in_order(search.query, compared, found.limit(), |part| {
            found.take(part, |passages| self.store.documents_of(passages))?;
            Ok(found.is_full())
        })
    }

    /// How many passages a walk compares with in the time that comparing with every passage of the set takes.
    fn comparing_all(&self, set: &PassageSet) -> usize {
        let cost = if self.quantization.keeps_signs_only() { COMPARED_PER_READ } else { COMPARED_PER_LOOKUP };
        set.len().saturating_mul(cost)
    }
}

/// A walk among the passages of a set, which is given up when it goes far beyond what it should take. Then nothing that matches lies
/// near the query: such a walk comes by most of the graph, and still misses some.
struct Walk<'s> {
    set: &'s PassageSet,
    left: Cell<usize>,
}

impl Walk<'_> {
    /// Whether a passage belongs to the set. Once the walk is given up all do, so that it ends soon.
    fn accepts(&self, passage: PassageId) -> bool {
        self.left.set(self.left.get().saturating_sub(1));
        self.is_lost() || self.set.contains(passage)
    }

    fn is_lost(&self) -> bool {
        self.left.get() == 0
    }
}

/// Passages that a walk for so many candidates compares with: as many times more as the set is smaller than the index.
fn compared(set: &PassageSet, passages: usize, candidates: usize) -> usize {
    candidates.saturating_mul(COMPARED_PER_CANDIDATE).saturating_mul(passages) / set.len().max(1)
}

/// Candidates of a walk, as the search or its collection asks for them.
fn asked_ef(search: &NearestSearch<'_>) -> usize {
    search.parameters.ef_search.unwrap_or(search.ef_search)
}

/// Candidates of a walk for so many matching passages: more or fewer in the proportion in which the search, or its collection,
/// asks for more or fewer than usual.
fn ef(search: &NearestSearch<'_>, wanted: usize) -> usize {
    (wanted.saturating_mul(asked_ef(search)) / HnswSettings::default().ef_search).max(wanted)
}
