//! Writing and reading documents and passages.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use dragoman::domain::{Embedding, Page, Passage, PassageId, Sequence};
use dragoman::store::{DocumentStore, HitSizes, PreparedDocument, StoreError};
use serde_json::json;

use crate::{cut, document, embed, embedding, id, keys, language, put, store};

const TWO: &str = "Der Zug fährt ab. 駅は遠い。";
/// Where the first of the two sentences ends.
const FIRST: usize = "Der Zug fährt ab.".len();

fn texts(store: &DocumentStore, after: u64, limit: usize) -> Vec<String> {
    store.pending(PassageId(after), limit).unwrap().into_iter().map(|passage| passage.text).collect()
}

#[test]
fn a_document_is_read_as_it_was_stored() {
    let (_folder, store) = store();
    let metadata = json!({"z": 1, "a": {"año": [true, null, 0.1]}, "\0": "\0"}).as_object().unwrap().clone();
    let new = PreparedDocument {
        language: language("de"),
        language_confidence: Some(0.75),
        metadata: metadata.clone(),
        ..cut("été 1/2", "Zeile\0eins\n", vec![0..5, 5..11])
    };
    let outcome = put(&store, new);
    let read = store.get(&id("été 1/2")).unwrap().unwrap();
    assert_eq!(read.id, id("été 1/2"));
    assert_eq!(read.text, "Zeile\0eins\n");
    assert_eq!((read.language, read.language_confidence), (language("de"), Some(0.75)));
    assert_eq!(read.metadata.keys().collect::<Vec<_>>(), ["z", "a", "\0"], "the order of keys stays");
    assert_eq!(read.metadata, metadata);
    assert_eq!((read.passages, read.indexed), (2, false));
    assert_eq!(read.sequence, outcome.sequence);
    assert!(read.created_at_ms > 0 && read.updated_at_ms == read.created_at_ms);
    assert_eq!(store.get(&id("absent")).unwrap(), None);
}

#[test]
fn a_document_is_indexed_once_all_its_passages_are_embedded() {
    let (_folder, store) = store();
    let outcome = put(&store, cut("a", TWO, vec![0..FIRST, FIRST + 1..TWO.len()]));
    assert!(outcome.created && outcome.removed.is_empty());
    let texts: Vec<_> = outcome.pending.iter().map(|passage| passage.text.as_str()).collect();
    assert_eq!(texts, ["Der Zug fährt ab.", "駅は遠い。"]);

    embed(&store, &outcome.pending[..1]);
    assert!(!store.get(&id("a")).unwrap().unwrap().indexed);
    embed(&store, &outcome.pending[1..]);
    assert!(store.get(&id("a")).unwrap().unwrap().indexed);
}

#[test]
fn a_changed_text_replaces_passages_without_reusing_their_keys() {
    let (_folder, store) = store();
    let first = put(&store, document("a", "eins"));
    embed(&store, &first.pending);
    let second = put(&store, document("a", "zwei"));
    assert!(!second.created && second.sequence > first.sequence);
    assert_eq!(second.removed, keys(&first.pending));
    store.delete(&id("a")).unwrap();
    let third = put(&store, document("a", "eins"));
    assert!(third.created);
    let all: HashSet<_> = [first, second, third].iter().flat_map(|outcome| keys(&outcome.pending)).collect();
    assert_eq!(all.len(), 3);
}

#[test]
fn the_same_text_keeps_passages_and_embeddings() {
    let (_folder, store) = store();
    let two = || cut("a", TWO, vec![0..FIRST, FIRST + 1..TWO.len()]);
    let first = put(&store, two());
    embed(&store, &first.pending[..1]);

    let metadata = json!({"page": 7}).as_object().unwrap().clone();
    let second = put(&store, PreparedDocument { language: language("de"), metadata: metadata.clone(), ..two() });
    assert!(!second.created && second.removed.is_empty() && second.sequence > first.sequence);
    assert_eq!(second.pending, first.pending[1..], "only the passage that still waits");
    let read = store.get(&id("a")).unwrap().unwrap();
    assert_eq!((read.metadata, read.language, read.sequence), (metadata, language("de"), second.sequence));

    embed(&store, &second.pending);
    assert_eq!(put(&store, two()).pending, []);
    assert!(store.get(&id("a")).unwrap().unwrap().indexed);
}

