//! Migrations: released files never change, databases of every version open, newer and foreign ones are refused and left
//! unchanged.
//!
//! `tests/fixtures/databases` contains one small database of each version, created by the server of that version.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use dragoman::domain::{CollectionName, Document, Metadata, Page, PassageContext, PassageId, Precondition, Sequence, TokenSet};
use dragoman::embed::passage_terms;
use dragoman::store::{
    Catalog, Change, DatabaseKind, DocumentStore, PassageParts, PendingPassage, PreparedDocument, SearchFilter, StoreError,
    StoreOptions, TermsOf, check_foreign, check_head, import_foreign,
};
use rusqlite::Connection;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// The folders of migrations: of the catalog, of a collection's database, and of both on a database server.
const KINDS: [&str; 3] = ["catalog", "collection", "postgres"];

/// Every migration with its SHA-256. Never edit a released one: add a new file, and its line here.
const MIGRATIONS: &[(&str, &str)] = &[
    ("catalog/0001_collections.sql", "29e000847f3aa32caab3ab5346d3a162262917071e4513475822c83be1c3cfc5"),
    ("catalog/0002_features.sql", "75417e737748467e690819b40c3383b38233b1aba4807c9d1e5ae2c243a5f640"),
    ("catalog/0003_standard_names.sql", "13ad816d032e2d58e4a211b17620f23101fb9ce77689c4cb2c26a21545bda152"),
    ("collection/0001_documents.sql", "64b9442e2dde4ac8d0652b7dd6ebf60b3f96a83bd5f8e9d4b323609c2c4c4434"),
    ("collection/0002_features.sql", "875ca00d99156a58265d72c13ac8851b3d42d235ee27038162e78604b0cdf331"),
    ("collection/0003_passage_tokens.sql", "baa41aa3ed5c0624d35eadc5eda90a424b2d053b417b8c474cb752335591b386"),
    ("collection/0004_titles.sql", "1eea71769872285c839712c2903c35f560313268c13e83b27e86284279340d6e"),
    ("collection/0005_stems.sql", "abe5e1a8dfd6eb7bd68b1a8483c3546b0dd5fa9ea8e93e5f76bb68b8e977ac77"),
    ("collection/0006_passage_words.sql", "eea63e53c19205c7db37ba5ffc0e824fa350272a34e7e7c82e934441294ea056"),
    ("collection/0007_standard_names.sql", "c02fedfde52059929e3f32edad7be56e160af0ae3b76154ed3340012cf6c3d2e"),
    ("collection/0008_expiry.sql", "40c868d8f45b8b88fa5caa06368b3c300f9ac17a7c0c769060a36e82b7781e48"),
    ("collection/0009_sounds.sql", "a65980bed4343155f284710b1e4c1315ec99bbf437f01b03cbc82c4f59210d3f"),
    ("collection/0010_beginnings.sql", "f3343410b4edeb45a3bbac4cdbb6862ded0358dfbbb360f0435f4f492f952786"),
    ("collection/0011_letters_within_words.sql", "9bdcfe7520a7ee18e7567cdbf08775a0ba28844f95058bb27075d505688652b8"),
    ("collection/0012_parts_of_words.sql", "bc21bf913863254f34517ba185bf8be19f0c9c622e83b3ee551f0f07766b65fa"),
    ("postgres/0001_collections.sql", "69ffcf38d7d9520e7231ff3f52c9832834d813d84da56029f4a3383cb6afd865"),
    ("postgres/0002_catalog.sql", "b7d54f498c3fb31d1c9812c309cca20da8c39d765e355aff3e8ca9081a79d95e"),
    ("postgres/0003_servers.sql", "ee799f44976769f2563ed7266acfd4c3198d9b85b97d9aff401727875fc71516"),
    ("postgres/0004_timelines.sql", "57b0068fb29ec4d64ddd3c839124d2303fdbc84c2908ada1c94d1cc12cbe1e58"),
    ("postgres/0005_replacements.sql", "73a5a451d15957a9482b649e064f2c8ae6d08c083ecb0008cfaa2b61c418da7e"),
];

