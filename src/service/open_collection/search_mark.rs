//! Remembers across restarts that a collection is searched in mode `full`: the time of an empty file in its folder says when
//! it was. A start prepares the collections that were searched recently (`search::start_preparing`). If the mark is lost,
//! the first search takes longer.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::OpenCollection;
use crate::store::system_clock;

/// How long a search is remembered.
const REMEMBERED: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How often the mark is renewed.
const RENEWED_MS: i64 = 24 * 60 * 60 * 1_000;

impl OpenCollection {
    fn search_mark(&self) -> PathBuf {
        self.folder.join("searched")
    }

    /// Marks the collection as searched now, unless that was done recently.
    pub(crate) fn mark_searched(&self) {
        let now = system_clock();
        if now - self.marked_searched_ms.load(Ordering::Relaxed) < RENEWED_MS || self.embedded().is_err() {
            return;
        }
        // The folder is never removed while this is locked. If it is locked already, the next search tries again.
        let Some(_applied) = self.applied.try_lock() else { return };
        if !self.is_deleted() {
            let _ = std::fs::remove_file(self.search_mark());
            // Follows no link, and does not wait for the other end of a FIFO.
            drop(OpenOptions::new().write(true).create_new(true).open(self.search_mark()));
        }
        self.marked_searched_ms.store(now, Ordering::Relaxed);
    }

    /// Whether the collection was searched recently, before the start or after it.
    pub(crate) fn was_searched_lately(&self) -> bool {
        let modified = self.search_mark().symlink_metadata().and_then(|mark| mark.modified());
        // If the clock was set back, the time of a mark may be in the future, so that it has no age.
        self.embedded().is_ok() && modified.is_ok_and(|time| time.elapsed().unwrap_or_default() < REMEMBERED)
    }
}
