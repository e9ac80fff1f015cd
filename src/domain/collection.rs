//! A collection: documents that share one model and one index.

use super::{CollectionId, CollectionName, Language};

/// How two vectors are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Cosine similarity, -1 to 1, higher is nearer.
    Cosine,
}

/// What a caller asks for when creating a collection.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCollection {
    /// The name.
    pub name: CollectionName,
    /// The caller's description, free text.
    pub description: Option<String>,
    /// The model by name; `None` means the one that the server has loaded.
    pub model: Option<String>,
}

/// A collection as the catalog keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    /// Stable id: its folder.
    pub id: CollectionId,
    /// The name.
    pub name: CollectionName,
    /// The caller's description.
    pub description: Option<String>,
    /// The model's name.
    pub model: String,
    /// The model's fingerprint: vectors of another one never enter.
    pub model_fingerprint: String,
    /// Values per embedding.
    pub dimension: usize,
    /// How embeddings are compared.
    pub metric: Metric,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
}

/// What a collection holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CollectionCounts {
    /// Documents.
    pub documents: u64,
    /// Passages of all documents.
    pub passages: u64,
    /// Passages that are not searchable yet.
    pub passages_pending: u64,
    /// Documents per language, most first; `None` stands for documents of no recognized language.
    pub languages: Vec<(Option<Language>, u64)>,
    /// Bytes of the database and the index on disk.
    pub disk_bytes: u64,
}

/// Whether a collection's index answers in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexState {
    /// Everything acknowledged with `wait=indexed` is found.
    Ready,
    /// Start-up is still adding passages from SQLite.
    Recovering,
}

/// A collection with what it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionView {
    /// The catalog's row.
    pub collection: Collection,
    /// What it holds.
    pub counts: CollectionCounts,
    /// Whether its index answers in full.
    pub index_state: IndexState,
}
