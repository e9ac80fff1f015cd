//! Input and output of a collection's database: prepared documents, outcomes, pending passages, changes, and the data of hits.

use std::borrow::Cow;
use std::ops::Range;

use super::StoreError;
use crate::domain::{
    Document, DocumentHead, DocumentId, Embedding, HitParts, Language, Metadata, Passage, PassageContext, PassageEmbedding,
    PassageId, PassageSpan, Sequence, TokenSet, WordCounts,
};

/// A document ready to store: validated, its language known, split into passages.
#[derive(Debug, Clone)]
pub struct PreparedDocument {
    /// The id, given or generated.
    pub id: DocumentId,
    pub title: Option<String>,
    pub text: String,
    /// The language, given or detected.
    pub language: Option<Language>,
    /// Confidence of the detection; `None` if the caller gave the language.
    pub language_confidence: Option<f32>,
    pub metadata: Metadata,
    /// When it expires, in milliseconds since the Unix epoch. `None` for a document that does not expire.
    pub expires_at_ms: Option<i64>,
    /// The passages in order. Never empty.
    pub passages: Vec<PassageSpan>,
    /// The embedding of its only passage, if the caller sent one. Otherwise the passages wait for theirs.
    pub embedding: Option<Embedding>,
}

impl From<Document> for PreparedDocument {
    /// Without passages.
    fn from(document: Document) -> Self {
        Self {
            id: document.id,
            title: document.title,
            text: document.text,
            language: document.language,
            language_confidence: document.language_confidence,
            metadata: document.metadata,
            expires_at_ms: document.expires_at_ms,
            passages: Vec::new(),
            embedding: None,
        }
    }
}

impl PreparedDocument {
    /// Returns the text of a passage. Fails with `StoreError::InvalidPassage` if it is not part of the text or splits a
    /// character.
    pub(crate) fn passage_text(&self, span: &PassageSpan) -> Result<&str, StoreError> {
        let (start, end) = (span.range.start, span.range.end);
        self.text.get(start..end).ok_or_else(|| StoreError::InvalidPassage { id: self.id.clone(), start, end })
    }

    /// Returns a passage with its context, as it is indexed for lexical search.
    pub(crate) fn indexed_text(&self, span: &PassageSpan) -> Result<Cow<'_, str>, StoreError> {
        Ok(self.context(span).prepend_to(self.passage_text(span)?))
    }

    /// Returns a passage that waits for its embedding.
    pub(crate) fn pending_passage(&self, id: PassageId, span: &PassageSpan) -> Result<PendingPassage, StoreError> {
        Ok(PendingPassage { id, context: self.context(span), text: self.passage_text(span)?.to_owned() })
    }

    fn context(&self, span: &PassageSpan) -> PassageContext {
        PassageContext { title: self.title.clone(), headings: span.headings.clone() }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Upserted {
    /// Whether the id was new.
    pub created: bool,
    pub sequence: Sequence,
    /// Passages without an embedding. If title and text did not change, the old embeddings stay, and these are the passages
    /// that were still waiting. Empty if a later document of the same call has the same id.
    pub pending: Vec<PendingPassage>,
    /// Removed passages of the old version.
    pub removed: Vec<PassageId>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Deleted {
    pub sequence: Sequence,
    pub removed: Vec<PassageId>,
}

/// A document's key in the database, which stays as long as the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocumentKey(pub i64);

#[derive(Debug, Clone, PartialEq)]
pub struct PendingPassage {
    pub id: PassageId,
    pub context: PassageContext,
    pub text: String,
}

/// One change of the index's content, read back after a restart.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Embedded(PassageId, Embedding),
    Removed(PassageId),
}

#[derive(Debug, Clone, PartialEq)]
pub struct PassageDocument {
    pub passage: PassageId,
    pub key: DocumentKey,
    pub document: DocumentId,
    pub language: Option<Language>,
}

/// What to read of passages in addition to the heads of their documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassageParts {
    /// The title of the document.
    pub title: bool,
    /// The whole text of the document.
    pub text: bool,
    /// The text of the passage.
    pub excerpt: bool,
}

impl PassageParts {
    /// Everything.
    pub const ALL: Self = Self { title: true, text: true, excerpt: true };
    /// Only the title of the document.
    pub const TITLE: Self = Self { title: true, text: false, excerpt: false };
    /// Only the whole text of the document.
    pub const TEXT: Self = Self { title: false, text: true, excerpt: false };
    /// Only the text of the passage.
    pub const EXCERPT: Self = Self { title: false, text: false, excerpt: true };
}

impl From<HitParts> for PassageParts {
    fn from(HitParts { title, text, passage, .. }: HitParts) -> Self {
        Self { title, text, excerpt: passage }
    }
}

/// A passage with the requested parts of its document.
#[derive(Debug, Clone, PartialEq)]
pub struct PassageRow {
    pub passage: Passage,
    pub document: DocumentHead,
    /// Number of passages of the document.
    pub passages: usize,
    pub title: Option<String>,
    pub text: Option<String>,
    pub excerpt: Option<Excerpt>,
}

/// The text of a passage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excerpt {
    pub text: String,
    /// Where it is in the document's text, in characters.
    pub range: Range<usize>,
}

impl Excerpt {
    /// Copies a range of bytes of a text, which must not split a character.
    pub(crate) fn of(text: &str, range: Range<usize>) -> Self {
        let start = text[..range.start].chars().count();
        let text = text[range].to_owned();
        Self { range: start..start + text.chars().count(), text }
    }
}

/// Sizes of what a hit may include, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HitSizes {
    pub title: u64,
    pub text: u64,
    pub metadata: u64,
    pub passage: u64,
}

/// A document with its key and its passages, as one database hands it to another.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyedDocument<P> {
    pub key: DocumentKey,
    pub document: Document,
    /// Its passages, in order.
    pub passages: P,
}

/// A document with everything that an engine stores about it.
pub type DocumentRecord = KeyedDocument<Vec<PassageRecord>>;

/// A document to copy. `None` in place of its passages if those of the replacement have the same title and text and stay.
pub type CopiedDocument = KeyedDocument<Option<Vec<CopiedPassage>>>;

#[derive(Debug, Clone, PartialEq)]
pub struct CopiedPassage {
    pub span: PassageSpan,
    /// `None` if it waits for its embedding.
    pub embedding: Option<PassageEmbedding>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct PassageRecord {
    pub id: PassageId,
    pub span: PassageSpan,
    /// Its embedding, and the change that stored it. `None` while it waits.
    pub embedded: Option<(Sequence, Embedding)>,
    /// Its tokens. A passage with a caller's own vector has none.
    pub tokens: TokenSet,
    /// Its words in their plain form.
    pub words: WordCounts,
}

impl DocumentRecord {
    /// Returns approximately how many bytes it takes in memory.
    pub fn bytes(&self) -> u64 {
        let values = |passage: &PassageRecord| passage.embedded.as_ref().map_or(0, |(_, embedding)| embedding.dimension());
        let passages = self.passages.iter().map(|passage| size_of::<PassageRecord>() + values(passage) * size_of::<f32>());
        (self.document.text.len() + passages.sum::<usize>()) as u64
    }
}
