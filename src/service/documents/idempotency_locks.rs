//! Lets requests with the same idempotency key run one after the other, so that the second finds the response of the first.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::domain::{CollectionName, RequestKey};

/// Held by the request whose turn it is.
type KeyLock = tokio::sync::Mutex<()>;

/// One lock for each idempotency key of a running request, per collection.
#[derive(Default)]
pub(crate) struct IdempotencyLocks(Mutex<HashMap<(CollectionName, String), Weak<KeyLock>>>);

impl IdempotencyLocks {
    /// Waits until no other request with this key runs. Drop the result when this one has ended.
    pub(super) async fn lock(&self, collection: &CollectionName, request: &RequestKey) -> OwnedMutexGuard<()> {
        let key = (collection.clone(), request.record_key());
        let lock = {
            let mut running = self.0.lock();
            running.retain(|_, lock| lock.strong_count() > 0);
            running.get(&key).and_then(Weak::upgrade).unwrap_or_else(|| {
                let lock = Arc::default();
                running.insert(key, Arc::downgrade(&lock));
                lock
            })
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_requests_with_the_same_key_wait_for_each_other() {
        let locks = IdempotencyLocks::default();
        let collection = CollectionName::parse("news").unwrap();
        let request = |key: &str, body: &str| RequestKey::new(key, body.to_owned()).unwrap();
        let first = locks.lock(&collection, &request("k", "one")).await;
        let _other = locks.lock(&collection, &request("l", "one")).await;
        let pause = std::time::Duration::from_millis(20);
        let second = request("k", "two");
        let waiting = locks.lock(&collection, &second);
        tokio::pin!(waiting);
        assert!(tokio::time::timeout(pause, &mut waiting).await.is_err());
        drop(first);
        drop(waiting.await);
        assert_eq!(locks.0.lock().len(), 2);
        let _third = locks.lock(&collection, &request("m", "one")).await;
        assert_eq!(locks.0.lock().len(), 2, "finished requests are removed");
    }
}
