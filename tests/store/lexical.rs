//! The lexical index: which rows it has after changes, and how an older database is filled. What holds for every engine is in
//! `tests/engines/words.rs`.

use std::path::Path;

use dragoman::domain::{PassageTerms, Precondition, QueryTerm, QueryTerms};
use dragoman::embed::passage_terms;
use dragoman::store::{DocumentStore, PreparedDocument, SearchFilter, StoreError, StoreOptions, TermsOf};
use dragoman::text::plain_words::word_key;
use rusqlite::Connection;

use crate::{OPTIONS, cut, delete, document, embed, language, put, store};

/// The passages that contain a term, best first.
fn find(store: &DocumentStore, term: &str) -> Result<Vec<u64>, StoreError> {
    let terms = vec![QueryTerm { text: term.to_owned(), prefix: false }];
    let found = store.lexical(&QueryTerms { terms, ..Default::default() }, &SearchFilter::default(), 100)?;
    Ok(found.into_iter().map(|(passage, _)| passage.0).collect())
}

/// Rows of the lexical index, including those that belong to no passage.
fn rows(folder: &Path) -> i64 {
    let connection = Connection::open(folder.join("documents.sqlite")).unwrap();
    connection.query_row("select count(*) from lexical_docsize", [], |row| row.get(0)).unwrap()
}

#[test]
fn terms_are_added_and_removed_with_their_passages() {
    let (folder, store) = store();
    put(&store, cut("a", "grey sea. old wall.", vec![0..9, 10..19]));
    put(&store, document("b", "the sea"));
    assert_eq!((find(&store, "sea").unwrap(), find(&store, "wall").unwrap()), (vec![1, 3], vec![2]));
    put(&store, document("a", "fresh bread"));
    assert_eq!((find(&store, "sea").unwrap(), find(&store, "bread").unwrap()), (vec![3], vec![4]));
    delete(&store, "a");
    assert_eq!((find(&store, "bread").unwrap(), rows(folder.path())), (vec![], 1));
}

#[test]
fn storing_the_same_text_again_keeps_its_index_row() {
    let (folder, store) = store();
    for year in [2020, 2021] {
        let mut document = document("a", "grey sea");
        document.metadata.insert("year".to_owned(), year.into());
        put(&store, document);
    }
    assert_eq!((find(&store, "grey").unwrap(), rows(folder.path())), (vec![1], 1));
}

#[test]
fn an_invalid_passage_leaves_no_terms_of_its_batch() {
    let (folder, store) = store();
    let torn = cut("b", "sea", vec![0..9, 9..9]);
    assert!(matches!(
        store.upsert_if(vec![document("a", "sea"), torn], Precondition::None),
        Err(StoreError::InvalidPassage { .. })
    ));
    assert_eq!((find(&store, "sea").unwrap(), rows(folder.path())), (vec![], 0));
    put(&store, document("c", "sea"));
    assert_eq!(find(&store, "sea").unwrap().len(), 1);
}

#[test]
fn an_id_that_occurs_twice_in_a_batch_has_the_terms_of_the_last_one() {
    let (folder, store) = store();
    let inflected =
        |name: &str, code: &str| PreparedDocument { language: language(code), ..document(name, "Die Mauern stehen.") };
    let batch = vec![document("a", "grey sea"), document("a", "fresh bread"), inflected("b", "ja"), inflected("b", "de")];
    store.upsert_if(batch, Precondition::None).unwrap();
    let found = ["sea", "bread", "mauern"].map(|term| find(&store, term).unwrap().len());
    assert_eq!((found, rows(folder.path())), ([0, 1, 1], 2));
    let stemmed = dragoman::embed::query_terms("Mauer", language("de"));
    assert_eq!(store.lexical(&stemmed, &SearchFilter::default(), 10).unwrap().len(), 1);
}

/// Opens a store whose model knows these words, which have a checksum.
fn open_with(folder: &Path, known: &'static [&str], vocabulary: u32) -> DocumentStore {
    let is_known = |word| known.iter().any(|known| word_key(known) == word);
    let terms_of = TermsOf::new(move |text, language| passage_terms(text, language, is_known));
    let options = StoreOptions { terms_of: terms_of.with_vocabulary(vocabulary), ..OPTIONS.clone() };
    DocumentStore::open(folder, &options).unwrap()
}

