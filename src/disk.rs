//! How much room a disk has left, and how to open only regular files.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Returns the number of bytes that this process may still write to the disk of `folder`.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Opens or creates a regular file. Anything else is an error: opening a FIFO could wait forever without `O_NONBLOCK`.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("it is not a regular file")) }
}

/// Opens a regular file to read it.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    open_regular(path, File::options().read(true))
}

/// Reads a regular file.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let (mut file, bytes) = open_with_length(path)?;
    let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
    file.read_to_end(&mut content)?;
    Ok(content)
}

/// Opens a regular file to read it, and returns its length in bytes.
pub(crate) fn open_with_length(path: &Path) -> io::Result<(File, u64)> {
    let file = open_file(path)?;
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}
