//! The nearest documents of a query's embedding: through the index, walking among the passages that a filter leaves, or by
//! comparing with all of them when they are few.
//!
//! Passages of one document may be as near as all others together: a long text that repeats itself has thousands. So once a
//! document is found, its other passages are no longer asked for, and the search goes on until there are enough documents or
//! no more passages.

use std::cell::Cell;
use std::collections::HashSet;

use super::super::Error;
use super::super::runtime::OpenCollection;
use super::candidates::{all, among, in_order, indexed, nearest, rescored, rescored_of, scanned};
use super::hits::{Candidate, Candidates};
use super::matching::Scope;
use super::passage_sets::PassageSet;
use crate::domain::{DenseMethod, Embedding, HnswSettings, PassageId, SearchParameters};
use crate::index::{Compared, Neighbor};
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

/// The nearest documents.
pub(super) struct Nearest {
    /// Nearest first.
    pub(super) candidates: Vec<Candidate>,
    /// Who named them.
    pub(super) method: DenseMethod,
}

/// How to look.
#[derive(Debug, Clone, Copy)]
pub(super) struct DenseParameters {
    /// Whether to compare with all passages that match, never by the graph.
    pub(super) exact: bool,
    /// How much work the graph is worth.
    pub(super) parameters: SearchParameters,
}

/// Gives up to `limit` documents, nearest first.
pub(super) fn find(
    collection: &OpenCollection,
    query: &Embedding,
    limit: usize,
    scope: Scope<'_>,
    dense: DenseParameters,
) -> Result<Nearest, Error> {
    let mut candidates = Candidates::new(limit);
    let method = match (dense.exact, scope.is_all()) {
        (true, _) => {
            take_in_order(collection, query, &all(collection, query, scope)?, &mut candidates)?;
            DenseMethod::Scan
        }
        (false, _) if find_scanning(collection, query, scope, dense.parameters, &mut candidates)? => DenseMethod::Scan,
        (false, true) => {
            find_anywhere(collection, query, dense.parameters, &mut candidates)?;
            DenseMethod::Index
        }
        (false, false) => find_matching(collection, query, scope, dense.parameters, &mut candidates)?,
    };
    Ok(Nearest { candidates: candidates.into_vec(), method })
}

/// The nearest passages.
pub(super) struct NearestPassages {
    /// Nearest first.
    pub(super) neighbors: Vec<Neighbor>,
    /// Who named them.
    pub(super) method: DenseMethod,
}

/// Gives up to `limit` passages, nearest first, however many of them are of one document. Fewer mean that there are no more.
pub(super) fn passages(
    collection: &OpenCollection,
    query: &Embedding,
    limit: usize,
    scope: Scope<'_>,
    dense: DenseParameters,
) -> Result<NearestPassages, Error> {
    let compared = |compared: Compared| -> Result<NearestPassages, Error> {
        let mut neighbors = Vec::new();
        in_order(collection, query, &compared, limit, |part| {
            neighbors.extend_from_slice(part);
            Ok(neighbors.len() >= limit)
        })?;
        neighbors.truncate(limit);
        Ok(NearestPassages { neighbors, method: DenseMethod::Scan })
    };
    if dense.exact {
        return compared(all(collection, query, scope)?);
    }
    let set = (!scope.is_all()).then(|| scope.passages(collection)).transpose()?;
    let wanted = rescored_of(collection, dense.parameters, limit).unwrap_or(limit);
    if let Some(found) = scanned(collection, query, wanted, dense.parameters, set.as_deref(), &HashSet::new())? {
        let neighbors = if wanted > limit { rescored(collection, query, limit, found)? } else { found };
        return Ok(NearestPassages { neighbors, method: DenseMethod::Scan });
    }
    let Some(set) = set else {
        let neighbors = nearest(collection, query, limit, dense.parameters, None)?;
        return Ok(NearestPassages { neighbors, method: DenseMethod::Index });
    };
    match walk(collection, query, &set, wanted, dense.parameters)? {
        Some(found) if found.len() >= limit => {
            let neighbors = if wanted > limit { rescored(collection, query, limit, found)? } else { found };
            Ok(NearestPassages { neighbors, method: DenseMethod::Index })
        }
        _ => compared(among(collection, query, &set)?),
    }
}

