//! A damaged database: errors that name the row, never a panic, and the rest stays readable.

use std::fs;

use dragoman::domain::{Page, PassageId, Sequence};
use dragoman::store::{DocumentStore, SearchFilter, StoreError};
use rusqlite::Connection;

use crate::{OPTIONS, document, embed, id, put};

/// A store of two embedded documents whose file was changed by `sql` while it was closed.
fn damaged(sql: &str) -> (tempfile::TempDir, DocumentStore) {
    let (folder, store) = crate::store();
    for name in ["a", "b"] {
        let outcome = put(&store, document(name, "text"));
        embed(&store, &outcome.pending);
    }
    store.close().unwrap();
    Connection::open(folder.path().join("documents.sqlite")).unwrap().execute_batch(sql).unwrap();
    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    (folder, store)
}

#[track_caller]
fn check<T: std::fmt::Debug>(result: Result<T, StoreError>, expect_table: &str) {
    assert!(
        matches!(&result, Err(StoreError::CorruptRow { table, row: 1, .. }) if *table == expect_table),
        "expected damage in row 1 of {expect_table}, got {result:?}"
    );
}

#[test]
fn a_document_that_cannot_be_is_named() {
    for change in ["metadata = '[1]'", "metadata = '{'", "language = 'xx'", "id = 'a' || char(10)", "sequence = -1"] {
        let (_folder, store) = damaged(&format!("update documents set {change} where key = 1"));
        check(store.list(&Page { limit: 10, after: None }), "documents");
    }
}

#[test]
fn damage_leaves_the_other_documents_readable() {
    let (_folder, store) = damaged("update documents set metadata = '{' where key = 1");
    check(store.get(&id("a")), "documents");
    check(store.passages(&[PassageId(1)]), "documents");
    assert!(store.get(&id("b")).unwrap().is_some());
}

#[test]
fn an_embedding_that_cannot_be_is_named() {
    for bytes in ["zeroblob(12)", "x'0000803f00'", "x''", "x'0000c07f'"] {
        let (_folder, store) = damaged(&format!("update passages set embedding = {bytes} where id = 1"));
        check(store.embeddings(PassageId(0), 10), "passages");
        check(store.changes(Sequence(0), 10), "passages");
        check(store.matching_embeddings(&SearchFilter::default()), "passages");
    }
}

#[test]
fn a_passage_outside_of_its_text_is_named() {
    for change in ["end = 100", "start = -1", "start = 3, end = 2"] {
        let clear = "embedding = null, embedded_sequence = null";
        let (_folder, store) = damaged(&format!("update passages set {change}, {clear} where id = 1"));
        check(store.pending(PassageId(0), 10), "passages");
        check(store.passages(&[PassageId(1)]), "passages");
    }
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("documents.sqlite"), "not a database, but long enough to be looked at".repeat(100)).unwrap();
    let error = DocumentStore::open(folder.path(), &OPTIONS).err().unwrap();
    assert!(matches!(error, StoreError::Sqlite { doing: "opening a database", .. }), "{error:?}");
}
