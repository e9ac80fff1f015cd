//! Files that are imported and exported: their formats and compressions.

use super::{Code, Collection, DocumentId, Limits, NewDocument};

/// The format of a file of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFormat {
    /// One JSON object per line.
    Ndjson,
    /// RFC 4180 with a header row.
    Csv,
    /// Tab-separated values with a header row, without quoting.
    Tsv,
}

impl FileFormat {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ndjson, Self::Csv, Self::Tsv];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
        }
    }

    /// Parses a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }
}

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEncoding {
    /// Not at all.
    Identity,
    /// With gzip.
    Gzip,
    /// With Zstandard.
    Zstd,
}

impl FileEncoding {
    /// Its name in HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }
}

/// A rejected document of a file, with its id if that is valid.
#[derive(Debug, Clone, PartialEq)]
pub struct RefusedDocument {
    /// The id.
    pub id: Option<DocumentId>,
    /// The error code.
    pub code: Code,
    /// JSON pointer into the document; empty for the whole document.
    pub pointer: String,
    /// The limit, what was expected and what was given.
    pub detail: String,
}

/// Parses one document from JSON, as in a request, and checks it against its collection and the limits.
pub type DocumentReader = fn(&[u8], &Collection, &Limits) -> Result<NewDocument, RefusedDocument>;