#[test]
fn an_unchanged_text_and_caller_embedding_keep_their_passage() {
    let (_folder, store) = store();
    let own = |number| PreparedDocument { embedding: Some(embedding(number)), ..document("a", "eins") };
    put(&store, own(1.0));
    let (kept, reached) = (store.embeddings(PassageId(0), 10).unwrap(), store.sequence().unwrap());
    let second = put(&store, own(1.0));
    assert!(!second.created && second.removed.is_empty() && second.pending.is_empty());
    assert_eq!(store.embeddings(PassageId(0), 10).unwrap(), kept);
    assert_eq!(store.changes(reached, 10).unwrap(), [], "nothing for the index to take in");
    let third = put(&store, own(2.0));
    assert_eq!(third.removed, [kept[0].0]);
    let replaced = store.embeddings(PassageId(0), 10).unwrap();
    assert!(replaced[0].0 != kept[0].0 && replaced[0].1 == embedding(2.0), "{replaced:?}");
}

#[test]
fn a_page_is_consistent_with_its_embeddings_during_writes() {
    let (_folder, store) = store();
    let texts = ["null", "eins", "zwei"];
    let own = |number: usize| PreparedDocument { embedding: Some(embedding(number as f32)), ..document("a", texts[number]) };
    put(&store, own(0));
    let read = AtomicBool::new(false);
    thread::scope(|scope| {
        let writing = scope.spawn(|| {
            let mut round = 0;
            while round < 200 || !read.load(Ordering::Relaxed) {
                put(&store, own(round % texts.len()));
                round += 1;
            }
        });
        while !writing.is_finished() {
            read.store(true, Ordering::Relaxed);
            let (page, embeddings) = store.list_embedded(&Page { limit: 10, after: None }, u64::MAX).unwrap();
            let number = texts.iter().position(|text| *text == page.documents[0].text).unwrap();
            assert_eq!(embeddings, [Some(embedding(number as f32))]);
        }
    });
}

#[test]
fn the_pending_count_excludes_given_passages() {
    let (_folder, store) = store();
    let outcome = put(&store, cut("a", TWO, vec![0..FIRST, FIRST + 1..TWO.len()]));
    let [first, second] = [outcome.pending[0].id, outcome.pending[1].id];
    assert_eq!(store.pending_count_excluding(&[]).unwrap(), 2);
    assert_eq!(store.pending_count_excluding(&[first, PassageId(999)]).unwrap(), 1);
    embed(&store, &outcome.pending[..1]);
    assert_eq!(store.pending_count_excluding(&[first]).unwrap(), 1);
    assert_eq!(store.pending_count_excluding(&[first, second]).unwrap(), 0);
}

#[test]
fn the_same_text_split_differently_is_embedded_again() {
    let (_folder, store) = store();
    let first = 0..FIRST;
    let outcomes = [
        put(&store, cut("a", TWO, vec![0..FIRST, FIRST + 1..TWO.len()])),
        put(&store, cut("a", TWO, std::iter::once(0..TWO.len()).collect())),
        put(&store, cut("a", TWO, vec![0..FIRST, FIRST..TWO.len()])),
        put(&store, cut("a", TWO, vec![0..FIRST, FIRST..TWO.len(), FIRST..FIRST])),
        put(&store, cut("a", TWO, vec![first])),
    ];
    for pair in outcomes.windows(2) {
        assert_eq!(pair[1].removed, keys(&pair[0].pending));
        assert!(!pair[1].pending.is_empty());
    }
}

#[test]
fn a_repeated_id_is_created_then_updated() {
    let (_folder, store) = store();
    let outcomes = store.upsert(vec![document("a", "alt"), document("b", "zwischen"), document("a", "neu")]).unwrap();
    assert_eq!(outcomes.iter().map(|outcome| outcome.created).collect::<Vec<_>>(), [true, true, false]);
    assert!(outcomes.is_sorted_by_key(|outcome| outcome.sequence));
    assert_eq!(outcomes[0].pending, [], "an overwritten text needs no embedding");
    assert_eq!(outcomes[2].pending[0].text, "neu");
    assert_eq!(store.get(&id("a")).unwrap().unwrap().text, "neu");
    assert_eq!(texts(&store, 0, 10), ["zwischen", "neu"]);
}

