//! Embeds passages with their context. Decides which requests go first and which failures are temporary.

use super::error::Error;
use crate::domain::{Embedded, PassageEmbedding, PassageId};
use crate::embed::{EmbedError, EmbedText, Embedder, Priority, Tokens};
use crate::store::PendingPassage;

/// Maximum number of texts in a request that goes ahead of bulk work. A request with more is bulk work itself.
const TEXTS_AHEAD_MAX: usize = 8;
/// A text that every encoder can embed. If embedding it fails, the encoder is broken, rather than the texts that failed before.
pub(super) const PROBE: &str = ".";

/// Returns the priority of a request with this many texts. A few texts go ahead of bulk work.
pub(super) fn priority(texts: usize) -> Priority {
    if texts <= TEXTS_AHEAD_MAX { Priority::Query } else { Priority::Ingest }
}

/// Embeds passages. Returns the embeddings with their keys.
pub(super) async fn embed_passages(
    embedder: &Embedder,
    passages: &[PendingPassage],
    priority: Priority,
) -> Result<Vec<(PassageId, PassageEmbedding)>, Error> {
    let texts = passages.iter().map(embed_text).collect();
    with_keys(passages, embedder.embed_in_context(texts, priority).await?)
}

pub(super) fn embed_text(passage: &PendingPassage) -> EmbedText {
    EmbedText { context: passage.context.clone(), text: passage.text.clone() }
}

/// Like `embed_passages`, but for passages whose tokens are known.
pub(super) async fn embed_tokens(
    embedder: &Embedder,
    passages: &[PendingPassage],
    tokens: &[Tokens],
    priority: Priority,
) -> Result<Vec<(PassageId, PassageEmbedding)>, Error> {
    with_keys(passages, embedder.embed_tokens(tokens.to_vec(), priority).await?)
}

fn with_keys(passages: &[PendingPassage], embedded: Vec<Embedded>) -> Result<Vec<(PassageId, PassageEmbedding)>, Error> {
    if embedded.len() != passages.len() {
        return Err(Error::EncoderAnswers { expected: passages.len(), got: embedded.len() });
    }
    Ok(passages.iter().zip(embedded).map(|(passage, embedded)| (passage.id, embedded.into())).collect())
}

pub(super) fn is_transient(error: &EmbedError) -> bool {
    matches!(error, EmbedError::QueueFull { .. } | EmbedError::Stopping)
}
