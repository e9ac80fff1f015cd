//! From passages, best first, to documents: the first passage of each.

use std::collections::HashSet;

use crate::domain::PassageId;
use crate::index::Neighbor;
use crate::store::{DocumentKey, PassageDocument, StoreError};

/// Passages whose documents are looked up together, at most. At first they are as many as documents are wanted: mostly each is of
/// another one.
const PASSAGES_PER_READ: usize = 1_024;

/// The first passage of each document, up to `limit` documents. Each is read from the store, so none is of a document that is
/// gone.
pub struct FirstPassages {
    limit: usize,
    found: Vec<(Neighbor, PassageDocument)>,
    documents: HashSet<DocumentKey>,
}

impl FirstPassages {
    /// None so far.
    pub fn new(limit: usize) -> Self {
        Self { limit, found: Vec::new(), documents: HashSet::new() }
    }

    /// How many are wanted.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether there are as many as are wanted.
    pub fn is_full(&self) -> bool {
        self.found.len() >= self.limit
    }

    /// Takes the documents of the nearest passages that are not there yet; gives the keys of those taken. `documents_of` says whose
    /// passages are, in their order, without those that are gone.
    pub fn take(
        &mut self,
        mut neighbors: &[Neighbor],
        documents_of: impl Fn(&[PassageId]) -> Result<Vec<PassageDocument>, StoreError>,
    ) -> Result<Vec<DocumentKey>, StoreError> {
        let mut taken = Vec::new();
        let mut size = self.limit.clamp(1, PASSAGES_PER_READ);
        while !self.is_full() && !neighbors.is_empty() {
            let (part, rest) = neighbors.split_at(size.min(neighbors.len()));
            (neighbors, size) = (rest, (size * 2).min(PASSAGES_PER_READ));
            let passages: Vec<_> = part.iter().map(|neighbor| neighbor.passage).collect();
            let mut scores = part.iter();
            for row in documents_of(&passages)? {
                let Some(neighbor) = scores.find(|neighbor| neighbor.passage == row.passage) else { continue };
                if !self.is_full() && self.documents.insert(row.key) {
                    taken.push(row.key);
                    self.found.push((*neighbor, row));
                }
            }
        }
        Ok(taken)
    }

    /// All of them, nearest first.
    pub fn into_vec(mut self) -> Vec<(Neighbor, PassageDocument)> {
        // A search that was asked again may look where the first one did not.
        self.found.sort_by(|(a, _), (b, _)| b.score.total_cmp(&a.score));
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::DocumentId;

    /// Passages of which the tens say the document; the passage 29 is gone.
    fn documents_of(passages: &[PassageId]) -> Result<Vec<PassageDocument>, StoreError> {
        let there = passages.iter().filter(|passage| passage.0 != 29);
        let row = |passage: &PassageId| {
            let document = DocumentId::parse(&(passage.0 / 10).to_string()).unwrap();
            PassageDocument { passage: *passage, key: DocumentKey(passage.0 as i64 / 10), document, language: None }
        };
        Ok(there.map(row).collect())
    }

    fn taken(found: &mut FirstPassages, passages: &[(u64, f32)]) -> usize {
        let neighbors = passages.iter().map(|(passage, score)| Neighbor { passage: PassageId(*passage), score: *score });
        found.take(&neighbors.collect::<Vec<_>>(), documents_of).unwrap().len()
    }

    #[test]
    fn each_document_comes_once_by_its_first_passage_up_to_the_limit() {
        let mut found = FirstPassages::new(3);
        assert_eq!(taken(&mut found, &[(11, 0.9), (12, 0.8), (29, 0.7), (21, 0.6)]), 2);
        assert!(!found.is_full());
        assert_eq!(taken(&mut found, &[(13, 0.9), (31, 0.7), (41, 0.5)]), 1);
        assert!(found.is_full());
        let passages: Vec<u64> = found.into_vec().iter().map(|(neighbor, _)| neighbor.passage.0).collect();
        assert_eq!(passages, [11, 31, 21], "nearest first, though one was looked at later");
    }
}
