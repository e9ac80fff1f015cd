//! Names the folders of the data directory, makes changes of their entries durable, and reads and writes whole files.

pub(super) mod emergency_space;
pub(super) mod orphaned;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use serde::de::DeserializeOwned;

use crate::disk;
pub(crate) use crate::disk::{is_at_path, open_file, open_regular, open_with_length, read_file, sync as sync_dir};
use crate::service::error::Error;

/// The catalog in the data directory, and in an archive.
pub(crate) const CATALOG: &str = "catalog.sqlite";
/// The folder of the data directory that holds one folder per collection.
pub(crate) const COLLECTIONS_DIR: &str = "collections";
pub(crate) const SNAPSHOTS_DIR: &str = "snapshots";

/// Adds the path of a file or folder to its error.
pub(crate) trait AtPath<T> {
    fn at(self, path: &Path) -> Result<T, Error>;
}

impl<T> AtPath<T> for io::Result<T> {
    fn at(self, path: &Path) -> Result<T, Error> {
        self.map_err(|source| Error::File { path: path.to_owned(), source })
    }
}

/// Creates a folder in an existing one durably, unless it exists.
pub(crate) fn create_dir_durably(path: &Path) -> io::Result<()> {
    disk::create_folder_in_parent(path, 0o777)
}

/// Writes a new file and makes its content durable, but not its name.
pub(crate) fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = create_file(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Renames a file within its folder, durably.
pub(crate) fn rename_durably(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)?;
    sync_dir(disk::parent(to))
}

/// Writes a file durably, as `partial` until it is complete, so that a crash leaves an older file at `path` intact.
pub(crate) fn replace_durably(partial: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    write_durably(partial, content)?;
    rename_durably(partial, path)
}

/// Turns the error that there was nothing to remove into `false`.
pub(crate) fn ignore_not_found(removed: io::Result<()>) -> io::Result<bool> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

/// Creates a regular file, or empties the one that exists.
pub(crate) fn create_file(path: &Path) -> io::Result<File> {
    open_regular(path, File::options().write(true).create(true).truncate(true))
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, Error> {
    let json = read_file(path).at(path)?;
    serde_json::from_slice(&json).map_err(io::Error::from).at(path)
}
