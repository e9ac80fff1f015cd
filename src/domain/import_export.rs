//! Files that are imported and exported: their formats and compressions.

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
    /// Tab-separated values with a header row, without quoting.
    Tsv,
}

names!(FileFormat { Ndjson = "ndjson", Csv = "csv", Tsv = "tsv" });

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

names!(FileEncoding { Identity = "identity", Gzip = "gzip", Zstd = "zstd" });

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
