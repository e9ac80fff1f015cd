//! Background maintenance of a collection's index: keeps every passage reachable by searches, and rebuilds the graph when many
//! of its nodes belong to removed passages.
//!
//! After each pass it pauses four times as long as the pass took, so it uses at most a fifth of a core. A passage that became
//! unreachable can be found again after the next pass. A pass takes 0.4 s for 20,000 passages on a busy machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::OpenCollection;
use crate::domain::with_causes;
use crate::index::Index;
use crate::service::blocking::blocking;
use crate::service::error::Error;

/// Pause after a pass, in multiples of its time.
const PAUSE_FACTOR: u32 = 4;

const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Runs until the collection is stopped.
pub(crate) async fn run(collection: &Arc<OpenCollection>) {
    while !collection.should_stop() {
        let pause = if collection.index().is_ok_and(is_due) { Some(run_pass(collection).await) } else { None };
        let started = Instant::now();
        loop {
            let left = pause.map(|pause| pause.saturating_sub(started.elapsed()));
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

/// Runs a pass. Returns how long to pause after it.
async fn run_pass(collection: &Arc<OpenCollection>) -> Duration {
    let started = Instant::now();
    let maintained = Arc::clone(collection);
    match blocking(move || maintain(&maintained, maintained.index()?)).await {
        Ok(()) => started.elapsed() * PAUSE_FACTOR,
        Err(_) if collection.should_stop() => Duration::ZERO,
        Err(error) => {
            let error = with_causes(&error);
            tracing::error!(collection = %collection.row.name, error, "cannot maintain the index; trying again");
            FAILURE_PAUSE
        }
    }
}

fn is_due(index: &Index) -> bool {
    index.needs_check() || index.needs_compaction()
}

/// Runs passes without a pause until nothing is due. After a start, this covers what the saved index had not checked. Blocks.
pub(crate) fn catch_up(collection: &OpenCollection) -> Result<(), Error> {
    while !collection.should_stop() {
        match collection.index() {
            Ok(index) if is_due(index) => maintain(collection, index)?,
            _ => break,
        }
    }
    Ok(())
}

fn maintain(collection: &OpenCollection, index: &Index) -> Result<(), Error> {
    if index.needs_compaction() {
        let started = Instant::now();
        let original = |passage| collection.stored_embedding(passage);
        if index.compact(&original, &|| collection.should_stop())? {
            collection.mark_unsaved();
            let (passages, took) = (index.len(), started.elapsed());
            tracing::info!(collection = %collection.row.name, passages, ?took, "compacted the index");
        }
    }
    collection.check_index(index)
}
