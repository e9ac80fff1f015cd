//! Runs blocking work off the asynchronous threads.

use std::sync::Arc;

use super::error::Error;
use crate::store::reading_for;

/// Runs `work` off the asynchronous threads, within the caller's tracing span.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, Error> + Send + 'static) -> Result<T, Error> {
    let span = tracing::Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await?
}

/// Like `blocking`, for work that only reads: if the caller gives up, its reads end, so that they do not keep connections from
/// others.
pub(super) async fn blocking_read<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let caller = Arc::new(());
    let wanted = Arc::downgrade(&caller);
    let read = blocking(move || reading_for(Some(wanted), work)).await;
    drop(caller);
    read
}
