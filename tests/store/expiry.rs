//! Expiring documents, with clocks that the tests control: restarts, damage and copies. What holds for every engine is in
//! `tests/engines/expiry.rs`.

use std::sync::atomic::{AtomicI64, Ordering};

use dragoman::domain::{Field, Filter, JobId, Page, PassageId, Test};
use dragoman::store::{Change, CopiedDocument, DocumentStore, PreparedDocument, SearchFilter, StoreError};
use rusqlite::Connection;

use crate::{OPTIONS, document, embed, put};

/// A clock that stands at `$now`.
macro_rules! clock {
    ($now:ident, $clock:ident) => {
        static $now: AtomicI64 = AtomicI64::new(0);
        fn $clock() -> i64 {
            $now.load(Ordering::SeqCst)
        }
    };
}

fn expiring(name: &str, text: &str, expires_at_ms: i64) -> PreparedDocument {
    PreparedDocument { expires_at_ms: Some(expires_at_ms), ..document(name, text) }
}

fn document_ids(store: &DocumentStore) -> Vec<String> {
    let page = store.list(&Page { limit: 1_000, after: None }, u64::MAX).unwrap();
    page.documents.into_iter().map(|document| document.id.as_str().to_owned()).collect()
}

/// A store with a document that stays and one that expires at 1,000 ms.
fn store_with_expiring_document(folder: &std::path::Path, clock: dragoman::store::Clock) -> DocumentStore {
    let store = DocumentStore::open_with_clock(folder, &OPTIONS, clock).unwrap();
    for document in [document("stays", "the tide comes"), expiring("goes", "the tide goes", 1_000)] {
        embed(&store, &put(&store, document).pending);
    }
    store
}

#[test]
fn after_a_restart_expired_documents_are_hidden_and_then_deleted() {
    clock!(NOW, clock);
    let folder = tempfile::tempdir().unwrap();
    let store = store_with_expiring_document(folder.path(), clock);
    NOW.store(1_000, Ordering::SeqCst);
    // The server stops before it deletes the expired document.
    store.close().unwrap();
    let store = DocumentStore::open_with_clock(folder.path(), &OPTIONS, clock).unwrap();
    assert!(store.expiry_due());
    assert_eq!(document_ids(&store), ["stays"]);
    let with_id = SearchFilter { filter: Filter::Field(Field::Id, Test::Exists(true)), ..SearchFilter::default() };
    for filter in [SearchFilter::default(), with_id] {
        assert_eq!(store.matching_passages(&filter, None).unwrap().passages, [PassageId(1)]);
    }
    let before = store.sequence().unwrap();
    assert_eq!(store.delete_expired().unwrap().rows.len(), 1);
    assert!(matches!(store.changes(before, 10).unwrap()[..], [(_, Change::Removed(PassageId(2)))]));
    store.close().unwrap();
    let store = DocumentStore::open_with_clock(folder.path(), &OPTIONS, clock).unwrap();
    assert!(!store.expiry_due());
    assert_eq!(document_ids(&store), ["stays"]);
    assert!(store.check(10).unwrap().is_empty());
}

#[test]
fn a_damaged_expired_row_is_reported_and_not_deleted() {
    clock!(NOW, clock);
    let folder = tempfile::tempdir().unwrap();
    let store = store_with_expiring_document(folder.path(), clock);
    store.close().unwrap();
    let database = Connection::open(folder.path().join("documents.sqlite")).unwrap();
    // Changes the text and leaves a checksum that does not match, as after disk corruption; a changed checksum keeps the trigger
    // from clearing it.
    let damage = "update documents set text = 'the tide GOES', checksum = checksum + 1 where id = 'goes'";
    assert_eq!(database.execute(damage, []).unwrap(), 1);
    drop(database);
    NOW.store(1_000, Ordering::SeqCst);
    let store = DocumentStore::open_with_clock(folder.path(), &OPTIONS, clock).unwrap();
    let expired = store.delete_expired().unwrap();
    assert_eq!(expired.rows, [0; 0]);
    assert!(matches!(expired.damage[..], [StoreError::CorruptRow { table: "documents", .. }]), "{expired:?}");
    assert_eq!(document_ids(&store), ["stays"]);
}

#[test]
fn a_copy_for_another_model_expires_at_the_same_time() {
    clock!(NOW, clock);
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = store_with_expiring_document(folder.path(), clock);
    let revisions = store.revisions(dragoman::store::Revision::FIRST, 10).unwrap();
    let keys: Vec<_> = revisions.iter().map(|revision| revision.key).collect();
    let copy = DocumentStore::open_with_clock(other.path(), &OPTIONS, clock).unwrap();
    let documents = store.documents_by_key(&keys, usize::MAX).unwrap().into_iter().flatten().zip(&keys);
    let moved = documents.map(|(document, key)| CopiedDocument { key: *key, document, passages: Some(Vec::new()) });
    let job = JobId::parse("0198c0de-7a11-7000-8000-2f1de5c0ffee").unwrap();
    copy.write_copies(&job, moved.collect()).unwrap();
    assert_eq!(document_ids(&copy), ["goes", "stays"]);
    NOW.store(1_000, Ordering::SeqCst);
    assert_eq!(document_ids(&copy), ["stays"]);
    assert!(copy.expiry_due());
    assert_eq!(copy.delete_expired().unwrap().rows.len(), 1);
}
