//! Finds the nearest passages or documents of a query's embedding: by a graph search among the passages that match the filter,
//! or by comparing with all of them if they are few.
//!
//! A long text that repeats itself may have thousands of near passages, more than all other documents together. So once a
//! document is found, its other passages are excluded, and the search continues until there are enough documents or no more
//! passages.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::Arc;

use super::Embedded;
use crate::domain::{DenseMethod, HnswSettings, PassageId};
use crate::index::{Compared, Neighbor};
use crate::storage::error::StorageError;
use crate::storage::first_passages::FirstPassages;
use crate::storage::nearest::{Nearest, NearestSearch};
use crate::store::{DocumentKey, PassageSet};

/// Number of passages requested from the index per wanted hit, because several passages of one document may be near, and some
/// may be gone.
const PASSAGES_PER_HIT: usize = 4;
/// Minimum number of passages requested from the index at first.
const PASSAGES_MIN: usize = 32;
/// Factor by which a search is widened if it did not find enough.
const GROWTH: usize = 4;
/// Number of candidates per wanted hit in a graph search with a filter. Fewer are needed than without a filter, because such a
/// search also visits passages that do not match, but only keeps those that do.
const MATCHING_PER_HIT: usize = 2;
/// Minimum number of candidates in a graph search with a filter.
const MATCHING_MIN: usize = 16;
/// Approximate number of passages that a graph search compares with per candidate. This value and the next two are our choice.
/// `tests/bench/filters.rs` measures what searches with filters cost with them.
const COMPARED_PER_CANDIDATE: usize = 16;
/// How many passages a graph search compares with in the time that it takes to look up one passage by its key and compare with
/// it.
const COMPARED_PER_LOOKUP: usize = 4;
/// The same for a passage that must be read from the store, because the index does not keep enough of its values.
const COMPARED_PER_READ: usize = 40;

/// Maximum number of passages that a graph search tests against a filter per candidate, if everything matches. It grows in
/// inverse proportion to the share that matches. If matches are spread evenly, a search needs at most half of it.
const FILTER_TESTS_PER_CANDIDATE: usize = 5;
/// A graph search is not given up before it has taken this fraction (one part in 32) of the time of comparing with all matches.
const GIVE_UP_AFTER_PART: usize = 32;

impl Embedded {
    /// Finds the nearest documents, each by its nearest passage.
    pub(super) fn nearest_documents(&self, search: &NearestSearch<'_>) -> Result<Nearest, StorageError> {
        let mut found = FirstPassages::new(search.limit);
        let method = if search.exact {
            self.add_in_order(search, &self.compare_scope(search)?, &mut found)?;
            DenseMethod::Scan
        } else if self.find_by_scan(search, &mut found)? {
            DenseMethod::Scan
        } else if search.scope.is_all() {
            self.find_in_graph(search, &mut found)?;
            DenseMethod::Index
        } else {
            self.find_matching(search, &mut found)?
        };
        let (neighbors, documents) = found.into_vec().into_iter().unzip();
        Ok(Nearest { neighbors, documents, method })
    }

    /// Finds the nearest passages, no matter how many of them belong to one document.
    pub(super) fn nearest_passages(&self, search: &NearestSearch<'_>) -> Result<Nearest, StorageError> {
        let NearestSearch { query, limit, .. } = *search;
        let nearest = |neighbors, method| Ok(Nearest { neighbors, documents: Vec::new(), method });
        let compared = |compared: Compared| -> Result<Nearest, StorageError> {
            let mut neighbors = Vec::new();
            self.visit_in_order(query, &compared, limit, |part| {
                neighbors.extend_from_slice(part);
                Ok(neighbors.len() >= limit)
            })?;
            neighbors.truncate(limit);
            nearest(neighbors, DenseMethod::Scan)
        };
        if search.exact {
            return compared(self.compare_scope(search)?);
        }
        let set = self.scope_passages(search)?;
        let wanted = self.rescore_count(search, limit).unwrap_or(limit);
        let rescored = |found| if wanted > limit { self.rescore(query, limit, found) } else { Ok(found) };
        if let Some(found) = self.search_by_scan(search, wanted, set.as_deref(), &HashSet::new())? {
            return nearest(rescored(found)?, DenseMethod::Scan);
        }
        let Some(set) = set else {
            return nearest(rescored(self.search_graph(query, wanted, requested_ef(search), None)?)?, DenseMethod::Index);
        };
        match self.search_graph_within(search, &set, wanted)? {
            Some(found) if found.len() >= limit => nearest(rescored(found)?, DenseMethod::Index),
            _ => compared(self.compare_set(query, &set)?),
        }
    }

