//! Folders of collections that nobody needs: how they are told from those that only the catalog has lost.
//!
//! Whoever puts an older copy of the catalog back has folders that it does not name, with documents that are nowhere else. So a
//! start removes a folder only when it is surely garbage: it holds no documents, or it has
//! a mark. The mark is a file that is durable in the folder before the catalog forgets its collection, and from the beginning in
//! the folder of a collection that a job makes; it goes once the catalog names the folder.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::{COLLECTIONS_DIR, SNAPSHOTS_DIR, sync_dir};
use crate::domain::{Collection, CollectionId};
use crate::service::error::Error;
use crate::store::holds_documents;

/// The database in the folder of a collection.
pub(crate) const DATABASE: &str = "documents.sqlite";
/// The mark.
const MARK: &str = "deleting";

/// Makes a change of the catalog after which nobody needs `folders`. They are marked first, so that the next start removes what a
/// crash leaves of them. Blocks.
pub(crate) fn removing_on_error<T>(folders: &[PathBuf], change: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    folders.iter().for_each(|folder| mark(folder));
    let changed = change();
    if changed.is_err() {
        folders.iter().for_each(|folder| unmark(folder));
    }
    changed
}

/// Marks a folder. When that fails the work goes on, as on a full disk it must: a crash then leaves a folder that stays.
pub(crate) fn mark(folder: &Path) {
    if matches!(folder.try_exists(), Ok(false)) {
        return;
    }
    let marked = File::create(folder.join(MARK)).and_then(|mark| mark.sync_all()).and_then(|()| sync_dir(folder));
    if let Err(error) = marked {
        let (folder, error) = (folder.display(), &error as &dyn std::error::Error);
        tracing::warn!(%folder, error, "cannot mark a collection's folder for removal");
    }
}

/// Takes the mark away, if there is one.
pub(crate) fn unmark(folder: &Path) {
    let unmarked = match std::fs::remove_file(folder.join(MARK)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync_dir(folder)),
    };
    if let Err(error) = unmarked {
        let (folder, error) = (folder.display(), &error as &dyn std::error::Error);
        tracing::warn!(%folder, error, "a collection's folder is still marked for removal; the next start tries again");
    }
}

/// Removes a folder, its documents first: what a crash leaves of it has none and goes at the next start, though its mark may be
/// gone.
pub(crate) fn remove(folder: &Path) -> io::Result<()> {
    let gone_is_well = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    gone_is_well(std::fs::remove_file(folder.join(DATABASE)))?;
    gone_is_well(std::fs::remove_dir_all(folder))
}

/// Looks through the folders that are named by a UUID, as this program names them: removes those that are surely garbage and
/// names others of which the catalog knows nothing. Unfinished jobs go on with the collections that are `half_made`. Nobody has anything
/// of them open. Blocks.
pub(crate) fn sweep(collections_dir: &Path, rows: &[Collection], half_made: &HashSet<CollectionId>) -> Result<(), Error> {
    let access = |source| Error::Folder { path: collections_dir.to_owned(), source };
    let known: HashSet<&str> = rows.iter().map(|row| row.id.0.as_str()).collect();
    for entry in std::fs::read_dir(collections_dir).map_err(access)? {
        let entry = entry.map_err(access)?;
        let name = entry.file_name();
        let Some(id) = name.to_str().filter(|name| Uuid::try_parse(name).is_ok()) else { continue };
        if !entry.file_type().map_err(access)?.is_dir() {
            continue;
        }
        let path = entry.path();
        if known.contains(id) {
            // A crash came between the mark and the change of the catalog.
            unmark(&path);
        } else if half_made.contains(&CollectionId(id.to_owned())) {
            continue;
        } else if is_garbage(&path) {
            tracing::info!(path = %path.display(), "removing a folder that an interrupted creation or deletion left behind");
            if let Err(source) = remove(&path) {
                return Err(Error::Folder { path, source });
            }
        } else {
            let problem = "the catalog does not name it, but it has documents, so it stays as it is";
            let help = "put back the catalog.sqlite that names it, or remove the folder";
            tracing::warn!(path = %path.display(), help, problem, "a collection's folder is not served");
        }
    }
    Ok(())
}

/// The folders of the data directory that hold a collection or a snapshot.
pub(crate) fn holding(data_dir: &Path) -> Result<Vec<&'static str>, Error> {
    let of_ours = |name: &str| Uuid::try_parse(name).is_ok();
    let mut found = Vec::new();
    for (folder, counts) in [(COLLECTIONS_DIR, &of_ours as &dyn Fn(&str) -> bool), (SNAPSHOTS_DIR, &|_| true)] {
        let path = data_dir.join(folder);
        let entries = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // A data directory that is none is named by who opens it.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => continue,
            entries => entries.and_then(Iterator::collect::<io::Result<Vec<_>>>),
        };
        let entries = entries.map_err(|source| Error::Folder { path, source })?;
        if entries.iter().any(|entry| entry.file_name().to_str().is_none_or(counts)) {
            found.push(folder);
        }
    }
    Ok(found)
}

/// Removes what an earlier run of a job has left of a folder that it makes; says whether none is there any more. One that
/// somebody may miss stays.
pub(crate) fn clear(folder: &Path) -> io::Result<bool> {
    match folder.try_exists()? {
        true if !is_garbage(folder) => Ok(false),
        true => remove(folder).map(|()| true),
        false => Ok(true),
    }
}

/// Whether nobody can miss a folder that the catalog does not name. One that cannot be read may be missed.
fn is_garbage(folder: &Path) -> bool {
    let database = folder.join(DATABASE);
    folder.join(MARK).exists() || matches!(database.try_exists(), Ok(false)) || matches!(holds_documents(&database), Ok(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_cleared_unless_somebody_may_miss_it() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("collection");
        assert!(clear(&folder).unwrap(), "there is none");
        std::fs::create_dir(&folder).unwrap();
        assert!(clear(&folder).unwrap() && !folder.exists(), "it has no database");
        std::fs::create_dir(&folder).unwrap();
        // Nobody can tell what is in it.
        std::fs::write(folder.join(DATABASE), "no database").unwrap();
        assert!(!clear(&folder).unwrap() && folder.join(DATABASE).exists());
        mark(&folder);
        assert!(clear(&folder).unwrap() && !folder.exists(), "it is marked");
    }
}
