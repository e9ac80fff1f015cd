//! Only the server's own user may read what it stores: databases, indexes, snapshots and uploads hold everybody's texts, and the
//! catalog says whose keys open them.
//!
//! New files get modes 600 and 700 whatever the umask was that the server was started with; what an older version or a copy left
//! wider is narrowed at the start.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::Mode;
use rustix::process::umask;

/// What others than the owner may do.
const OTHERS: u32 = 0o077;
/// Of a file, nobody runs it either.
const OTHERS_AND_RUNNING: u32 = 0o177;
/// Of a folder that all users of a machine share, as `/tmp`.
const STICKY: u32 = 0o1000;

/// What the server keeps in the data directory: files and folders that begin with these names.
const OURS: [&str; 5] = ["catalog.sqlite", "collections", "jobs", "lock", "snapshots"];

/// Narrows what the process makes from now on, and what is in the data directory. What cannot be narrowed is named in the log:
/// the files may be somebody else's, or on a file system without modes.
pub fn keep_private(data_dir: &Path) {
    umask(Mode::from_raw_mode(OTHERS));
    let mut narrowed = Narrowed::default();
    narrowed.data_dir(data_dir);
    let data = data_dir.display();
    if narrowed.count > 0 {
        tracing::info!(%data, count = narrowed.count, "other users could read the data directory; changed its modes to 700 and 600");
    }
    if let Some((path, error)) = narrowed.failed {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(path, error, "other users may be able to read the data directory; cannot change its modes");
    }
}

#[derive(Default)]
struct Narrowed {
    count: u64,
    /// The first failure.
    failed: Option<(String, io::Error)>,
}

impl Narrowed {
    fn data_dir(&mut self, path: &Path) {
        let shared = path.metadata().is_ok_and(|folder| folder.permissions().mode() & STICKY != 0);
        if !shared {
            self.entry(path);
        }
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let ours = entry.file_name().to_str().is_some_and(|name| OURS.iter().any(|ours| name.starts_with(ours)));
            if ours {
                // One of these may be a link to another disk.
                self.all_in(&entry.path());
            }
        }
    }

    fn all_in(&mut self, path: &Path) {
        self.entry(path);
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => self.all_in(&entry.path()),
                Ok(kind) if kind.is_file() => self.entry(&entry.path()),
                _ => (),
            }
        }
    }

    fn entry(&mut self, path: &Path) {
        // One that is not there is nobody's.
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
