//! How much room a disk has left.

use std::io;
use std::path::Path;

/// Returns the number of bytes that this process may still write to the disk of `folder`.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}
