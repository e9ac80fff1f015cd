//! The folder of a new job's files, until the job is accepted.

use std::path::{Path, PathBuf};

use crate::service::error::Error;
use crate::service::folders::{AtPath, create_dir_durably};

/// The folder for a new job's files. Dropping it removes the folder, unless the job was accepted.
pub(crate) struct Folder {
    path: PathBuf,
    retained: bool,
}

impl Folder {
    pub(crate) fn create(path: PathBuf) -> Result<Self, Error> {
        create_dir_durably(&path).at(&path)?;
        Ok(Self { path, retained: false })
    }

    pub(super) fn existing(path: PathBuf) -> Self {
        Self { path, retained: false }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Retains the folder, because the job was accepted.
    pub(crate) fn retain(mut self) {
        self.retained = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.retained {
            // If this fails, the next start removes it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
