//! Embeds texts for jobs, which wait while the encoder's queue is full.

use std::time::Duration;

use super::context::{JobContext, JobError};
use crate::domain::Embedded;
use crate::embed::{EmbedError, EmbedText, Priority};
use crate::service::error::Error;

/// Pause before another attempt when the encoder's queue is full.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Embeds texts as bulk work, in parts of at most `most` texts that fit into the encoder's queue. Waits while the queue is
/// full. Fails early if the job should stop.
pub(crate) async fn embed_with_retry(context: &JobContext, texts: &[EmbedText], most: usize) -> Result<Vec<Embedded>, JobError> {
    let size = most.min(context.state()?.limits.embed_queue_texts_max).max(1);
    let mut embedded = Vec::with_capacity(texts.len());
    for part in texts.chunks(size) {
        embedded.extend(embed_part(context, part).await?);
    }
    Ok(embedded)
}

async fn embed_part(context: &JobContext, texts: &[EmbedText]) -> Result<Vec<Embedded>, JobError> {
    loop {
        context.check()?;
        let state = context.state()?;
        let turn = state.background_turns.acquire().await;
        match state.embedder.embed_in_context(texts.to_vec(), Priority::Ingest).await {
            Err(EmbedError::QueueFull { .. }) => drop(turn),
            Ok(embedded) if embedded.len() != texts.len() => {
                return Err(Error::EncoderAnswers { asked: texts.len(), got: embedded.len() }.into());
            }
            other => return Ok(other.map_err(Error::from)?),
        }
        // Released before the pause, so that the job does not keep a stopping service alive.
        drop(state);
        context.pause(RETRY_PAUSE).await?;
    }
}
