//! A damaged database: errors that name the row, never a panic, and the rest stays readable.

use std::fs;

use dragoman::domain::{DocumentPatch, JobId, Limits, Page, PassageId, Precondition, RequestKey, Sequence};
use dragoman::store::{DocumentStore, PassageParts, StoreError};
use rusqlite::Connection;
use serde_json::json;

use crate::{OPTIONS, document, embed, id, language, patched, put};

/// A store of two embedded documents whose file was modified by `sql` while it was closed.
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
fn an_invalid_document_row_is_reported() {
    for change in ["metadata = '[1]'", "metadata = '{'", "language = 'xx'", "id = 'a' || char(10)", "sequence = -1"] {
        let (_folder, store) = damaged(&format!("update documents set {change} where key = 1"));
        check(store.list(&Page { limit: 10, after: None }, u64::MAX), "documents");
    }
}

#[test]
fn damage_leaves_the_other_documents_readable() {
    let (_folder, store) = damaged("update documents set metadata = '{' where key = 1");
    check(store.get(&id("a")), "documents");
    check(store.passages(&[PassageId(1)], PassageParts::TITLE), "documents");
    assert!(store.get(&id("b")).unwrap().is_some());
}

#[test]
fn an_invalid_embedding_is_reported() {
    for bytes in ["zeroblob(12)", "x'0000803f00'", "x''", "x'0000c07f'"] {
        let (_folder, store) = damaged(&format!("update passages set embedding = {bytes} where id = 1"));
        check(store.embeddings(PassageId(0), 10), "passages");
        check(store.changes(Sequence(0), 10), "passages");
    }
}

#[test]
fn a_passage_outside_its_text_is_reported() {
    for change in ["end = 100", "start = -1", "start = 3, end = 2"] {
        let clear = "embedding = null, embedded_sequence = null";
        let (_folder, store) = damaged(&format!("update passages set {change}, {clear} where id = 1"));
        check(store.pending(PassageId(0), 10), "passages");
        check(store.passages(&[PassageId(1)], PassageParts::TITLE), "passages");
    }
}

#[test]
fn a_file_that_is_not_a_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("documents.sqlite"), "not a database, but long enough to be looked at".repeat(100)).unwrap();
    let error = DocumentStore::open(folder.path(), &OPTIONS).err().unwrap();
    assert!(matches!(error, StoreError::Damaged { operation: "opening a database", .. }), "{error:?}");
}

#[test]
fn every_document_write_stores_a_checksum() {
    let (folder, store) = crate::store();
    let patch = |minutes: u64| DocumentPatch {
        language: language("de"),
        ..Limits::default().metadata_patch(serde_json::from_value(json!({ "minutes": minutes })).unwrap())
    };
    let unchecked = || -> i64 {
        let database = Connection::open(folder.path().join("documents.sqlite")).unwrap();
        database.query_row("select count(*) from documents where checksum is null", [], |row| row.get(0)).unwrap()
    };
    let request = RequestKey::new("key", "fingerprint".to_owned()).unwrap();
    let job = JobId::parse("0198c0de-7a11-7000-8000-2f1de5c0ffee").unwrap();
    store.upsert_if(vec![document("a", "Der Zug hat Verspätung.")], Precondition::None).unwrap();
    store.upsert_once(vec![document("b", "電車が遅れている。")], request, |_| String::new()).unwrap();
    store.upsert_for_job(&job, vec![document("c", "Pociąg się spóźnia.")], |_| String::new()).unwrap();
    put(&store, document("d", "Le train est en retard."));
    assert_eq!(unchecked(), 0);
    for (name, minutes) in [("a", 5), ("b", 6), ("c", 7), ("d", 8), ("a", 9)] {
        let patched = patched(&store, name, patch(minutes), None);
        assert_eq!((&patched.metadata["minutes"], patched.language), (&json!(minutes), language("de")));
        assert_eq!(unchecked(), 0, "after the change of {name}");
    }
    assert_eq!(store.list(&Page { limit: 10, after: None }, u64::MAX).unwrap().documents.len(), 4);
    assert!(store.check(10).unwrap().is_empty());
}
