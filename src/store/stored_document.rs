//! What an upsert compares a document with: the one that is stored under its id. For both engines.

use super::{PendingPassage, PreparedDocument, StoreError};
use crate::domain::{Embedding, PassageId};

/// A document's row before it is replaced.
pub(crate) struct StoredDocument {
    pub(crate) key: i64,
    /// Whether text and title are unchanged.
    pub(crate) same_text: bool,
    pub(crate) created_at_ms: i64,
    pub(crate) updated_at_ms: i64,
    pub(crate) language: Option<String>,
    pub(crate) expires_at_ms: Option<i64>,
    /// Its passages, in order. Only needed if text and title are unchanged.
    pub(crate) passages: Vec<StoredPassage>,
}

pub(crate) struct StoredPassage {
    pub(crate) id: PassageId,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) headings: Option<String>,
    pub(crate) is_pending: bool,
    /// Only read if the new document has one to compare it with.
    pub(crate) embedding: Option<Embedding>,
}

impl StoredDocument {
    /// Whether it has expired. Then it counts as gone, and the new document is created.
    pub(crate) fn has_expired(&self, now_ms: i64) -> bool {
        self.expires_at_ms.is_some_and(|at| at <= now_ms)
    }

    pub(crate) fn has_language_of(&self, document: &PreparedDocument) -> bool {
        self.language.as_deref() == document.language.map(|language| language.code())
    }

    /// If the passages can be kept, returns those of them without an embedding. They can be kept if the document is split as before
    /// and its own vector, if it has one, is the same. Otherwise returns `None`.
    pub(crate) fn reusable_passages(&self, document: &PreparedDocument) -> Result<Option<Vec<PendingPassage>>, StoreError> {
        if !self.same_text || self.passages.len() != document.passages.len() {
            return Ok(None);
        }
        let mut pending = Vec::new();
        for (passage, span) in self.passages.iter().zip(&document.passages) {
            let same_range = (span.range.start as i64, span.range.end as i64) == (passage.start, passage.end);
            let same_embedding = document.embedding.as_ref().is_none_or(|own| passage.embedding.as_ref() == Some(own));
            if !same_range || span.headings != passage.headings || !same_embedding {
                return Ok(None);
            }
            if passage.is_pending {
                pending.push(document.pending_passage(passage.id, span)?);
            }
        }
        Ok(Some(pending))
    }
}
