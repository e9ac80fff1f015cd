//! The lock on a data directory: only one process may use the directory, and only while the lock is a file in it.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::StoreError;
use super::connection::{check_regular, create_folder, file_error};
use crate::disk::is_at_path;

/// The file in the data directory that is locked.
const FILE: &str = "lock";

/// The lock on a data directory. The system unlocks it when the process ends, however it ends.
pub struct DirectoryLock {
    path: PathBuf,
    file: File,
    /// Whether the last check found another file, or none, at the path.
    is_lost: AtomicBool,
}

impl DirectoryLock {
    /// Locks a data directory for this process until it is dropped. Creates the directory if it is missing. Fails with
    /// `StoreError::DataDirectoryInUse` if it is locked already, by this process or another.
    pub fn acquire(data_dir: &Path) -> Result<Self, StoreError> {
        create_folder(data_dir)?;
        let path = data_dir.join(FILE);
        check_regular(&path)?;
        let file =
            File::options().create(true).truncate(false).write(true).open(&path).map_err(|error| file_error(&path, error))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path, file, is_lost: AtomicBool::new(false) }),
            Err(TryLockError::WouldBlock) => Err(StoreError::DataDirectoryInUse { path: data_dir.to_owned() }),
            Err(TryLockError::Error(error)) => Err(file_error(&path, error)),
        }
    }

    /// Returns whether the locked file is still at its path. If it is not, the directory was removed, moved, unmounted or
    /// replaced, or another process may have locked it. Logs when that begins and when it ends. Blocks.
    pub fn check(&self) -> bool {
        let found = is_at_path(&self.file, &self.path);
        let is_lost = !matches!(found, Ok(true));
        if self.is_lost.swap(is_lost, Ordering::SeqCst) == is_lost {
            return !is_lost;
        }
        let path = self.path.display();
        if is_lost {
            let problem = match found {
                Err(error) => format!("its lock cannot be found: {error}"),
                Ok(_) => "another file is in the place of its lock".to_owned(),
            };
            let help = "put the data directory back at its path, or restart the server";
            tracing::error!(%path, problem, help, "the data directory was removed, moved or replaced; refusing writes");
        } else {
            tracing::info!(%path, "the data directory is back; accepting writes");
        }
        !is_lost
    }

    /// Whether the last check found that the directory no longer has the locked file.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_lost_while_its_directory_is_elsewhere() {
        let parent = tempfile::tempdir().unwrap();
        let [data, elsewhere] = ["data", "elsewhere"].map(|name| parent.path().join(name));
        let lock = DirectoryLock::acquire(&data).unwrap();
        assert!(lock.check() && !lock.is_lost());
        std::fs::rename(&data, &elsewhere).unwrap();
        assert!(!lock.check() && lock.is_lost());
        std::fs::create_dir(&data).unwrap();
        let other = DirectoryLock::acquire(&data).unwrap();
        assert!(!lock.check() && other.check(), "each lock knows its own file");
        std::fs::remove_dir_all(&data).unwrap();
        std::fs::rename(&elsewhere, &data).unwrap();
        assert!(lock.check() && !lock.is_lost());
    }

    #[test]
    fn a_removed_lock_is_lost_even_if_there_is_a_new_one() {
        let data = tempfile::tempdir().unwrap();
        let lock = DirectoryLock::acquire(data.path()).unwrap();
        std::fs::remove_file(data.path().join(FILE)).unwrap();
        assert!(!lock.check());
        let second = DirectoryLock::acquire(data.path()).unwrap();
        assert!(!lock.check() && second.check());
    }
}
