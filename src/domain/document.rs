//! A document: a caller's text with its id, language and metadata, and the passages that it is searched by.

use super::{Code, DocumentId, Embedding, Language, PassageId, Sequence};

/// A JSON object of the caller's own.
pub type Metadata = serde_json::Map<String, serde_json::Value>;

/// A document as a caller sends it, checked at the edge.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDocument {
    /// The caller's id, or `None` for a new UUIDv7.
    pub id: Option<DocumentId>,
    /// Within the limits; not blank, unless there is a vector.
    pub text: String,
    /// The caller's own vector, checked by `Collection::own_vector`; only for a collection without a model, which asks for it.
    pub vector: Option<Embedding>,
    /// The caller's word on the language; `None` means detect it.
    pub language: Option<Language>,
    /// The caller's metadata.
    pub metadata: Metadata,
}

/// A stored document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The id.
    pub id: DocumentId,
    /// The text as it was sent.
    pub text: String,
    /// The language, given or detected; `None` when none was recognized.
    pub language: Option<Language>,
    /// How sure the detection is, 0 to 1; `None` when the caller gave the language.
    pub language_confidence: Option<f32>,
    /// The caller's metadata.
    pub metadata: Metadata,
    /// How many passages it was split into.
    pub passages: usize,
    /// Whether all its passages are searchable.
    pub indexed: bool,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Milliseconds since the Unix epoch.
    pub updated_at_ms: i64,
    /// The change that wrote it: the document's version.
    pub sequence: Sequence,
}

/// A part of a document's text that one embedding stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// Key in SQLite and in the index.
    pub id: PassageId,
    /// Byte offset of its first byte in the document's text.
    pub start: usize,
    /// Byte offset after its last byte.
    pub end: usize,
}

/// When a write is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// When it is durable.
    Stored,
    /// When it is durable and searchable.
    Indexed,
}

/// What became of one document of an upsert.
#[derive(Debug, Clone, PartialEq)]
pub struct UpsertOutcome {
    /// The id, given or made; `None` when the item failed before it had one.
    pub id: Option<DocumentId>,
    /// Created, updated or failed.
    pub status: UpsertStatus,
    /// The document's version from now on; `None` when it failed.
    pub version: Option<Sequence>,
}

/// Created, updated or failed.
#[derive(Debug, Clone, PartialEq)]
pub enum UpsertStatus {
    /// The id was new.
    Created,
    /// The id was there; its old version is gone.
    Updated,
    /// Nothing of this document was stored.
    Failed {
        /// The reason's code.
        code: Code,
        /// Field, limit, expected and got.
        detail: String,
    },
}

/// Which rows of a list: at most `limit`, after the one that `after` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Rows at most.
    pub limit: usize,
    /// The last row of the page before.
    pub after: Option<T>,
}

/// One page of documents, in the order of their ids.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentPage {
    /// The rows.
    pub documents: Vec<Document>,
    /// Where the next page begins, when there is one.
    pub next: Option<DocumentId>,
}
