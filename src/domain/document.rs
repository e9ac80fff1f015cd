//! A document: a caller's text with its id, language and metadata, and the passages it is split into.

use serde::Serialize;
use utoipa::ToSchema;

use super::names::names;
use super::{Code, DocumentId, Embedding, Language, Metadata, MetadataObject, PassageId, Sequence, timestamps};

/// Maximum characters of a title.
pub const TITLE_CHARS_MAX: usize = 1_000;

/// Checks a title, which must be one line and must not be blank.
pub fn check_title(title: &str) -> Result<(), String> {
    let got = title.chars().count();
    if got > TITLE_CHARS_MAX {
        return Err(format!("must have at most {TITLE_CHARS_MAX} characters, got {got}"));
    }
    if title.trim().is_empty() {
        return Err("must not be blank; to have no title, leave it out or send null in a patch".to_owned());
    }
    // Unicode's line and paragraph separators would also break it into two lines.
    let breaks = |c: &char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    match title.chars().position(|c| breaks(&c)) {
        Some(at) => Err(format!("must be one line without control characters, got one at character {}", at + 1)),
        None => Ok(()),
    }
}

/// A validated document from a caller.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDocument {
    /// The caller's id; `None` generates a UUIDv7.
    pub id: Option<DocumentId>,
    /// The caller's title, valid according to `check_title`.
    pub title: Option<String>,
    /// Within the limits, and not blank unless there is a vector.
    pub text: String,
    /// The caller's own vector, checked by `Collection::prepare_vector`. Required in a collection without a model, otherwise not
    /// allowed.
    pub vector: Option<Embedding>,
    /// The language given by the caller; `None` to detect it.
    pub language: Option<Language>,
    /// The caller's metadata.
    pub metadata: Metadata,
    /// When it expires, in milliseconds since the Unix epoch; `None` if never.
    pub expires_at_ms: Option<i64>,
}

/// A stored document.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = StoredDocument)]
pub struct Document {
    /// The id.
    #[schema(value_type = String)]
    pub id: DocumentId,
    /// The title as it was sent; omitted if there is none.
    // It is embedded and searched with each passage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The text as it was sent.
    pub text: String,
    /// ISO 639-1 code of the language, given or detected; omitted if none was recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub language: Option<Language>,
    /// Confidence of the language detection, 0 to 1; omitted if the caller gave the language.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub language_confidence: Option<f32>,
    /// The caller's metadata; may be empty.
    #[schema(value_type = MetadataObject)]
    pub metadata: Metadata,
    /// Number of passages that the text was split into; each has its own embedding.
    #[schema(minimum = 1)]
    pub passages: usize,
    /// Whether all its passages are searchable.
    pub indexed: bool,
    /// When a document with this id was first stored.
    // In milliseconds since the Unix epoch, like the other times.
    #[serde(rename = "created_at", serialize_with = "timestamps::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at_ms: i64,
    /// When it was last stored.
    #[serde(rename = "updated_at", serialize_with = "timestamps::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub updated_at_ms: i64,
    /// When it expires: from then on it is not found. Omitted if it never expires.
    #[serde(rename = "expires_at", skip_serializing_if = "Option::is_none", serialize_with = "timestamps::serialize_some")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at_ms: Option<i64>,
    /// The document's version. Every change in the collection gets a higher version than all changes before it.
    // The sequence number of the change that wrote it.
    #[serde(rename = "version")]
    #[schema(value_type = u64)]
    pub sequence: Sequence,
}

/// The part of a stored document that filters and boosts read: everything but its title and text.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentHead {
    /// The id.
    pub id: DocumentId,
    /// The language; `None` if none was recognized.
    pub language: Option<Language>,
    /// The caller's metadata.
    pub metadata: Metadata,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Milliseconds since the Unix epoch.
    pub updated_at_ms: i64,
}

impl From<Document> for DocumentHead {
    fn from(Document { id, language, metadata, created_at_ms, updated_at_ms, .. }: Document) -> Self {
        Self { id, language, metadata, created_at_ms, updated_at_ms }
    }
}

/// A part of a document's text that has its own embedding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passage {
    /// Key in SQLite and in the index.
    pub id: PassageId,
    /// Byte offset of its start in the document's text.
    pub start: usize,
    /// Byte offset of its end, exclusive.
    pub end: usize,
}

/// When the server responds to an upsert: `stored`, as soon as the documents are durable, or `indexed`, as soon as searches
/// find them, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ToSchema)]
#[cfg_attr(feature = "server", derive(clap::ValueEnum))]
#[schema(as = WaitFor, rename_all = "snake_case")]
pub enum Wait {
    /// As soon as the documents are durable.
    Stored,
    /// As soon as searches find them, too.
    #[default]
    Indexed,
}

names!(Wait { Stored = "stored", Indexed = "indexed" });

/// A document that an upsert stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpsertedDocument {
    /// The id, given or generated.
    pub id: DocumentId,
    /// The new version.
    pub version: Sequence,
    /// Whether the id was new. Otherwise the new version replaced the old one.
    pub created: bool,
}

/// How many documents were stored, and how many were not.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct UpsertCounts {
    /// Their ids were new.
    pub created: u64,
    /// They replaced documents.
    pub updated: u64,
    /// Not stored.
    pub failed: u64,
}

/// Why one document was not stored.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct DocumentFailure {
    /// The error code, from the same closed list as for requests.
    pub code: Code,
    /// JSON pointer into the request body.
    // For a line of a file, it points into that line's document; empty for the whole document.
    pub pointer: String,
    /// The limit, what was expected and what was given.
    pub detail: String,
}

/// A page of a list: at most `limit` rows after `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Maximum rows.
    pub limit: usize,
    /// The last row of the previous page.
    pub after: Option<T>,
}

impl<T: Clone> Page<T> {
    /// One row more, which shows whether there is a next page.
    pub fn with_one_more(&self) -> Self {
        Self { limit: self.limit.saturating_add(1), after: self.after.clone() }
    }

    /// Takes the rows of this page from `rows`. Also returns the id of the last one if more rows follow.
    pub fn take<R>(&self, rows: impl IntoIterator<Item = R>, id: impl Fn(&R) -> &T) -> (Vec<R>, Option<T>) {
        let mut rows = rows.into_iter();
        let page: Vec<R> = rows.by_ref().take(self.limit).collect();
        let next = rows.next().and(page.last()).map(|last| id(last).clone());
        (page, next)
    }
}

/// One page of documents, in the order of their ids.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentPage {
    /// The rows.
    pub documents: Vec<Document>,
    /// Where the next page begins, if there is one.
    pub next: Option<DocumentId>,
}
