//! Names the folders of the data directory, and makes changes of their entries durable.

pub(super) mod orphaned;

use std::path::Path;

/// The catalog in the data directory, and in an archive.
pub(crate) const CATALOG: &str = "catalog.sqlite";
/// The folder of the data directory that holds one folder per collection.
pub(crate) const COLLECTIONS_DIR: &str = "collections";
/// The folder of the data directory that holds the snapshots.
pub(crate) const SNAPSHOTS_DIR: &str = "snapshots";

/// Syncs a folder, so that changes of its entries survive a power loss.
pub(crate) fn sync_dir(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}
