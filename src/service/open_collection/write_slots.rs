//! Limits the writes of a collection: how many wait, and how many of them block a thread. All collections share the threads. If
//! a few could take all of them, they would stop the writes of the others whenever their databases are slow or locked, or their
//! indexes are being saved.
//!
//! A collection takes a further thread only if at least as many as it would then hold stay free. So one collection gets half of
//! the threads, two get a third each, and a collection that holds none finds as many free as the largest part.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::domain::{CollectionId, CollectionName};
use crate::service::error::Error;

/// The threads for the writes of all collections.
pub(crate) struct WriteThreads {
    threads_max: usize,
    taken: Mutex<Taken>,
    freed: Notify,
}

#[derive(Default)]
struct Taken {
    all: usize,
    by_collection: HashMap<CollectionId, usize>,
}

/// Permission to block a thread, whether a write is stored or becomes searchable. Dropping it releases it.
pub(crate) struct WriteThread {
    threads: Arc<WriteThreads>,
    collection: CollectionId,
}

/// The writes of one collection.
pub(crate) struct WriteSlots {
    collection: CollectionId,
    writes_max: usize,
    places: Arc<Semaphore>,
    /// Held by the write that gets the next thread. So only one per collection looks again whenever a thread is free.
    turn: tokio::sync::Mutex<()>,
}

/// A write's place in the queue of its collection, with permission to block a thread. Dropping it releases both.
pub(crate) struct WriteSlot {
    _place: OwnedSemaphorePermit,
    _thread: WriteThread,
}

impl WriteThreads {
    pub(crate) fn new(threads_max: usize) -> Arc<Self> {
        Arc::new(Self { threads_max, taken: Mutex::default(), freed: Notify::new() })
    }

    async fn take(self: &Arc<Self>, collection: &CollectionId) -> WriteThread {
        loop {
            // Made before looking, so that it notices a thread that becomes free after that.
            let freed = self.freed.notified();
            if self.try_take(collection) {
                return WriteThread { threads: Arc::clone(self), collection: collection.clone() };
            }
            freed.await;
        }
    }

    fn try_take(&self, collection: &CollectionId) -> bool {
        let mut taken = self.taken.lock();
        let (held, free) = (taken.by_collection.get(collection).copied(), self.threads_max - taken.all);
        let needed = held.map_or(1, |held| held + 2);
        if free < needed {
            return false;
        }
        taken.all += 1;
        *taken.by_collection.entry(collection.clone()).or_default() += 1;
        true
    }
}

impl Drop for WriteThread {
    fn drop(&mut self) {
        let mut taken = self.threads.taken.lock();
        taken.all -= 1;
        if let Some(held) = taken.by_collection.get_mut(&self.collection) {
            *held -= 1;
            if *held == 0 {
                taken.by_collection.remove(&self.collection);
            }
        }
        drop(taken);
        self.threads.freed.notify_waiters();
    }
}

impl WriteSlots {
    pub(super) fn new(collection: CollectionId, writes_max: usize) -> Self {
        Self { collection, writes_max, places: Arc::new(Semaphore::new(writes_max)), turn: Default::default() }
    }

    /// Waits until a write to the collection `name` may block a thread, or fails if too many writes already wait.
    pub(crate) async fn acquire(&self, name: &CollectionName, threads: &Arc<WriteThreads>) -> Result<WriteSlot, Error> {
        let waiting = || Error::WritesWaiting { collection: name.clone(), limit: self.writes_max };
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| waiting())?;
        Ok(WriteSlot { _place: place, _thread: self.thread(threads).await })
    }

    /// Waits until a write that is stored already may block a thread.
    pub(crate) async fn thread(&self, threads: &Arc<WriteThreads>) -> WriteThread {
        let _turn = self.turn.lock().await;
        threads.take(&self.collection).await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn collection(number: usize) -> (WriteSlots, Vec<WriteThread>) {
        (WriteSlots::new(CollectionId(number.to_string()), 1_000), Vec::new())
    }

    /// Lets all collections take threads in turn until none gets another one.
    fn take_all(threads: &Arc<WriteThreads>, collections: &mut [(WriteSlots, Vec<WriteThread>)]) -> Vec<usize> {
        let mut take = |(slots, held): &mut (WriteSlots, Vec<WriteThread>)| {
            held.extend(slots.thread(threads).now_or_never());
            held.len()
        };
        let mut before = Vec::new();
        loop {
            let counts: Vec<usize> = collections.iter_mut().map(&mut take).collect();
            if counts == before {
                return counts;
            }
            before = counts;
        }
    }

    #[test]
    fn collections_share_the_threads_and_leave_some_to_one_more() {
        let shares = |count| take_all(&WriteThreads::new(192), &mut (0..count).map(collection).collect::<Vec<_>>());
        assert_eq!(shares(1), [96]);
        assert_eq!(shares(2), [64, 64]);
        assert_eq!(shares(5), [32; 5]);
        assert!(shares(150).iter().all(|held| *held >= 1));
    }

    #[tokio::test]
    async fn a_write_gets_the_thread_that_another_one_of_its_collection_releases() {
        let threads = WriteThreads::new(4);
        let (slots, mut held) = collection(1);
        for _ in 0..2 {
            held.push(slots.thread(&threads).await);
        }
        let mut waiting = [slots.thread(&threads), slots.thread(&threads)].map(Box::pin);
        assert!(waiting.iter_mut().all(|waiting| waiting.now_or_never().is_none()));
        held.pop();
        let [first, mut second] = waiting;
        let first = first.await;
        assert!((&mut second).now_or_never().is_none());
        held.pop();
        drop(second.await);
        drop(first);
        assert!(threads.taken.lock().by_collection.is_empty(), "collections without a thread are forgotten");
    }
}
