//! Reads during writes, and texts that are split differently. What holds for every engine is in `tests/engines/documents.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use dragoman::domain::Page;
use dragoman::store::PreparedDocument;

use crate::{cut, document, embedding, keys, put, store};

const TWO: &str = "Der Zug fährt ab. 駅は遠い。";
/// Where the first of the two sentences ends.
const FIRST: usize = "Der Zug fährt ab.".len();

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
