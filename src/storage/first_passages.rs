//! Turns passages, sorted best first, into documents with their first passage.

use std::collections::HashSet;

use crate::domain::PassageId;
use crate::index::Neighbor;
use crate::store::{DocumentKey, PassageDocument, StoreError};

/// Maximum number of passages whose documents are looked up at a time. The first lookup has as many as there are wanted
/// documents, because most passages are of different documents.
const PASSAGES_PER_READ: usize = 1_024;

/// The first passage of each document, for up to `limit` documents. Each is read from the store, so none is of a deleted
/// document.
pub struct FirstPassages {
    limit: usize,
    found: Vec<(Neighbor, PassageDocument)>,
    documents: HashSet<DocumentKey>,
}

impl FirstPassages {
    pub fn new(limit: usize) -> Self {
        Self { limit, found: Vec::new(), documents: HashSet::new() }
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    pub fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }

    /// Adds the documents of the nearest passages that were not added before. Returns their keys. `documents_of` returns the
    /// documents of passages, in order, without those that are gone.
    pub fn add(
        &mut self,
        mut neighbors: &[Neighbor],
        documents_of: impl Fn(&[PassageId]) -> Result<Vec<PassageDocument>, StoreError>,
    ) -> Result<Vec<DocumentKey>, StoreError> {
        let mut added = Vec::new();
        let mut size = self.limit.clamp(1, PASSAGES_PER_READ);
        while !self.is_full() && !neighbors.is_empty() {
            let (part, rest) = neighbors.split_at(size.min(neighbors.len()));
            (neighbors, size) = (rest, (size * 2).min(PASSAGES_PER_READ));
            let passages: Vec<_> = part.iter().map(|neighbor| neighbor.passage).collect();
            let mut scores = part.iter();
            for row in documents_of(&passages)? {
                let Some(neighbor) = scores.find(|neighbor| neighbor.passage == row.passage) else { continue };
                if !self.is_full() && self.documents.insert(row.key) {
                    added.push(row.key);
                    self.found.push((*neighbor, row));
                }
            }
        }
        Ok(added)
    }

    /// Returns all documents, nearest first.
    pub fn into_vec(mut self) -> Vec<(Neighbor, PassageDocument)> {
        // A repeated search may find a nearer document that the first one missed.
        self.found.sort_by(|(a, _), (b, _)| b.score.total_cmp(&a.score));
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::DocumentId;

    /// Returns the documents of passages: passage 21 is of document 2, and so on. Passage 29 is gone.
    fn documents_of(passages: &[PassageId]) -> Result<Vec<PassageDocument>, StoreError> {
        let existing = passages.iter().filter(|passage| passage.0 != 29);
        let row = |passage: &PassageId| {
            let document = DocumentId::parse(&(passage.0 / 10).to_string()).unwrap();
            PassageDocument { passage: *passage, key: DocumentKey(passage.0 as i64 / 10), document, language: None }
        };
        Ok(existing.map(row).collect())
    }

    fn count_added(found: &mut FirstPassages, passages: &[(u64, f32)]) -> usize {
        let neighbors = passages.iter().map(|(passage, score)| Neighbor { passage: PassageId(*passage), score: *score });
        found.add(&neighbors.collect::<Vec<_>>(), documents_of).unwrap().len()
    }

    #[test]
    fn each_document_is_added_once_with_its_first_passage() {
        let mut found = FirstPassages::new(3);
        assert_eq!(count_added(&mut found, &[(11, 0.9), (12, 0.8), (29, 0.7), (21, 0.6)]), 2);
        assert!(!found.is_full());
        assert_eq!(count_added(&mut found, &[(13, 0.9), (31, 0.7), (41, 0.5)]), 1);
        assert!(found.is_full());
        let passages: Vec<u64> = found.into_vec().iter().map(|(neighbor, _)| neighbor.passage.0).collect();
        assert_eq!(passages, [11, 31, 21], "nearest first, although 31 was seen after 21");
    }
}
