//! More databases than may be open at once: each is opened when it is used, and closing it for another one loses nothing.

use std::sync::Arc;
use std::sync::mpsc::channel;

use dragoman::domain::Sequence;
use dragoman::store::{DocumentStore, OpenDatabases, StoreError, StoreOptions};
use tempfile::TempDir;

use crate::{OPTIONS, document, embed, id, put};

/// This many stores, which share this many slots for open databases.
fn stores(stores: usize, slots: usize) -> (Vec<TempDir>, Vec<DocumentStore>, Arc<OpenDatabases>) {
    let slots = Arc::new(OpenDatabases::at_most(slots));
    let options = StoreOptions { slots: Some(Arc::clone(&slots)), ..OPTIONS };
    let folders: Vec<_> = (0..stores).map(|_| tempfile::tempdir().unwrap()).collect();
    let stores = folders.iter().map(|folder| DocumentStore::open(folder.path(), &options).unwrap()).collect();
    (folders, stores, slots)
}

#[test]
fn every_store_answers_and_no_more_are_open_than_may() {
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
fn threads_that_use_more_stores_than_there_are_places_wait_for_each_other() {
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
fn a_store_in_use_is_not_closed_for_another_one() {
    let (_folders, stores, slots) = stores(3, 2);
    let passage = put(&stores[0], document("a", "text")).pending[0].id;
    let (started, has_started) = channel();
    let (gate, opened) = channel::<()>();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            stores[0].passages_while(&[passage], move |_| {
                started.send(()).unwrap();
                let _ = opened.recv();
                true
            })
        });
        has_started.recv().unwrap();
        for n in 0..5 {
            stores[1 + n % 2].sequence().unwrap();
            assert!(slots.count() <= 2);
        }
        drop(gate);
        assert_eq!(reading.join().unwrap().unwrap().unwrap().len(), 1);
    });
}

#[test]
fn a_store_that_was_closed_for_good_is_not_opened_again() {
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
fn a_closed_database_is_not_opened_to_be_counted_again() {
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
