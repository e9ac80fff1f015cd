//! The nearest documents of a query's embedding: through the index, walking among the passages that a filter leaves, or by
//! comparing with all of them when they are few.
//!
//! Passages of one document may be as near as all others together: a long text that repeats itself has thousands. So once a
//! document is found, its other passages are no longer asked for, and the search goes on until there are enough documents or
//! no more passages.

use std::collections::HashSet;

use super::super::Error;
use super::super::runtime::OpenCollection;
use super::candidates::{all, among, nearest};
use super::hits::{Candidate, Candidates};
use super::matching::{self, PassageSet};
use crate::domain::{Breadth, DenseMethod, Embedding, HnswSettings, PassageId};
use crate::store::SearchFilter;

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

/// The nearest documents.
pub(super) struct Nearest {
    /// Nearest first.
    pub(super) candidates: Vec<Candidate>,
    /// Who named them.
    pub(super) method: DenseMethod,
}

/// How to look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// Whether to compare with all passages that match, never by the graph.
    pub(super) exact: bool,
    /// How much work the graph is worth.
    pub(super) breadth: Breadth,
}

/// Gives up to `limit` documents, nearest first.
pub(super) fn find(
    collection: &OpenCollection,
    query: &Embedding,
    limit: usize,
    filter: &SearchFilter,
    effort: Effort,
) -> Result<Nearest, Error> {
    let mut candidates = Candidates::new(limit);
    let method = match (effort.exact, *filter == SearchFilter::default()) {
        (true, _) => {
            candidates.take(collection, &all(collection, query, filter)?)?;
            DenseMethod::Scan
        }
        (false, true) => {
            find_anywhere(collection, query, effort.breadth, &mut candidates)?;
            DenseMethod::Index
        }
        (false, false) => find_matching(collection, query, filter, effort.breadth, &mut candidates)?,
    };
    Ok(Nearest { candidates: candidates.into_vec(), method })
}

fn find_anywhere(collection: &OpenCollection, query: &Embedding, breadth: Breadth, found: &mut Candidates) -> Result<(), Error> {
    let passages = collection.search_index()?.0.len();
    let mut wanted = found.limit().saturating_mul(PASSAGES_PER_HIT).max(PASSAGES_MIN);
    let mut excluded: HashSet<PassageId> = HashSet::new();
    loop {
        let neighbors = if excluded.is_empty() {
            nearest(collection, query, wanted, breadth, None)?
        } else {
            nearest(collection, query, wanted, breadth, Some(&|passage| !excluded.contains(&passage)))?
        };
        let exhausted = neighbors.len() < wanted;
        let looked_at = found.take(collection, &neighbors)?;
        if found.is_full() || exhausted {
            return Ok(());
        }
        excluded.extend(collection.store.passages_of(&looked_at)?);
        wanted = wanted.saturating_mul(GROWTH).min(passages + 1);
    }
}

/// A walk that finds too few documents is followed by a wider one, until comparing with every matching passage is no more work;
/// that finds all there are.
fn find_matching(
    collection: &OpenCollection,
    query: &Embedding,
    filter: &SearchFilter,
    breadth: Breadth,
    found: &mut Candidates,
) -> Result<DenseMethod, Error> {
    let passages = collection.search_index()?.0.len();
    let mut set = matching::passages(collection, filter)?;
    let mut wanted = found.limit().saturating_mul(MATCHING_PER_HIT).max(MATCHING_MIN);
    loop {
        let expansion = expansion(collection, wanted, breadth);
        if worth_comparing_all(collection, &set, passages, expansion) {
            break;
        }
        let breadth = Breadth { expansion: Some(expansion), ..breadth };
        let neighbors = nearest(collection, query, wanted, breadth, Some(&|passage| set.contains(passage)))?;
        let looked_at = found.take(collection, &neighbors)?;
        if found.is_full() {
            return Ok(DenseMethod::Index);
        }
        set = set.without(&collection.store.passages_of(&looked_at)?).into();
        wanted = wanted.saturating_mul(GROWTH);
    }
    // All of them in order: any number of the nearest may be passages of the same document, or no longer match.
    let neighbors = among(collection, query, &set)?;
    found.take(collection, &neighbors)?;
    Ok(DenseMethod::Scan)
}

/// Candidates of a walk for so many matching passages: more or fewer in the proportion in which the search, or its collection,
/// asks for more or fewer than usual.
fn expansion(collection: &OpenCollection, wanted: usize, breadth: Breadth) -> usize {
    let asked = breadth.expansion.unwrap_or_else(|| collection.current().hnsw.expansion_search);
    let usual = HnswSettings::default().expansion_search;
    (wanted.saturating_mul(asked) / usual).max(wanted)
}

/// Whether comparing with every passage of the set is less work than a walk with so many candidates, which comes by as many times
/// more passages as the set is smaller than the index.
fn worth_comparing_all(collection: &OpenCollection, set: &PassageSet, passages: usize, candidates: usize) -> bool {
    let matching = set.len();
    let cost = if collection.row.quantization.is_coarse() { COMPARED_PER_READ } else { COMPARED_PER_LOOKUP };
    // Of a walk that comes by all passages there is no wider one.
    let compared = candidates.saturating_mul(COMPARED_PER_CANDIDATE).saturating_mul(passages) / matching.max(1);
    candidates >= matching || matching.saturating_mul(cost) <= compared.min(passages)
}
