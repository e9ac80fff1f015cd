//! Selecting documents by their properties: lists in any order, and counts per value. Also the conditions and changes of a write
//! to a single document.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Document, DocumentId, Field, Filter, Language, Metadata, Scalar, Sequence};

/// The order of a list of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentOrder {
    /// The id, by code points.
    Id,
    /// When the document was first stored; within the same millisecond, by id.
    CreatedAt,
    /// When it was last stored; within the same millisecond, by id.
    UpdatedAt,
}

/// A place in an ordered list: after this document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrollPosition {
    /// Its time, if the list is ordered by one; otherwise zero.
    pub at_ms: i64,
    /// Its id.
    pub id: DocumentId,
}

/// Which documents to read.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrollRequest {
    /// Only documents that match.
    pub filter: Filter,
    /// The order.
    pub order: DocumentOrder,
    /// Whether to reverse the order.
    pub descending: bool,
    /// Maximum documents.
    pub limit: usize,
    /// The place to start after.
    pub after: Option<ScrollPosition>,
}

/// One page of an ordered list.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrollPage {
    /// The documents.
    pub documents: Vec<Document>,
    /// Where the next page begins, if there is one.
    pub next: Option<ScrollPosition>,
}

/// A field whose values to count: `language` or a metadata value.
#[derive(Debug, Clone, PartialEq)]
pub struct FacetRequest {
    /// The field.
    pub field: Field,
    /// Maximum values.
    pub limit: usize,
}

/// The counted values of one field.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Facet {
    /// The field.
    #[schema(value_type = String)]
    pub field: Field,
    /// The most frequent values, most documents first.
    pub values: Vec<FacetValue>,
    /// Matching documents without a value: without a recognized language, or without such metadata. Null counts as no value.
    pub missing: u64,
}

/// One value of a field.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FacetValue {
    /// A string, a number or a boolean. Each element of an array counts, once per document.
    #[schema(value_type = serde_json::Value)]
    pub value: Scalar,
    /// Matching documents that have it.
    pub documents: u64,
}

/// The result of counting.
#[derive(Debug, Clone, PartialEq)]
pub struct Facets {
    /// Documents that match.
    pub documents: u64,
    /// In the order of the requests.
    pub counts: Vec<Facet>,
    /// Bytes of the texts among the values.
    pub bytes: u64,
}

/// A condition that a document must meet to be written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// It exists, in any version.
    Present,
    /// It does not exist.
    Absent,
    /// It exists in one of these versions.
    Version(Vec<Sequence>),
}

impl Precondition {
    /// Whether a document with this version meets it; `None` stands for no document.
    pub fn holds(&self, version: Option<Sequence>) -> bool {
        match self {
            Self::None => true,
            Self::Present => version.is_some(),
            Self::Absent => version.is_none(),
            Self::Version(versions) => version.is_some_and(|version| versions.contains(&version)),
        }
    }
}

/// A change of a title.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TitleChange {
    /// Keep it.
    #[default]
    Keep,
    /// Remove it.
    Remove,
    /// Replace it with this one, which passes `check_title`.
    Set(String),
}

impl TitleChange {
    /// The resulting title.
    pub fn applied(self, title: Option<String>) -> Option<String> {
        match self {
            Self::Keep => title,
            Self::Remove => None,
            Self::Set(title) => Some(title),
        }
    }
}

/// Changes to a document, except to its text.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentPatch {
    /// A different title splits and embeds the text again.
    pub title: TitleChange,
    /// Merged into the metadata as in RFC 7396: a null removes, an object is merged, everything else replaces.
    pub metadata: Metadata,
    /// The new language; `None` keeps the current one.
    pub language: Option<Language>,
    /// When it expires, `Some(None)` for never; `None` keeps what is.
    pub expires_at_ms: Option<Option<i64>>,
    /// Maximum bytes of the resulting metadata, as JSON.
    pub metadata_bytes_max: usize,
    /// Maximum levels of the resulting metadata.
    pub metadata_depth_max: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_precondition_is_about_one_version() {
        let version = |number| Some(Sequence(number));
        let check = |precondition: &Precondition, version, expect| assert_eq!(precondition.holds(version), expect);
        check(&Precondition::None, None, true);
        check(&Precondition::Present, None, false);
        check(&Precondition::Present, version(1), true);
        check(&Precondition::Absent, version(1), false);
        check(&Precondition::Version(vec![Sequence(1), Sequence(2)]), version(2), true);
        check(&Precondition::Version(vec![Sequence(1)]), version(2), false);
        check(&Precondition::Version(Vec::new()), None, false);
    }
}
