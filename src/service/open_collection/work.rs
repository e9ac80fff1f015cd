//! Runs work on an open collection off the asynchronous threads.

use std::sync::Arc;

use super::OpenCollection;
use crate::service::blocking::blocking_one_of;
use crate::service::error::Error;
use crate::service::thread_pool::ThreadPool;
use crate::storage::Storage;
use crate::store::{StoreError, with_caller};

impl OpenCollection {
    /// Runs blocking work. If the collection was deleted in the meantime, any failure becomes `CollectionNotFound`.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.run_on(None, work).await
    }

    /// Like `run`, for work that only reads: if the caller gives up, its reads end, so that they do not keep connections from
    /// others.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.read_on(None, work).await
    }

    /// Like `read`, on a thread of `pool` if there is one.
    pub(crate) async fn read_on<T: Send + 'static>(
        self: &Arc<Self>,
        pool: Option<&Arc<ThreadPool>>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let caller = Arc::new(());
        let wanted = Arc::downgrade(&caller);
        let result = self.run_on(pool, move |collection| with_caller(Some(wanted), || work(collection))).await;
        drop(caller);
        result
    }

    /// Like `run`, on a thread of `pool` if there is one.
    pub(crate) async fn run_on<T: Send + 'static>(
        self: &Arc<Self>,
        pool: Option<&Arc<ThreadPool>>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(self);
        let work = move || work(&shared).map_err(|error| shared.report_damage(error));
        let result = match pool {
            Some(pool) => pool.run(work).await,
            None => blocking_one_of(Arc::clone(&self.threads), work).await,
        };
        match &result {
            Err(error) if self.failed_by_deletion(error) => Err(self.not_found()),
            _ => result,
        }
    }

    /// Runs a write of a job, and reports damage. Fails with `StoreError::Replaced` if the collection was re-embedded, and with
    /// `CollectionReplaced` if a restore replaced it. Blocks.
    pub(crate) fn write_for_job<T>(&self, write: impl FnOnce(&dyn Storage) -> Result<T, StoreError>) -> Result<T, Error> {
        let _writes = self.writes.blocking_read();
        self.check_not_restored_over()?;
        self.with_store(|store| if self.replacement.get().is_some() { Err(StoreError::Replaced) } else { write(store) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::domain::{CollectionName, Limits, NewCollection};
    use crate::embed::Embedder;
    use crate::service::state::{Parts, Service};

    #[tokio::test(flavor = "multi_thread")]
    async fn slow_reads_of_a_collection_leave_threads_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let (data_dir, embedder) = (folder.path().to_owned(), Embedder::fake(64));
        let service = Service::open(Parts { data_dir, embedder, limits: Limits::default(), power_safe: false }).unwrap();
        let mut collections = Vec::new();
        for name in ["slow", "other"].map(|name| CollectionName::parse(name).unwrap()) {
            service.create_collection(NewCollection::new(name.clone()), None).await.unwrap();
            collections.push(service.state.collection(&name).unwrap());
        }
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(parking_lot::Mutex::new(ended));
        let mut slow = Vec::new();
        // More than the runtime has threads.
        for _ in 0..600 {
            let (collection, ended) = (Arc::clone(&collections[0]), Arc::clone(&ended));
            let read = move |_: &Arc<OpenCollection>| {
                let _ = ended.lock().recv();
                Ok(())
            };
            // Unconstrained, because the runtime would end the first poll of most of them early.
            let mut reading = Box::pin(tokio::task::unconstrained(async move { collection.run(read).await }));
            assert!(futures::poll!(&mut reading).is_pending());
            slow.push(reading);
        }
        let read = collections[1].run(|collection| Ok(collection.store.counts()?.documents));
        assert_eq!(tokio::time::timeout(Duration::from_secs(10), read).await.expect("it does not wait").unwrap(), 0);
        drop(end);
        for read in slow {
            read.await.unwrap();
        }
    }
}
