//! Reserves some space on the data directory's disk for emergencies. When the disk is full, the server releases it, so that it
//! can still start, delete a collection and revoke a key: each needs room for a commit, and a start also needs room for the
//! databases that it opens.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::ignore_not_found;
use crate::disk::{free_bytes, free_files};
use crate::domain::Code;
use crate::service::error::Error;

const FILE: &str = "emergency-space";
/// Size of the file in bytes if a start opens no databases: room for commits of the catalog, which take a few pages each.
const BYTES: u64 = 4 << 20;
/// Additional bytes per database that a start opens. Its `-shm` file takes 32 KiB; the rest is for its log.
const BYTES_PER_DATABASE: u64 = 64 << 10;
/// Number of files and folders that the first start creates: those of the catalog, the lock, this file, and three folders.
const FILES: u64 = 8;
/// Number of files that appear beside a database while it is open.
const FILES_PER_DATABASE: u64 = 2;
/// Unit in which the system counts the blocks of a file.
const BLOCK_BYTES: u64 = 512;
/// Minimum time between two attempts to reserve the space again. An attempt may write the whole file, because a quota may leave
/// less room than the disk has.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The file that reserves the space.
pub(crate) struct EmergencySpace {
    path: PathBuf,
    /// Locked while the file is created or removed.
    status: Mutex<Status>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Status {
    /// Reserved, or missing for another reason than a full disk, which is ignored.
    #[default]
    Reserved,
    /// Released, and not reserved again since.
    Released,
    /// The disk lacked room at `tried`: `kib` KiB had to be free.
    Refused { tried: Instant, kib: u64 },
}

impl EmergencySpace {
    /// The space in a data directory. Creates nothing.
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self { path: data_dir.join(FILE), status: Mutex::default() }
    }

    /// Reserves the space for a start that opens this number of databases, unless that would leave less than `BYTES`. Fails if
    /// nothing is reserved because the disk lacks room. The server also works without the space, so other failures are only
    /// logged.
    pub(crate) fn reserve(&self, databases: usize) -> Result<(), Error> {
        self.reserve_locked(&mut self.status.lock(), databases)
    }

    /// Fails if the space is missing because it was released or the disk lacked room, and cannot be reserved again. Tries that
    /// at most once in `RETRY_PAUSE`.
    pub(crate) fn check(&self, databases: usize) -> Result<(), Error> {
        let mut status = self.status.lock();
        match *status {
            Status::Reserved => Ok(()),
            Status::Refused { tried, kib } if tried.elapsed() < RETRY_PAUSE => Err(Error::AdditionsWait { kib }),
            Status::Released | Status::Refused { .. } => self.reserve_locked(&mut status, databases),
        }
    }

    fn reserve_locked(&self, status: &mut Status, databases: usize) -> Result<(), Error> {
        let Some(kib) = self.try_reserve(databases) else {
            *status = Status::Reserved;
            return Ok(());
        };
        *status = Status::Refused { tried: Instant::now(), kib };
        Err(Error::AdditionsWait { kib })
    }

    /// If the disk lacks room to reserve the space, returns how many KiB must be free.
    fn try_reserve(&self, databases: usize) -> Option<u64> {
        let (needed, reserved) = (needed(databases), self.reserved_bytes());
        let free = self.free_bytes().filter(|_| reserved < needed)?;
        // A smaller file is replaced.
        let lacking_kib = (needed + BYTES - reserved).div_ceil(1024);
        if free + reserved < needed + BYTES {
            return (reserved < BYTES).then_some(lacking_kib);
        }
        let error = self.create(needed).err()?;
        tracing::debug!(path = %self.path.display(), %error, "cannot reserve emergency space");
        let _ = std::fs::remove_file(&self.path);
        // A user may have less room than the disk.
        let is_full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        is_full.then_some(lacking_kib)
    }

