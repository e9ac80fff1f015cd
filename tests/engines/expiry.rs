//! Expiring documents, with clocks that the tests control: from its expiry on, no read finds a document, whether it was removed
//! or not.

use std::sync::atomic::Ordering;

use dragoman::domain::{
    DocumentOrder, DocumentPatch, FacetRequest, Field, Filter, HistogramInterval, MetadataPath, MiningUnit, Page, PassageId,
    Precondition, QueryTerm, QueryTerms, ScrollRequest, Test,
};
use dragoman::store::{BatchChange, PassageParts, PatchOutcome, PreparedDocument, SearchFilter, StoreError};
use serde_json::json;

use crate::contract::{Engine, clock, document, id, keys, language, patch, with};

fn expiring(name: &str, text: &str, expires_at_ms: i64) -> PreparedDocument {
    PreparedDocument { expires_at_ms: Some(expires_at_ms), ..document(name, text) }
}

fn expiry(expires_at_ms: Option<i64>) -> DocumentPatch {
    DocumentPatch { expires_at_ms: Some(expires_at_ms), ..patch(json!({})) }
}

fn all(engine: &Engine) -> Vec<String> {
    let page = engine.list(&Page { limit: 1_000, after: None }, u64::MAX).unwrap();
    page.documents.into_iter().map(|document| document.id.to_string()).collect()
}

/// Stores a document that stays and one that expires at 1,000 ms; returns their passages.
fn two(engine: &Engine) -> [PassageId; 2] {
    [document("stays", "the tide comes"), expiring("goes", "the tide goes", 1_000)].map(|document| {
        let document = PreparedDocument { language: language("fr"), ..with(document, json!({"line": 7})) };
        let pending = engine.put(document).pending;
        engine.embed(&pending);
        keys(&pending)[0]
    })
}

/// What each kind of read finds of these documents.
fn found(engine: &Engine, both: &[PassageId; 2]) -> Vec<(&'static str, usize)> {
    let everything = SearchFilter::default();
    let line = Filter::Field(Field::parse("line").unwrap(), Test::Exists(true));
    let filtered = SearchFilter { filter: line, ..SearchFilter::default() };
    let tide = QueryTerm { text: "tide".to_owned(), prefix: false };
    let terms = QueryTerms { terms: vec![tide], ..QueryTerms::default() };
    let scroll =
        ScrollRequest { filter: Filter::default(), order: DocumentOrder::UpdatedAt, descending: true, limit: 10, after: None };
    let path = MetadataPath::parse("line").unwrap();
    let by_line = ScrollRequest { order: DocumentOrder::Metadata(path.clone()), ..scroll.clone() };
    let requests = [
        FacetRequest { field: Field::Language, limit: 5, stats: false, histogram: None },
        FacetRequest { field: Field::CreatedAt, limit: 0, stats: true, histogram: Some(HistogramInterval::Day) },
    ];
    let facets = engine.facets(&everything, &requests, u64::MAX).unwrap();
    let ids = [id("stays"), id("goes")];
    let counts = engine.counts().unwrap();
    let page = Page { limit: 10, after: None };
    let (listed, embeddings) = engine.list_embedded(&page, u64::MAX).unwrap();
    vec![
        ("get", ids.iter().filter(|id| engine.get(id).unwrap().is_some()).count()),
        ("list", all(engine).len()),
        ("list with embeddings", listed.documents.len()),
        ("embeddings of the list", embeddings.into_iter().flatten().count()),
        ("scroll", engine.scroll(&scroll, u64::MAX).unwrap().documents.len()),
        ("scroll by metadata", engine.scroll(&by_line, u64::MAX).unwrap().documents.len()),
        ("count", engine.count_matching(&everything, 10).unwrap()),
        ("count with a filter", engine.count_matching(&filtered, 10).unwrap()),
        ("facets", facets.documents as usize),
        ("values of facets", facets.counts[0].values.iter().map(|value| value.documents as usize).sum()),
        ("times of facets", facets.counts[1].stats.as_ref().map_or(0, |stats| stats.count as usize)),
        ("buckets of facets", facets.counts[1].histogram.iter().flatten().map(|bucket| bucket.documents as usize).sum()),
        ("counts", counts.documents as usize),
        ("counted languages", counts.languages.iter().map(|(_, documents)| *documents as usize).sum()),
        ("counted passages", counts.passages as usize),
        ("hits", engine.passages(both, PassageParts::EXCERPT).unwrap().len()),
        ("documents of passages", engine.documents_of(both).unwrap().len()),
        ("heads of passages", engine.heads_of(both).unwrap().len()),
        ("sizes", engine.sizes_of(both).unwrap().len()),
        ("kept passages", engine.keep_matching(&filtered, both).unwrap().len()),
        ("words", engine.lexical(&terms, &everything, 10).unwrap().len()),
        ("words with a filter", engine.lexical(&terms, &filtered, 10).unwrap().len()),
        ("examples", ids.iter().filter(|id| engine.passage_embeddings(id).unwrap().is_some()).count()),
        ("mining", engine.passage_texts(both, MiningUnit::Passage).unwrap().len()),
        ("known pairs", engine.known_passages(&ids, MiningUnit::Document).unwrap().into_iter().flatten().count()),
        ("known sentences", engine.known_passages(&ids, MiningUnit::Passage).unwrap().into_iter().flatten().count()),
        ("classification", engine.embedded_documents(&everything, &page, u64::MAX).unwrap().0.len()),
        ("classification by id", engine.embedded_by_id(&ids).unwrap().into_iter().flatten().count()),
        ("labels", engine.matching_values(&everything, &path, 10).unwrap().len()),
        ("map", engine.embedded_keys(None, 10).unwrap().len()),
        ("colors of the map", engine.attributes_of(&ids, None).unwrap().into_iter().flatten().count()),
    ]
}

