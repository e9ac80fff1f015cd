//! Removes expired documents from all collections, a few at a time. No search finds an expired document even before it is
//! removed; removing it frees its space.
//!
//! Each collection knows when its next document expires, so a collection without expiring documents is not even opened. After a
//! crash, the next run removes what is left.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::domain::CollectionId;
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;
use crate::service::state::State;
use crate::store::StoreError;

/// Pause between two rounds through all collections.
const PAUSE: Duration = Duration::from_secs(1);
/// Pause before another attempt on a collection where something failed.
const REST_AFTER_FAILURE: Duration = Duration::from_secs(60);

/// Removes expired documents until the server stops. Between rounds it keeps neither the service nor a collection alive.
pub(crate) async fn run(state: Weak<State>, mut stop_announced: watch::Receiver<bool>) {
    let mut resting: HashMap<CollectionId, Instant> = HashMap::new();
    let mut more = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(if more { Duration::ZERO } else { PAUSE }) => (),
            _ = stop_announced.wait_for(|announced| *announced) => return,
        }
        let Some(state) = state.upgrade().filter(|state| !state.stopping.load(Ordering::Acquire)) else { return };
        resting.retain(|_, until| *until > Instant::now());
        let due: Vec<_> = {
            let open = state.open.read();
            let is_due = |collection: &&Arc<OpenCollection>| {
                collection.store.expiry_due() && !resting.contains_key(&collection.row.id) && !collection.should_stop()
            };
            open.values().filter(is_due).cloned().collect()
        };
        drop(state);
        more = false;
        for collection in due {
            match sweep(&collection).await {
                Ok(Swept::Enough) => (),
                Ok(Swept::Some) => more = true,
                Ok(Swept::Damaged) => drop(resting.insert(collection.row.id.clone(), Instant::now() + REST_AFTER_FAILURE)),
                Err(_) if collection.should_stop() => (),
                Err(error) => {
                    resting.insert(collection.row.id.clone(), Instant::now() + REST_AFTER_FAILURE);
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(collection = %collection.row.name, error, "cannot remove expired documents; trying again");
                }
            }
        }
    }
}

/// What is left in a collection after one round.
enum Swept {
    /// Nothing more can be removed now.
    Enough,
    /// There are more expired documents to remove.
    Some,
    /// Some rows are damaged.
    Damaged,
}

/// Removes some of a collection's expired documents, unless the collection is being replaced.
async fn sweep(collection: &Arc<OpenCollection>) -> Result<Swept, Error> {
    let Ok(writes) = Arc::clone(&collection.writes).try_read_owned() else { return Ok(Swept::Enough) };
    if collection.replacement.get().is_some() {
        return Ok(Swept::Enough);
    }
    let of = Arc::clone(collection);
    blocking(move || {
        let _writes = writes;
        let expired = match of.store.delete_expired() {
            Err(StoreError::Replaced) => return Ok(Swept::Enough),
            expired => expired.map_err(|error| of.report_damage(error.into()))?,
        };
        expired.damage.iter().for_each(|error| drop(of.record_damage(error)));
        if !expired.rows.is_empty() {
            of.damage.forget_rows(&expired.rows);
            of.remove_deleted_passages();
            tracing::debug!(collection = %of.row.name, documents = expired.rows.len(), "removed expired documents");
        }
        Ok(match (expired.damage.is_empty(), expired.more) {
            (false, _) => Swept::Damaged,
            (true, true) => Swept::Some,
            (true, false) => Swept::Enough,
        })
    })
    .await
}