    /// Runs `work`. If it fails because the disk is full, releases the space and runs it once more.
    pub(crate) fn retry_on_full_disk<T>(&self, work: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        match work() {
            Err(error) if error.code() == Code::StorageUnavailable && self.is_disk_full(0) && self.release() => work(),
            done => done,
        }
    }

    /// Releases the space if the disk is too full to open this number of databases.
    pub(crate) fn release_if_disk_is_full(&self, databases: usize) {
        if self.is_disk_full(databases) {
            self.release();
        }
    }

    /// Adds to the error of a failed start how much room it lacks to open this number of databases, if the disk has too little,
    /// or too few files left.
    pub(crate) fn explain_full_disk(&self, error: Error, databases: usize) -> Error {
        let Some(folder) = self.path.parent().filter(|_| error.code() == Code::StorageUnavailable) else { return error };
        let (free, files) = (self.free_bytes().unwrap_or(u64::MAX), free_files(folder).unwrap_or(u64::MAX));
        let (folder, needed_files) = (folder.to_owned(), needed_files(databases));
        if free < needed(databases) {
            Error::DiskFull { folder, kib: (needed(databases) - free).div_ceil(1024), source: Box::new(error) }
        } else if files < needed_files {
            Error::TooFewFiles { folder, files: needed_files - files, source: Box::new(error) }
        } else {
            error
        }
    }

    /// Whether the disk has less free than the space would take.
    fn is_disk_full(&self, databases: usize) -> bool {
        self.free_bytes().is_some_and(|free| free < needed(databases))
    }

    /// Releases the space. Returns whether there was any.
    fn release(&self) -> bool {
        let mut status = self.status.lock();
        let existed = std::fs::remove_file(&self.path).is_ok();
        if existed {
            *status = Status::Released;
            tracing::warn!(path = %self.path.display(), "the disk is full; releasing the reserved emergency space");
        }
        existed
    }

    /// Returns how many bytes removing the file would free. It may be a link, have other links, or be sparse.
    fn reserved_bytes(&self) -> u64 {
        let Ok(file) = self.path.symlink_metadata() else { return 0 };
        if file.is_file() && file.nlink() == 1 { file.len().min(file.blocks() * BLOCK_BYTES) } else { 0 }
    }

    /// Creates the file in place of whatever there is, except a folder. Writes random bytes, because some file systems store
    /// zeros without occupying space.
    fn create(&self, bytes: u64) -> io::Result<()> {
        ignore_not_found(std::fs::remove_file(&self.path))?;
        // Unlike `create`, this follows no link.
        let mut file = File::create_new(&self.path)?;
        let mut piece = vec![0; BYTES_PER_DATABASE as usize];
        for _ in 0..bytes / BYTES_PER_DATABASE {
            getrandom::fill(&mut piece).map_err(io::Error::other)?;
            file.write_all(&piece)?;
        }
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        free_bytes(self.path.parent()?).ok()
    }
}

/// Returns how many files a start creates if it opens this number of databases.
fn needed_files(databases: usize) -> u64 {
    FILES + databases as u64 * FILES_PER_DATABASE
}

