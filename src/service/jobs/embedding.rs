//! Embedding texts for a job, which waits when the encoder's queue is full.

use std::time::Duration;

use super::context::{JobContext, JobError};
use crate::domain::Embedded;
use crate::embed::{EmbedError, EmbedText, Priority};
use crate::service::error::Error;

/// Pause before another attempt when the encoder's queue is full.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Embeds texts as bulk work, at most `most` of them at a time and no more than the encoder's queue takes. Waits for room when that is
/// full, unless the job is to stop.
pub(crate) async fn embed_patiently(context: &JobContext, texts: &[EmbedText], most: usize) -> Result<Vec<Embedded>, JobError> {
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
        // Not held while it waits, so that a service that goes away takes the job with it.
        drop(state);
        context.pause(RETRY_PAUSE).await?;
    }
}
