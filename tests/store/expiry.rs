//! Expiring documents, with clocks that the tests control: reads, restarts and copies of a data directory. What holds for every
//! engine is in `tests/engines/expiry.rs`.

use std::sync::atomic::{AtomicI64, Ordering};

use dragoman::domain::{
    DocumentOrder, DocumentPatch, FacetRequest, Field, Filter, HistogramInterval, MetadataPath, MiningUnit, Page, PassageId,
    Precondition, ScrollRequest, Sequence, TitleChange,
};
use dragoman::store::{Change, CopiedDocument, DocumentStore, PreparedDocument, SearchFilter, StoreError};
use rusqlite::Connection;
use serde_json::json;

use crate::{OPTIONS, document, embed, embedding, id, language, put};

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

fn expiry(expires_at_ms: Option<i64>) -> DocumentPatch {
    DocumentPatch {
        title: TitleChange::Keep,
        metadata: Default::default(),
        language: None,
        expires_at_ms: Some(expires_at_ms),
        metadata_bytes_max: 1_000,
        metadata_depth_max: 4,
    }
}

fn document_ids(store: &DocumentStore) -> Vec<String> {
    let page = store.list(&Page { limit: 1_000, after: None }, u64::MAX).unwrap();
    page.documents.into_iter().map(|document| document.id.as_str().to_owned()).collect()
}

/// What each kind of read finds of the documents `stays` and `goes`, whose passages are 1 and 2.
fn found(store: &DocumentStore) -> Vec<(&'static str, usize)> {
    let (everything, both) = (SearchFilter::default(), [PassageId(1), PassageId(2)]);
    let same_line = Filter::Field(Field::parse("line").unwrap(), dragoman::domain::Test::Exists(true));
    let filtered = SearchFilter { filter: same_line, ..SearchFilter::default() };
    let terms = dragoman::embed::query_terms("tide", None);
    let scroll =
        ScrollRequest { filter: Filter::default(), order: DocumentOrder::UpdatedAt, descending: true, limit: 10, after: None };
    let by_line = ScrollRequest { order: DocumentOrder::Metadata(MetadataPath::parse("line").unwrap()), ..scroll.clone() };
    let facet = |field, stats| FacetRequest {
        field,
        limit: if stats { 0 } else { 5 },
        stats,
        histogram: stats.then_some(HistogramInterval::Day),
    };
    let requests = [facet(Field::Language, false), facet(Field::CreatedAt, true)];
    let facets = store.facets(&everything, &requests, u64::MAX).unwrap();
    let ids = [id("stays"), id("goes")];
    let counts = store.counts().unwrap();
    let page = Page { limit: 10, after: None };
    vec![
        ("get", ids.iter().filter(|id| store.get(id).unwrap().is_some()).count()),
        ("list", document_ids(store).len()),
        ("scroll", store.scroll(&scroll, u64::MAX).unwrap().documents.len()),
        ("scroll by metadata", store.scroll(&by_line, u64::MAX).unwrap().documents.len()),
        ("count", store.count_matching(&everything, 10).unwrap()),
        ("count with a filter", store.count_matching(&filtered, 10).unwrap()),
        ("facets", facets.documents as usize),
        ("values of facets", facets.counts[0].values.iter().map(|value| value.documents as usize).sum()),
        ("times of facets", facets.counts[1].stats.as_ref().map_or(0, |stats| stats.count as usize)),
        ("buckets of facets", facets.counts[1].histogram.iter().flatten().map(|bucket| bucket.documents as usize).sum()),
        ("counts", counts.documents as usize),
        ("counted languages", counts.languages.iter().map(|(_, documents)| *documents as usize).sum()),
        ("counted passages", counts.passages as usize),
        ("hits", store.passages(&both).unwrap().len()),
        ("documents of passages", store.documents_of(&both).unwrap().len()),
        ("metadata of passages", store.heads_of(&both).unwrap().len()),
        ("sizes", store.sizes_of(&both).unwrap().len()),
        ("filtered passages", store.matching_passages(&filtered, None).unwrap().passages.len()),
        ("kept passages", store.keep_matching(&filtered, &both).unwrap().len()),
        ("words", store.lexical(&terms, &everything, 10).unwrap().len()),
        ("words with a filter", store.lexical(&terms, &filtered, 10).unwrap().len()),
        ("export with vectors", store.list_embedded(&page, u64::MAX).unwrap().1.into_iter().flatten().count()),
        ("examples", ids.iter().filter(|id| store.passage_embeddings(id).unwrap().is_some()).count()),
        ("mining", store.passage_texts(&both, MiningUnit::Passage).unwrap().len()),
        ("known pairs", store.known_passages(&ids, MiningUnit::Document).unwrap().into_iter().flatten().count()),
        ("known sentences", store.known_passages(&ids, MiningUnit::Passage).unwrap().into_iter().flatten().count()),
        ("classification", store.embedded_documents(&everything, None, 10).unwrap().len()),
        ("labels", store.matching_metadata(&everything, 10).unwrap().len()),
        ("map", store.embedded_keys(None, 10).unwrap().len()),
        ("colors of the map", store.attributes_of(&ids, None).unwrap().into_iter().flatten().count()),
    ]
}

fn assert_found(store: &DocumentStore, expect: usize) {
    for (way, got) in found(store) {
        assert_eq!(got, expect, "{way}");
    }
}

