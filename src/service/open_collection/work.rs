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
        self.run_by(blocking, work).await
    }

    /// Like `run`, for work that only reads: if the caller gives up, its reads end, so that they do not keep connections from
    /// others.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.read_by(blocking, work).await
    }

    /// Like `run`, on a thread of `pool`.
    pub(crate) async fn run_on<T: Send + 'static>(
        self: &Arc<Self>,
        pool: &Arc<ThreadPool>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.run_by(|work| pool.run(work), work).await
    }

    /// Like `read`, on a thread of `pool`.
    pub(crate) async fn read_on<T: Send + 'static>(
        self: &Arc<Self>,
        pool: &Arc<ThreadPool>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.read_by(|work| pool.run(work), work).await
    }

    async fn read_by<T: Send + 'static, F: Future<Output = Result<T, Error>>>(
        self: &Arc<Self>,
        run: impl FnOnce(Work<T>) -> F,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let caller = Arc::new(());
        let wanted = Arc::downgrade(&caller);
        let result = self.run_by(run, move |collection| with_caller(Some(wanted), || work(collection))).await;
        drop(caller);
        result
    }

    async fn run_by<T: Send + 'static, F: Future<Output = Result<T, Error>>>(
        self: &Arc<Self>,
        run: impl FnOnce(Work<T>) -> F,
        work: impl FnOnce(&Arc<Self>) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let shared = Arc::clone(self);
        let result = run(Box::new(move || work(&shared).map_err(|error| shared.report_damage(error)))).await;
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

/// Work that blocks.
type Work<T> = Box<dyn FnOnce() -> Result<T, Error> + Send>;
