//! More databases than may be open at once: each is opened when it is used, and closing it for another one loses nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use dragoman::domain::{PassageId, Sequence};
use dragoman::store::{DocumentStore, OpenDatabases, PassageParts, StoreError, StoreOptions};
use tempfile::TempDir;

use crate::{OPTIONS, document, embed, id, put};

/// This many stores, which share this many slots for open databases.
fn stores(stores: usize, slots: usize) -> (Vec<TempDir>, Vec<DocumentStore>, Arc<OpenDatabases>) {
    let slots = Arc::new(OpenDatabases::with_limit(slots));
    let options = StoreOptions { slots: Some(Arc::clone(&slots)), ..OPTIONS.clone() };
    let folders: Vec<_> = (0..stores).map(|_| tempfile::tempdir().unwrap()).collect();
    let stores = folders.iter().map(|folder| DocumentStore::open(folder.path(), &options).unwrap()).collect();
    (folders, stores, slots)
}

/// Runs `work` while another thread reads this passage of the store.
fn while_in_use<T>(store: &DocumentStore, passage: PassageId, work: impl FnOnce() -> T) -> T {
    let (started, has_started) = channel();
    let (gate, opened) = channel::<()>();
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || {
            store.passages_while(&[passage], PassageParts::EXCERPT, move |_| {
                started.send(()).unwrap();
                let _ = opened.recv();
                true
            })
        });
        has_started.recv().unwrap();
        let result = work();
        drop(gate);
        assert_eq!(reading.join().unwrap().unwrap().unwrap().len(), 1);
        result
    })
}

#[test]
fn all_stores_work_within_the_limit_of_open_databases() {
    let (_folders, stores, slots) = stores(12, 3);
    for round in 0..3 {
        for (n, store) in stores.iter().enumerate() {
            let outcome = put(store, document(&format!("{round}"), &format!("text {n} of {round}")));
            embed(store, &outcome.pending);
            assert!(slots.count() <= 3);
        }
    }
    for (n, store) in stores.iter().enumerate() {
        for round in 0..3 {
            let found = store.get(&id(&format!("{round}"))).unwrap().unwrap();
            assert!(found.indexed && found.text == format!("text {n} of {round}"));
        }
        assert_eq!((store.counts().unwrap().documents, store.changes(Sequence(0), 10).unwrap().len()), (3, 3));
        assert!(slots.count() <= 3);
    }
}

#[test]
fn concurrent_writes_succeed_with_fewer_slots_than_stores() {
    const ROUNDS: usize = 40;
    let (_folders, stores, slots) = stores(7, 2);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (stores, slots) = (&stores, &slots);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let store = &stores[(thread * 3 + round * 5) % stores.len()];
                    let name = format!("{thread}-{round}");
                    put(store, document(&name, "text"));
                    assert!(store.get(&id(&name)).unwrap().is_some());
                    assert!(slots.count() <= 2);
                }
            });
        }
    });
    let documents: u64 = stores.iter().map(|store| store.counts().unwrap().documents).sum();
    assert_eq!(documents, 6 * ROUNDS as u64);
}

#[test]
fn a_store_in_use_is_not_closed_to_free_its_slot() {
    let (_folders, stores, slots) = stores(3, 2);
    let passage = put(&stores[0], document("a", "text")).pending[0].id;
    while_in_use(&stores[0], passage, || {
        for n in 0..5 {
            stores[1 + n % 2].sequence().unwrap();
            assert!(slots.count() <= 2);
        }
    });
}

#[test]
fn a_store_waits_for_a_slot_while_all_are_in_use() {
    let (_folders, stores, slots) = stores(2, 1);
    let passage = put(&stores[0], document("a", "text")).pending[0].id;
    let in_use = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let (waits, in_use) = (&stores[1], &in_use);
        let waiting = while_in_use(&stores[0], passage, || {
            let waiting = scope.spawn(move || {
                waits.sequence().unwrap();
                in_use.load(Ordering::SeqCst)
            });
            // These reads give the other store the time to open too early, and succeed while it waits.
            for _ in 0..200 {
                stores[0].sequence().unwrap();
                assert_eq!(slots.count(), 1);
            }
            in_use.store(false, Ordering::SeqCst);
            waiting
        });
        assert!(!waiting.join().unwrap(), "a store was opened while the only slot was in use");
    });
}

#[test]
fn an_explicitly_closed_store_is_not_reopened() {
    let (_folders, stores, slots) = stores(3, 2);
    stores[0].close().unwrap();
    stores[1].close().unwrap();
    assert!(matches!(stores[0].sequence(), Err(StoreError::Closed)));
    assert!(matches!(stores[1].get(&id("a")), Err(StoreError::Closed)));
    stores[2].sequence().unwrap();
    assert_eq!(slots.count(), 1);
    drop(stores);
    assert_eq!(slots.count(), 0);
}

#[test]
fn counts_are_cached_while_the_database_is_closed() {
    let (folders, stores, _places) = stores(2, 1);
    put(&stores[0], document("a", "text"));
    assert_eq!(stores[0].counts().unwrap().documents, 1);
    stores[1].sequence().unwrap();
    let file = folders[0].path().join("documents.sqlite");
    std::fs::rename(&file, folders[0].path().join("elsewhere")).unwrap();
    assert_eq!(stores[0].counts().unwrap().documents, 1);
    assert!(matches!(stores[0].sequence(), Err(StoreError::DatabaseLost { .. })));
    std::fs::rename(folders[0].path().join("elsewhere"), file).unwrap();
    put(&stores[0], document("b", "text"));
    assert_eq!(stores[0].counts().unwrap().documents, 2);
}
