//! The folders of the data directory, and how their entries become durable.

pub(super) mod orphaned;

use std::path::Path;

/// The folder of the data directory that holds one folder per collection.
pub(crate) const COLLECTIONS_DIR: &str = "collections";
/// The folder of the data directory that holds the snapshots.
pub(crate) const SNAPSHOTS_DIR: &str = "snapshots";

/// Makes the entries of a folder survive power loss.
pub(crate) fn sync_dir(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}
