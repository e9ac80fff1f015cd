//! Documents by what they are instead of by id: lists in any order, counts per value; and what a write demands of the
//! document that it changes.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Document, DocumentId, Field, Filter, Language, Metadata, Scalar, Sequence};

/// What a list of documents is ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentOrder {
    /// The id, by code points.
    Id,
    /// When the document was first stored; of one millisecond by id.
    CreatedAt,
    /// When it was last stored; of one millisecond by id.
    UpdatedAt,
}

/// A place in an ordered list: after this document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrollPosition {
    /// Its time, when the list is ordered by one; else zero.
    pub at_ms: i64,
    /// Its id.
    pub id: DocumentId,
}

/// Which documents to read.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrollRequest {
    /// Only where this holds.
    pub filter: Filter,
    /// In which order.
    pub order: DocumentOrder,
    /// Whether the last comes first.
    pub descending: bool,
    /// Documents at most.
    pub limit: usize,
    /// Begins after this place.
    pub after: Option<ScrollPosition>,
}

/// One page of an ordered list.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrollPage {
    /// The documents.
    pub documents: Vec<Document>,
    /// Where the next page begins, when there is one.
    pub next: Option<ScrollPosition>,
}

/// A field whose values are counted: `language` or a metadata value.
#[derive(Debug, Clone, PartialEq)]
pub struct FacetRequest {
    /// The field.
    pub field: Field,
    /// Values at most.
    pub limit: usize,
}

/// The values of one field.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Facet {
    /// The field.
    #[schema(value_type = String)]
    pub field: Field,
    /// The most frequent values, most documents first.
    pub values: Vec<FacetValue>,
    /// Matching documents without a value: of no recognized language, or without such metadata. Null counts as none.
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

/// What counting the values of fields gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Facets {
    /// Documents that match.
    pub documents: u64,
    /// In the order of the requests.
    pub counts: Vec<Facet>,
    /// Bytes of the texts among the values.
    pub bytes: u64,
}

/// What must be true of a document for a write to happen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    /// Nothing.
    #[default]
    None,
    /// It is there, in whatever version.
    Present,
    /// It is not there.
    Absent,
    /// It is there in one of these versions.
    Version(Vec<Sequence>),
}

impl Precondition {
    /// Whether it holds for a document of this version; `None` stands for no document.
    pub fn holds(&self, version: Option<Sequence>) -> bool {
        match self {
            Self::None => true,
            Self::Present => version.is_some(),
            Self::Absent => version.is_none(),
            Self::Version(versions) => version.is_some_and(|version| versions.contains(&version)),
        }
    }
}

/// What becomes of a title.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TitleChange {
    /// It stays.
    #[default]
    Keep,
    /// It goes.
    Remove,
    /// It is this one from now on, which `check_title` has nothing against.
    Set(String),
}

impl TitleChange {
    /// The title that a document has afterwards.
    pub fn applied(self, title: Option<String>) -> Option<String> {
        match self {
            Self::Keep => title,
            Self::Remove => None,
            Self::Set(title) => Some(title),
        }
    }
}

/// What to change of a document besides its text.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentPatch {
    /// Another title cuts and embeds the text anew.
    pub title: TitleChange,
    /// Merged into the metadata as RFC 7396 says: a null removes, an object is merged, everything else replaces.
    pub metadata: Metadata,
    /// The language from now on; `None` leaves it as it is.
    pub language: Option<Language>,
    /// Bytes that the metadata may have afterwards, as JSON.
    pub metadata_bytes_max: usize,
    /// Levels that the metadata may have afterwards.
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