/// Takes nearest passages from `ask` until they are of enough documents, or there are no more. `ask` is told how many, and which ones not:
/// those of documents that were found. Says whether it answered to the end.
fn gather(
    collection: &OpenCollection,
    query: &Embedding,
    parameters: SearchParameters,
    found: &mut Candidates,
    ask: impl Fn(usize, &HashSet<PassageId>) -> Result<Option<Vec<Neighbor>>, Error>,
) -> Result<bool, Error> {
    let passages = collection.search_index()?.0.len();
    let rescored = rescored_of(collection, parameters, found.limit()).unwrap_or_default();
    let mut wanted = found.limit().saturating_mul(PASSAGES_PER_HIT).max(PASSAGES_MIN).max(rescored);
    let mut excluded: HashSet<PassageId> = HashSet::new();
    while let Some(neighbors) = ask(wanted, &excluded)? {
        let exhausted = neighbors.len() < wanted;
        let looked_at = take(collection, query, parameters, neighbors, found)?;
        if found.is_full() || exhausted {
            return Ok(true);
        }
        excluded.extend(collection.store.passages_of(&looked_at)?);
        wanted = wanted.saturating_mul(GROWTH).min(passages + 1);
    }
    Ok(false)
}

/// Compares with all there are, where that is the better way; says whether it did.
fn find_scanning(
    collection: &OpenCollection,
    query: &Embedding,
    scope: Scope<'_>,
    parameters: SearchParameters,
    found: &mut Candidates,
) -> Result<bool, Error> {
    let set = (!scope.is_all()).then(|| scope.passages(collection)).transpose()?;
    let ask = |wanted, excluded: &_| scanned(collection, query, wanted, parameters, set.as_deref(), excluded);
    gather(collection, query, parameters, found, ask)
}

fn find_anywhere(
    collection: &OpenCollection,
    query: &Embedding,
    parameters: SearchParameters,
    found: &mut Candidates,
) -> Result<(), Error> {
    let ask = |wanted, excluded: &HashSet<PassageId>| {
        let others = |passage| !excluded.contains(&passage);
        let accept: Option<&dyn Fn(PassageId) -> bool> = if excluded.is_empty() { None } else { Some(&others) };
        indexed(collection, query, wanted, parameters, accept).map(Some)
    };
    gather(collection, query, parameters, found, ask).map(drop)
}

/// Takes the documents of passages that the index found, nearest first. Where its values are coarse, passages are compared again by
/// their stored values before, only as many as it takes: each costs a read.
fn take(
    collection: &OpenCollection,
    query: &Embedding,
    parameters: SearchParameters,
    neighbors: Vec<Neighbor>,
    found: &mut Candidates,
) -> Result<Vec<DocumentKey>, Error> {
    let Some(mut size) = rescored_of(collection, parameters, found.limit()) else { return found.take(collection, &neighbors) };
    let (mut rest, mut taken) = (neighbors.as_slice(), Vec::new());
    while !rest.is_empty() && !found.is_full() {
        let (part, others) = rest.split_at(size.min(rest.len()));
        taken.extend(found.take(collection, &rescored(collection, query, part.len(), part.to_vec())?)?);
        (rest, size) = (others, size.saturating_mul(2));
    }
    Ok(taken)
}

