//! Selecting documents by their properties: ordered lists, and counts per value. Also the preconditions and changes of a write
//! to a single document.

use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Document, DocumentId, FacetBucket, FacetStats, Field, Filter, HistogramInterval, Language, Metadata, MetadataPath, Scalar,
    Sequence,
};

/// The order of a list of documents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentOrder {
    /// The id, by code points.
    Id,
    /// When the document was first stored; within the same millisecond, by id.
    CreatedAt,
    /// When it was last stored; within the same millisecond, by id.
    UpdatedAt,
    /// A metadata value: numbers (false as 0, true as 1) before strings by code points, with arrays and objects among the
    /// strings as their JSON; equal values by id. Documents without a value come last in both directions.
    Metadata(MetadataPath),
}

/// A position in an ordered list: after this document.
#[derive(Debug, Clone, PartialEq)]
pub struct ScrollPosition {
    /// The time or value that the list is ordered by; `None` if it is ordered by id, or if the document has no value.
    pub value: Option<Scalar>,
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
    /// The position to start after.
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

/// A field whose values to count: `language`, a metadata value, or one of the document's times. For a time only statistics and
/// a histogram are available.
#[derive(Debug, Clone, PartialEq)]
pub struct FacetRequest {
    /// The field.
    pub field: Field,
    /// Maximum values; at zero none are counted.
    pub limit: usize,
    /// Whether to compute statistics of its numbers or dates.
    pub stats: bool,
    /// The intervals in which to count documents.
    pub histogram: Option<HistogramInterval>,
}

/// The counted values of one field.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct Facet {
    /// The field.
    #[schema(value_type = String)]
    pub field: Field,
    /// The most frequent values, most documents first; none with `stats` or `histogram`, unless `limit` asks for them.
    pub values: Vec<FacetValue>,
    /// Matching documents without a value: without a recognized language, or without such metadata. Null counts as no value.
    pub missing: u64,
    /// The statistics of its values; omitted unless `stats` asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stats: Option<FacetStats>,
    /// The intervals that have documents, in order; omitted unless `histogram` asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub histogram: Option<Vec<FacetBucket>>,
}

/// One value of a field.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct FacetValue {
    /// A string, a number or a boolean. Each element of an array counts, once per document.
    #[schema(value_type = serde_json::Value)]
    pub value: Scalar,
    /// Number of matching documents that have it.
    pub documents: u64,
}

impl FacetValue {
    /// Bytes of the value if it is a string.
    pub fn bytes(&self) -> u64 {
        if let Scalar::Text(text) = &self.value { text.len() as u64 } else { 0 }
    }
}

/// Counts of documents and of the values of fields.
#[derive(Debug, Clone, PartialEq)]
pub struct Facets {
    /// Number of documents that match.
    pub documents: u64,
    /// In the order of the requests.
    pub counts: Vec<Facet>,
    /// Bytes of the strings among the values.
    pub bytes: u64,
}

impl Facets {
    /// Counts the values of each field with `count`, which also gets the remaining bytes. Stops as soon as the values exceed
    /// `bytes_max` bytes.
    pub fn collect<F, E>(
        documents: u64,
        fields: impl IntoIterator<Item = F>,
        bytes_max: u64,
        mut count: impl FnMut(F, u64) -> Result<Facet, E>,
    ) -> Result<Self, E> {
        let mut facets = Self { documents, counts: Vec::new(), bytes: 0 };
        for field in fields {
            let counted = count(field, bytes_max.saturating_sub(facets.bytes))?;
            facets.bytes += counted.values.iter().map(FacetValue::bytes).sum::<u64>();
            facets.counts.push(counted);
            if facets.bytes > bytes_max {
                break;
            }
        }
        Ok(facets)
    }
}

/// A precondition of a write to a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Precondition {
    /// No condition.
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

/// Changes to a document, except to its text.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentPatch {
    /// The new title, which passes `check_title`: `Some(None)` for none; `None` keeps the current one. A different title requires
    /// splitting and embedding the text again.
    pub title: Option<Option<String>>,
    /// Merged into the metadata as in RFC 7396: a null removes, an object is merged, everything else replaces.
    pub metadata: Metadata,
    /// The new language; `None` keeps the current one.
    pub language: Option<Language>,
    /// When it expires: `Some(None)` for never; `None` keeps the current expiry.
    pub expires_at_ms: Option<Option<i64>>,
    /// Maximum bytes of the resulting metadata, as JSON.
    pub metadata_bytes_max: usize,
    /// Maximum levels of the resulting metadata.
    pub metadata_depth_max: usize,
}
