//! What happens to a collection that a re-embedding, a restore or another server has replaced: its writes go to the re-embedded
//! collection, and it is removed once no request uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedMutexGuard, OwnedRwLockWriteGuard, watch};

use crate::domain::{CollectionName, with_causes};
use crate::service::blocking::blocking;
use crate::service::lifecycle::STATEMENT_GRACE;
use crate::service::open_collection::OpenCollection;
use crate::service::state::{CollectionEntry, State};
use crate::storage::Postgres;

/// Pause between two checks whether a replaced collection is still in use here.
const USE_PAUSE: Duration = Duration::from_millis(200);
/// Pause between two checks whether another server still uses it.
const REMOVAL_PAUSE: Duration = Duration::from_secs(1);

/// Held while collections are replaced: no write to them runs, and no collection is created or deleted.
pub(in crate::service) type ReplacementLocks = (Vec<OwnedRwLockWriteGuard<()>>, OwnedMutexGuard<()>);

impl State {
    /// Waits until no write to these collections runs, and blocks new ones. Collections can be created and deleted until then,
    /// because a write may wait long for a database that is locked or whose disk is slow. The collections must be sorted, so that
    /// two callers do not wait for each other.
    pub(in crate::service) async fn lock_for_replacement(&self, old: &[Arc<OpenCollection>]) -> ReplacementLocks {
        loop {
            let mut writes = Vec::with_capacity(old.len());
            for collection in old {
                writes.push(Arc::clone(&collection.writes).write_owned().await);
            }
            if let Ok(naming) = Arc::clone(&self.names_lock).try_lock_owned() {
                return (writes, naming);
            }
            // A change of settings may hold it, and wait for its turn to write.
            drop(writes);
            drop(self.names_lock.lock().await);
        }
    }

    /// The same for what has these names: returns it, sorted by name, and the locks.
    pub(in crate::service) async fn lock_named_for_replacement(
        &self,
        names: &[CollectionName],
    ) -> (Vec<CollectionEntry>, ReplacementLocks) {
        let find = || -> Vec<CollectionEntry> {
            let collections = self.collections.read();
            let mut found: Vec<_> = names.iter().filter_map(|name| collections.get(name).cloned()).collect();
            found.sort_by(|one, other| one.row().name.cmp(&other.row().name));
            found
        };
        loop {
            let found = find();
            let open: Vec<_> = found.iter().filter_map(CollectionEntry::open).cloned().collect();
            let locks = self.lock_for_replacement(&open).await;
            // Others may have got these names in the meantime.
            if find().iter().map(|entry| &entry.row().id).eq(found.iter().map(|entry| &entry.row().id)) {
                return (found, locks);
            }
        }
    }

    /// Removes what a restore has replaced: a collection once it is no longer in use, a damaged one at once. Blocks.
    pub(in crate::service) fn remove_replaced(&self, old: CollectionEntry) {
        match old {
            CollectionEntry::Open(old) => self.retire(old),
            CollectionEntry::Broken(old) => self.remove_broken_folder(&old.row),
        }
    }

    /// Redirects writes from `old` to `next`, which replaced it. Removes `old` once it is no longer in use.
    pub(in crate::service) fn redirect_writes(&self, old: &Arc<OpenCollection>, next: &Arc<OpenCollection>) {
        if old.replacement.set(Arc::clone(next)).is_ok() {
            self.retire(Arc::clone(old));
        }
    }

    /// Removes a replaced collection once it is no longer in use.
    pub(in crate::service) fn retire(&self, old: Arc<OpenCollection>) {
        let (stopping, stop_announced) = (Arc::clone(&self.stopping), self.stop_announced.subscribe());
        let counted = Arc::clone(&self.retiring);
        self.runtime.spawn(async move {
            let _counted = counted;
            retire(old, stopping, stop_announced).await;
        });
    }

    /// Counts the replaced collections that are not removed yet.
    pub(in crate::service) fn replaced_count(&self) -> u64 {
        Arc::strong_count(&self.retiring) as u64 - 1
    }
}

/// Removes a replaced collection once it is no longer in use. If this server stops first, another server or the next start does
/// it.
async fn retire(old: Arc<OpenCollection>, stopping: Arc<AtomicBool>, mut stop_announced: watch::Receiver<bool>) {
    old.stop();
    let reading = Arc::clone(&old);
    // If this task fails, the rows may be removed while they are still read here.
    let _ = tokio::task::spawn_blocking(move || reading.server().map(Postgres::retain_replaced)).await;
    while Arc::strong_count(&old) > 1 {
        tokio::time::sleep(USE_PAUSE).await;
        // Does not stop when the stop is announced, because requests that read this collection still have their grace period.
        if stopping.load(Ordering::Acquire) {
            old.store.interrupt_after(Instant::now() + STATEMENT_GRACE);
            return;
        }
    }
    loop {
        let removing = Arc::clone(&old);
        match blocking(move || Ok(removing.server().map_or(Ok(true), Postgres::remove_replaced)?)).await {
            Ok(true) => break,
            Ok(false) => (),
            Err(error) => tracing::debug!(error = error.chain(), "cannot remove a replaced collection yet; trying again"),
        }
        tokio::select! {
            () = tokio::time::sleep(REMOVAL_PAUSE) => (),
            _ = stop_announced.wait_for(|announced| *announced) => return,
        }
    }
    let removed = blocking(move || old.destroy()).await;
    if let Err(error) = removed {
        tracing::warn!(error = with_causes(&error), "cannot remove a replaced collection's folder; the next start tries again");
    }
}
