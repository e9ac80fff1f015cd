//! How much room a disk has left for bytes and files, how to open only regular files, and how to create folders durably.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Returns the number of bytes that this process may still write to the disk of `folder`.
pub fn free_bytes(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Returns how many files this process may still create on the disk of `folder`.
pub(crate) fn free_files(folder: &Path) -> io::Result<u64> {
    let disk = rustix::fs::statvfs(folder)?;
    // A file system without a limit has no number of files.
    Ok(if disk.f_files == 0 { u64::MAX } else { disk.f_favail })
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

/// Creates a folder with its parents durably, so that a crash of the machine does not lose it and its content. An error comes
/// with the path that it is about.
pub(crate) fn create_folder(path: &Path, mode: u32) -> Result<(), (PathBuf, io::Error)> {
    if path.is_dir() {
        // The process that created it may have been killed before it was durable. If others made it, its parent may be a place
        // where this process cannot sync.
        let _ = sync(parent(path));
        return Ok(());
    }
    create_folder(parent(path), mode)?;
    create_folder_in_parent(path, mode).map_err(|error| (path.to_owned(), error))
}

/// Creates a folder in an existing one durably. If it exists already, the process that created it may have been killed before
/// it was durable.
pub(crate) fn create_folder_in_parent(path: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(path) {
        Err(error) if !path.is_dir() => Err(error),
        _ => sync(parent(path)),
    }
}

/// Whether an open file is the one at `path`. Fails if there is none.
pub(crate) fn is_at_path(file: &File, path: &Path) -> io::Result<bool> {
    let (held, found) = (file.metadata()?, path.metadata()?);
    Ok((held.dev(), held.ino()) == (found.dev(), found.ino()))
}

/// Makes a file or the entries of a folder durable.
pub(crate) fn sync(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Returns the folder of a path, which is the working directory if the path is only a name.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
