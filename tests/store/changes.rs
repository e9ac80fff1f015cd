//! The change sequence, from which an index catches up.

use dragoman::domain::{Limits, PassageId, Sequence};
use dragoman::store::{BatchChange, Change, DocumentStore, PreparedDocument, SearchFilter, StoreError};
use serde_json::json;

use crate::{cut, delete, document, embed, embedding, put, store};

/// Reads all changes in pages of `limit`, and checks that sequence numbers only grow.
fn changes(store: &DocumentStore, after: Sequence, limit: usize) -> Vec<(Sequence, Change)> {
    let mut all: Vec<(Sequence, Change)> = Vec::new();
    loop {
        let page = store.changes(all.last().map_or(after, |last| last.0), limit).unwrap();
        assert!(page.len() <= limit);
        if page.is_empty() {
            assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "every change has its own place");
            return all;
        }
        all.extend(page);
    }
}

fn only(changes: Vec<(Sequence, Change)>) -> Vec<Change> {
    changes.into_iter().map(|(_, change)| change).collect()
}

#[test]
fn an_empty_store_has_no_changes() {
    let (_folder, store) = store();
    assert_eq!(store.sequence().unwrap(), Sequence(0));
    assert_eq!(changes(&store, Sequence(0), 10), []);
}

#[test]
fn changes_list_embeddings_and_tombstones_in_order() {
    let (_folder, store) = store();
    let a = put(&store, cut("a", "eins zwei", vec![0..4, 5..9]));
    let b = put(&store, document("b", "drei"));
    assert_eq!(changes(&store, Sequence(0), 10), [], "a passage without an embedding is not part of the index");
    let [a1, a2] = [a.pending[0].id, a.pending[1].id];
    let b1 = b.pending[0].id;
    embed(&store, &b.pending);
    embed(&store, &a.pending);
    put(&store, document("b", "vier"));
    delete(&store, "a");
    let c = put(&store, document("c", "fünf"));
    embed(&store, &c.pending);

    let expect = [
        Change::Removed(b1),
        Change::Removed(a1),
        Change::Removed(a2),
        Change::Embedded(c.pending[0].id, embedding(c.pending[0].id.0 as f32)),
    ];
    for limit in 1..6 {
        assert_eq!(only(changes(&store, Sequence(0), limit)), expect, "in pages of {limit}");
    }
    assert!(changes(&store, Sequence(0), 10).iter().all(|change| change.0 <= store.sequence().unwrap()));
    assert_eq!(changes(&store, store.sequence().unwrap(), 10), []);
}

#[test]
fn changes_before_the_requested_sequence_are_left_out() {
    let (_folder, store) = store();
    let a = put(&store, document("a", "eins"));
    embed(&store, &a.pending);
    let reached = store.sequence().unwrap();
    let b = put(&store, document("b", "zwei"));
    embed(&store, &b.pending);
    delete(&store, "a");
    let expect = [Change::Embedded(b.pending[0].id, embedding(2.0)), Change::Removed(a.pending[0].id)];
    assert_eq!(only(changes(&store, reached, 10)), expect);
}

#[test]
fn a_reembedded_passage_is_listed_once_at_its_latest_change() {
    let (_folder, store) = store();
    let a = put(&store, document("a", "eins")).pending[0].id;
    let b = put(&store, document("b", "zwei")).pending[0].id;
    store.set_embeddings(vec![(a, embedding(1.0)), (b, embedding(2.0))]).unwrap();
    store.set_embeddings(vec![(a, embedding(3.0))]).unwrap();
    let expect = [Change::Embedded(b, embedding(2.0)), Change::Embedded(a, embedding(3.0))];
    assert_eq!(only(changes(&store, Sequence(0), 10)), expect);
}

#[test]
fn unchanged_texts_and_new_metadata_do_not_change_the_index() {
    let (_folder, store) = store();
    let own = || PreparedDocument { embedding: Some(embedding(1.0)), ..document("a", "eins") };
    put(&store, own());
    let reached = store.sequence().unwrap();
    put(&store, own());
    let patch = Limits::default().metadata_patch(json!({"checked": true}).as_object().unwrap().clone());
    let until = store.sequence().unwrap();
    assert_eq!(store.change_batch(&BatchChange::Update(patch), &SearchFilter::default(), until, 0).unwrap().rows.len(), 1);
    assert_eq!(changes(&store, reached, 10), []);
    assert!(store.check(10).unwrap().is_empty());
}

#[test]
fn tombstones_are_purged_up_to_the_saved_sequence() {
    let (_folder, store) = store();
    let a = put(&store, document("a", "eins"));
    let b = put(&store, document("b", "zwei"));
    embed(&store, &a.pending);
    embed(&store, &b.pending);
    let early = store.sequence().unwrap();
    delete(&store, "a");
    let saved = store.sequence().unwrap();
    delete(&store, "b");
    store.purge_tombstones(saved).unwrap();

    assert_eq!(only(changes(&store, saved, 10)), [Change::Removed(b.pending[0].id)]);
    assert_eq!(only(changes(&store, Sequence(0), 10)), [Change::Removed(b.pending[0].id)], "an empty index may begin at zero");
    let error = store.changes(early, 10).unwrap_err();
    assert!(
        matches!(error, StoreError::ChangesPurged { after, purged_to } if (after, purged_to) == (early, saved)),
        "an index that still holds the first passage must be rebuilt: {error:?}"
    );
}

#[test]
fn purging_tombstones_stops_at_the_last_change() {
    let (_folder, store) = store();
    let a = put(&store, document("a", "eins"));
    embed(&store, &a.pending);
    store.purge_tombstones(Sequence(u64::MAX)).unwrap();
    let reached = store.sequence().unwrap();
    delete(&store, "a");
    assert_eq!(only(changes(&store, reached, 10)), [Change::Removed(a.pending[0].id)]);
    store.purge_tombstones(Sequence(0)).unwrap();
    assert_eq!(
        only(changes(&store, reached, 10)),
        [Change::Removed(a.pending[0].id)],
        "purging up to an earlier number purges nothing"
    );
}

#[test]
fn embeddings_are_read_in_pages_by_key() {
    let (_folder, store) = store();
    let outcome = put(&store, cut("a", "eins zwei drei", vec![0..4, 5..9, 10..14]));
    embed(&store, &outcome.pending[..1]);
    embed(&store, &outcome.pending[2..]);
    let [first, last] = [outcome.pending[0].id, outcome.pending[2].id];
    assert_eq!(store.embeddings(PassageId(0), 1).unwrap(), [(first, embedding(first.0 as f32))]);
    assert_eq!(store.embeddings(first, 10).unwrap(), [(last, embedding(last.0 as f32))]);
    assert_eq!(store.embeddings(last, 10).unwrap(), []);
}
