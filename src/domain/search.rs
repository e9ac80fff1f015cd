//! A search and its answer.

use super::{DocumentId, Language, Metadata};

/// A metadata value that can be compared for equality.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// A string.
    Text(String),
    /// An integer.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// A truth value.
    Bool(bool),
}

/// Demands that the metadata value at `path` equals `value`. A number equals a number of the same value; values of different
/// types are never equal.
#[derive(Debug, Clone, PartialEq)]
pub struct Equals {
    /// Keys from the outermost to the innermost; never empty.
    pub path: Vec<String>,
    /// The value.
    pub value: Scalar,
}

/// A text query, checked at the edge.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// The query, in any language.
    pub query: String,
    /// Hits at most, at least 1.
    pub limit: usize,
    /// Hits only in these languages; empty means all.
    pub languages: Vec<Language>,
    /// Hits only where all of these hold.
    pub filter: Vec<Equals>,
}

/// The passage of a document that answers best.
#[derive(Debug, Clone, PartialEq)]
pub struct HitPassage {
    /// Its text.
    pub text: String,
    /// Character offset (Unicode code points) of its first character in the document's text.
    pub start: usize,
    /// Character offset after its last character.
    pub end: usize,
}

/// A document that answers a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The document's id.
    pub id: DocumentId,
    /// Cosine similarity of query and best passage, -1 to 1.
    pub score: f32,
    /// The document's language.
    pub language: Option<Language>,
    /// The document's text.
    pub text: String,
    /// The document's metadata.
    pub metadata: Metadata,
    /// The best passage.
    pub passage: HitPassage,
}

/// Hits, nearest first.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchAnswer {
    /// Hits, nearest first.
    pub hits: Vec<Hit>,
    /// Whether the query had more tokens than the model reads.
    pub query_truncated: bool,
}
