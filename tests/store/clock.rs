//! A clock that jumps: no document's update time precedes its creation time, and order comes from the sequence.

use std::sync::atomic::{AtomicI64, Ordering};

use dragoman::domain::{PassageId, Sequence};
use dragoman::store::{Change, DocumentStore};

use crate::{OPTIONS, document, embed, id, put};

const HOUR_MS: i64 = 3_600_000;

static NOW_MS: AtomicI64 = AtomicI64::new(0);

fn clock() -> i64 {
    NOW_MS.load(Ordering::Relaxed)
}

#[test]
fn a_backward_clock_jump_keeps_times_and_sequences_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (mut last, mut versions) = (Sequence(0), Vec::new());
    // Forwards, backwards, before the epoch, with restarts in between.
    for (round, now_ms) in [1_000 * HOUR_MS, 999 * HOUR_MS, 5, 0, -HOUR_MS, 1_001 * HOUR_MS, 2].into_iter().enumerate() {
        NOW_MS.store(now_ms, Ordering::Relaxed);
        let store = DocumentStore::open_with_clock(folder.path(), &OPTIONS, clock).unwrap();
        let own = format!("made-in-{round}");
        for (name, text) in [("kept", "stays as it is"), ("changed", own.as_str()), (own.as_str(), "new")] {
            let outcome = put(&store, document(name, text));
            embed(&store, &outcome.pending);
            assert!(outcome.sequence > last, "{outcome:?}");
            last = store.sequence().unwrap();
        }
        for name in ["kept", "changed", own.as_str()] {
            let stored = store.get(&id(name)).unwrap().unwrap();
            assert!(stored.updated_at_ms >= stored.created_at_ms, "{stored:?}");
            assert!(stored.indexed);
            let created_at_ms = if name == own { now_ms } else { 1_000 * HOUR_MS };
            assert_eq!(stored.created_at_ms, created_at_ms, "{name}");
        }
        versions.push(store.get(&id("changed")).unwrap().unwrap().updated_at_ms);
        assert_eq!(store.get(&id("changed")).unwrap().unwrap().text, own);
        store.close().unwrap();
    }
    assert!(versions.is_sorted(), "{versions:?}");
    let store = DocumentStore::open(folder.path(), &OPTIONS).unwrap();
    let changes = store.changes(Sequence(0), 100).unwrap();
    assert!(changes.is_sorted_by_key(|(sequence, _)| *sequence));
    let embedded: Vec<PassageId> = changes
        .into_iter()
        .filter_map(|(_, change)| match change {
            Change::Embedded(passage, _) => Some(passage),
            Change::Removed(_) => None,
        })
        .collect();
    assert!(embedded.is_sorted(), "keys grow whatever the clock says: {embedded:?}");
}