#[test]
fn a_repeated_id_with_the_same_text_is_embedded_once() {
    let (_folder, store) = store();
    let outcomes = store.upsert(vec![document("a", "gleich"), document("a", "gleich")]).unwrap();
    assert_eq!(outcomes.iter().map(|outcome| outcome.pending.len()).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn an_upsert_stores_all_documents_or_none() {
    let (_folder, store) = store();
    for (start, end) in [(0, 100), (1, 2), (9, 4)] {
        let bad = start..end;
        let result = store.upsert(vec![document("good", "gut"), cut("bad", "ü", vec![bad.clone()])]);
        assert!(matches!(&result, Err(StoreError::InvalidPassage { id, .. }) if id.as_str() == "bad"), "{bad:?}: {result:?}");
    }
    assert_eq!(store.get(&id("good")).unwrap(), None);
    assert_eq!(store.counts().unwrap().documents, 0);
    assert_eq!(store.upsert(Vec::new()).unwrap(), []);
}

#[test]
fn a_deleted_document_is_gone_with_its_passages() {
    let (_folder, store) = store();
    let outcome = put(&store, cut("a", TWO, vec![0..FIRST, FIRST + 1..TWO.len()]));
    embed(&store, &outcome.pending[..1]);
    let deleted = store.delete(&id("a")).unwrap().unwrap();
    assert_eq!(deleted.removed, keys(&outcome.pending));
    assert!(deleted.sequence > outcome.sequence);
    assert_eq!(store.get(&id("a")).unwrap(), None);
    assert_eq!(store.passages(&keys(&outcome.pending)).unwrap(), []);
    assert_eq!(texts(&store, 0, 10), [""; 0]);
    assert_eq!(store.delete(&id("a")).unwrap(), None);
}

#[test]
fn embeddings_of_removed_passages_are_ignored() {
    let (_folder, store) = store();
    let old = put(&store, document("a", "eins"));
    let new = put(&store, document("a", "zwei"));
    let (old, new) = (old.pending[0].id, new.pending[0].id);
    let asked = vec![(old, embedding(1.0)), (new, embedding(2.0)), (PassageId(u64::MAX), embedding(3.0))];
    assert_eq!(store.set_embeddings(asked).unwrap(), [(new, embedding(2.0))]);
    assert_eq!(store.embeddings(PassageId(0), 10).unwrap(), [(new, embedding(2.0))]);
}

#[test]
fn a_page_stops_at_the_byte_limit_but_has_at_least_one_document() {
    let (_folder, store) = store();
    for name in ["a", "b", "c"] {
        put(&store, document(name, "eight by"));
    }
    let page = |bytes_max| {
        let page = store.list(&Page { limit: 10, after: None }, bytes_max).unwrap();
        (page.documents.len(), page.next.map(|next| next.to_string()))
    };
    // Eight bytes of text and the two of empty metadata each.
    assert_eq!(page(30), (3, None));
    assert_eq!(page(29), (2, Some("b".to_owned())));
    assert_eq!(page(0), (1, Some("a".to_owned())));
}

#[test]
fn documents_are_paged_in_id_order() {
    let (_folder, store) = store();
    for name in ["b", "Z", "ä", "a", "文"] {
        put(&store, document(name, "text"));
    }
    let page = |limit, after: Option<&str>| {
        let page = store.list(&Page { limit, after: after.map(id) }, u64::MAX).unwrap();
        let names: Vec<_> = page.documents.iter().map(|document| document.id.to_string()).collect();
        (names.join(" "), page.next.map(|next| next.to_string()))
    };
    let next = |text: &str| Some(text.to_owned());
    assert_eq!(page(2, None), ("Z a".to_owned(), next("a")));
    assert_eq!(page(2, Some("a")), ("b ä".to_owned(), next("ä")));
    assert_eq!(page(2, Some("ä")), ("文".to_owned(), None));
    assert_eq!(page(5, None), ("Z a b ä 文".to_owned(), None), "a page that is just full has no next one");
    assert_eq!(page(5, Some("a-deleted-one")), ("b ä 文".to_owned(), None));
    assert_eq!(page(0, None), (String::new(), None));
}

#[test]
fn passages_are_returned_in_the_requested_order() {
    let (_folder, store) = store();
    let outcome = put(&store, cut("a", TWO, vec![0..FIRST, FIRST + 1..TWO.len()]));
    let other = put(&store, document("b", "andere"));
    let [first, second] = [outcome.pending[0].id, outcome.pending[1].id];
    let asked = [other.pending[0].id, second, PassageId(999), first, second];
    let rows = store.passages(&asked).unwrap();
    let found: Vec<_> = rows.iter().map(|row| (row.document.id.as_str(), row.passage.clone())).collect();
    let passage = |id, start, end| Passage { id, start, end };
    let expect_second = ("a", passage(second, FIRST + 1, TWO.len()));
    let expect = [("b", passage(asked[0], 0, 6)), expect_second.clone(), ("a", passage(first, 0, FIRST)), expect_second];
    assert_eq!(found, expect);
    assert_eq!(rows[1].document, store.get(&id("a")).unwrap().unwrap());
}

#[test]
fn reading_passages_returns_nothing_if_a_size_is_refused() {
    let (_folder, store) = store();
    let title = Some("Bahnhöfe".to_owned());
    let outcome = put(&store, PreparedDocument { title, ..cut("a", TWO, vec![0..FIRST, FIRST + 1..TWO.len()]) });
    let asked = [outcome.pending[0].id, outcome.pending[1].id];
    let whole = TWO.len() as u64;
    let mut told = Vec::new();
    let read = store.passages_while(&asked, |sizes| {
        told.push(sizes);
        true
    });
    let sizes = |passage| HitSizes { title: "Bahnhöfe".len() as u64, text: whole, metadata: "{}".len() as u64, passage };
    assert_eq!(told, [sizes(FIRST as u64), sizes(whole - FIRST as u64 - 1)]);
    assert_eq!(read.unwrap().unwrap(), store.passages(&asked).unwrap());
    assert_eq!(store.sizes_of(&asked).unwrap(), told);
    let mut left = 1;
    let refused = store.passages_while(&asked, |_| std::mem::replace(&mut left, 0) > 0);
    assert_eq!(refused.unwrap(), None);
}

#[test]
fn pending_passages_are_read_in_pages() {
    let (_folder, store) = store();
    let outcome = put(&store, cut("a", TWO, vec![0..FIRST, FIRST + 1..TWO.len()]));
    let other = put(&store, document("b", "andere"));
    embed(&store, &outcome.pending[1..]);
    assert_eq!(texts(&store, 0, 1), ["Der Zug fährt ab."]);
    assert_eq!(texts(&store, outcome.pending[0].id.0, 10), ["andere"]);
    assert_eq!(texts(&store, other.pending[0].id.0, 10), [""; 0]);
}

#[test]
fn counts_reflect_every_change() {
    let (_folder, store) = store();
    let in_language = |name: &str, code: &str| PreparedDocument { language: language(code), ..document(name, "ein Text") };
    assert_eq!(store.counts().unwrap().languages, []);
    let outcome = put(&store, cut("none", TWO, vec![0..FIRST, FIRST + 1..TWO.len()]));
    embed(&store, &outcome.pending[..1]);
    for (name, code) in [("1", "fr"), ("2", "de"), ("3", "de"), ("4", "ja")] {
        put(&store, in_language(name, code));
    }
    put(&store, in_language("4", "fr"));
    put(&store, in_language("5", "ja"));
    store.delete(&id("5")).unwrap();
    let counts = store.counts().unwrap();
    assert_eq!((counts.documents, counts.passages, counts.passages_pending), (5, 6, 5));
    assert_eq!(counts.languages, [(language("de"), 2), (language("fr"), 2), (None, 1)]);
    assert!(counts.disk_bytes > 4_096);
}

#[test]
fn concurrent_writes_are_all_kept() {
    let (_folder, store) = store();
    let sequences: Vec<Sequence> = thread::scope(|scope| {
        let write = |thread: usize| {
            let store = &store;
            let put = move |number| put(store, document(&format!("{thread}-{number}"), "text"));
            let outcomes: Vec<_> = (0..50).map(put).collect();
            assert!(outcomes.is_sorted_by_key(|outcome| outcome.sequence), "the writes of one caller get ascending numbers");
            outcomes.into_iter().map(|outcome| outcome.sequence).collect::<Vec<_>>()
        };
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || write(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(sequences.iter().collect::<HashSet<_>>().len(), 400);
    assert_eq!(store.sequence().unwrap(), *sequences.iter().max().unwrap());
    let counts = store.counts().unwrap();
    assert_eq!((counts.documents, counts.passages), (400, 400));
}

#[test]
fn a_closed_store_refuses_reads_and_writes() {
    let (_folder, store) = store();
    put(&store, document("a", "eins"));
    store.close().unwrap();
    store.close().unwrap();
    assert!(matches!(store.get(&id("a")), Err(StoreError::Closed)));
    assert!(matches!(store.upsert(vec![document("b", "zwei")]), Err(StoreError::Closed)));
    assert!(matches!(store.set_embeddings(Vec::<(PassageId, Embedding)>::new()), Err(StoreError::Closed)));
}
