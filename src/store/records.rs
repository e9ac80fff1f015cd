//! What callers give to a collection's database and get from it: prepared documents, what became of them, passages that wait,
//! changes, and what a hit needs.

use crate::domain::{
    Document, DocumentId, Embedding, Language, Metadata, Passage, PassageContext, PassageId, PassageSpan, Sequence,
};

/// A document ready to be stored: checked, its language known, cut into passages.
#[derive(Debug, Clone)]
pub struct PreparedDocument {
    /// The id, given or made.
    pub id: DocumentId,
    /// The title.
    pub title: Option<String>,
    /// The text.
    pub text: String,
    /// The language, given or detected.
    pub language: Option<Language>,
    /// `None` when the caller gave the language.
    pub language_confidence: Option<f32>,
    /// The metadata.
    pub metadata: Metadata,
    /// In order; never empty.
    pub passages: Vec<PassageSpan>,
    /// The embedding of its one passage, when the caller sent it; else passages wait for theirs.
    pub embedding: Option<Embedding>,
}

/// What the store did with one document.
#[derive(Debug, Clone, PartialEq)]
pub struct Upserted {
    /// Whether the id was new.
    pub created: bool,
    /// The change's place in the sequence.
    pub sequence: Sequence,
    /// Passages that have no embedding yet. When title and text did not change, the old embeddings stay, and these are the passages
    /// that still waited. Empty when a later document of the same call has the same id.
    pub pending: Vec<PendingPassage>,
    /// Passages of the old version that are gone.
    pub removed: Vec<PassageId>,
}

/// What the store removed.
#[derive(Debug, Clone, PartialEq)]
pub struct Deleted {
    /// The change's place in the sequence.
    pub sequence: Sequence,
    /// Passages that are gone.
    pub removed: Vec<PassageId>,
}

/// A document's key in the database, which stays as long as the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey(pub i64);

/// A passage that waits for its embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingPassage {
    /// Its key.
    pub id: PassageId,
    /// What it is read under.
    pub context: PassageContext,
    /// Its text.
    pub text: String,
}

/// One change of the index's content, read back after a restart.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// This passage has this embedding.
    Embedded(PassageId, Embedding),
    /// This passage is gone.
    Removed(PassageId),
}

/// Whose a passage is.
#[derive(Debug, Clone, PartialEq)]
pub struct PassageDocument {
    /// The passage.
    pub passage: PassageId,
    /// Its document's key.
    pub key: DocumentKey,
    /// Its document.
    pub document: DocumentId,
    /// The document's language.
    pub language: Option<Language>,
}

/// A passage with its document, as a hit needs it.
#[derive(Debug, Clone, PartialEq)]
pub struct PassageRow {
    /// The passage.
    pub passage: Passage,
    /// Its document.
    pub document: Document,
}

/// Bytes of what a hit may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitSizes {
    /// Of the document's title.
    pub title: u64,
    /// Of its text.
    pub text: u64,
    /// Of its metadata.
    pub metadata: u64,
    /// Of the passage.
    pub passage: u64,
}
