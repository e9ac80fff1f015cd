//! Compares a query with passages, through the index or one by one. If the index's values are coarse, compares again with the
//! values in the store.

use std::collections::HashSet;

use super::{Embedded, RESCORED_MIN};
use crate::domain::{Embedding, PassageId};
use crate::index::{Among, Compared, Neighbor, nearer_first, search_exact};
use crate::storage::error::StorageError;
use crate::storage::nearest::{EMBEDDINGS_PER_READ, NearestSearch, compare_in_parts};
use crate::store::PassageSet;

/// How many passages can be tested for membership in a set, and compared if they belong to it, in the time that looking up one
/// passage of the set takes.
const LOOKUP_COST: usize = 5;

impl Embedded {
    /// Finds up to `limit` nearest passages, nearest first, by comparing with all passages of a set, or with all in the
    /// index, except for excluded ones. Uses only the values of the index, or coarser ones if the search may be rough.
    /// Returns `None` if searching the graph is faster.
    pub(super) fn search_by_scan(
        &self,
        search: &NearestSearch<'_>,
        limit: usize,
        set: Option<&PassageSet>,
        excluded: &HashSet<PassageId>,
    ) -> Result<Option<Vec<Neighbor>>, StorageError> {
        // If a request sets the width of a graph search, it wants a graph search.
        if search.parameters.ef_search.is_some() {
            return Ok(None);
        }
        let (index, query) = (self.index()?.0, search.query);
        let is_left = |passage: &PassageId| !excluded.contains(passage);
        let scan = |among: Among<'_>| match search.rough {
            true => index.scan_roughly(query, limit, among),
            false => index.scan(query, limit, among),
        };
        Ok(match set {
            None if excluded.is_empty() => scan(Among::All)?,
            None => scan(Among::Where(&|passage| is_left(&passage)))?,
            Some(set) if set.len().saturating_mul(LOOKUP_COST) < index.len() => {
                scan(Among::Each(&mut set.iter().filter(is_left)))?
            }
            Some(set) => scan(Among::Where(&|passage| set.contains(passage) && is_left(&passage)))?,
        })
    }

    /// Does the same by a graph search with `ef` candidates, among the passages that `accept` accepts.
    pub(super) fn search_graph(
        &self,
        query: &Embedding,
        limit: usize,
        ef: usize,
        accept: Option<&dyn Fn(PassageId) -> bool>,
    ) -> Result<Vec<Neighbor>, StorageError> {
        let index = self.index()?.0;
        Ok(match accept {
            None => index.search_with_ef(query, limit, ef)?,
            Some(accept) => index.search_matching(query, limit, ef, accept)?,
        })
    }

    /// Returns how many passages to rescore with their stored values if `wanted` passages are needed. Returns `None` if the
    /// scores of the index are good enough for the search.
    pub(super) fn rescore_count(&self, search: &NearestSearch<'_>, wanted: usize) -> Option<usize> {
        let oversampling = search.parameters.oversampling.unwrap_or(self.quantization.oversampling());
        (oversampling > 1.0 && !search.rough).then(|| ((wanted as f32 * oversampling).ceil() as usize).max(RESCORED_MIN))
    }

    /// Compares all passages in the scope one by one.
    pub(super) fn compare_scope(&self, search: &NearestSearch<'_>) -> Result<Compared, StorageError> {
        if search.scope.is_all() && !self.quantization.is_coarse() {
            let neighbors = self.index()?.0.search_all(search.query, usize::MAX)?;
            return Ok(Compared { neighbors, error: 0.0 });
        }
        self.compare_set(search.query, &*self.passages_in(search.scope)?)
    }

    /// Compares all passages of a set one by one.
    pub(super) fn compare_set(&self, query: &Embedding, set: &PassageSet) -> Result<Compared, StorageError> {
        if let Some(compared) = self.index()?.0.search_among(query, usize::MAX, set.iter())? {
            return Ok(compared);
        }
        let neighbors = compare_in_parts(set, (self.metric, query), |part| self.store.embeddings_of(part))?;
        Ok(Compared { neighbors, error: 0.0 })
    }

    /// Passes compared passages to `take` in parts, nearest first by their stored values, until it returns that it has enough.
    /// If the scores are exact, passes all at once. Otherwise a passage is passed on once no passage with unread stored values
    /// can be nearer. So the order is exact although few stored values are read. `first` is how many are read at first.
    pub(super) fn visit_in_order(
        &self,
        query: &Embedding,
        compared: &Compared,
        first: usize,
        mut take: impl FnMut(&[Neighbor]) -> Result<bool, StorageError>,
    ) -> Result<(), StorageError> {
        if compared.error == 0.0 {
            return take(&compared.neighbors).map(drop);
        }
        let (mut rest, mut size) = (compared.neighbors.as_slice(), first.max(RESCORED_MIN));
        let mut read: Vec<Neighbor> = Vec::new();
        loop {
            let (part, others) = rest.split_at(size.min(rest.len()));
            (rest, size) = (others, size.saturating_mul(2).min(EMBEDDINGS_PER_READ));
            read.extend(self.rescore(query, part.len(), part.to_vec())?);
            read.sort_unstable_by(nearer_first);
            let bound = rest.first().map_or(f32::NEG_INFINITY, |next| next.score + compared.error);
            let certain = read.partition_point(|neighbor| neighbor.score > bound);
            let enough = take(&read[..certain])?;
            if enough || rest.is_empty() {
                return Ok(());
            }
            read.drain(..certain);
        }
    }

    /// Returns the nearest `limit` of `found` by their stored values. Passages that were deleted in the meantime keep their
    /// score. They will not become hits, but without them the list would be shorter than requested, which would mean that
    /// there are no more passages.
    pub fn rescore(&self, query: &Embedding, limit: usize, found: Vec<Neighbor>) -> Result<Vec<Neighbor>, StorageError> {
        let passages: Vec<PassageId> = found.iter().map(|neighbor| neighbor.passage).collect();
        let stored = self.store.embeddings_of(&passages)?;
        let items = stored.iter().map(|(passage, embedding)| (*passage, embedding));
        let mut nearest = search_exact(self.metric, items, query, limit);
        if stored.len() < found.len() {
            let there: HashSet<PassageId> = stored.iter().map(|(passage, _)| *passage).collect();
            nearest.extend(found.into_iter().filter(|neighbor| !there.contains(&neighbor.passage)));
            nearest.sort_unstable_by(nearer_first);
            nearest.truncate(limit);
        }
        Ok(nearest)
    }
}
