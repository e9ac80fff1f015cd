//! Runs blocking work off the asynchronous threads.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::error::Error;

/// Runs `work` off the asynchronous threads, within the caller's tracing span.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await?
}

/// Like `blocking`, but waits for one of `threads`, which bounds how many are blocked at once.
pub(super) async fn blocking_one_of<T: Send + 'static>(
    threads: Arc<Semaphore>,
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let thread = threads.acquire_owned().await.map_err(|_| Error::Stopping)?;
    let working = move || {
        let _thread = thread;
        work()
    };
    blocking(working).await
}
