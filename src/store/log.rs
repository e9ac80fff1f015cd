//! Checks the write-ahead log, before SQLite reads it, for acknowledged changes that SQLite would not reach.
//!
//! SQLite reads a log up to the first frame that does not match its checksum, and silently ignores the rest. That is right for
//! the end of a log, which a power loss may tear, because nothing there was acknowledged. It is wrong for damage in the middle.
//! The frames that follow distinguish the two cases. With full durability, no transaction begins before the previous one is on
//! disk. So if a frame continues a commit, and there is a frame before it that does not match, that commit was acknowledged.
//! Each frame has the checksum of all frames before it, which proves whether it continues the previous one. Frames of an older
//! generation have other salts, and frames of a transaction that was rolled back do not continue a commit.
//!
//! The format is that of SQLite: a header of 32 bytes, then frames of a 24-byte header and a page each.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use super::StoreError;
use super::connection::{LOG_SUFFIX, beside, file_error};
use crate::disk;

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The last bit of the log's magic number gives the byte order of the checksums.
const MAGIC: u32 = 0x377f_0682;
/// Range of valid page sizes, which are powers of two.
const PAGE_SIZES: RangeInclusive<usize> = 512..=1 << 16;
/// Position of the page size in a database's own header.
const PAGE_SIZE_AT: usize = 16;

