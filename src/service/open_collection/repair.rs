//! Recovers the index of a collection at start-up: loads the saved index or rebuilds it from the store, then applies later
//! changes. The worker embeds passages that have no embedding yet.

use super::{Applied, OpenCollection};
use crate::domain::{Embedding, PassageId, Sequence};
use crate::index::{self, Index};
use crate::service::error::Error;
use crate::store::{DocumentStore, StoreError};

/// Number of embeddings read from the store at a time.
const EMBEDDINGS_PER_READ: usize = 4_096;

/// After damage, how many passages are tried one by one before the steps get longer.
const SINGLE_STEPS: u64 = 64;

/// If as many passages cannot be read, nothing after them is.
const UNREADABLE_MAX: u64 = 1 << 40;

/// Brings the collection's index up to date and installs it. Returns `false` if the collection was stopped before.
pub(crate) fn recover(collection: &OpenCollection) -> Result<bool, Error> {
    let Ok(embedded) = collection.embedded() else { return Ok(true) };
    // An earlier attempt may have installed the index and failed after that.
    if embedded.index().is_err() {
        let (index, applied) = match load(collection) {
            Ok(loaded) => loaded,
            Err(Unusable::Store(error)) => return Err(error),
            Err(reason) => {
                if collection.sequence_at_open > Sequence::default() {
                    let reason = &reason as &dyn std::error::Error;
                    tracing::warn!(collection = %collection.row.name, reason, "rebuilding the index from the database");
                }
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
    tracing::info!(collection = %collection.row.name, passages = collection.store.searchable()?.0, "index is ready");
    // A failed save only makes the next start slower.
    if let Err(error) = collection.save_if_due() {
        let error = &error as &dyn std::error::Error;
        tracing::warn!(collection = %collection.row.name, error, "cannot save the index");
    }
    Ok(true)
}

/// Why a saved index is not used.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("the saved index cannot be loaded")]
    Index(#[from] index::IndexError),
    #[error("the saved index cannot catch up")]
    Behind(#[source] StoreError),
    #[error("the store failed")]
    Store(#[source] Error),
}

fn load(collection: &OpenCollection) -> Result<(Index, Applied), Unusable> {
    let loaded = index::load(&collection.folder, &collection.index_parameters(), &collection.identity)?;
    let mut applied = Applied { sequence: loaded.sequence, unsaved: 0 };
    // Fails if the store no longer knows all changes since the save.
    match collection.apply_some(&loaded.index, &mut applied) {
        Ok(_) => Ok((loaded.index, applied)),
        Err(Error::Store(error @ StoreError::ChangesPurged { .. })) => Err(Unusable::Behind(error)),
        Err(Error::Store(error)) if error.is_damage() => Err(Unusable::Behind(error)),
        Err(error) => Err(Unusable::Store(error)),
    }
}

/// Builds the index from all embeddings of the store that can be read. Changes made meanwhile have higher sequence numbers than
/// the one read at the beginning, so they are applied afterwards.
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
        let embeddings = read_embeddings(collection, store, after)?;
        let Some(&(last, _)) = embeddings.last() else { break };
        index.add_all(&embeddings)?;
        done += embeddings.len() as u64;
        after = last;
    }
    Ok((index, Applied { sequence, unsaved: done }))
}

/// Reads the next embeddings with keys above `after`. Skips passages that cannot be read because the database is damaged.
fn read_embeddings(
    collection: &OpenCollection,
    store: &DocumentStore,
    after: PassageId,
) -> Result<Vec<(PassageId, Embedding)>, Error> {
    let read = |after, limit| match collection.read_with_repair(|| store.embeddings(PassageId(after), limit)) {
        Err(Error::Store(error)) if error.is_damage() => {
            collection.leave_out_damaged(&error);
            Ok(None)
        }
        result => result.map(Some),
    };
    // First the passages before the damage.
    let limits = std::iter::successors(Some(EMBEDDINGS_PER_READ), |limit| Some(limit / 2)).take_while(|limit| *limit > 0);
    for limit in limits {
        if let Some(embeddings) = read(after.0, limit)? {
            return Ok(embeddings);
        }
    }
    // Reading after `failed` fails; reading after `reached` does not.
    let (mut failed, mut reached) = (after.0, after.0);
    loop {
        let skipped = failed - after.0;
        if skipped > UNREADABLE_MAX {
            return Ok(Vec::new());
        }
        reached = reached.saturating_add(if skipped < SINGLE_STEPS { 1 } else { skipped });
        if read(reached, 1)?.is_some() {
            break;
        }
        failed = reached;
    }
    while reached - failed > 1 {
        let middle = failed + (reached - failed) / 2;
        match read(middle, 1)? {
            Some(_) => reached = middle,
            None => failed = middle,
        }
    }
    Ok(read(reached, EMBEDDINGS_PER_READ)?.or(read(reached, 1)?).unwrap_or_default())
}
