//! Temporary.
#![allow(clippy::unwrap_used, missing_docs)]
use dragoman::domain::*;
use dragoman::store::*;
#[test]
fn make() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions {
        power_safe: true,
        write_queue_max: 8,
        readers_max: 2,
        terms_of: dragoman::embed::passage_terms,
        places: None,
    };
    let store = DocumentStore::open(folder.path(), &options).unwrap();
    let document = |id: &str, title: Option<&str>, text: &str, language: &str, headings: Option<&str>| PreparedDocument {
        id: DocumentId::parse(id).unwrap(),
        title: title.map(str::to_owned),
        text: text.to_owned(),
        language: Language::parse(language),
        language_confidence: Some(0.5),
        metadata: serde_json::json!({"line": 7, "tags": ["a"]}).as_object().unwrap().clone(),
        passages: vec![PassageSpan { range: 0..text.len(), headings: headings.map(str::to_owned) }],
        embedding: None,
    };
    let a = store.upsert(vec![document("a", Some("Fahrplan"), "Der Zug hat Verspätung.", "de", None)]).unwrap().remove(0);
    store.upsert(vec![document("b", None, "電車が遅れている。", "ja", Some("時刻表"))]).unwrap();
    store.upsert(vec![document("c", None, "gone", "en", None)]).unwrap();
    store.set_embeddings(vec![(a.pending[0].id, Embedding::normalized(vec![1.0, -2.0, 3.0, 4.0]).unwrap())]).unwrap();
    store.delete(&DocumentId::parse("c").unwrap()).unwrap();
    store.close().unwrap();
    let to = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/databases/collection_3.sqlite");
    std::fs::copy(folder.path().join("documents.sqlite"), to).unwrap();
    assert!(!folder.path().join("documents.sqlite-wal").exists());
}
