//! What happens to a collection that a re-embedding, a restore or another server has replaced: its writes go to the re-embedded
//! collection, and it is removed once no request uses it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::domain::with_causes;
use crate::service::blocking::blocking;
use crate::service::lifecycle::STATEMENT_GRACE;
use crate::service::open_collection::OpenCollection;
use crate::service::state::State;
use crate::storage::Postgres;

/// Pause between two checks whether a replaced collection is still in use here.
const USE_PAUSE: Duration = Duration::from_millis(200);
/// Pause between two checks whether another server still uses it.
const REMOVAL_PAUSE: Duration = Duration::from_secs(1);

impl State {
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
