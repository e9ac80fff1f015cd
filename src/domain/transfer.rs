//! What comes in and goes out as a file: its format and its encoding.

use serde::{Deserialize, Serialize};

use super::names::names;
use super::{Code, DocumentId};

/// The format of a file of documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    /// One JSON object per line.
    Ndjson,
    /// RFC 4180 with a header row.
    Csv,
    /// Values between tabs with a header row, without quoting.
    Tsv,
}

names!(FileFormat { Ndjson = "ndjson", Csv = "csv", Tsv = "tsv" });

/// How a file is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEncoding {
    /// Not at all.
    Identity,
    /// With gzip.
    Gzip,
    /// With Zstandard.
    Zstd,
}

names!(FileEncoding { Identity = "identity", Gzip = "gzip", Zstd = "zstd" });

/// A document of a file that was refused, and its id if that is valid.
#[derive(Debug, Clone, PartialEq)]
pub struct RefusedDocument {
    /// The id.
    pub id: Option<DocumentId>,
    /// The kind of error.
    pub code: Code,
    /// JSON pointer into the document; empty for the whole.
    pub pointer: String,
    /// The limit, what was expected and what came.
    pub detail: String,
}
