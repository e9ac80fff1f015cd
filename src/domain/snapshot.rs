//! Snapshots: copies of collections in one archive, and requests to restore them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::ids::{check_uuid, text_id};
use super::{Alias, ClassifierName, CollectionName, timestamps};

text_id! {
    /// A snapshot's id, the name of its archive: a UUID in lower case with hyphens.
    SnapshotId, |text| check_uuid("snapshot id", text)
}

/// A collection in a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = SnapshotCollectionInfo)]
pub struct SnapshotCollection {
    /// Its name in the snapshot.
    #[schema(value_type = String)]
    pub name: CollectionName,
    /// The model that embeds its texts; omitted if the caller sends vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// SHA-256 over everything that determines the model's embeddings. On a server with another model, the restored collection
    /// can be read, and `POST /v1/collections/{collection}/reembed` moves it to that model. Omitted without a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_fingerprint: Option<String>,
    /// Number of documents.
    pub documents: u64,
    /// The sequence number of the last change in the copy; no document in it has a higher version.
    pub sequence: u64,
    /// Size of its database in bytes, uncompressed.
    pub bytes: u64,
    /// SHA-256 of its database, in hexadecimal.
    pub sha256: String,
}

/// A classifier in a snapshot, with everything it has learned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SnapshotClassifierInfo)]
pub struct SnapshotClassifier {
    /// Its name in the snapshot.
    #[schema(value_type = String)]
    pub name: ClassifierName,
    /// The model whose embeddings it uses.
    pub model: String,
    /// SHA-256 over everything that determines the model's embeddings. On a server with another model, the restored classifier
    /// is outdated.
    pub model_fingerprint: String,
}

/// A snapshot: copies of collections, each at a single point in time. A snapshot of the whole server also has aliases and
/// classifiers.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
#[schema(as = SnapshotInfo)]
pub struct Snapshot {
    /// The id, a UUID.
    #[schema(value_type = String)]
    pub id: SnapshotId,
    /// When it was created.
    // In milliseconds since the Unix epoch.
    #[serde(rename = "created_at", serialize_with = "timestamps::serialize")]
    #[schema(value_type = String, format = DateTime)]
    pub created_at_ms: i64,
    /// The version of the server that created it.
    pub server_version: String,
    /// The collections in it.
    pub collections: Vec<SnapshotCollection>,
    /// Aliases of these collections; none unless it is a snapshot of the whole server.
    pub aliases: Vec<Alias>,
    /// Classifiers; none unless it is a snapshot of the whole server.
    pub classifiers: Vec<SnapshotClassifier>,
    /// Size of its archive in bytes.
    pub archive_bytes: u64,
    /// SHA-256 of its archive, in hexadecimal.
    pub archive_sha256: String,
}

/// What to restore from a snapshot.
#[derive(Debug, Clone, PartialEq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RestoreSnapshotRequest)]
pub struct RestoreRequest {
    /// The name of one collection of the snapshot. By default everything is restored, including aliases and classifiers.
    #[schema(value_type = Option<String>)]
    pub collection: Option<CollectionName>,
    /// A new name for this collection. Only together with `collection`.
    #[schema(value_type = Option<String>)]
    pub rename_to: Option<CollectionName>,
    /// Whether to replace existing collections, aliases and classifiers with the same names, including all their data.
    /// Otherwise, such a name is an error. An alias never replaces a collection, nor does a collection replace an alias.
    #[serde(default)]
    pub replace: bool,
}
