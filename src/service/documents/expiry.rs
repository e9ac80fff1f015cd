//! Removes expired documents from all collections, a few at a time. No search finds an expired document even before it is
//! removed; removing it frees its space.
//!
//! Each collection knows when its next document expires, so a collection without expiring documents is not even opened. After a
//! crash, the next run removes what is left.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::domain::{CollectionId, with_causes};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;
use crate::service::state::{State, after_pause};
use crate::store::StoreError;

/// Pause between two rounds through all collections.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause before another attempt on a collection where something failed.
const FAILURE_PAUSE: Duration = Duration::from_secs(60);

/// Removes expired documents until the server stops. Between rounds it keeps neither the service nor a collection alive.
pub(crate) async fn run(state: Weak<State>, mut stop_announced: watch::Receiver<bool>) {
    let mut paused: HashMap<CollectionId, Instant> = HashMap::new();
    let mut more = false;
    while let Some(state) = after_pause(&state, &mut stop_announced, if more { Duration::ZERO } else { PAUSE }).await {
        paused.retain(|_, until| *until > Instant::now());
        let mut due = state.open_collections();
        drop(state);
        due.retain(|collection| {
            collection.store.expiry_due() && !paused.contains_key(&collection.row.id) && !collection.should_stop()
        });
        more = false;
        for collection in due {
            match sweep(&collection).await {
                Ok(SweepOutcome::Done) => (),
                Ok(SweepOutcome::More) => more = true,
                Ok(SweepOutcome::Damaged) => drop(paused.insert(collection.row.id.clone(), Instant::now() + FAILURE_PAUSE)),
                Err(_) if collection.should_stop() => (),
                Err(error) => {
                    paused.insert(collection.row.id.clone(), Instant::now() + FAILURE_PAUSE);
                    if collection.failed_by_deletion(&error) {
                        continue;
                    }
                    let error = with_causes(&error);
                    tracing::warn!(collection = %collection.row.name, error, "cannot remove expired documents; trying again");
                }
            }
        }
    }
}

/// What is left in a collection after one round.
enum SweepOutcome {
    /// Nothing more can be removed now.
    Done,
    /// There are more expired documents to remove.
    More,
    /// Some rows are damaged.
    Damaged,
}

/// Removes some of a collection's expired documents, unless the collection is being replaced.
async fn sweep(collection: &Arc<OpenCollection>) -> Result<SweepOutcome, Error> {
    let Ok(writes) = Arc::clone(&collection.writes).try_read_owned() else { return Ok(SweepOutcome::Done) };
    if collection.replacement.get().is_some() {
        return Ok(SweepOutcome::Done);
    }
    let sweeping = Arc::clone(collection);
    blocking(move || {
        let _writes = writes;
        let expired = match sweeping.store.delete_expired() {
            Err(StoreError::Replaced) => return Ok(SweepOutcome::Done),
            expired => expired.map_err(|error| sweeping.report_damage(error.into()))?,
        };
        expired.damage.iter().for_each(|error| drop(sweeping.record_damage(error)));
        if !expired.rows.is_empty() {
            sweeping.damage.remove_rows(&expired.rows);
            sweeping.remove_deleted_passages();
            tracing::debug!(collection = %sweeping.row.name, documents = expired.rows.len(), "removed expired documents");
        }
        Ok(match (expired.damage.is_empty(), expired.more) {
            (false, _) => SweepOutcome::Damaged,
            (true, true) => SweepOutcome::More,
            (true, false) => SweepOutcome::Done,
        })
    })
    .await
}