/// A store with a document that stays and one that expires at 1,000 ms.
fn store_with_expiring_document(folder: &std::path::Path, clock: dragoman::store::Clock) -> DocumentStore {
    let store = DocumentStore::open_with_clock(folder, &OPTIONS, clock).unwrap();
    let metadata = json!({"line": 7}).as_object().unwrap().clone();
    for document in [document("stays", "the tide comes"), expiring("goes", "the tide goes", 1_000)] {
        let document = PreparedDocument { metadata: metadata.clone(), language: language("en"), ..document };
        embed(&store, &put(&store, document).pending);
    }
    store
}

#[test]
fn no_read_returns_an_expired_document() {
    clock!(NOW, clock);
    let folder = tempfile::tempdir().unwrap();
    let store = store_with_expiring_document(folder.path(), clock);
    NOW.store(999, Ordering::SeqCst);
    assert_found(&store, 2);
    assert!(!store.expiry_due());
    NOW.store(1_000, Ordering::SeqCst);
    assert!(store.expiry_due());
    assert_found(&store, 1);
    assert_eq!(document_ids(&store), ["stays"]);
}

#[test]
fn deleting_expired_documents_records_their_passages_as_removed() {
    clock!(NOW, clock);
    let folder = tempfile::tempdir().unwrap();
    let store = store_with_expiring_document(folder.path(), clock);
    assert_eq!(store.delete_expired().unwrap().rows, [0; 0]);
    NOW.store(1_000, Ordering::SeqCst);
    let before = store.sequence().unwrap();
    let expired = store.delete_expired().unwrap();
    assert_eq!((expired.rows.len(), expired.more, expired.damage.len()), (1, false, 0));
    assert!(store.sequence().unwrap() > before);
    assert!(matches!(store.changes(before, 10).unwrap()[..], [(_, Change::Removed(PassageId(2)))]));
    assert!(!store.expiry_due());
    assert_found(&store, 1);
    assert!(store.check(10).unwrap().is_empty());
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
    assert_found(&store, 1);
    assert_eq!(store.delete_expired().unwrap().rows.len(), 1);
    store.close().unwrap();
    let store = DocumentStore::open_with_clock(folder.path(), &OPTIONS, clock).unwrap();
    assert!(!store.expiry_due());
    assert_found(&store, 1);
}

#[test]
fn writes_treat_an_expired_document_as_absent() {
    clock!(NOW, clock);
    let folder = tempfile::tempdir().unwrap();
    let store = store_with_expiring_document(folder.path(), clock);
    NOW.store(1_000, Ordering::SeqCst);
    assert_eq!(store.delete_if(&id("goes"), Precondition::None).unwrap(), None);
    let refused = store.upsert_if(vec![document("goes", "again")], Precondition::Present).unwrap_err();
    assert!(matches!(refused, StoreError::PreconditionFailed { current: None, .. }), "{refused:?}");
    let again = store.upsert_if(vec![document("goes", "the tide goes")], Precondition::Absent).unwrap().remove(0);
    assert!(again.created, "this is a new document, not the expired one");
    assert_eq!((again.removed.as_slice(), again.pending[0].id), (&[PassageId(2)][..], PassageId(3)));
    let stored = store.get(&id("goes")).unwrap().unwrap();
    assert_eq!((stored.expires_at_ms, stored.created_at_ms), (None, 1_000));
    assert_eq!(store.delete_expired().unwrap().rows, [0; 0]);
    assert_eq!(document_ids(&store), ["goes", "stays"]);
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
    copy.write_copies(moved.collect()).unwrap();
    assert_eq!(document_ids(&copy), ["goes", "stays"]);
    NOW.store(1_000, Ordering::SeqCst);
    assert_eq!(document_ids(&copy), ["stays"]);
    assert!(copy.expiry_due());
    assert_eq!(copy.delete_expired().unwrap().rows.len(), 1);
}

#[test]
fn bulk_updates_run_in_batches_and_touch_each_document_once() {
    let (_folder, store) = crate::store();
    store.upsert((0..600).map(|n| document(&format!("d{n}"), "tide")).collect()).unwrap();
    embed(&store, &store.pending(PassageId(0), 1_000).unwrap());
    let until = store.sequence().unwrap();
    let later = put(&store, document("later", "tide"));
    let patch =
        DocumentPatch { metadata: json!({"checked": true}).as_object().unwrap().clone(), expires_at_ms: None, ..expiry(None) };
    let update = |after| store.update_batch(&SearchFilter::default(), until, after, patch.clone()).unwrap();
    let first = update(0);
    assert_eq!((first.matched, first.rows.len()), (500, 500));
    let second = update(first.next.unwrap());
    assert_eq!((second.matched, second.rows.len(), second.next), (100, 100, None));
    assert_eq!(update(0).matched, 0, "documents updated since then are skipped");
    assert_eq!(store.get(&id("later")).unwrap().unwrap().sequence, later.sequence);
    let updated = store.get(&id("d7")).unwrap().unwrap();
    assert_eq!((&updated.metadata["checked"], updated.indexed), (&json!(true), true));
    assert!(updated.sequence > until && store.check(10).unwrap().is_empty());
    assert_eq!(store.embeddings(PassageId(0), 1).unwrap(), [(PassageId(1), embedding(1.0))], "nothing is embedded again");
    assert_eq!(store.changes(until, 10).unwrap(), [], "nothing changes in the index");
    assert_eq!(store.sequence().unwrap(), Sequence(later.sequence.0 + 600));
}
