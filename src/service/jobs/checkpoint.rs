//! The checkpoint of a job that writes into a collection: how far it is. Each batch stores the next one in its transaction.

use std::sync::mpsc::{Receiver, sync_channel};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::domain::JobId;
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;
use crate::storage::RecordFn;

/// Returns a function that stores the checkpoint which `next` makes from a batch's outcomes, and a receiver that gets this
/// checkpoint once the batch is committed.
pub(crate) fn following<T: 'static, C: Serialize + Send + 'static>(
    next: impl FnOnce(&[T]) -> C + Send + 'static,
) -> (RecordFn<T>, Receiver<C>) {
    let (sender, receiver) = sync_channel(1);
    let record = move |outcomes: &[T]| {
        let checkpoint = next(outcomes);
        // Serializing numbers and text to JSON cannot fail.
        let json = serde_json::to_string(&checkpoint).unwrap_or_default();
        // After a failed commit, there is no receiver.
        let _ = sender.send(checkpoint);
        json
    };
    (Box::new(record), receiver)
}

/// Reads the last checkpoint of a job that works on a collection. Blocks.
pub(crate) fn read<C: DeserializeOwned>(collection: &OpenCollection, job: &JobId) -> Result<Option<C>, Error> {
    let json = collection.with_store(|store| store.job_checkpoint(job))?;
    let damaged = |_| Error::JobState { id: job.clone(), problem: "its checkpoint is damaged" };
    json.map(|json| serde_json::from_str(&json)).transpose().map_err(damaged)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn a_checkpoint_is_computed_once_per_batch() {
        let computed = Arc::new(AtomicUsize::new(0));
        let counting = Arc::clone(&computed);
        let (record, next) = following(move |outcomes: &[u64]| {
            counting.fetch_add(1, Ordering::Relaxed);
            vec![outcomes.iter().sum::<u64>()]
        });
        assert_eq!(record(&[3, 4]), "[7]");
        assert_eq!(next.recv().unwrap(), [7]);
        assert_eq!(computed.load(Ordering::Relaxed), 1);
    }
}
