//! What remains after the store was closed, dropped, or cut off.

use std::fs;

use dragoman::domain::{PassageId, Sequence};
use dragoman::store::{Change, DocumentStore, StoreOptions};

use crate::{OPTIONS, delete, document, embed, embedding, id, put, store};

/// Checks that the store contains document `a`, embedded, and `b`, which waits.
#[track_caller]
fn check_kept(store: &DocumentStore, sequence: Sequence) {
    assert_eq!(store.sequence().unwrap(), sequence);
    assert!(store.get(&id("a")).unwrap().unwrap().indexed);
    assert!(!store.get(&id("b")).unwrap().unwrap().indexed);
    assert_eq!(store.embeddings(PassageId(0), 10).unwrap(), [(PassageId(1), embedding(1.0))]);
    assert_eq!(store.pending(PassageId(0), 10).unwrap()[0].text, "zwei");
    let counts = store.counts().unwrap();
    assert_eq!((counts.documents, counts.passages, counts.passages_pending), (2, 2, 1));
}

fn fill(store: &DocumentStore) -> Sequence {
    let outcome = put(store, document("a", "eins"));
    embed(store, &outcome.pending);
    put(store, document("b", "zwei"));
    store.sequence().unwrap()
}

#[test]
fn a_closed_store_reopens_unchanged() {
    let (folder, store) = store();
    let sequence = fill(&store);
    store.close().unwrap();
    assert!(!folder.path().join("documents.sqlite-wal").exists(), "closing leaves one file");
    check_kept(&DocumentStore::open(folder.path(), &OPTIONS).unwrap(), sequence);
}

#[test]
fn a_dropped_store_reopens_unchanged() {
    let (folder, store) = store();
    let sequence = fill(&store);
    drop(store);
    check_kept(&DocumentStore::open(folder.path(), &OPTIONS).unwrap(), sequence);
}

#[test]
fn acknowledged_writes_survive_a_killed_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = DocumentStore::open(folder.path(), &StoreOptions { power_safe: true, ..OPTIONS.clone() }).unwrap();
    let sequence = fill(&store);
    // What a killed process leaves: the files in their current state, never closed.
    let left = tempfile::tempdir().unwrap();
    for name in ["documents.sqlite", "documents.sqlite-wal"] {
        fs::copy(folder.path().join(name), left.path().join(name)).unwrap();
    }
    check_kept(&DocumentStore::open(left.path(), &OPTIONS).unwrap(), sequence);
}

#[test]
fn after_a_restart_the_sequence_continues_and_keys_are_not_reused() {
    let (folder, store) = store();
    let first = put(&store, document("a", "eins"));
    embed(&store, &first.pending);
    let deleted = delete(&store, "a");
    store.close().unwrap();

    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    let second = put(&store, document("a", "eins"));
    assert!(second.sequence > deleted.sequence);
    assert!(second.pending[0].id > first.pending[0].id);
    let changes: Vec<_> = store.changes(Sequence(0), 10).unwrap().into_iter().map(|(_, change)| change).collect();
    assert_eq!(changes, [Change::Removed(first.pending[0].id)]);
}
