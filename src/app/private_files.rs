//! Makes everything that the server stores readable only by its own user: databases, indexes, snapshots and uploads contain all
//! users' texts, and the catalog contains the hashes of keys.
//!
//! New files get modes 600 and 700 regardless of the umask; wider modes left by an older version or a copy are narrowed at
//! start-up.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::umask;

use crate::domain::with_causes;

/// The permission bits of all users but the owner.
const OTHERS: u32 = 0o077;
/// For a file, also the owner's permission to execute it.
const OTHERS_AND_RUNNING: u32 = 0o177;
/// The sticky bit of a folder that all users of a machine share, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// The server's files and folders in the data directory have names that begin with one of these.
const SERVER_ENTRIES: [&str; 6] = ["catalog.sqlite", "collections", "emergency-space", "jobs", "lock", "snapshots"];

/// Narrows the modes of new files, and of those in the data directory. The log names those that it cannot change:
/// they may belong to another user, or be on a file system without modes.
pub fn keep_private(data_dir: &Path) {
    umask(Mode::from_raw_mode(OTHERS));
    let mut narrowed = ModeNarrower::default();
    narrowed.narrow_data_dir(data_dir);
    let data = data_dir.display();
    if narrowed.count > 0 {
        tracing::info!(%data, count = narrowed.count, "other users could read the data directory; changed its modes to 700 and 600");
    }
    if let Some((path, error)) = narrowed.failed {
        let error = with_causes(&error);
        tracing::warn!(path, error, "other users may be able to read the data directory; cannot change its modes");
    }
}

#[derive(Default)]
struct ModeNarrower {
    count: u64,
    /// The first failure.
    failed: Option<(String, io::Error)>,
}

impl ModeNarrower {
    fn narrow_data_dir(&mut self, path: &Path) {
        let shared = path.metadata().is_ok_and(|folder| folder.permissions().mode() & STICKY != 0);
        if !shared {
            self.narrow(path);
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let ours = entry.file_name().to_str().is_some_and(|name| SERVER_ENTRIES.iter().any(|ours| name.starts_with(ours)));
            if ours {
                // This entry may be a link to another disk.
                self.all_in(&entry.path());
            }
        }
    }

    fn all_in(&mut self, path: &Path) {
        self.narrow(path);
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.all_in(&entry.path()),
                Ok(kind) if kind.is_file() => self.narrow(&entry.path()),
                _ => (),
            }
        }
    }

    fn narrow(&mut self, path: &Path) {
        // There is nothing to protect in a missing file.
        let Ok(found) = path.metadata() else { return };
        let (mode, wide) = (found.permissions().mode(), if found.is_dir() { OTHERS } else { OTHERS_AND_RUNNING });
        if mode & wide == 0 {
            return;
        }
        match fs::set_permissions(path, Permissions::from_mode(mode & !wide)) {
            Ok(()) => self.count += 1,
            Err(error) => drop(self.failed.get_or_insert_with(|| (path.display().to_string(), error))),
        }
    }
}