static OPTIONS: LazyLock<StoreOptions> = LazyLock::new(|| {
    let terms_of = TermsOf::new(|text, language| passage_terms(text, language, |_| true));
    StoreOptions { power_safe: true, write_queue_max: 8, readers_max: 2, terms_of, slots: None }
});

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The files of a folder, sorted by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// A copy of `fixtures/databases/<name>` under the name that the server expects.
fn fixture(name: &str, expected: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(root().join("tests/fixtures/databases").join(name), folder.path().join(expected)).unwrap();
    folder
}

fn version(database: &Path) -> i64 {
    Connection::open(database).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

fn set_pragma(database: &Path, name: &str, value: i64) {
    Connection::open(database).unwrap().pragma_update(None, name, value).unwrap();
}

/// The number of migrations of this kind.
fn newest(kind: &str) -> i64 {
    MIGRATIONS.iter().filter(|(file, _)| file.starts_with(kind)).count() as i64
}

#[test]
fn released_migrations_never_change() {
    let mut found = Vec::new();
    for kind in KINDS {
        for file in files(&root().join("migrations").join(kind)) {
            let hash: String = Sha256::digest(fs::read(&file).unwrap()).iter().map(|byte| format!("{byte:02x}")).collect();
            found.push((format!("{kind}/{}", file.file_name().unwrap().to_str().unwrap()), hash));
        }
    }
    let expected: Vec<_> = MIGRATIONS.iter().map(|(file, hash)| (file.to_string(), hash.to_string())).collect();
    assert_eq!(found, expected);
}

#[test]
fn migrations_are_numbered_consecutively_and_start_with_a_comment() {
    for kind in KINDS {
        for (place, file) in files(&root().join("migrations").join(kind)).iter().enumerate() {
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(name.starts_with(&format!("{:04}_", place + 1)), "{name} is not number {}", place + 1);
            assert!(fs::read_to_string(file).unwrap().starts_with("-- "), "{name} does not open with a comment");
        }
    }
}

#[test]
fn a_new_database_has_the_newest_version() {
    let folder = tempfile::tempdir().unwrap();
    drop(Catalog::open(folder.path()).unwrap());
    drop(DocumentStore::open(folder.path(), &OPTIONS).unwrap());
    assert_eq!(version(&folder.path().join("catalog.sqlite")), newest("catalog"));
    assert_eq!(version(&folder.path().join("documents.sqlite")), newest("collection"));
}

#[test]
fn every_database_version_has_a_fixture() {
    for kind in ["catalog", "collection"] {
        for version_made in 1..=newest(kind) {
            let path = root().join(format!("tests/fixtures/databases/{kind}_{version_made}.sqlite"));
            let copy = tempfile::tempdir().unwrap();
            fs::copy(path, copy.path().join("copy")).unwrap();
            assert_eq!(version(&copy.path().join("copy")), version_made);
        }
    }
}

#[test]
fn catalogs_of_every_version_open_with_their_content() {
    for made in 1..=newest("catalog") {
        let folder = fixture(&format!("catalog_{made}.sqlite"), "catalog.sqlite");
        let catalog = Catalog::open(folder.path()).unwrap();
        let news = catalog.get(&CollectionName::parse("news").unwrap()).unwrap().unwrap();
        assert_eq!(
            (news.id.0.as_str(), news.dimension, news.model.as_ref().unwrap().name.as_str()),
            ("0198c0de-0000-7000-8000-000000000001", 4, "ems-small")
        );
        assert_eq!(catalog.list(&Page { limit: 9, after: None }).unwrap().len(), 2);
        drop(catalog);
        assert_eq!(version(&folder.path().join("catalog.sqlite")), newest("catalog"));
    }
}

#[test]
fn collections_of_every_version_open_with_their_content() {
    for made in 1..=newest("collection") {
        let folder = fixture(&format!("collection_{made}.sqlite"), "documents.sqlite");
        let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
        let texts: Vec<_> = all(&store).into_iter().map(|document| (document.text, document.indexed)).collect();
        assert_eq!(texts, [("Der Zug hat Verspätung.".to_owned(), true), ("電車が遅れている。".to_owned(), false)]);
        assert!(matches!(
            store.changes(Sequence(0), 10).unwrap()[..],
            [(_, Change::Embedded(PassageId(1), _)), (_, Change::Removed(PassageId(3)))]
        ));
        let new = PreparedDocument {
            id: dragoman::domain::DocumentId::parse("new").unwrap(),
            title: None,
            text: "Le train est en retard.".to_owned(),
            language: None,
            language_confidence: None,
            metadata: Metadata::new(),
            expires_at_ms: None,
            passages: vec![(0..8).into(), (8..23).into()],
            embedding: None,
        };
        assert!(store.upsert_if(vec![new], Precondition::None).unwrap()[0].pending[0].id > PassageId(3), "keys stay used");
        store.close().unwrap();
        assert_eq!(version(&folder.path().join("documents.sqlite")), newest("collection"));
    }
}

/// The title of the first document, and the headings above the pending passage, in a database of this version.
fn above(made: i64) -> (Option<String>, Option<String>) {
    let of_this_version = made >= 4;
    let some = |text: &str| of_this_version.then(|| text.to_owned());
    (some("Fahrplan"), some("時刻表"))
}

#[test]
fn collections_of_every_version_keep_passages_and_embeddings() {
    for made in 1..=newest("collection") {
        let folder = fixture(&format!("collection_{made}.sqlite"), "documents.sqlite");
        let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
        let (title, headings) = above(made);
        assert_eq!(all(&store)[0].title, title);
        let waiting = store.pending(PassageId(0), 10).unwrap();
        assert_eq!((waiting[0].context.headings.clone(), waiting[0].text.as_str()), (headings, "電車が遅れている。"));
        assert_eq!(store.counts().unwrap().cut_by_older_rules, made < 4);
        assert!(store.check(10).unwrap().is_empty(), "checksums of version {made} still match");
        // Storing the same document again keeps its passage and its embedding.
        let again = all(&store).remove(0);
        let kept = store.embeddings(PassageId(0), 10).unwrap();
        assert_eq!(store.upsert_if(vec![whole(&again)], Precondition::None).unwrap()[0].removed, []);
        assert_eq!(store.embeddings(PassageId(0), 10).unwrap(), kept);
    }
}

/// The write that stores this document again.
fn whole(document: &Document) -> PreparedDocument {
    PreparedDocument {
        id: document.id.clone(),
        title: document.title.clone(),
        text: document.text.clone(),
        language: document.language,
        language_confidence: document.language_confidence,
        metadata: document.metadata.clone(),
        expires_at_ms: document.expires_at_ms,
        passages: vec![(0..document.text.len()).into()],
        embedding: None,
    }
}

fn all(store: &DocumentStore) -> Vec<Document> {
    store.list(&Page { limit: 10, after: None }, u64::MAX).unwrap().documents
}

#[test]
fn lexical_search_works_in_every_version_after_backfill() {
    for made in 1..=newest("collection") {
        let folder = fixture(&format!("collection_{made}.sqlite"), "documents.sqlite");
        let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
        let find = |query: &str| store.lexical(&dragoman::embed::query_terms(query, None), &SearchFilter::default(), 10);
        if made == 1 {
            assert!(matches!(find("verspatung"), Err(StoreError::LexicalIncomplete { filled: 0, .. })));
        }
        while store.fill_lexical().unwrap() {}
        for (query, text) in
            [("verspatung", "Der Zug hat Verspätung."), ("電車", "電車が遅れている。"), ("遅", "電車が遅れている。")]
        {
            let found: Vec<PassageId> = find(query).unwrap().into_iter().map(|(passage, _)| passage).collect();
            let texts: Vec<String> =
                store.passages(&found, PassageParts::ALL).unwrap().into_iter().filter_map(|row| row.text).collect();
            assert_eq!(texts, [text], "{query} in a database of version {made}");
        }
    }
}

#[test]
fn inflected_words_are_found_in_every_version_after_backfill() {
    let german = dragoman::domain::Language::parse("de").unwrap();
    for made in 1..=newest("collection") {
        let folder = fixture(&format!("collection_{made}.sqlite"), "documents.sqlite");
        let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
        while store.fill_lexical().unwrap() {}
        let terms = dragoman::embed::query_terms("Verspätungen", Some(german));
        let found = store.lexical(&terms, &SearchFilter::default(), 10).unwrap();
        assert_eq!(found.len(), 1, "a database of version {made}");
    }
}

#[test]
fn passages_of_every_version_have_tokens_after_backfill() {
    for made in 1..=newest("collection") {
        let folder = fixture(&format!("collection_{made}.sqlite"), "documents.sqlite");
        let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
        let tokens_of =
            |passages: &[PendingPassage]| Ok::<_, ()>(passages.iter().map(|_| TokenSet::from_ids(&[17, 204, 5_120])).collect());
        while store.fill_tokens(tokens_of).unwrap().unwrap().is_some() {}
        let found = store.token_changes(None, true).unwrap().passages;
        assert_eq!(found, [(PassageId(1), TokenSet::from_ids(&[17, 204, 5_120]))], "a database of version {made}");
    }
}

#[test]
fn passages_of_every_version_have_words_after_backfill() {
    for made in 1..=newest("collection") {
        let folder = fixture(&format!("collection_{made}.sqlite"), "documents.sqlite");
        let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
        while store.fill_lexical().unwrap() {}
        let found = store.token_changes(None, true).unwrap().words;
        let [passage] = &store.passages(&[PassageId(1)], PassageParts::ALL).unwrap()[..] else {
            panic!("the passage that is embedded")
        };
        let context = PassageContext { title: passage.title.clone(), headings: None };
        let expect = passage_terms(&context.prepend_to(passage.text.as_ref().unwrap()), None, |_| true).plain;
        assert!(!expect.is_empty());
        assert_eq!(found, [(PassageId(1), expect)], "a database of version {made}");
    }
}

#[test]
fn a_migrated_database_has_the_schema_of_a_new_one() {
    let schema = |database: &Path| -> Vec<(String, Option<String>)> {
        let connection = Connection::open(database).unwrap();
        let mut statement = connection.prepare("select name, sql from sqlite_schema order by name").unwrap();
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let new = tempfile::tempdir().unwrap();
    drop(DocumentStore::open(new.path(), &OPTIONS).unwrap());
    for made in 1..=newest("collection") {
        let old = fixture(&format!("collection_{made}.sqlite"), "documents.sqlite");
        drop(DocumentStore::open(old.path(), &OPTIONS).unwrap());
        let [old, new] = [&old, &new].map(|folder| schema(&folder.path().join("documents.sqlite")));
        assert_eq!(old, new);
    }
}

#[test]
fn newer_databases_are_refused_and_left_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    drop(Catalog::open(folder.path()).unwrap());
    drop(DocumentStore::open(folder.path(), &OPTIONS).unwrap());
    for (kind, name) in [("catalog", "catalog.sqlite"), ("collection", "documents.sqlite")] {
        let path = folder.path().join(name);
        set_pragma(&path, "user_version", 9_999);
        let before = fs::read(&path).unwrap();
        let error = open(kind, folder.path());
        let expect = newest(kind);
        assert!(matches!(error, StoreError::NewerDatabase { found: 9_999, known } if known == expect), "{error:?}");
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}

#[test]
fn foreign_databases_are_refused_and_left_unchanged() {
    for (kind, name, ours) in [("catalog", "catalog.sqlite", 0x4472_6143), ("collection", "documents.sqlite", 0x4472_6144)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        Connection::open(&path).unwrap().execute_batch("create table recipes (dish text)").unwrap();
        for application_id in [0, 42] {
            set_pragma(&path, "application_id", application_id);
            let before = fs::read(&path).unwrap();
            let error = open(kind, folder.path());
            let StoreError::ForeignDatabase { found, expected } = error else { panic!("{error:?}") };
            assert_eq!((found, expected), (application_id, ours));
            assert_eq!(fs::read(&path).unwrap(), before);
        }
    }
}

#[test]
fn a_catalog_cannot_be_opened_as_a_collection() {
    let folder = fixture("catalog_1.sqlite", "documents.sqlite");
    let error = open("collection", folder.path());
    assert!(matches!(error, StoreError::ForeignDatabase { .. }), "{error:?}");
}

/// The error of an open that must fail.
fn open(kind: &str, folder: &Path) -> StoreError {
    match kind {
        "catalog" => Catalog::open(folder).err().unwrap(),
        _ => DocumentStore::open(folder, &OPTIONS).err().unwrap(),
    }
}

#[test]
fn databases_of_every_version_pass_the_archive_checks() {
    for (kind, name) in [(DatabaseKind::Catalog, "catalog"), (DatabaseKind::Collection, "collection")] {
        for version in 1..=newest(name) {
            let folder = fixture(&format!("{name}_{version}.sqlite"), "database");
            let database = folder.path().join("database");
            check_head(kind, &fs::read(&database).unwrap()).unwrap();
            check_foreign(kind, &database).unwrap();
        }
    }
}

/// A folder with a database that holds the rows of a fixture.
fn adopted(kind: DatabaseKind, fixture_name: &str, name: &str) -> TempDir {
    let (foreign, folder) = (fixture(fixture_name, "foreign"), tempfile::tempdir().unwrap());
    let (from, to) = (foreign.path().join("foreign"), folder.path().join(name));
    assert!(import_foreign(kind, &from, &to, &OPTIONS.terms_of, || false).unwrap().is_empty());
    folder
}

#[test]
fn importing_a_foreign_database_of_any_version_keeps_its_rows() {
    for made in 1..=newest("collection") {
        let folder = adopted(DatabaseKind::Collection, &format!("collection_{made}.sqlite"), "documents.sqlite");
        let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
        let old = fixture(&format!("collection_{made}.sqlite"), "documents.sqlite");
        let old = DocumentStore::open(old.path(), &OPTIONS).unwrap();
        assert_eq!(all(&store), all(&old));
        assert_eq!((store.sequence().unwrap(), store.counts().unwrap().passages), (old.sequence().unwrap(), 2));
        assert_eq!(store.embeddings(PassageId(0), 10).unwrap(), old.embeddings(PassageId(0), 10).unwrap());
        assert_eq!(store.pending(PassageId(0), 10).unwrap(), old.pending(PassageId(0), 10).unwrap());
        assert_eq!(store.counts().unwrap().cut_by_older_rules, old.counts().unwrap().cut_by_older_rules);
        if made > 1 {
            assert_eq!(store.identity().unwrap(), old.identity().unwrap());
        }
        let terms = dragoman::embed::query_terms("verspatung", None);
        assert_eq!(store.lexical(&terms, &SearchFilter::default(), 10).unwrap()[0].0, PassageId(1));
        assert!(store.check(10).unwrap().is_empty());
        let again = all(&store).remove(0);
        let changed = PreparedDocument {
            id: again.id,
            title: None,
            text: "Le train".to_owned(),
            language: None,
            language_confidence: None,
            metadata: Metadata::new(),
            expires_at_ms: None,
            passages: vec![(0..8).into()],
            embedding: None,
        };
        assert!(store.upsert_if(vec![changed], Precondition::None).unwrap()[0].pending[0].id > PassageId(3), "keys stay used");
    }
    for made in 1..=newest("catalog") {
        let folder = adopted(DatabaseKind::Catalog, &format!("catalog_{made}.sqlite"), "catalog.sqlite");
        let old = fixture(&format!("catalog_{made}.sqlite"), "catalog.sqlite");
        let [new, old] = [&folder, &old].map(|folder| Catalog::open(folder.path()).unwrap());
        let page = Page { limit: 10, after: None };
        assert_eq!((new.list(&page).unwrap(), new.aliases().unwrap()), (old.list(&page).unwrap(), old.aliases().unwrap()));
    }
}
