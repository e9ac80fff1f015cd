//! The write-ahead log after power was lost: its end may be missing or garbled, where nothing was synced and nobody was
//! answered. What was acknowledged before is there.

use std::fs;

use dragoman::store::{DocumentStore, StoreOptions};

use crate::{OPTIONS, document, id, put};

/// Commits that were acknowledged.
const KEPT: usize = 20;

/// The database and its log, as they are after `KEPT` commits and one more, and the log's length before the last.
fn files() -> (Vec<u8>, Vec<u8>, usize) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("documents.sqlite-wal");
    let store = DocumentStore::open(folder.path(), &StoreOptions { power_safe: true, ..OPTIONS }).unwrap();
    for n in 0..KEPT {
        put(&store, document(&n.to_string(), &format!("text {n}")));
    }
    let length = fs::metadata(&log).unwrap().len() as usize;
    put(&store, document("last", &"a text of some pages ".repeat(2_000)));
    (fs::read(folder.path().join("documents.sqlite")).unwrap(), fs::read(&log).unwrap(), length)
}

/// Opens what was left; says whether the last commit is there.
fn check(database: &[u8], log: &[u8], what: &str) -> bool {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("documents.sqlite"), database).unwrap();
    fs::write(folder.path().join("documents.sqlite-wal"), log).unwrap();
    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    assert!(store.recovered_log());
    for n in 0..KEPT {
        assert!(store.get(&id(&n.to_string())).unwrap().is_some(), "{what}: commit {n} is lost");
    }
    assert!(store.check(10).unwrap().is_empty(), "{what}");
    put(&store, document("next", "the sequence goes on"));
    store.get(&id("last")).unwrap().is_some()
}

#[test]
fn a_log_that_is_cut_anywhere_in_its_last_commit_loses_that_commit_alone() {
    let (database, log, before) = files();
    let step = (log.len() - before) / 50;
    for length in (before..log.len()).step_by(step) {
        assert!(!check(&database, &log[..length], &format!("{length} of {} bytes", log.len())));
    }
    assert!(check(&database, &log, "all of it"));
}

#[test]
fn a_log_that_is_garbled_in_its_last_commit_loses_that_commit_alone() {
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
