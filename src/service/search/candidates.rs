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

/// Gives up to `limit` nearest passages that `accept` accepts, nearest first. Fewer mean that there are no more.
pub(super) fn nearest(
    collection: &OpenCollection,
    query: &Embedding,
    limit: usize,
    breadth: Breadth,
    accept: Option<&dyn Fn(PassageId) -> bool>,
) -> Result<Vec<Neighbor>, Error> {
    let index = collection.search_index()?.0;
    let row = collection.current();
    let expansion = breadth.expansion.unwrap_or(row.hnsw.expansion_search);
    let oversampling = breadth.oversampling.unwrap_or(row.quantization.oversampling());
    let wanted = ((limit as f32 * oversampling).ceil() as usize).max(limit);
    let found = match accept {
        None => index.search_wider(query, wanted, expansion)?,
        Some(accept) => index.search_matching(query, wanted, expansion, accept)?,
    };
    if oversampling > 1.0 { rescored(collection, query, limit, found) } else { Ok(found) }
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
fn rescored(collection: &OpenCollection, query: &Embedding, limit: usize, found: Vec<Neighbor>) -> Result<Vec<Neighbor>, Error> {
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