    /// Returns the passages in the scope, or `None` if the scope includes all.
    fn scope_passages(&self, search: &NearestSearch<'_>) -> Result<Option<Arc<PassageSet>>, StorageError> {
        Ok((!search.scope.is_all()).then(|| self.passages_in(search.scope)).transpose()?)
    }

    /// Takes the nearest passages from `search_next` until they are of enough documents or there are no more. `search_next` gets
    /// the number of passages to return, and the passages to leave out: those of documents that were already found. Returns
    /// false if `search_next` returned `None`.
    fn collect_documents(
        &self,
        search: &NearestSearch<'_>,
        found: &mut FirstPassages,
        search_next: impl Fn(usize, &HashSet<PassageId>) -> Result<Option<Vec<Neighbor>>, StorageError>,
    ) -> Result<bool, StorageError> {
        let passages = self.index()?.0.len();
        let rescored = self.rescore_count(search, found.limit()).unwrap_or_default();
        let mut wanted = found.limit().saturating_mul(PASSAGES_PER_HIT).max(PASSAGES_MIN).max(rescored);
        let mut excluded: HashSet<PassageId> = HashSet::new();
        while let Some(neighbors) = search_next(wanted, &excluded)? {
            let exhausted = neighbors.len() < wanted;
            let added = self.add_documents(search, neighbors, found)?;
            if found.is_full() || exhausted {
                return Ok(true);
            }
            excluded.extend(self.store.passages_of(&added)?);
            wanted = wanted.saturating_mul(GROWTH).min(passages + 1);
        }
        Ok(false)
    }

    /// Compares with all passages if that is faster. Returns whether it did.
    fn find_by_scan(&self, search: &NearestSearch<'_>, found: &mut FirstPassages) -> Result<bool, StorageError> {
        let set = self.scope_passages(search)?;
        self.collect_documents(search, found, |wanted, excluded| self.search_by_scan(search, wanted, set.as_deref(), excluded))
    }

    fn find_in_graph(&self, search: &NearestSearch<'_>, found: &mut FirstPassages) -> Result<(), StorageError> {
        let search_next = |wanted, excluded: &HashSet<PassageId>| {
            let others = |passage| !excluded.contains(&passage);
            let accept: Option<&dyn Fn(PassageId) -> bool> = if excluded.is_empty() { None } else { Some(&others) };
            self.search_graph(search.query, wanted, requested_ef(search), accept).map(Some)
        };
        self.collect_documents(search, found, search_next).map(drop)
    }

    /// Takes the documents of passages that the index found, nearest first. If the index's values are coarse, first rescores
    /// passages with their stored values, but only as many as necessary, because each takes a read.
    fn add_documents(
        &self,
        search: &NearestSearch<'_>,
        neighbors: Vec<Neighbor>,
        found: &mut FirstPassages,
    ) -> Result<Vec<DocumentKey>, StorageError> {
        let documents_of = |passages: &[PassageId]| self.store.documents_of(passages);
        let Some(mut size) = self.rescore_count(search, found.limit()) else {
            return Ok(found.add(&neighbors, documents_of)?);
        };
        let (mut rest, mut added) = (neighbors.as_slice(), Vec::new());
        while !rest.is_empty() && !found.is_full() {
            let (part, others) = rest.split_at(size.min(rest.len()));
            added.extend(found.add(&self.rescore(search.query, part.len(), part.to_vec())?, documents_of)?);
            (rest, size) = (others, size.saturating_mul(2));
        }
        Ok(added)
    }

