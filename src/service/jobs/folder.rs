//! The folder of a job that is about to be accepted.

use std::path::{Path, PathBuf};

use crate::service::error::Error;
use crate::service::folders::sync_dir;

/// A folder for a job's files that goes away with a job that is not accepted.
pub(crate) struct Folder {
    path: PathBuf,
    kept: bool,
}

impl Folder {
    /// Makes it.
    pub(crate) fn create(path: PathBuf) -> Result<Self, Error> {
        let create = || {
            std::fs::create_dir(&path)?;
            path.parent().map_or(Ok(()), sync_dir)
        };
        create().map_err(|source| Error::Folder { path: path.clone(), source })?;
        Ok(Self { path, kept: false })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The job was accepted.
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.kept {
            // Else the next start removes it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
