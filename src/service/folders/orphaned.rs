//! Removes orphaned folders of collections. Keeps folders that are missing only because the catalog is an older copy.
//!
//! An operator who restores an older copy of the catalog has folders that this catalog does not name, with documents that exist
//! nowhere else. So at start a folder is removed only if it is certainly garbage: if it holds no documents, or if it is marked.
//! The mark is a file in the folder. It is made durable before the catalog drops a collection. A collection that a job builds
//! has the mark from the beginning, until the catalog names its folder.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{AtPath, COLLECTIONS_DIR, SNAPSHOTS_DIR, ignore_not_found, sync_dir};
use crate::domain::{Collection, CollectionId, with_causes};
use crate::service::error::Error;
use crate::store::has_documents;

pub(crate) const DATABASE: &str = "documents.sqlite";
/// The file that marks a folder as garbage.
const MARK: &str = "deleting";

/// Runs a change of the catalog that orphans `folders`. Marks them first, so that the next start removes whatever a crash
/// leaves of them. If the change fails, removes the marks again. Blocks.
pub(crate) fn with_garbage_marks<T>(folders: &[PathBuf], change: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    folders.iter().for_each(|folder| mark(folder));
    let changed = change();
    if changed.is_err() {
        folders.iter().for_each(|folder| unmark(folder));
    }
    changed
}

/// Marks a folder as garbage. Only logs a failure, because work must go on even if the disk is full. If a crash follows such a
/// failure, the folder stays.
pub(crate) fn mark(folder: &Path) {
    if matches!(folder.try_exists(), Ok(false)) {
        return;
    }
    let marked = File::create(folder.join(MARK)).and_then(|mark| mark.sync_all()).and_then(|()| sync_dir(folder));
    if let Err(error) = marked {
        let (folder, error) = (folder.display(), with_causes(&error));
        tracing::warn!(%folder, error, "cannot mark a collection's folder for removal");
    }
}

pub(crate) fn unmark(folder: &Path) {
    let mark = folder.join(MARK);
    let unmarked = ignore_not_found(std::fs::remove_file(&mark));
    if let Err(error) = unmarked.and_then(|removed| if removed { sync_dir(folder) } else { Ok(()) }) {
        let (folder, error) = (folder.display(), with_causes(&error));
        if matches!(mark.try_exists(), Ok(true)) {
            tracing::warn!(%folder, error, "a collection's folder is still marked for removal; the next start tries again");
        } else {
            tracing::warn!(%folder, error, "cannot tell whether a collection's folder is marked for removal");
        }
    }
}

/// Removes a folder, its documents first. After a crash the folder has no documents, so the next start removes it even without
/// a mark.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    let database = folder.join(DATABASE);
    // A folder in its place holds no documents.
    if !database.is_dir() && ignore_not_found(std::fs::remove_file(database))? {
        // A power loss must not restore the documents without the mark.
        sync_dir(folder)?;
    }
    ignore_not_found(std::fs::remove_dir_all(folder)).map(drop)
}

/// Removes the folders that are certainly garbage, and logs other folders that the catalog does not name. Ignores folders whose
/// names are not UUIDs, because this program did not create them. Keeps the collections in `unfinished`, which unfinished jobs
/// continue to build. Nothing in these folders may be open. Blocks.
pub(crate) fn sweep(collections_dir: &Path, rows: &[Collection], unfinished: &HashSet<CollectionId>) -> Result<(), Error> {
    let known: HashSet<&str> = rows.iter().map(|row| row.id.0.as_str()).collect();
    for entry in std::fs::read_dir(collections_dir).at(collections_dir)? {
        let entry = entry.at(collections_dir)?;
        let name = entry.file_name();
        let Some(id) = name.to_str().filter(|name| Uuid::try_parse(name).is_ok()) else { continue };
        if !entry.file_type().at(collections_dir)?.is_dir() {
            continue;
        }
        let path = entry.path();
        if known.contains(id) {
            // A crash must have come between marking the folder and changing the catalog.
            unmark(&path);
        } else if unfinished.contains(&CollectionId(id.to_owned())) {
            continue;
        } else if is_garbage(&path) {
            tracing::info!(path = %path.display(), "removing a folder that an interrupted creation or deletion left behind");
            remove(&path).at(&path)?;
        } else {
            let problem = "the catalog does not name it, but it has documents, so it stays as it is";
            let help = "put back the catalog.sqlite that names it, or remove the folder";
            tracing::warn!(path = %path.display(), help, problem, "a collection's folder is not served");
        }
    }
    Ok(())
}

/// Returns the folders of the data directory that hold a collection or a snapshot.
pub(crate) fn occupied_folders(data_dir: &Path) -> Result<Vec<&'static str>, Error> {
    let is_collection_id = |name: &str| Uuid::try_parse(name).is_ok();
    let mut found = Vec::new();
    for (folder, counts) in [(COLLECTIONS_DIR, &is_collection_id as &dyn Fn(&str) -> bool), (SNAPSHOTS_DIR, &|_| true)] {
        let path = data_dir.join(folder);
        let entries = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // Opening the data directory will report that it is not a folder.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
            entries => entries.and_then(Iterator::collect::<io::Result<Vec<_>>>),
        };
        let entries = entries.at(&path)?;
        if entries.iter().any(|entry| entry.file_name().to_str().is_none_or(counts)) {
            found.push(folder);
        }
    }
    Ok(found)
}

/// Removes the folder that an earlier run of a job left. Returns whether the folder is gone. A folder that may hold the only
/// copy of some documents stays.
pub(crate) fn clear(folder: &Path) -> io::Result<bool> {
    match folder.try_exists()? {
        true if !is_garbage(folder) => Ok(false),
        true => remove(folder).map(|()| true),
        false => Ok(true),
    }
}

/// Whether a folder that the catalog does not name is certainly garbage. A folder that cannot be read is not.
fn is_garbage(folder: &Path) -> bool {
    let database = folder.join(DATABASE);
    folder.join(MARK).exists() || matches!(database.try_exists(), Ok(false)) || matches!(has_documents(&database), Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_cleared_unless_it_has_an_unmarked_database() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("collection");
        assert!(clear(&folder).unwrap(), "there is no folder");
        std::fs::create_dir(&folder).unwrap();
        assert!(clear(&folder).unwrap() && !folder.exists(), "a folder without a database is removed");
        std::fs::create_dir(&folder).unwrap();
        // The content of this database is unknown, so the folder must stay.
        std::fs::write(folder.join(DATABASE), "no database").unwrap();
        assert!(!clear(&folder).unwrap() && folder.join(DATABASE).exists());
        mark(&folder);
        assert!(clear(&folder).unwrap() && !folder.exists(), "a marked folder is removed");
        std::fs::create_dir_all(folder.join(DATABASE)).unwrap();
        mark(&folder);
        assert!(clear(&folder).unwrap() && !folder.exists(), "even if a folder is in the place of the database");
    }
}
