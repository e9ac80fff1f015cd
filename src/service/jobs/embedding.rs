//! Embeds texts for jobs, which wait while the encoder's queue is full.

use std::time::Duration;

use super::context::{JobContext, JobError};
use crate::domain::Embedded;
use crate::embed::{EmbedError, EmbedText, Priority};
use crate::service::error::Error;

/// Pause before another attempt, mostly when the encoder's queue is full.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Embeds texts as bulk work, in parts of at most `texts_max` texts that fit into the encoder's queue. Waits while the queue is
/// full. Fails early if the job should stop.
pub(crate) async fn embed_with_retry(
    context: &JobContext,
    texts: &[EmbedText],
    texts_max: usize,
) -> Result<Vec<Embedded>, JobError> {
    let size = texts_max.min(context.state()?.limits.embed_queue_texts_max).max(1);
    let mut embedded = Vec::with_capacity(texts.len());
    for part in texts.chunks(size) {
        let result = try_embed(context, part, |error| matches!(error, EmbedError::QueueFull { .. })).await?;
        embedded.extend(result?);
    }
    Ok(embedded)
}

/// Embeds all texts or none, as bulk work. Tries again while the encoder fails with an error that `should_retry` accepts, and
/// returns another error of the encoder as the inner result.
pub(crate) async fn try_embed(
    context: &JobContext,
    texts: &[EmbedText],
    should_retry: fn(&EmbedError) -> bool,
) -> Result<Result<Vec<Embedded>, EmbedError>, JobError> {
    loop {
        context.check()?;
        let state = context.state()?;
        let permit = state.background_permits.acquire().await;
        let result = state.embedder.embed_in_context(texts.to_vec(), Priority::Ingest).await;
        drop(permit);
        match result {
            Err(error) if should_retry(&error) => (),
            Ok(embedded) if embedded.len() != texts.len() => {
                return Err(Error::EncoderAnswers { expected: texts.len(), got: embedded.len() }.into());
            }
            result => return Ok(result),
        }
        // Released before the pause, so that the job does not keep a stopping service alive.
        drop(state);
        context.pause(RETRY_PAUSE).await?;
    }
}
