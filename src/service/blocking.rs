//! Runs blocking work off the asynchronous threads.

use super::error::Error;

/// Runs `work` off the asynchronous threads, within the caller's tracing span.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await?
}
