//! The folders of the data directory, and durable changes of their entries.

pub(super) mod orphaned;

use std::path::Path;

/// The catalog in the data directory, and in an archive.
pub(crate) const CATALOG: &str = "catalog.sqlite";
/// The folder of the data directory that holds one folder per collection.
pub(crate) const COLLECTIONS_DIR: &str = "collections";
/// The folder of the data directory that holds the snapshots.
pub(crate) const SNAPSHOTS_DIR: &str = "snapshots";

/// Makes changes of a folder's entries survive power loss.
pub(crate) fn sync_dir(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}
