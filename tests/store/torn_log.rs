//! The write-ahead log after a power loss: its end, which was neither synced nor acknowledged, may be missing or garbled.
//! Everything acknowledged before is there. Damage before that end is not a torn end and is reported.

use std::fs;

use dragoman::store::{DocumentStore, StoreError, StoreOptions};

use crate::{OPTIONS, document, id, put};

/// Number of acknowledged commits.
const KEPT: usize = 20;

/// Commits are synced to disk.
fn power_safe() -> StoreOptions {
    StoreOptions { power_safe: true, ..OPTIONS.clone() }
}

/// The database and its log after `KEPT` commits and one more, and the log's length before the last commit.
fn files() -> (Vec<u8>, Vec<u8>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("documents.sqlite-wal");
    let store = DocumentStore::open(folder.path(), &power_safe()).unwrap();
    for n in 0..KEPT {
        put(&store, document(&n.to_string(), &format!("text {n}")));
    }
    let length = fs::metadata(&log).unwrap().len() as usize;
    put(&store, document("last", &"a text of some pages ".repeat(2_000)));
    (fs::read(folder.path().join("documents.sqlite")).unwrap(), fs::read(&log).unwrap(), length)
}

/// Opens the remaining files; returns whether the last commit is there.
fn check(database: &[u8], log: &[u8], what: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("documents.sqlite"), database).unwrap();
    fs::write(folder.path().join("documents.sqlite-wal"), log).unwrap();
    let store =
        DocumentStore::open_existing(folder.path(), &power_safe(), None).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(store.recovered_log);
    for n in 0..KEPT {
        assert!(store.get(&id(&n.to_string())).unwrap().is_some(), "{what}: commit {n} is lost");
    }
    assert!(store.check(10).unwrap().is_empty(), "{what}");
    put(&store, document("next", "the sequence goes on"));
    store.get(&id("last")).unwrap().is_some()
}

#[test]
fn a_log_truncated_in_its_last_commit_loses_only_that_commit() {
    let (database, log, before) = files();
    let step = (log.len() - before) / 50;
    for length in (before..log.len()).step_by(step) {
        assert!(!check(&database, &log[..length], &format!("{length} of {} bytes", log.len())));
    }
    assert!(check(&database, &log, "all of it"));
}

#[test]
fn a_log_garbled_in_its_last_commit_loses_only_that_commit() {
    let (database, log, before) = files();
    let step = (log.len() - before) / 25;
    for at in (before..log.len()).step_by(step) {
        let mut garbled = log.clone();
        garbled[at..].fill(0xa5);
        assert!(!check(&database, &garbled, &format!("garbled from byte {at}")));
        let mut flipped = log.clone();
        flipped[at] ^= 1;
        assert!(!check(&database, &flipped, &format!("flipped in byte {at}")));
    }
}

/// A folder with a database and a log with one flipped bit.
fn flipped(database: &[u8], log: &[u8], at: usize) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut flipped = log.to_owned();
    flipped[at] ^= 1;
    fs::write(folder.path().join("documents.sqlite"), database).unwrap();
    fs::write(folder.path().join("documents.sqlite-wal"), flipped).unwrap();
    folder
}

#[test]
fn a_damaged_acknowledged_commit_is_reported_and_the_log_left_unchanged() {
    let (database, log, before) = files();
    for at in (0..before * 3 / 4).step_by(before / 97) {
        let folder = flipped(&database, &log, at);
        let kept = fs::read(folder.path().join("documents.sqlite-wal")).unwrap();
        for _ in 0..2 {
            let error = DocumentStore::open_existing(folder.path(), &power_safe(), None).err();
            assert!(matches!(error, Some(StoreError::LogDamaged { .. })), "flipped in byte {at}: {error:?}");
        }
        assert!(fs::read(folder.path().join("documents.sqlite-wal")).unwrap() == kept, "byte {at}");
    }
}

#[test]
fn without_power_safe_log_damage_is_reported_once_and_the_rest_served() {
    let (database, log, before) = files();
    let folder = flipped(&database, &log, before / 2);
    let relaxed = StoreOptions { power_safe: false, ..OPTIONS.clone() };
    let store = DocumentStore::open_existing(folder.path(), &relaxed, None).unwrap();
    assert!(matches!(store.lost_log, Some(StoreError::LogDamaged { .. })));
    assert!(store.get(&id("0")).unwrap().is_some() && store.get(&id("last")).unwrap().is_none());
    put(&store, document("next", "the sequence goes on"));
    // A copy of what a killed process leaves.
    let left = tempfile::tempdir().unwrap();
    for name in ["documents.sqlite", "documents.sqlite-wal"] {
        fs::copy(folder.path().join(name), left.path().join(name)).unwrap();
    }
    for options in [&relaxed, &power_safe()] {
        let store = DocumentStore::open_existing(left.path(), options, None).unwrap();
        assert!(store.lost_log.is_none() && store.get(&id("next")).unwrap().is_some());
    }
}
