//! Titles and headings: stored with documents and passages, read back after a restart, and reported when damaged.

use dragoman::domain::{DocumentPatch, Limits, Metadata, PassageContext, PassageId, PassageSpan};
use dragoman::store::{
    DatabaseKind, DocumentStore, PassageParts, PreparedDocument, ResplitText, SearchFilter, StoreError, import_foreign,
};
use rusqlite::Connection;

use crate::{OPTIONS, cut, document, embed, id, keys, patched, put, store, terms_of};

const TEXT: &str = "# Hafen\nDie Boote fahren.\n## Netze\nSie sind voll.";
const SECOND: usize = "# Hafen\nDie Boote fahren.\n".len();

fn titled(title: Option<&str>) -> PreparedDocument {
    let headings = Some("Hafen".to_owned());
    let passages = vec![PassageSpan::from(0..SECOND - 1), PassageSpan { range: SECOND..TEXT.len(), headings }];
    PreparedDocument { title: title.map(str::to_owned), passages, ..document("a", TEXT) }
}

fn by_words(store: &DocumentStore, query: &str) -> Vec<PassageId> {
    let found = store.lexical(&dragoman::embed::query_terms(query, None), &SearchFilter::default(), 10).unwrap();
    found.into_iter().map(|(passage, _)| passage).collect()
}

fn set(title: &str) -> DocumentPatch {
    DocumentPatch { title: Some(Some(title.to_owned())), ..Limits::default().metadata_patch(Metadata::new()) }
}

fn resplit(title: &str) -> ResplitText {
    let PreparedDocument { text, passages, .. } = titled(None);
    ResplitText { title: Some(title.to_owned()), text, passages, keeps_embedding: false }
}

#[test]
fn titles_and_headings_survive_a_restart() {
    let (folder, store) = store();
    put(&store, titled(Some("Lervik")));
    store.close().unwrap();
    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    assert_eq!(store.get(&id("a")).unwrap().unwrap().title.as_deref(), Some("Lervik"));
    let title = Some("Lervik".to_owned());
    let waiting = store.pending(PassageId(0), 10).unwrap();
    let contexts: Vec<_> = waiting.iter().map(|passage| (passage.context.clone(), passage.text.as_str())).collect();
    let expect = [
        (PassageContext { title: title.clone(), headings: None }, "# Hafen\nDie Boote fahren."),
        (PassageContext { title, headings: Some("Hafen".to_owned()) }, "## Netze\nSie sind voll."),
    ];
    assert_eq!(contexts, expect);
    assert!(store.check(10).unwrap().is_empty());
}

#[test]
fn passages_are_found_by_words_of_their_title_and_headings() {
    let (_folder, store) = store();
    let passages = keys(&put(&store, titled(Some("Lervik"))).pending);
    let mut found = by_words(&store, "lervik");
    found.sort_unstable();
    assert_eq!(found, passages);
    found = by_words(&store, "hafen");
    found.sort_unstable();
    assert_eq!(found, passages);
    assert_eq!(by_words(&store, "netze"), passages[1..]);
}

#[test]
fn passages_are_replaced_only_when_the_title_or_headings_change() {
    let (_folder, store) = store();
    let first = put(&store, titled(Some("Lervik")));
    embed(&store, &first.pending);
    let same = put(&store, titled(Some("Lervik")));
    assert!(same.pending.is_empty() && same.removed.is_empty());
    let second = put(&store, titled(Some("Tromvik")));
    assert_eq!((second.removed, second.pending.len()), (keys(&first.pending), 2));
    let third = put(&store, titled(None));
    assert_eq!(third.removed, keys(&second.pending));
    assert!(by_words(&store, "tromvik").is_empty());
    let flat = cut("a", TEXT, vec![0..SECOND - 1, SECOND..TEXT.len()]);
    assert_eq!(put(&store, flat).removed, keys(&third.pending), "same ranges, but without headings");
}

