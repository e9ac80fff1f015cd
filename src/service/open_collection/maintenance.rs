//! Background maintenance of a collection's index: keeps every passage reachable by searches, and rebuilds the graph when many
//! of its nodes belong to removed passages.
//!
//! After each turn it rests four times as long as the turn took, so it uses at most a fifth of a core. A passage that became
//! unreachable can be found again after the next turn. A turn takes 0.4 s for 20,000 passages on a busy machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::OpenCollection;
use crate::index::Index;
use crate::service::blocking::blocking;
use crate::service::error::Error;

/// Rest after a turn, in multiples of the turn.
const REST: u32 = 4;

/// Rest after a turn that failed.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(60);

/// Runs until the collection is stopped.
pub(crate) async fn run(collection: &Arc<OpenCollection>) {
    while !collection.should_stop() {
        let rest = if collection.index().is_ok_and(is_due) { Some(turn_and_rest(collection).await) } else { None };
        let begun = Instant::now();
        loop {
            let left = rest.map(|rest| rest.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) || collection.should_stop() {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(left.unwrap_or(Duration::MAX)) => (),
                () = collection.changed.notified() => if left.is_none() { break },
            }
        }
    }
}

/// Takes a turn. Returns how long to rest.
async fn turn_and_rest(collection: &Arc<OpenCollection>) -> Duration {
    let begun = Instant::now();
    let of = Arc::clone(collection);
    match blocking(move || turn(&of, of.index()?)).await {
        Ok(()) => begun.elapsed() * REST,
        Err(_) if collection.should_stop() => Duration::ZERO,
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(collection = %collection.row.name, error, "cannot maintain the index; trying again");
            REST_AFTER_FAILURE
        }
    }
}

fn is_due(index: &Index) -> bool {
    index.needs_check() || index.needs_compaction()
}

/// Runs turns without resting until nothing is due. After a start, this covers what the saved index had not checked. Blocks.
pub(crate) fn catch_up(collection: &OpenCollection) -> Result<(), Error> {
    while !collection.should_stop() {
        match collection.index() {
            Ok(index) if is_due(index) => turn(collection, index)?,
            _ => break,
        }
    }
    Ok(())
}

fn turn(collection: &OpenCollection, index: &Index) -> Result<(), Error> {
    if index.needs_compaction() {
        let begun = Instant::now();
        let original = |passage| collection.stored_embedding(passage);
        if index.compact(&original, &|| collection.should_stop())? {
            collection.mark_unsaved();
            let (passages, took) = (index.len(), begun.elapsed());
            tracing::info!(collection = %collection.row.name, passages, ?took, "compacted the index");
        }
    }
    collection.check_index(index)
}