/// Returns the bytes that a start needs if it opens this number of databases.
fn needed(databases: usize) -> u64 {
    BYTES + databases as u64 * BYTES_PER_DATABASE
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Lets `prepare` put something at the file's path. Checks that the space is then reserved, and that nothing outside the
    /// data directory changed. `prepare` also gets the path of a file outside.
    fn check_replaced(prepare: impl FnOnce(&Path, &Path)) {
        let (data, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let outside = elsewhere.path().join("outside");
        std::fs::write(&outside, vec![7; BYTES as usize]).unwrap();
        let space = EmergencySpace::new(data.path());
        prepare(&space.path, &outside);
        space.reserve(0).unwrap();
        assert_eq!(space.reserved_bytes(), BYTES);
        assert!(std::fs::read(&outside).unwrap() == vec![7; BYTES as usize], "the file outside changed");
        assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 1);
    }

    #[test]
    fn links_are_replaced_and_not_followed() {
        check_replaced(|space, outside| symlink(outside, space).unwrap());
        check_replaced(|space, outside| symlink(outside.with_file_name("missing"), space).unwrap());
        check_replaced(|space, _| symlink(space, space).unwrap());
        check_replaced(|space, outside| std::fs::hard_link(outside, space).unwrap());
    }

    #[test]
    fn a_fifo_and_a_sparse_file_are_replaced() {
        check_replaced(|space, _| rustix::fs::mkfifoat(rustix::fs::CWD, space, rustix::fs::Mode::RWXU).unwrap());
        check_replaced(|space, _| File::create(space).unwrap().set_len(BYTES).unwrap());
    }

    #[test]
    fn a_folder_stays_and_is_no_failure() {
        let data = tempfile::tempdir().unwrap();
        let space = EmergencySpace::new(data.path());
        std::fs::create_dir(&space.path).unwrap();
        space.reserve(0).unwrap();
        assert!(space.path.is_dir() && space.reserved_bytes() == 0);
    }

    #[test]
    fn the_space_grows_with_the_databases_and_stays_if_there_are_fewer() {
        let data = tempfile::tempdir().unwrap();
        let space = EmergencySpace::new(data.path());
        for (databases, expect) in [(0, BYTES), (3, BYTES + 3 * BYTES_PER_DATABASE), (1, BYTES + 3 * BYTES_PER_DATABASE)] {
            space.reserve(databases).unwrap();
            assert_eq!(space.reserved_bytes(), expect, "{databases} databases");
        }
    }

    #[test]
    fn a_disk_without_room_is_an_error_unless_some_space_is_occupied() {
        let data = tempfile::tempdir().unwrap();
        let space = EmergencySpace::new(data.path());
        // No disk has that much.
        let databases = 1 << 40;
        let error = space.reserve(databases).unwrap_err();
        assert!(matches!(error, Error::AdditionsWait { .. }) && space.reserved_bytes() == 0, "{error:?}");
        assert!(matches!(*space.status.lock(), Status::Refused { .. }));
        space.reserve(0).unwrap();
        space.reserve(databases).unwrap();
        assert_eq!((space.reserved_bytes(), *space.status.lock()), (BYTES, Status::Reserved));
        assert!(space.release() && *space.status.lock() == Status::Released);
    }

    #[test]
    fn a_check_soon_after_a_failed_one_repeats_its_refusal_and_tries_nothing() {
        let data = tempfile::tempdir().unwrap();
        let space = EmergencySpace::new(data.path());
        space.check(1 << 40).expect("the space is not missing yet");
        let first = space.reserve(1 << 40).unwrap_err().to_string();
        assert_eq!(space.check(0).unwrap_err().to_string(), first);
        assert_eq!(space.reserved_bytes(), 0);
        let tried = Instant::now().checked_sub(RETRY_PAUSE).unwrap();
        *space.status.lock() = Status::Refused { tried, kib: 1 };
        space.check(0).unwrap();
        assert_eq!((space.reserved_bytes(), *space.status.lock()), (BYTES, Status::Reserved));
        assert!(space.release());
        space.check(0).expect("the first check after the space was released tries to reserve it");
    }

    #[test]
    fn only_a_full_disk_is_explained_with_the_room_that_a_start_lacks() {
        let data = tempfile::tempdir().unwrap();
        let space = EmergencySpace::new(data.path());
        let full = || Error::File { path: "new".into(), source: io::ErrorKind::StorageFull.into() };
        let explained = space.explain_full_disk(full(), 1 << 40);
        assert!(explained.to_string().starts_with("the disk is full: free at least "), "{explained}");
        assert_eq!(explained.code(), Code::StorageUnavailable);
        assert!(matches!(space.explain_full_disk(full(), 0), Error::File { .. }), "the disk has room");
        assert!(matches!(space.explain_full_disk(Error::Stopping, 1 << 40), Error::Stopping));
    }
}
