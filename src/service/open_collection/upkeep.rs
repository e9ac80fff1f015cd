//! The upkeep of a collection's index, beside everything else: sees to it that searches still find what was added long ago, and
//! makes the graph anew when many of its nodes are those of removed passages.
//!
//! Between two turns it rests four times as long as the last one took, so it takes a fifth of a core at most. A passage that
//! another one hid is found again after the next turn: 0.4 s of work among 20,000 passages on a busy machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::OpenCollection;
use crate::index::Index;
use crate::service::blocking::blocking;
use crate::service::error::Error;

/// Rest after a turn, in times that it took.
const REST: u32 = 4;

/// Rest after a turn that failed.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(60);

/// Keeps the index up until the collection is told to stop.
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

/// Gives how long to rest afterwards.
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

/// Does all that is due, without a rest: after a start, of what the saved index leaves open. Blocks.
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
        let original = |passage| collection.original(passage);
        if index.compact(&original, &|| collection.should_stop())? {
            collection.note_unsaved();
            let (passages, took) = (index.len(), begun.elapsed());
            tracing::info!(collection = %collection.row.name, passages, ?took, "compacted the index");
        }
    }
    collection.check_index(index)
}
