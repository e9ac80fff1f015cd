//! Snapshots: copies of collections in one archive, and what is asked of them.

use serde::Serialize;
use utoipa::ToSchema;

use super::ids::{deserialized_by_parse, is_uuid};
use super::{Alias, ClassifierName, CollectionName, InvalidId, timestamps};

/// A snapshot's id: a UUID, the name of its archive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SnapshotId(String);

impl SnapshotId {
    /// Accepts a UUID in lower case with hyphens.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        is_uuid("snapshot id", text)?;
        Ok(Self(text.to_owned()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

deserialized_by_parse!(SnapshotId);

impl std::fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A collection in a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = SnapshotCollectionInfo)]
pub struct SnapshotCollection {
    /// The name that it had.
    #[schema(value_type = String)]
    pub name: CollectionName,
    /// The model that embeds its texts; omitted when its vectors are the caller's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model: Option<String>,
    /// SHA-256 over what decides the model's embeddings. Restored on a server with another
    /// model, the collection can be read, and `POST /v1/collections/{collection}/reembed` gives it that model. Omitted without a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub model_fingerprint: Option<String>,
    /// Documents.
    pub documents: u64,
    /// The last change that the copy holds: the highest version of a document in it is not above it.
    pub sequence: u64,
    /// Bytes of its database, unpacked.
    pub bytes: u64,
    /// SHA-256 of its database, in hexadecimal.
    pub sha256: String,
}

/// A classifier in a snapshot, with all that it has learned.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = SnapshotClassifierInfo)]
pub struct SnapshotClassifier {
    /// The name that it had.
    #[schema(value_type = String)]
    pub name: ClassifierName,
    /// The model whose embeddings it takes.
    pub model: String,
    /// SHA-256 over what decides the model's embeddings. Restored where another model is loaded it is outdated.
    pub model_fingerprint: String,
}

/// A snapshot: copies of collections, each as it was at one moment, and of the whole server also aliases and classifiers.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = SnapshotInfo)]
pub struct Snapshot {
    /// The id, a UUID.
    #[schema(value_type = String)]
    pub id: SnapshotId,
    /// When it was made.
    // In milliseconds since the Unix epoch.
    #[serde(rename = "created_at", serialize_with = "timestamps::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at_ms: i64,
    /// The version of the server that made it.
    pub server_version: String,
    /// What it holds.
    pub collections: Vec<SnapshotCollection>,
    /// Aliases of these collections; none unless it is of the whole server.
    pub aliases: Vec<Alias>,
    /// Classifiers; none unless it is of the whole server.
    pub classifiers: Vec<SnapshotClassifier>,
    /// Bytes of its archive.
    pub archive_bytes: u64,
    /// SHA-256 of its archive, in hexadecimal.
    pub archive_sha256: String,
}

/// What to restore of a snapshot.
#[derive(Debug, Clone, PartialEq)]
pub struct RestoreRequest {
    /// One collection of the snapshot, without aliases and classifiers; `None` means all that it holds.
    pub collection: Option<CollectionName>,
    /// Another name for that one.
    pub rename_to: Option<CollectionName>,
    /// Whether collections, aliases and classifiers that exist already are replaced.
    pub replace: bool,
}
