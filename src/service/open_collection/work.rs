//! Runs work on an open collection off the asynchronous threads.

use std::sync::Arc;

use super::OpenCollection;
use crate::service::blocking::blocking;
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
            None => blocking(work).await,
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
