//! Remembers across restarts that a collection is searched: an empty file in its folder says so. The next start then prepares
//! the collection (`search::start_preparing`). If the mark is lost, the first search takes longer.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::OpenCollection;

impl OpenCollection {
    fn search_mark(&self) -> PathBuf {
        self.folder.join("searched")
    }

    /// Marks the collection as searched, unless it was since the start.
    pub(crate) fn mark_searched(&self) {
        if self.searched.load(Ordering::Relaxed) || self.embedded().is_err() {
            return;
        }
        // Nobody removes the folder while this is locked. If it is locked already, the next search tries again.
        let Some(_applied) = self.applied.try_lock() else { return };
        if !self.is_deleted() {
            // Never follows a link, nor waits for the other end of a FIFO.
            drop(OpenOptions::new().write(true).create_new(true).open(self.search_mark()));
        }
        self.searched.store(true, Ordering::Relaxed);
    }

    /// Removes the mark. Returns whether there was one: whether the collection was searched before the start.
    pub(crate) fn take_search_mark(&self) -> bool {
        self.embedded().is_ok() && std::fs::remove_file(self.search_mark()).is_ok()
    }
}