    /// Repeats graph searches with growing width until they find enough documents. As soon as comparing with every matching
    /// passage is no more work, does that instead, which finds everything.
    fn find_matching(&self, search: &NearestSearch<'_>, found: &mut FirstPassages) -> Result<DenseMethod, StorageError> {
        let mut set = self.passages_in(search.scope)?;
        let rescored = self.rescore_count(search, found.limit()).unwrap_or_default();
        let mut wanted = found.limit().saturating_mul(MATCHING_PER_HIT).max(MATCHING_MIN).max(rescored);
        while let Some(neighbors) = self.search_graph_within(search, &set, wanted)? {
            let added = self.add_documents(search, neighbors, found)?;
            if found.is_full() {
                return Ok(DenseMethod::Index);
            }
            set = set.without(&self.store.passages_of(&added)?).into();
            wanted = wanted.saturating_mul(GROWTH);
        }
        // Goes through all of them in order, because any number of the nearest may belong to the same document or no longer
        // match.
        self.add_in_order(search, &self.compare_set(search.query, &set)?, found)?;
        Ok(DenseMethod::Scan)
    }

    /// Searches the graph for `wanted` passages of a set, nearest first by the values of the index. Returns `None` if comparing
    /// with all of the set is less work, or if the search went too far without finding them.
    fn search_graph_within(
        &self,
        search: &NearestSearch<'_>,
        set: &PassageSet,
        wanted: usize,
    ) -> Result<Option<Vec<Neighbor>>, StorageError> {
        let passages = self.index()?.0.len();
        let ef = ef(search, wanted);
        // A search that visits all passages cannot be widened any further.
        if ef >= set.len() || self.full_comparison_cost(set) <= graph_search_cost(set, passages, ef).min(passages) {
            return Ok(None);
        }
        let tests_max = ef.saturating_mul(FILTER_TESTS_PER_CANDIDATE).saturating_mul(passages) / set.len().max(1);
        let bounded = BoundedSearch { set, left: Cell::new(tests_max.max(self.full_comparison_cost(set) / GIVE_UP_AFTER_PART)) };
        let neighbors = self.search_graph(search.query, wanted, ef, Some(&|passage| bounded.accepts(passage)))?;
        Ok(Some(neighbors).filter(|_| !bounded.is_given_up()))
    }

    fn add_in_order(
        &self,
        search: &NearestSearch<'_>,
        compared: &Compared,
        found: &mut FirstPassages,
    ) -> Result<(), StorageError> {
        self.visit_in_order(search.query, compared, found.limit(), |part| {
            found.add(part, |passages| self.store.documents_of(passages))?;
            Ok(found.is_full())
        })
    }

    /// Returns how many passages a graph search compares with in the time that comparing with every passage of the set takes.
    fn full_comparison_cost(&self, set: &PassageSet) -> usize {
        let cost = if self.quantization.keeps_signs_only() { COMPARED_PER_READ } else { COMPARED_PER_LOOKUP };
        set.len().saturating_mul(cost)
    }
}

/// A graph search among the passages of a set, which is given up if it visits far more passages than expected. That happens if
/// nothing in the set lies near the query: such a search would visit most of the graph and still miss some.
struct BoundedSearch<'s> {
    set: &'s PassageSet,
    left: Cell<usize>,
}

impl BoundedSearch<'_> {
    /// Whether a passage belongs to the set. Once the search is given up, accepts every passage, so that it ends soon.
    fn accepts(&self, passage: PassageId) -> bool {
        self.left.set(self.left.get().saturating_sub(1));
        self.is_given_up() || self.set.contains(passage)
    }

    fn is_given_up(&self) -> bool {
        self.left.get() == 0
    }
}

/// Returns how many passages a graph search with this many candidates compares with. The smaller the set is in proportion to
/// the index, the more there are.
fn graph_search_cost(set: &PassageSet, passages: usize, candidates: usize) -> usize {
    candidates.saturating_mul(COMPARED_PER_CANDIDATE).saturating_mul(passages) / set.len().max(1)
}

/// Returns the search width that the request sets, or else the collection's.
fn requested_ef(search: &NearestSearch<'_>) -> usize {
    search.parameters.ef_search.unwrap_or(search.ef_search)
}

/// Returns the search width for this many matching passages, scaled by the ratio of the requested search width to the default
/// one.
fn ef(search: &NearestSearch<'_>, wanted: usize) -> usize {
    (wanted.saturating_mul(requested_ef(search)) / HnswSettings::default().ef_search).max(wanted)
}
