//! Explains why the server cannot write its data directory: a folder that a container mounts often belongs to a user other than
//! the server's, and the system only says that permission was denied.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::{getgid, getuid};

/// The files and folders that the server opens first in the data directory.
const OPENED_FIRST: [&str; 3] = ["lock", "catalog.sqlite", "collections"];

/// What prevents the server from writing the data directory, and the remedy; `None` if nothing does, so that there is another
/// cause.
pub fn find_write_obstacle(data_dir: &Path) -> Option<String> {
    let inside = OPENED_FIRST.map(|name| data_dir.join(name));
    find_write_obstacle_at(nearest_existing(data_dir)?).or_else(|| inside.iter().find_map(|path| find_write_obstacle_at(path)))
}

/// The user and the group of this process.
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
