//! What goes to the encoder: passages with the context that they are embedded in, who goes first, and which failures pass.

use super::error::Error;
use crate::domain::{Embedded, PassageEmbedding, PassageId};
use crate::embed::{EmbedError, EmbedText, Embedder, Priority, Tokens};
use crate::store::PendingPassage;

/// Texts that a caller waits for and that may go ahead of bulk work: more than this is bulk work itself.
const TEXTS_AHEAD_MAX: usize = 8;
/// A text that every encoder can embed: when it fails, it is the encoder that is broken, not the texts that it failed on.
pub(super) const PROBE: &str = ".";

/// Who goes first at the encoder: a caller with a few texts, before bulk work.
pub(super) fn priority(texts: usize) -> Priority {
    if texts <= TEXTS_AHEAD_MAX { Priority::Query } else { Priority::Ingest }
}

/// Embeds passages and gives the embeddings with their keys.
pub(super) async fn embed_passages(
    embedder: &Embedder,
    passages: &[PendingPassage],
    priority: Priority,
) -> Result<Vec<(PassageId, PassageEmbedding)>, Error> {
    let texts = passages.iter().map(embed_text).collect();
    with_keys(passages, embedder.embed_in_context(texts, priority).await?)
}

/// What is embedded of a passage.
pub(super) fn embed_text(passage: &PendingPassage) -> EmbedText {
    EmbedText { context: passage.context.clone(), text: passage.text.clone() }
}

/// As `embed_passages`, of passages whose tokens are known.
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
        return Err(Error::EncoderAnswers { asked: passages.len(), got: embedded.len() });
    }
    Ok(passages.iter().zip(embedded).map(|(passage, embedded)| (passage.id, embedded.into())).collect())
}

/// Whether the same texts may well be embedded later.
pub(super) fn is_passing(error: &EmbedError) -> bool {
    matches!(error, EmbedError::QueueFull { .. } | EmbedError::Stopping)
}