fn assert_found(engine: &Engine, both: &[PassageId; 2], expect: usize) {
    for (way, got) in found(engine, both) {
        assert_eq!(got, expect, "{way}, {}", engine.name());
    }
}

#[test]
fn expired_documents_are_hidden_from_all_reads_and_then_deleted() {
    clock!(NOW, clock);
    for engine in Engine::both_at(clock) {
        NOW.store(0, Ordering::SeqCst);
        let both = two(&engine);
        NOW.store(999, Ordering::SeqCst);
        assert_found(&engine, &both, 2);
        assert!(!engine.expiry_due());
        assert_eq!(engine.delete_expired().unwrap().rows, [0; 0]);
        NOW.store(1_000, Ordering::SeqCst);
        assert!(engine.expiry_due());
        assert_found(&engine, &both, 1);
        let before = engine.sequence().unwrap();
        let expired = engine.delete_expired().unwrap();
        assert_eq!((expired.rows.len(), expired.more, expired.damage.len()), (1, false, 0));
        assert_eq!(engine.token_changes(Some(before), false).unwrap().removed, [both[1]]);
        assert_eq!(engine.embeddings_of(&both).unwrap().len(), 1);
        assert!(!engine.expiry_due());
        assert_found(&engine, &both, 1);
    }
}

#[test]
fn many_expired_documents_are_deleted_in_batches() {
    clock!(NOW, clock);
    for engine in Engine::both_at(clock) {
        NOW.store(0, Ordering::SeqCst);
        let documents = (0..501).map(|n| expiring(&format!("d{n}"), "tide", n + 1)).collect();
        engine.upsert_if(documents, Precondition::None).unwrap();
        engine.put(expiring("later", "tide", 2_000));
        NOW.store(1_000, Ordering::SeqCst);
        let first = engine.delete_expired().unwrap();
        assert_eq!((first.rows.len(), first.more), (500, true));
        let second = engine.delete_expired().unwrap();
        assert_eq!((second.rows.len(), second.more), (1, false));
        assert!(!engine.expiry_due());
        NOW.store(2_000, Ordering::SeqCst);
        assert!(engine.expiry_due());
    }
}

#[test]
fn a_patch_sets_and_clears_an_expiry() {
    clock!(NOW, clock);
    for engine in Engine::both_at(clock) {
        NOW.store(0, Ordering::SeqCst);
        let first = engine.put(document("a", "tide"));
        let patch = |patch| engine.patch(&id("a"), patch, None, Precondition::None).unwrap();
        let PatchOutcome::Done(changed, _) = patch(expiry(Some(500))) else { unreachable!("the document is there") };
        assert_eq!(changed.expires_at_ms, Some(500));
        assert!(changed.sequence > first.sequence);
        let PatchOutcome::Done(same, _) = patch(expiry(Some(500))) else { unreachable!("the document is there") };
        assert_eq!(same.sequence, changed.sequence, "a patch that changes nothing keeps the version");
        assert!(matches!(patch(expiry(None)), PatchOutcome::Done(cleared, _) if cleared.expires_at_ms.is_none()));
        NOW.store(600, Ordering::SeqCst);
        assert_eq!(all(&engine), ["a"]);
        assert_eq!(engine.delete_expired().unwrap().rows, [0; 0]);
        assert_eq!(patch(expiry(Some(600))), PatchOutcome::Absent);
        assert_eq!(patch(expiry(None)), PatchOutcome::Absent, "an expired document cannot be revived");
        assert!(engine.expiry_due());
    }
}

