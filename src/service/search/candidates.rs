//! The nearest passages by the index; where its values are coarse, compared again by those of the store.

use std::collections::HashSet;

use super::super::Error;
use super::super::runtime::OpenCollection;
use super::matching::{self, PassageSet};
use crate::domain::{Breadth, Embedding, PassageId};
use crate::index::{Neighbor, search_exact};
use crate::store::SearchFilter;

/// Embeddings read from the store together: bounds the memory of comparing with many.
const EMBEDDINGS_PER_READ: usize = 1_024;

/// Passages that are compared again by their stored values, at least: of very few the wrong ones are easily the nearest.
const RESCORED_MIN: usize = 16;

/// Gives up to `limit` nearest passages that `accept` accepts, nearest first. Fewer mean that there are no more.
pub(super) fn nearest(
    collection: &OpenCollection,
    query: &Embedding,
    limit: usize,
    breadth: Breadth,
    accept: Option<&dyn Fn(PassageId) -> bool>,
) -> Result<Vec<Neighbor>, Error> {
    let wanted = rescored_of(collection, breadth, limit).unwrap_or(limit);
    let found = indexed(collection, query, wanted, breadth, accept)?;
    if wanted > limit { rescored(collection, query, limit, found) } else { Ok(found) }
}

/// The same by the values of the index alone.
pub(super) fn indexed(
    collection: &OpenCollection,
    query: &Embedding,
    limit: usize,
    breadth: Breadth,
    accept: Option<&dyn Fn(PassageId) -> bool>,
) -> Result<Vec<Neighbor>, Error> {
    let index = collection.search_index()?.0;
    let expansion = breadth.expansion.unwrap_or(collection.current().hnsw.expansion_search);
    Ok(match accept {
        None => index.search_wider(query, limit, expansion)?,
        Some(accept) => index.search_matching(query, limit, expansion, accept)?,
    })
}

/// How many passages are compared again by their stored values for so many that are wanted; `None` where the scores of the index
/// are good enough by themselves.
pub(super) fn rescored_of(collection: &OpenCollection, breadth: Breadth, wanted: usize) -> Option<usize> {
    let oversampling = breadth.oversampling.unwrap_or(collection.row.quantization.oversampling());
    (oversampling > 1.0).then(|| ((wanted as f32 * oversampling).ceil() as usize).max(RESCORED_MIN))
}

/// All passages whose documents match, nearest first, each compared.
pub(super) fn all(collection: &OpenCollection, query: &Embedding, filter: &SearchFilter) -> Result<Vec<Neighbor>, Error> {
    if *filter == SearchFilter::default() && !collection.row.quantization.is_coarse() {
        return Ok(collection.search_index()?.0.search_all(query, usize::MAX)?);
    }
    among(collection, query, &*matching::passages(collection, filter)?)
}

/// All passages of a set, nearest first, compared one by one.
pub(super) fn among(collection: &OpenCollection, query: &Embedding, set: &PassageSet) -> Result<Vec<Neighbor>, Error> {
    if let Some(found) = collection.search_index()?.0.search_among(query, usize::MAX, set.iter())? {
        return Ok(found);
    }
    let passages: Vec<PassageId> = set.iter().collect();
    let mut found = Vec::with_capacity(passages.len());
    for part in passages.chunks(EMBEDDINGS_PER_READ) {
        let stored = collection.store.embeddings_of(part)?;
        let items = stored.iter().map(|(passage, embedding)| (*passage, embedding));
        found.extend(search_exact(collection.row.metric, items, query, part.len()));
    }
    found.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage)));
    Ok(found)
}

/// The nearest `limit` of `found` by their stored values. Passages that are gone meanwhile keep their score: they are no hits,
/// but a list that is shorter than was asked for would mean that there are no more.
pub(super) fn rescored(
    collection: &OpenCollection,
    query: &Embedding,
    limit: usize,
    found: Vec<Neighbor>,
) -> Result<Vec<Neighbor>, Error> {
    let passages: Vec<PassageId> = found.iter().map(|neighbor| neighbor.passage).collect();
    let stored = collection.store.embeddings_of(&passages)?;
    let items = stored.iter().map(|(passage, embedding)| (*passage, embedding));
    let mut nearest = search_exact(collection.row.metric, items, query, limit);
    if stored.len() < found.len() {
        let there: HashSet<PassageId> = stored.iter().map(|(passage, _)| *passage).collect();
        nearest.extend(found.into_iter().filter(|neighbor| !there.contains(&neighbor.passage)));
        nearest.sort_by(|a, b| b.score.total_cmp(&a.score));
        nearest.truncate(limit);
    }
    Ok(nearest)
}
