//! Limits the writes of a collection: how many wait, and how many of them block a thread. The threads are shared by all
//! collections. If one collection could take all of them, its writes would stop those of the others whenever its database is
//! slow or locked, or its index is being saved.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::domain::CollectionName;
use crate::service::error::Error;

/// Maximum number of a collection's writes that block a thread at once, whether they store or become searchable. They share
/// commits.
pub(crate) const WRITE_THREADS_EACH: usize = 96;

pub(crate) struct WriteSlots {
    writes_max: usize,
    places: Arc<Semaphore>,
    threads: Arc<Semaphore>,
}

/// A write's place in the queue of its collection, with permission to block a thread. Dropping it releases both.
pub(crate) struct WriteSlot {
    _place: OwnedSemaphorePermit,
    _thread: OwnedSemaphorePermit,
}

impl WriteSlots {
    pub(super) fn new(writes_max: usize) -> Self {
        let [places, threads] = [writes_max, WRITE_THREADS_EACH].map(|count| Arc::new(Semaphore::new(count)));
        Self { writes_max, places, threads }
    }

    /// Waits until a write to the collection `name` may block a thread, or fails if too many writes already wait.
    pub(crate) async fn acquire(&self, name: &CollectionName) -> Result<WriteSlot, Error> {
        let waiting = || Error::WritesWaiting { collection: name.clone(), limit: self.writes_max };
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| waiting())?;
        Ok(WriteSlot { _place: place, _thread: self.thread().await? })
    }

    /// Waits until a write that is stored already may block a thread.
    pub(crate) async fn thread(&self) -> Result<OwnedSemaphorePermit, Error> {
        Arc::clone(&self.threads).acquire_owned().await.map_err(|_| Error::Stopping)
    }
}