/// A walk that finds too few documents is followed by a wider one, until comparing with every matching passage is no more work;
/// that finds all there are.
fn find_matching(
    collection: &OpenCollection,
    query: &Embedding,
    scope: Scope<'_>,
    parameters: SearchParameters,
    found: &mut Candidates,
) -> Result<DenseMethod, Error> {
    let mut set = scope.passages(collection)?;
    let rescored = rescored_of(collection, parameters, found.limit()).unwrap_or_default();
    let mut wanted = found.limit().saturating_mul(MATCHING_PER_HIT).max(MATCHING_MIN).max(rescored);
    while let Some(neighbors) = walk(collection, query, &set, wanted, parameters)? {
        let looked_at = take(collection, query, parameters, neighbors, found)?;
        if found.is_full() {
            return Ok(DenseMethod::Index);
        }
        set = set.without(&collection.store.passages_of(&looked_at)?).into();
        wanted = wanted.saturating_mul(GROWTH);
    }
    // All of them in order: any number of the nearest may be passages of the same document, or no longer match.
    take_in_order(collection, query, &among(collection, query, &set)?, found)?;
    Ok(DenseMethod::Scan)
}

/// Walks to `wanted` passages of a set, nearest first by the values of the index. `None` when comparing with all of them is less work,
/// or the walk went too far without coming to them.
fn walk(
    collection: &OpenCollection,
    query: &Embedding,
    set: &PassageSet,
    wanted: usize,
    parameters: SearchParameters,
) -> Result<Option<Vec<Neighbor>>, Error> {
    let passages = collection.search_index()?.0.len();
    let ef = ef(collection, wanted, parameters);
    if worth_comparing_all(collection, set, passages, ef) {
        return Ok(None);
    }
    let parameters = SearchParameters { ef_search: Some(ef), ..parameters };
    let walk = Walk::new(collection, set, passages, ef);
    let neighbors = indexed(collection, query, wanted, parameters, Some(&|passage| walk.accepts(passage)))?;
    Ok(Some(neighbors).filter(|_| !walk.is_lost()))
}

fn take_in_order(
    collection: &OpenCollection,
    query: &Embedding,
    compared: &Compared,
    found: &mut Candidates,
) -> Result<(), Error> {
    in_order(collection, query, compared, found.limit(), |part| {
        found.take(collection, part)?;
        Ok(found.is_full())
    })
}

/// A walk among the passages of a set, which is given up when it goes far beyond what it should take. Then nothing that matches lies
/// near the query: such a walk comes by most of the graph, and still misses some.
struct Walk<'s> {
    set: &'s PassageSet,
    left: Cell<usize>,
}

impl<'s> Walk<'s> {
    fn new(collection: &OpenCollection, set: &'s PassageSet, passages: usize, candidates: usize) -> Self {
        let asked = candidates.saturating_mul(ASKED_PER_CANDIDATE).saturating_mul(passages) / set.len().max(1);
        Self { set, left: Cell::new(asked.max(comparing_all(collection, set) / LOST_AFTER_PART)) }
    }

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

/// Candidates of a walk for so many matching passages: more or fewer in the proportion in which the search, or its collection,
/// asks for more or fewer than usual.
fn ef(collection: &OpenCollection, wanted: usize, parameters: SearchParameters) -> usize {
    let asked = parameters.ef_search.unwrap_or_else(|| collection.current().hnsw.ef_search);
    let usual = HnswSettings::default().ef_search;
    (wanted.saturating_mul(asked) / usual).max(wanted)
}

/// Whether comparing with every passage of the set is less work than a walk with so many candidates.
fn worth_comparing_all(collection: &OpenCollection, set: &PassageSet, passages: usize, candidates: usize) -> bool {
    // Of a walk that comes by all passages there is no wider one.
    candidates >= set.len() || comparing_all(collection, set) <= compared(set, passages, candidates).min(passages)
}

/// How many passages a walk compares with in the time that comparing with every passage of the set takes.
fn comparing_all(collection: &OpenCollection, set: &PassageSet) -> usize {
    let cost = if collection.row.quantization.keeps_signs_only() { COMPARED_PER_READ } else { COMPARED_PER_LOOKUP };
    set.len().saturating_mul(cost)
}
