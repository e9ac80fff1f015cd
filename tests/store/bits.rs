//! Flipped bits anywhere in a closed database, and lost pages: every later read returns what was stored, or an error that
//! reports damage. A check finds what is missing without an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use dragoman::domain::{Document, Page, PassageId, Sequence};
use dragoman::store::{Change, DocumentStore, PassageParts, PassageRow, StoreError};

use crate::{OPTIONS, cut, embed, id, put};

const DOCUMENTS: usize = 60;
/// Number of bits to flip, one per trial.
const FLIPS: u64 = 400;
const PAGE: usize = 4_096;

/// Everything that a reader can see.
#[derive(Debug, PartialEq)]
struct Content {
    documents: BTreeMap<String, Document>,
    passages: BTreeMap<u64, PassageRow>,
    embeddings: BTreeMap<u64, Vec<u8>>,
}

/// Reads everything in every way. Errors must report damage. Returns what was read without an error, and whether that is
/// everything.
fn read(store: &DocumentStore) -> (Content, bool) {
    let mut complete = true;
    let mut damage = |error: StoreError| {
        assert!(error.is_damage(), "{error:?}");
        complete = false;
    };
    let mut content = Content { documents: BTreeMap::new(), passages: BTreeMap::new(), embeddings: BTreeMap::new() };
    for n in 0..DOCUMENTS {
        match store.get(&id(&name(n))) {
            Ok(document) => content.documents.extend(document.map(|document| (document.id.as_str().to_owned(), document))),
            Err(error) => damage(error),
        }
    }
    match store.list(&Page { limit: 2 * DOCUMENTS, after: None }, u64::MAX) {
        Ok(page) => {
            for document in page.documents {
                let known = content.documents.get(document.id.as_str());
                assert!(known.is_none_or(|known| *known == document), "{document:?} and {known:?}");
                content.documents.insert(document.id.as_str().to_owned(), document);
            }
        }
        Err(error) => damage(error),
    }
    for passage in (1..=2 * DOCUMENTS as u64).map(PassageId) {
        match store.passages(&[passage], PassageParts::ALL) {
            Ok(rows) => content.passages.extend(rows.into_iter().map(|row| (passage.0, row))),
            Err(error) => damage(error),
        }
        match store.embeddings(PassageId(passage.0 - 1), 1) {
            Ok(rows) => content.embeddings.extend(rows.into_iter().map(|(passage, row)| (passage.0, row.to_bytes()))),
            Err(error) => damage(error),
        }
    }
    match store.changes(Sequence(0), 1_000) {
        Ok(changes) => {
            for (_, change) in changes {
                if let Change::Embedded(passage, row) = change {
                    content.embeddings.insert(passage.0, row.to_bytes());
                }
            }
        }
        Err(error) => damage(error),
    }
    for error in [store.counts().map(drop), store.sequence().map(drop)].into_iter().filter_map(Result::err) {
        damage(error);
    }
    (content, complete)
}

fn name(n: usize) -> String {
    format!("document-{n}")
}

/// Creates a closed database and returns it with its content.
fn filled(folder: &Path) -> (Vec<u8>, Content) {
    let store = DocumentStore::open(folder, &OPTIONS).unwrap();
    for n in 0..DOCUMENTS {
        let text = format!("Ocean number {n} is wide. {}", "Its waves roll on and on. ".repeat(n));
        let outcome = put(&store, cut(&name(n), &text, vec![0..10, 10..text.len()]));
        embed(&store, &outcome.pending);
    }
    let (content, complete) = read(&store);
    assert!(complete && content.documents.len() == DOCUMENTS && content.embeddings.len() == 2 * DOCUMENTS);
    assert!(store.check(10).unwrap().is_empty());
    store.close().unwrap();
    (fs::read(folder.join("documents.sqlite")).unwrap(), content)
}

/// Opens `bytes` as a database, and checks that no reader gets anything that was never stored.
fn check(bytes: &[u8], truth: &Content, what: &str) -> &'static str {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("documents.sqlite"), bytes).unwrap();
    let store = match DocumentStore::open(folder.path(), &OPTIONS) {
        Ok(store) => store,
        // The damage may also hit the file's application id and version.
        Err(StoreError::ForeignDatabase { .. } | StoreError::NewerDatabase { .. }) => return "told",
        Err(error) => {
            assert!(error.is_damage(), "{what}: {error:?}");
            return "told";
        }
    };
    let (content, complete) = read(&store);
    for (id, document) in &content.documents {
        // Neither is part of the row: both are derived from other tables.
        let (passages, indexed) = (document.passages, document.indexed);
        let stored = truth.documents.get(id).map(|stored| Document { passages, indexed, ..stored.clone() });
        assert_eq!(stored.as_ref(), Some(document), "{what}");
    }
    for (key, row) in &content.passages {
        let stored = &truth.passages[key];
        assert_eq!((&row.passage, &row.text, &row.excerpt), (&stored.passage, &stored.text, &stored.excerpt), "{what}");
    }
    for (key, embedding) in &content.embeddings {
        assert_eq!(truth.embeddings.get(key), Some(embedding), "{what}");
    }
    if !complete {
        return "told";
    }
    if content == *truth {
        return "harmless";
    }
    assert!(!store.check(10).unwrap().is_empty(), "{what}: something is missing, and a check does not find it");
    "found by a check"
}

#[test]
fn flipped_bits_never_return_wrong_data() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, truth) = filled(folder.path());
    let mut state = 11u64;
    let mut outcomes: BTreeMap<&str, usize> = BTreeMap::new();
    for _ in 0..FLIPS {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (at, bit) = ((state >> 20) as usize % bytes.len(), (state >> 60) % 8);
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        *outcomes.entry(check(&damaged, &truth, &format!("bit {bit} of byte {at}"))).or_default() += 1;
    }
    println!("{outcomes:?}");
    assert!(outcomes["told"] > FLIPS as usize / 4, "{outcomes:?}");
}

#[test]
fn lost_pages_never_return_wrong_data() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, truth) = filled(folder.path());
    for page in 0..bytes.len() / PAGE {
        for filler in [0x00, 0x5a] {
            let mut damaged = bytes.clone();
            damaged[page * PAGE..(page + 1) * PAGE].fill(filler);
            check(&damaged, &truth, &format!("page {page} filled with {filler:#x}"));
        }
    }
}

#[test]
fn a_check_finds_wrong_checksums_embeddings_and_counts() {
    for sql in [
        "update documents set checksum = 1 where key = 3",
        "update passages set checksum = 1 where id = 3",
        "update passages set embedding = (select embedding from passages where id = 4) where id = 3",
        "update state set passages = 1",
        "update language_counts set documents = 1",
    ] {
        let folder = tempfile::tempdir().unwrap();
        filled(folder.path());
        rusqlite::Connection::open(folder.path().join("documents.sqlite")).unwrap().execute_batch(sql).unwrap();
        let found = DocumentStore::open(folder.path(), &OPTIONS).unwrap().check(10).unwrap();
        assert!(matches!(found[..], [StoreError::CorruptRow { .. }]), "{sql}: {found:?}");
    }
}

#[test]
fn a_document_edited_with_sql_is_served_without_a_checksum_check() {
    let folder = tempfile::tempdir().unwrap();
    filled(folder.path());
    let database = folder.path().join("documents.sqlite");
    let sql = "update documents set metadata = '{\"by\": \"hand\"}' where id = 'document-5'";
    rusqlite::Connection::open(&database).unwrap().execute_batch(sql).unwrap();
    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    assert_eq!(store.get(&id("document-5")).unwrap().unwrap().metadata["by"], "hand");
}
