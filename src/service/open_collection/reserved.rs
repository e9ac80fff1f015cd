//! Tracks the pending passages that the worker skips: those that a request embeds itself, and those that the encoder refused.
//!
//! A request learns the keys of its passages when its transaction commits, and from that moment the worker can read them,
//! too. So after each read, the worker waits for the writes that began before the read, and also skips passages whose
//! reservation ended in the meantime. That way no passage is embedded twice.

use std::collections::{BTreeSet, HashSet};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::domain::PassageId;
use crate::store::PendingPassage;

/// The passages of one collection that the worker skips.
#[derive(Default)]
pub(crate) struct ReservedPassages {
    state: Mutex<TrackedPassages>,
    write_ended: Notify,
}

#[derive(Default)]
struct TrackedPassages {
    /// Passages that requests embed themselves.
    reserved: HashSet<PassageId>,
    /// Passages whose reservation ended since the worker's current read began. `None` while it does not read.
    released: Option<HashSet<PassageId>>,
    /// Passages that the encoder refused.
    skipped: HashSet<PassageId>,
    /// Numbers of the writes that are between the start of their transaction and their reservation.
    writes: BTreeSet<u64>,
    next_write: u64,
}

impl ReservedPassages {
    /// Announces a write whose passages will be reserved. Drop the result once they are reserved.
    pub(crate) fn announce(&self) -> AnnouncedWrite<'_> {
        let mut state = self.state.lock();
        let number = state.next_write;
        state.next_write += 1;
        state.writes.insert(number);
        AnnouncedWrite { passages: self, number }
    }

    /// Begins a read of pending passages by the worker. There is only one read at a time.
    pub(crate) fn begin_read(&self) -> PendingRead<'_> {
        self.state.lock().released = Some(HashSet::new());
        PendingRead { passages: self }
    }

    /// Makes the worker skip a passage until the next start of the server.
    pub(crate) fn skip_until_restart(&self, passage: PassageId) {
        self.state.lock().skipped.insert(passage);
    }

    pub(crate) fn reserve(&self, passages: &[PendingPassage]) {
        self.state.lock().reserved.extend(passages.iter().map(|passage| passage.id));
    }

    pub(crate) fn release(&self, passages: &[PendingPassage]) {
        let mut state = self.state.lock();
        for passage in passages {
            state.reserved.remove(&passage.id);
        }
        if let Some(released) = &mut state.released {
            released.extend(passages.iter().map(|passage| passage.id));
        }
    }

    pub(crate) fn skipped(&self) -> Vec<PassageId> {
        self.state.lock().skipped.iter().copied().collect()
    }
}

/// A write that is between the start of its transaction and its reservation.
pub(crate) struct AnnouncedWrite<'a> {
    passages: &'a ReservedPassages,
    number: u64,
}

impl Drop for AnnouncedWrite<'_> {
    fn drop(&mut self) {
        self.passages.state.lock().writes.remove(&self.number);
        self.passages.write_ended.notify_waiters();
    }
}

/// A read of pending passages by the worker.
pub(crate) struct PendingRead<'a> {
    passages: &'a ReservedPassages,
}

impl PendingRead<'_> {
    /// Waits for the writes that began before the read, then removes reserved passages from `batch`.
    pub(crate) async fn retain_unreserved(self, batch: &mut Vec<PendingPassage>) {
        if batch.is_empty() {
            return;
        }
        let next = self.passages.state.lock().next_write;
        loop {
            let ended = self.passages.write_ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.passages.state.lock().writes.range(..next).next().is_none() {
                break;
            }
            ended.await;
        }
        let state = self.passages.state.lock();
        let released = |id: &PassageId| state.released.as_ref().is_some_and(|released| released.contains(id));
        batch.retain(|passage| {
            let id = &passage.id;
            !state.reserved.contains(id) && !state.skipped.contains(id) && !released(id)
        });
    }
}

impl Drop for PendingRead<'_> {
    fn drop(&mut self) {
        self.passages.state.lock().released = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::domain::PassageContext;

    fn pending(id: u64) -> PendingPassage {
        PendingPassage { id: PassageId(id), context: PassageContext::default(), text: "Boats.".to_owned() }
    }

    async fn free(read: PendingRead<'_>) -> Vec<u64> {
        let mut batch = vec![pending(1), pending(2)];
        read.retain_unreserved(&mut batch).await;
        batch.iter().map(|passage| passage.id.0).collect()
    }

    #[tokio::test]
    async fn unreserved_passages_are_free() {
        let passages = ReservedPassages::default();
        assert_eq!(free(passages.begin_read()).await, [1, 2]);
    }

    #[tokio::test]
    async fn passages_that_the_encoder_refused_are_not_free() {
        let passages = ReservedPassages::default();
        passages.skip_until_restart(PassageId(2));
        assert_eq!(free(passages.begin_read()).await, [1]);
        assert_eq!(passages.skipped(), [PassageId(2)]);
    }

    #[tokio::test]
    async fn a_read_waits_for_writes_that_began_before_it() {
        let passages = ReservedPassages::default();
        let write = passages.announce();
        let mut batch = vec![pending(1)];
        let mut retained = Box::pin(passages.begin_read().retain_unreserved(&mut batch));
        assert!(timeout(Duration::from_millis(20), &mut retained).await.is_err(), "the read waits for the write");
        let _later = passages.announce();
        passages.state.lock().reserved.insert(PassageId(1));
        drop(write);
        timeout(Duration::from_secs(10), retained).await.expect("later writes are not waited for");
        assert_eq!(batch, []);
    }

    #[tokio::test]
    async fn passages_released_during_a_read_are_not_free_for_that_read() {
        let passages = ReservedPassages::default();
        let read = passages.begin_read();
        passages.state.lock().released.as_mut().unwrap().insert(PassageId(1));
        assert_eq!(free(read).await, [2]);
        assert_eq!(free(passages.begin_read()).await, [1, 2], "the passage is free for the next read");
    }
}
