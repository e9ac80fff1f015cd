//! Keeps some space on the data directory's disk for emergencies. When the disk is full, the server gives the space up, so that
//! it can start, delete a collection and revoke a key there: each needs room for a commit.

use std::io;
use std::path::{Path, PathBuf};

use crate::disk::free_bytes;
use crate::domain::Code;
use crate::service::error::Error;

/// The file in the data directory that occupies the space.
const FILE: &str = "emergency-space";
/// Size of the file in bytes: opening a database takes 32 KiB, and a commit of the catalog a few pages.
const BYTES: usize = 4 << 20;

/// The file that occupies the space.
pub(crate) struct EmergencySpace {
    path: PathBuf,
}

impl EmergencySpace {
    /// The space in a data directory. Creates nothing.
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self { path: data_dir.join(FILE) }
    }

    /// Occupies the space, unless that would take half of what is left. The server also works without it, so a failure is only
    /// logged.
    pub(crate) fn occupy(&self) {
        let is_occupied = self.path.metadata().is_ok_and(|file| file.len() == BYTES as u64);
        if is_occupied || self.free_bytes().is_none_or(|free| free < 2 * BYTES as u64) {
            return;
        }
        if let Err(error) = self.write() {
            tracing::debug!(path = %self.path.display(), %error, "cannot occupy space for emergencies");
            let _ = std::fs::remove_file(&self.path);
        }
    }

    /// Runs `work`. If it fails because the disk is full, gives the space up and runs it once more.
    pub(crate) fn retry_on_full_disk<T>(&self, work: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        match work() {
            Err(error) if error.code() == Code::StorageUnavailable && self.is_disk_full() && self.give_up() => work(),
            done => done,
        }
    }

    /// Gives the space up if the disk is full.
    pub(crate) fn give_up_if_disk_is_full(&self) {
        if self.is_disk_full() {
            self.give_up();
        }
    }

    fn is_disk_full(&self) -> bool {
        self.free_bytes().is_some_and(|free| free < BYTES as u64)
    }

    /// Returns whether there was space to give up.
    fn give_up(&self) -> bool {
        let existed = std::fs::remove_file(&self.path).is_ok();
        if existed {
            tracing::warn!(path = %self.path.display(), "the disk is full; giving up the space kept for emergencies");
        }
        existed
    }

    /// Writes random bytes, because some file systems store zeros without occupying space.
    fn write(&self) -> io::Result<()> {
        let mut bytes = vec![0; BYTES];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        std::fs::write(&self.path, bytes)
    }

    fn free_bytes(&self) -> Option<u64> {
        free_bytes(self.path.parent()?).ok()
    }
}
