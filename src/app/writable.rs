//! Explains why the server cannot write its data directory: a folder that a container mounts often belongs to a user other than
//! the server's, and the system only says that permission was denied.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{getgid, getuid};

/// The folder of the data directory with a folder per collection.
const COLLECTIONS: &str = "collections";
/// The files and folders that the server opens in the data directory.
const OPENED: [&str; 5] = ["lock", "catalog.sqlite", COLLECTIONS, "jobs", "snapshots"];
/// The files that the server opens in the folder of a collection.
const OPENED_IN_COLLECTION: [&str; 3] = ["documents.sqlite", "documents.sqlite-wal", "documents.sqlite-shm"];

/// What prevents the server from writing the data directory, and the remedy. `None` if nothing does, so there must be
/// another cause.
pub fn find_write_obstacle(data_dir: &Path) -> Option<String> {
    let inside = OPENED.map(|name| data_dir.join(name));
    find_write_obstacle_at(nearest_existing(data_dir)?)
        .or_else(|| inside.iter().find_map(|path| find_write_obstacle_at(path)))
        .or_else(|| find_write_obstacle_in_collections(&data_dir.join(COLLECTIONS)))
}

fn find_write_obstacle_in_collections(collections: &Path) -> Option<String> {
    let folders = std::fs::read_dir(collections).ok()?.flatten().map(|entry| entry.path()).filter(|path| path.is_dir());
    folders.into_iter().find_map(|folder| {
        let files = OPENED_IN_COLLECTION.iter().map(|name| folder.join(name));
        find_write_obstacle_at(&folder).or_else(|| files.into_iter().find_map(|path| find_write_obstacle_at(&path)))
    })
}

pub fn current_user_and_group() -> (u32, u32) {
    (getuid().as_raw(), getgid().as_raw())
}

/// The folder itself, or its nearest existing ancestor, in which it would be created.
fn nearest_existing(data_dir: &Path) -> Option<&Path> {
    let here = |path: &&Path| path.as_os_str().is_empty() || path.symlink_metadata().is_ok();
    data_dir.ancestors().find(here).map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path })
}

fn find_write_obstacle_at(path: &Path) -> Option<String> {
    let found = path.metadata().ok()?;
    let needed =
        if found.is_dir() { Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK } else { Access::READ_OK | Access::WRITE_OK };
    let (shown, owner, group, mode) = (path.display(), found.uid(), found.gid(), found.mode() & 0o7777);
    match access(path, needed) {
        Err(Errno::ROFS) => Some(format!("{shown} is on a file system that is mounted read-only")),
        Err(Errno::ACCESS | Errno::PERM) if found.is_dir() || found.is_file() => {
            let (user, users_group) = current_user_and_group();
            Some(format!(
                "{shown} belongs to user {owner} of group {group} and has mode {mode:o}; give it to the server's user (for a \
                 container, on the host: chown -R {user}:{users_group} FOLDER), or run the server as its owner"
            ))
        }
        _ => None,
    }
}