#[test]
fn patching_the_title_replaces_the_passages() {
    let (folder, store) = store();
    let first = put(&store, titled(None));
    embed(&store, &first.pending);
    let reached = store.sequence().unwrap();
    let document = patched(&store, "a", set("Lervik"), Some(resplit("Lervik")));
    assert_eq!((document.title.as_deref(), document.indexed, document.passages), (Some("Lervik"), false, 2));
    assert!(document.sequence > reached);
    assert_eq!(by_words(&store, "lervik").len(), 2);
    assert!(store.passages(&keys(&first.pending), PassageParts::ALL).unwrap().is_empty());
    // A patch that changes nothing needs no passages.
    let again = patched(&store, "a", set("Lervik"), None);
    assert_eq!(again.sequence, document.sequence);
    store.close().unwrap();
    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    assert!(store.check(10).unwrap().is_empty());
}

#[test]
fn damaged_titles_and_headings_are_reported() {
    let check = |sql: &str, table: &str| {
        let (folder, store) = store();
        put(&store, titled(Some("Lervik")));
        store.close().unwrap();
        let database = Connection::open(folder.path().join("documents.sqlite")).unwrap();
        database.execute_batch(&format!("drop trigger documents_changed_without_checksum; {sql}")).unwrap();
        drop(database);
        let connection = Connection::open(folder.path().join("documents.sqlite")).unwrap();
        let trigger = include_str!("../../migrations/collection/0008_expiry.sql");
        let (begin, end) = (trigger.find("create trigger").unwrap(), trigger.find("end;").unwrap() + "end;".len());
        connection.execute_batch(&trigger[begin..end]).unwrap();
        drop(connection);
        let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
        let found = store.check(10).unwrap();
        let named = found.iter().any(|error| matches!(error, StoreError::CorruptRow { table: of, .. } if *of == table));
        assert!(named, "{sql}: {found:?}");
    };
    check("update documents set title = 'Lervig'", "documents");
    check("update documents set title = null", "documents");
    check("update passages set headings = 'Hafer' where headings is not null", "passages");
    check("update passages set headings = null where headings is not null", "passages");
}

#[test]
fn sending_a_document_again_repairs_headings_that_are_no_text() {
    let (folder, store) = store();
    let first = put(&store, titled(Some("Lervik")));
    store.close().unwrap();
    let database = Connection::open(folder.path().join("documents.sqlite")).unwrap();
    database.execute_batch("update passages set headings = cast(x'ff' as text) where headings is not null").unwrap();
    drop(database);
    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    assert!(!store.check(10).unwrap().is_empty());
    let again = put(&store, titled(Some("Lervik")));
    assert_eq!((again.removed, again.pending.len()), (keys(&first.pending), 2));
    assert!(store.check(10).unwrap().is_empty());
}

#[test]
fn an_invalid_stored_title_is_reported_as_corruption() {
    let (folder, store) = store();
    put(&store, titled(Some("Lervik")));
    store.close().unwrap();
    let database = Connection::open(folder.path().join("documents.sqlite")).unwrap();
    // Written directly, so that the row has no checksum.
    database.execute_batch("update documents set title = 'two' || char(10) || 'lines'").unwrap();
    drop(database);
    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    let error = store.get(&id("a")).unwrap_err();
    assert!(matches!(error, StoreError::CorruptRow { table: "documents", .. }), "{error:?}");
}

#[test]
fn imports_with_oversized_titles_or_headings_are_refused() {
    for (table, column) in [("documents", "title"), ("passages", "headings")] {
        let (folder, store) = store();
        put(&store, titled(Some("Lervik")));
        store.close().unwrap();
        let from = folder.path().join("documents.sqlite");
        let long = "sea ".repeat(10_000);
        let changed = Connection::open(&from).unwrap().execute(&format!("update {table} set {column} = ?1"), [long]);
        assert!(changed.unwrap() > 0);
        let to = folder.path().join("ours.sqlite");
        let refused = import_foreign(DatabaseKind::Collection, &from, &to, &terms_of(), || false);
        assert!(matches!(refused, Err(StoreError::CorruptRow { table: of, .. }) if of == table), "{table}: {refused:?}");
    }
}