/// Refuses a log that lost acknowledged changes. Makes the log durable: a process that was killed may have written a commit
/// without syncing it, and from now on clients see that commit. No process may have the database open.
pub(super) fn check(database: &Path) -> Result<(), StoreError> {
    let path = log_path(database);
    let lost = match File::open(&path) {
        Ok(file) => {
            // Its name, too: SQLite syncs the folder only when it first syncs the log.
            let synced = file.sync_all().and_then(|()| disk::sync(disk::parent(&path)));
            synced.and_then(|()| find_lost(BufReader::with_capacity(1 << 20, file), || page_size(database)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    match lost.map_err(|error| file_error(&path, error))? {
        None => Ok(()),
        Some(Lost { part, transactions }) => Err(StoreError::LogDamaged { path, part, transactions }),
    }
}

pub(super) fn log_path(database: &Path) -> PathBuf {
    beside(database, LOG_SUFFIX)
}

/// The changes that SQLite would not reach.
#[derive(Debug, PartialEq, Eq)]
struct Lost {
    /// What does not match: "the header", "frame 7".
    part: String,
    /// Number of transactions after it that were certainly committed.
    transactions: u64,
}

/// A checksum over everything before it.
type Sum = [u32; 2];

/// A frame's own header.
#[derive(Debug, Clone, Copy)]
struct Frame {
    /// Whether a transaction ends with it.
    commits: bool,
    salts: [u8; 8],
    /// Whether its checksum continues that of the previous frame.
    follows: bool,
}

/// Reads the whole log.
fn find_lost(mut log: impl Read, page_size: impl Fn() -> io::Result<usize>) -> io::Result<Option<Lost>> {
    let mut header = [0; HEADER_BYTES];
    if !fill(&mut log, &mut header)? {
        return Ok(None);
    }
    let big_endian = match word(&header, 0) {
        magic if magic & !1 == MAGIC => magic & 1 == 1,
        _ => cfg!(target_endian = "big"),
    };
    let sum = [word(&header, 24), word(&header, 28)];
    let fits = add_checksum([0, 0], &header[..24], big_endian) == sum;
    let size = if fits { word(&header, 8) as usize } else { page_size()? };
    if !PAGE_SIZES.contains(&size) || !size.is_power_of_two() {
        return Ok(None);
    }
    let mut frames = Frames { log, buffer: vec![0; FRAME_HEADER_BYTES + size], big_endian, sum };
    if fits { lost_after_bad_frame(&mut frames, &header[16..24]) } else { lost_after_bad_header(&mut frames) }
}

/// Looks for committed transactions after the first frame that does not match.
fn lost_after_bad_frame<R: Read>(frames: &mut Frames<R>, salts: &[u8]) -> io::Result<Option<Lost>> {
    let (mut number, mut bad, mut transactions) = (0u64, None, 0);
    let mut commit_before = false;
    while let Some(frame) = frames.next()? {
        number += 1;
        let ours = frame.salts == *salts;
        if bad.is_none() && !(ours && frame.follows) {
            bad = Some(number);
        } else if bad.is_some() && commit_before && ours && frame.follows {
            transactions += 1;
        }
        commit_before = ours && frame.commits;
    }
    let lost = bad.filter(|_| transactions > 0);
    Ok(lost.map(|bad| Lost { part: format!("frame {bad}"), transactions }))
}

/// Looks for committed transactions after a header that does not match. The header was on disk before the first frame was
/// written, so each complete transaction counts.
fn lost_after_bad_header<R: Read>(frames: &mut Frames<R>) -> io::Result<Option<Lost>> {
    let mut transactions = 0;
    while let Some(frame) = frames.next()? {
        transactions += u64::from(frame.commits && frame.follows);
    }
    Ok((transactions > 0).then(|| Lost { part: "the header".to_owned(), transactions }))
}

struct Frames<R> {
    log: R,
    /// One frame with its page.
    buffer: Vec<u8>,
    big_endian: bool,
    /// The checksum stated by the previous frame.
    sum: Sum,
}

impl<R: Read> Frames<R> {
    /// Reads the next complete frame.
    fn next(&mut self) -> io::Result<Option<Frame>> {
        if !fill(&mut self.log, &mut self.buffer)? {
            return Ok(None);
        }
        let (head, page) = self.buffer.split_at(FRAME_HEADER_BYTES);
        let sum = [word(head, 16), word(head, 20)];
        let of_head = add_checksum(self.sum, &head[..8], self.big_endian);
        let follows = add_checksum(of_head, page, self.big_endian) == sum;
        self.sum = sum;
        let mut salts = [0; 8];
        salts.copy_from_slice(&head[8..16]);
        Ok(Some(Frame { commits: word(head, 4) != 0, salts, follows }))
    }
}

/// Fills the buffer. Returns whether there were enough bytes.
fn fill(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn word(bytes: &[u8], offset: usize) -> u32 {
    u32::from_be_bytes([bytes[offset], bytes[offset + 1], bytes[offset + 2], bytes[offset + 3]])
}

/// Computes SQLite's checksum over pairs of words.
fn add_checksum([mut first, mut second]: Sum, bytes: &[u8], big_endian: bool) -> Sum {
    let number = |bytes: [u8; 4]| if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    let (words, _) = bytes.as_chunks();
    for [one, other] in words.as_chunks().0 {
        first = first.wrapping_add(number(*one)).wrapping_add(second);
        second = second.wrapping_add(number(*other)).wrapping_add(first);
    }
    [first, second]
}

/// Reads the page size of a database. Its log has the same.
fn page_size(database: &Path) -> io::Result<usize> {
    let mut head = [0; PAGE_SIZE_AT + 2];
    File::open(database)?.read_exact(&mut head)?;
    // 65,536 does not fit into two bytes.
    Ok(match u16::from_be_bytes([head[PAGE_SIZE_AT], head[PAGE_SIZE_AT + 1]]) {
        1 => 1 << 16,
        size => usize::from(size),
    })
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;
    use tempfile::TempDir;

    use super::*;

    /// Makes a database whose write-ahead log is never moved into it.
    fn database() -> (TempDir, PathBuf, Connection) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sqlite");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("pragma journal_mode = wal; pragma wal_autocheckpoint = 0; create table t (a)").unwrap();
        (folder, path, connection)
    }

    fn commit(connection: &Connection, times: i64) {
        (0..times).for_each(|n| assert_eq!(connection.execute("insert into t values (?1)", [n]).unwrap(), 1));
    }

    /// Checks the files as a killed process would leave them now, after changing the log.
    fn check_changed(database: &Path, change: impl FnOnce(&mut Vec<u8>)) -> Result<(), StoreError> {
        let folder = tempfile::tempdir().unwrap();
        let copy = folder.path().join("copy.sqlite");
        std::fs::copy(database, &copy).unwrap();
        let mut log = std::fs::read(log_path(database)).unwrap();
        change(&mut log);
        std::fs::write(log_path(&copy), log).unwrap();
        check(&copy)
    }

    /// Returns where frame `number` begins, counting from 1.
    fn frame(number: usize) -> usize {
        HEADER_BYTES + (number - 1) * (FRAME_HEADER_BYTES + 4_096)
    }

    #[test]
    fn an_intact_or_missing_log_passes_the_check() {
        let (_folder, path, connection) = database();
        commit(&connection, 10);
        check_changed(&path, |_| ()).unwrap();
        let missing = path.with_extension("none");
        check(&missing).unwrap();
    }

    #[test]
    fn a_damaged_middle_frame_is_reported_by_number() {
        let (_folder, path, connection) = database();
        commit(&connection, 10);
        for byte in [0, 4, 9, 17, FRAME_HEADER_BYTES + 4_000] {
            let found = check_changed(&path, |log| log[frame(5) + byte] ^= 1).unwrap_err();
            assert!(found.is_damage(), "{found:?}");
            assert!(found.to_string().contains("frame 5 of its write-ahead log"), "{found}");
        }
    }

    #[test]
    fn a_damaged_log_header_is_reported() {
        let (_folder, path, connection) = database();
        commit(&connection, 3);
        for byte in [0, 7, 10, 13, 17, 21, 25, 30] {
            let found = check_changed(&path, |log| log[byte] ^= 1).unwrap_err();
            assert!(found.to_string().contains("the header of its write-ahead log"), "byte {byte}: {found}");
        }
    }

    #[test]
    fn a_torn_log_end_is_accepted() {
        let (_folder, path, connection) = database();
        commit(&connection, 3);
        let before = std::fs::metadata(log_path(&path)).unwrap().len() as usize;
        connection.execute("insert into t values (zeroblob(40000))", []).unwrap();
        let after = std::fs::metadata(log_path(&path)).unwrap().len() as usize;
        for offset in (before..after).step_by(1_111) {
            check_changed(&path, |log| log[offset] ^= 1).unwrap();
            check_changed(&path, |log| log.truncate(offset)).unwrap();
            check_changed(&path, |log| log[offset..].fill(0)).unwrap();
        }
    }

    #[test]
    fn stale_frames_from_before_a_log_restart_are_ignored() {
        let (_folder, path, connection) = database();
        commit(&connection, 20);
        connection.query_row("pragma wal_checkpoint(restart)", [], |_| Ok(())).unwrap();
        commit(&connection, 3);
        check_changed(&path, |_| ()).unwrap();
        check_changed(&path, |log| log[frame(3) + 100] ^= 1).unwrap();
        check_changed(&path, |log| log[frame(1) + 100] ^= 1).unwrap_err();
    }

    #[test]
    fn frames_of_a_rolled_back_transaction_are_ignored() {
        let (_folder, path, connection) = database();
        commit(&connection, 3);
        connection.execute_batch("pragma cache_size = 5; begin; insert into t values (zeroblob(400000)); rollback").unwrap();
        commit(&connection, 1);
        assert!(
            std::fs::metadata(log_path(&path)).unwrap().len() > 100_000,
            "the rolled-back transaction was written to the log"
        );
        check_changed(&path, |_| ()).unwrap();
        // Creating the table took two frames, and each commit took one. Frame 6 is the last one, which may not have been
        // acknowledged.
        check_changed(&path, |log| log[frame(6) + 100] ^= 1).unwrap();
        check_changed(&path, |log| log[frame(5) + 100] ^= 1).unwrap_err();
    }
}
