//! Limits the writes of a collection: how many wait, and how many of them block a thread. The threads are shared by all
//! collections. If one collection could take all of them, its writes would stop those of the others whenever its database is
//! slow or locked.

use std::sync::Arc;

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Maximum number of a collection's writes that block a thread at once. They share commits.
pub(crate) const WRITE_THREADS_EACH: usize = 96;

pub(crate) struct WriteSlots {
    places: Arc<Semaphore>,
    threads: Arc<Semaphore>,
}

/// A write's place in the queue of its collection, and its thread. Dropping it releases both.
pub(crate) struct WriteSlot {
    _place: OwnedSemaphorePermit,
    _threads: [OwnedSemaphorePermit; 2],
}

impl WriteSlots {
    pub(super) fn new(writes_max: usize) -> Self {
        Self { places: Arc::new(Semaphore::new(writes_max)), threads: Arc::new(Semaphore::new(WRITE_THREADS_EACH)) }
    }

    /// Waits for a thread of the collection, then for one of all collections. Returns `None` if too many writes already wait.
    pub(crate) async fn acquire(&self, of_all: &Arc<Semaphore>) -> Result<Option<WriteSlot>, AcquireError> {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return Ok(None) };
        let thread = Arc::clone(&self.threads).acquire_owned().await?;
        let threads = [thread, Arc::clone(of_all).acquire_owned().await?];
        Ok(Some(WriteSlot { _place: place, _threads: threads }))
    }
}
