//! Recovers the index of a collection at start-up: loads the saved index or rebuilds it from the store, then applies later
//! changes. The worker embeds passages that have no embedding yet.

use super::{Applied, OpenCollection};
use crate::domain::{PassageId, Sequence, with_causes};
use crate::index::{self, Index};
use crate::service::error::Error;
use crate::store::{DocumentStore, StoreError};

const EMBEDDINGS_PER_REBUILD_READ: usize = 4_096;

/// Brings the collection's index up to date and installs it. Returns `false` if the collection was stopped before.
pub(crate) fn recover(collection: &OpenCollection) -> Result<bool, Error> {
    let Ok(embedded) = collection.embedded() else { return Ok(true) };
    // An earlier attempt may have installed the index and failed after that.
    if embedded.index().is_err() {
        let (index, applied) = match load(collection) {
            Ok(loaded) => loaded,
            Err(Unusable::Store(error)) => return Err(error),
            Err(reason) => {
                log_rebuild(collection, &embedded.store, &reason);
                rebuild(collection)?
            }
        };
        if collection.should_stop() {
            return Ok(false);
        }
        collection.install(index, applied);
    }
    if !collection.finish_recovery()? {
        return Ok(false);
    }
    tracing::info!(collection = %collection.row.name, passages = collection.store.searchable()?, "index is ready");
    // A failed save only makes the next start slower.
    if let Err(error) = collection.save_if_due() {
        tracing::warn!(collection = %collection.row.name, error = with_causes(&error), "cannot save the index");
    }
    Ok(true)
}

#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("the saved index cannot be loaded")]
    Index(#[from] index::IndexError),
    #[error("the saved index cannot catch up")]
    Behind(#[source] StoreError),
    #[error("the store failed")]
    Store(#[source] Error),
}

/// Logs why the index is rebuilt. Warns if a saved index cannot be used, or if the database has so many changes that a running
/// server would have saved one. Otherwise there may never have been one: a small index is saved only when the server stops, and
/// a snapshot contains none.
fn log_rebuild(collection: &OpenCollection, store: &DocumentStore, reason: &Unusable) {
    if collection.sequence_at_open == Sequence::default() {
        return;
    }
    let (collection_name, reason) = (&collection.row.name, with_causes(reason));
    let is_small = || store.count_changes(Sequence::default()).is_ok_and(|changes| changes < collection.save_changes);
    if !index::is_saved(&collection.folder) && is_small() {
        tracing::info!(collection = %collection_name, "there is no saved index; building it from the database");
    } else {
        tracing::warn!(collection = %collection_name, reason, "rebuilding the index from the database");
    }
}

fn load(collection: &OpenCollection) -> Result<(Index, Applied), Unusable> {
    let loaded = index::load(&collection.folder, &collection.index_parameters(), &collection.identity)?;
    let mut applied = Applied { sequence: loaded.sequence, unsaved: 0 };
    // Fails if the store no longer knows all changes since the save.
    match collection.apply_readable(&loaded.index, &mut applied) {
        Ok(_) => Ok((loaded.index, applied)),
        Err(Error::Store(error @ StoreError::ChangesPurged { .. })) => Err(Unusable::Behind(error)),
        Err(error) => Err(Unusable::Store(error)),
    }
}

/// Builds the index from all embeddings of the store that can be read. Changes made in the meantime have higher sequence
/// numbers than the one read at the beginning, so they are applied afterwards.
fn rebuild(collection: &OpenCollection) -> Result<(Index, Applied), Error> {
    let embedded = collection.embedded()?;
    let store = &embedded.store;
    let index = Index::create(&collection.index_parameters())?;
    let sequence = store.sequence()?;
    let counts = store.counts()?;
    let total = counts.passages.saturating_sub(counts.passages_pending);
    let mut done = 0;
    let mut after = PassageId(0);
    while !collection.should_stop() {
        embedded.set_progress(done, total);
        let read = |after, limit| store.embeddings(PassageId(after), limit);
        let embeddings = match collection.read_past_damage(after.0, EMBEDDINGS_PER_REBUILD_READ, &read) {
            // Everything after what was read is damaged.
            Err(Error::Store(error)) if error.is_damage() && done > 0 => break,
            embeddings => embeddings?,
        };
        let Some(&(last, _)) = embeddings.last() else { break };
        index.add_all(&embeddings)?;
        done += embeddings.len() as u64;
        after = last;
    }
    Ok((index, Applied { sequence, unsaved: done }))
}