#[test]
fn writes_treat_an_expired_document_as_absent() {
    clock!(NOW, clock);
    for engine in Engine::both_at(clock) {
        NOW.store(0, Ordering::SeqCst);
        let both = two(&engine);
        NOW.store(1_000, Ordering::SeqCst);
        assert_eq!(engine.delete_if(&id("goes"), Precondition::None).unwrap(), None);
        let refused = engine.upsert_if(vec![document("goes", "again")], Precondition::Present).unwrap_err();
        assert!(matches!(refused, StoreError::PreconditionFailed { current: None, .. }), "{refused:?}");
        let again = engine.upsert_if(vec![document("goes", "the tide goes")], Precondition::Absent).unwrap().remove(0);
        assert!(again.created, "this is a new document, not the expired one");
        assert_eq!(again.removed, [both[1]]);
        assert!(again.pending[0].id > both[1]);
        let stored = engine.get(&id("goes")).unwrap().unwrap();
        assert_eq!((stored.expires_at_ms, stored.created_at_ms), (None, 1_000));
        assert_eq!(engine.delete_expired().unwrap().rows, [0; 0]);
        assert_eq!(all(&engine), ["goes", "stays"]);
    }
}

#[test]
fn cached_counts_exclude_expired_documents() {
    clock!(NOW, clock);
    for engine in Engine::both_at(clock) {
        NOW.store(0, Ordering::SeqCst);
        two(&engine);
        assert_eq!(engine.counts().unwrap().documents, 2);
        NOW.store(1_000, Ordering::SeqCst);
        assert_eq!(engine.counts().unwrap().documents, 1);
        NOW.store(999, Ordering::SeqCst);
        engine.put(expiring("later", "tide", 2_000));
        assert_eq!(engine.counts().unwrap().documents, 3);
        NOW.store(2_000, Ordering::SeqCst);
        assert_eq!(engine.counts().unwrap().documents, 1);
    }
}

#[test]
fn bulk_updates_change_each_document_once_in_short_transactions() {
    clock!(NOW, clock);
    for engine in Engine::both_at(clock) {
        NOW.store(0, Ordering::SeqCst);
        let documents = (0..600).map(|n| document(&format!("d{n}"), "tide")).collect();
        engine.upsert_if(documents, Precondition::None).unwrap();
        let until = engine.sequence().unwrap();
        let later = engine.put(document("later", "tide"));
        let change = BatchChange::Update(DocumentPatch { expires_at_ms: Some(Some(5)), ..patch(json!({"checked": true})) });
        let update = |after| engine.change_batch(&change, &SearchFilter::default(), until, after).unwrap();
        let first = update(0);
        assert_eq!((first.matched, first.rows.len()), (500, 500));
        let second = update(first.next.unwrap());
        assert_eq!((second.matched, second.rows.len(), second.next), (100, 100, None));
        assert_eq!(update(0).matched, 0, "documents updated since then are skipped");
        assert_eq!(engine.get(&id("later")).unwrap().unwrap().sequence, later.sequence);
        let updated = engine.get(&id("d7")).unwrap().unwrap();
        assert_eq!((&updated.metadata["checked"], updated.expires_at_ms), (&json!(true), Some(5)));
        assert_eq!(engine.sequence().unwrap().0, later.sequence.0 + 600);
        let long = with(document("long", "tide"), json!({"long": "x".repeat(985)}));
        engine.upsert_if(vec![document("short", "tide"), long], Precondition::None).unwrap();
        let (until, after) = (engine.sequence().unwrap(), first.next.unwrap());
        let refused = engine.change_batch(&change, &SearchFilter::default(), until, after).unwrap_err();
        assert!(matches!(refused, StoreError::MetadataTooLarge { max: 1_000, .. }), "{refused:?}");
        assert!(engine.get(&id("short")).unwrap().unwrap().metadata.is_empty(), "no document of the failed batch is changed");
        NOW.store(5, Ordering::SeqCst);
        assert!(engine.expiry_due());
        assert_eq!(all(&engine), ["later", "long", "short"]);
    }
}
