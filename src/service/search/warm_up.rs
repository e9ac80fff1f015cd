//! Prepares the first searches after a start. Without this, the first search of a collection would read the tokens and words of
//! all its passages and copy their embeddings, which takes some seconds for 100,000 passages.
//!
//! The prepared data takes memory, so only collections that were recently searched in mode `full` are prepared
//! (`OpenCollection::mark_searched`).

use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::tokens::{scorer_of, with_tokens};
use crate::embed::Embedder;
use crate::service::open_collection::OpenCollection;

/// How often to try to copy the embeddings while changes run, and the pause before the next attempt.
const ATTEMPTS: u32 = 60;
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Starts to compute what late interaction needs of the model, if the collection has passages to search. Otherwise the first
/// questions in new words would take longer.
pub(in crate::service) fn precompute(collection: &OpenCollection, embedder: &Embedder) {
    let has_passages = || collection.embedded().and_then(|embedded| Ok(!embedded.index()?.0.is_empty()));
    if let Some(scorer) = scorer_of(collection, embedder).filter(|_| has_passages().is_ok_and(|has| has)) {
        scorer.precompute();
    }
}

/// Prepares the collections that it receives, one after the other, in a thread that nothing waits for.
pub(in crate::service) fn start_preparing(collections: Receiver<Arc<OpenCollection>>, embedder: &Embedder) {
    let embedder = embedder.clone();
    let prepare_all = move || collections.into_iter().for_each(|collection| prepare(&collection, &embedder));
    // Without the thread, the first searches take longer.
    drop(std::thread::Builder::new().name("warm-up".to_owned()).spawn(prepare_all));
}

fn prepare(collection: &OpenCollection, embedder: &Embedder) {
    let started = Instant::now();
    if scorer_of(collection, embedder).is_none() || collection.should_stop() {
        return;
    }
    // The first search meets the same failure, and reports it.
    let has_tokens = with_tokens(collection, embedder.translations(), |_, _| ()).is_ok();
    if has_tokens && copy_embeddings(collection) {
        tracing::info!(collection = %collection.row.name, took = ?started.elapsed(), "prepared the first search");
    }
}

/// Copies the embeddings for searches that compare with all of them. Returns whether that is done, or not needed.
fn copy_embeddings(collection: &OpenCollection) -> bool {
    for _ in 0..ATTEMPTS {
        match collection.index().map(|index| index.prepare_scan()) {
            _ if collection.should_stop() => return false,
            Ok(Ok(false)) => std::thread::sleep(RETRY_PAUSE),
            prepared => return prepared.is_ok_and(|prepared| prepared.is_ok()),
        }
    }
    false
}