/// How many passages count this word, which may be a part of another one.
fn passages_with(store: &DocumentStore, word: &str) -> usize {
    let words = store.token_changes(None, true).unwrap().words;
    words.iter().filter(|(_, words)| words.iter().any(|found| found.key == word_key(word))).count()
}

#[test]
fn words_are_computed_anew_for_another_vocabulary() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open_with(folder.path(), &[], 1);
    embed(&store, &put(&store, document("a", "Personenaufzug")).pending);
    for (vocabulary, expect) in [(1, 0), (2, 1), (2, 1)] {
        store.close().unwrap();
        drop(store);
        store = open_with(folder.path(), &["personen", "aufzug"], vocabulary);
        while store.fill_lexical().unwrap() {}
        assert_eq!(passages_with(&store, "aufzug"), expect, "vocabulary {vocabulary}");
    }
}

#[test]
fn computing_words_anew_continues_after_a_restart_and_searches_find_everything_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_with(folder.path(), &[], 1);
    let documents = (0..600).map(|n| document(&format!("d{n}"), "Personenaufzug")).collect();
    for upserted in store.upsert_if(documents, Precondition::None).unwrap() {
        embed(&store, &upserted.pending);
    }
    drop(store);
    let whole = QueryTerms { terms: vec![QueryTerm { text: "personenaufzug".to_owned(), prefix: false }], ..Default::default() };
    for counted in [0, 256, 512] {
        let store = open_with(folder.path(), &["personen", "aufzug"], 2);
        assert_eq!(passages_with(&store, "aufzug"), counted);
        assert_eq!(passages_with(&store, "personenaufzug"), 600);
        assert_eq!(store.lexical(&whole, &SearchFilter::default(), 1_000).unwrap().len(), 600);
        assert!(store.fill_lexical().unwrap());
    }
    assert_eq!(passages_with(&open_with(folder.path(), &["personen", "aufzug"], 2), "aufzug"), 600);
}

/// A store of the first version with this many documents: the newest version without what the second one added.
fn first_version(folder: &Path, documents: usize) {
    let without = StoreOptions { terms_of: TermsOf::new(|_, _| PassageTerms::default()), ..OPTIONS.clone() };
    let store = DocumentStore::open(folder, &without).unwrap();
    store
        .upsert_if((0..documents).map(|n| document(&format!("d{n}"), &format!("sea {n}"))).collect(), Precondition::None)
        .unwrap();
    store.close().unwrap();
    let connection = Connection::open(folder.join("documents.sqlite")).unwrap();
    let added = include_str!("../../migrations/collection/0002_features.sql");
    connection.execute_batch("drop trigger passages_deleted_lexical; drop table lexical; drop table lexical_fill;").unwrap();
    // From here on, the same statements as in the migration.
    let begin = added.find("create virtual table lexical").unwrap();
    let end = begin + added[begin..].find("from passages;").unwrap();
    connection.execute_batch(&added[begin..end + "from passages;".len()]).unwrap();
}

#[test]
fn backfilling_an_older_database_continues_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    first_version(folder.path(), 600);
    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    assert!(matches!(find(&store, "sea"), Err(StoreError::LexicalIncomplete { filled: 0, until: 600 })));
    assert!(store.fill_lexical().unwrap());
    assert!(matches!(find(&store, "sea"), Err(StoreError::LexicalIncomplete { filled: 256, until: 600 })));
    // Meanwhile, documents are added, changed and deleted on both sides of the fill position.
    delete(&store, "d3");
    delete(&store, "d400");
    put(&store, document("d500", "sea again"));
    put(&store, document("new", "sea of the new"));
    drop(store);
    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    while store.fill_lexical().unwrap() {}
    assert!(!store.fill_lexical().unwrap());
    assert_eq!(rows(folder.path()), 599);
    let sea = QueryTerms { terms: vec![QueryTerm { text: "sea".to_owned(), prefix: false }], ..Default::default() };
    assert_eq!(store.lexical(&sea, &SearchFilter::default(), 1_000).unwrap().len(), 599);
    assert_eq!((find(&store, "again").unwrap(), find(&store, "599").unwrap()), (vec![601], vec![600]));
    assert_eq!(find(&store, "400").unwrap(), [0; 0]);
}

#[test]
fn a_new_database_needs_no_backfill() {
    let (_folder, store) = store();
    assert!(!store.fill_lexical().unwrap());
    assert_eq!(find(&store, "sea").unwrap(), [0; 0]);
}
