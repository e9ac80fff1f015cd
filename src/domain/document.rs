//! A document: a caller's text with its id, language and metadata, and the passages it is split into.

use super::{Code, DocumentId, Embedding, Language, PassageId, Sequence};

/// Maximum characters of a title.
pub const TITLE_CHARS_MAX: usize = 1_000;

/// Checks a title, which must be one line and must not be blank.
pub fn check_title(title: &str) -> Result<(), String> {
    let got = title.chars().count();
    if got > TITLE_CHARS_MAX {
        return Err(format!("must have at most {TITLE_CHARS_MAX} characters, got {got}"));
    }
    if title.trim().is_empty() {
        return Err("must contain something besides white space; leave it out for no title".to_owned());
    }
    // Unicode's other line and paragraph separators would make it two lines, too.
    let breaks = |c: &char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    match title.chars().position(|c| breaks(&c)) {
        Some(at) => Err(format!("must be one line without control characters, got one at character {}", at + 1)),
        None => Ok(()),
    }
}

/// A caller's JSON object.
pub type Metadata = serde_json::Map<String, serde_json::Value>;

/// A validated document from a caller.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDocument {
    /// The caller's id, or `None` for a new UUIDv7.
    pub id: Option<DocumentId>,
    /// The caller's title, which passes `check_title`.
    pub title: Option<String>,
    /// Within the limits; not blank, unless there is a vector.
    pub text: String,
    /// The caller's own vector, checked by `Collection::own_vector`; only for a collection without a model, which requires it.
    pub vector: Option<Embedding>,
    /// The language given by the caller; `None` means detect it.
    pub language: Option<Language>,
    /// The caller's metadata.
    pub metadata: Metadata,
    /// When it expires, in milliseconds since the Unix epoch; `None` if it stays.
    pub expires_at_ms: Option<i64>,
}

/// A stored document.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// The id.
    pub id: DocumentId,
    /// The title as it was sent; it is embedded and searched with each passage.
    pub title: Option<String>,
    /// The text as it was sent.
    pub text: String,
    /// The language, given or detected; `None` if none was recognized.
    pub language: Option<Language>,
    /// Confidence of the detection, 0 to 1; `None` if the caller gave the language.
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
    /// Milliseconds since the Unix epoch, from which on nobody finds it; `None` if it stays.
    pub expires_at_ms: Option<i64>,
    /// The change that wrote it: the document's version.
    pub sequence: Sequence,
}

/// What filters and boosts look at of a stored document: all but its title and text.
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

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// When it is durable.
    Stored,
    /// When it is durable and searchable.
    Indexed,
}

/// The result of one document of an upsert.
#[derive(Debug, Clone, PartialEq)]
pub struct UpsertOutcome {
    /// The id, given or generated; `None` if the item failed before it had one.
    pub id: Option<DocumentId>,
    /// Created, updated or failed.
    pub status: UpsertStatus,
    /// The document's new version; `None` if it failed.
    pub version: Option<Sequence>,
}

/// Created, updated or failed.
#[derive(Debug, Clone, PartialEq)]
pub enum UpsertStatus {
    /// The id was new.
    Created,
    /// The id existed; the new version replaced the old one.
    Updated,
    /// Nothing of this document was stored.
    Failed {
        /// The error code.
        code: Code,
        /// Field, limit, expected and got.
        detail: String,
    },
}

/// A page of a list: at most `limit` rows after `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// Maximum rows.
    pub limit: usize,
    /// The last row of the previous page.
    pub after: Option<T>,
}

/// One page of documents, in the order of their ids.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentPage {
    /// The rows.
    pub documents: Vec<Document>,
    /// Where the next page begins, if there is one.
    pub next: Option<DocumentId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line_within_its_bound() {
        let check = |title: &str, expect: Option<&str>| {
            let problem = check_title(title).err();
            assert!(problem.as_deref().unwrap_or_default().contains(expect.unwrap_or_default()), "{title:?}: {problem:?}");
            assert_eq!(problem.is_some(), expect.is_some(), "{title:?}");
        };
        check("Fahrplan für Dezember – gültig ab 14.12.", None);
        check("時刻表\u{200d}", None);
        check(&"é".repeat(TITLE_CHARS_MAX), None);
        check(&"é".repeat(TITLE_CHARS_MAX + 1), Some("at most 1000 characters, got 1001"));
        check("", Some("besides white space"));
        check(" \u{3000}", Some("besides white space"));
        check("two\nlines", Some("got one at character 4"));
        check("a\u{2028}b", Some("character 2"));
        check("\0", Some("character 1"));
    }
}
