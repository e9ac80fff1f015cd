//! How long texts are cut into passages.

/// Tokens that a passage may have, at least: fewer hold no thought.
pub const TOKENS_MIN: usize = 8;

/// Bounds on the passages of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassageBounds {
    /// Tokens of one passage at most; what the model reads, or fewer.
    pub tokens_max: usize,
    /// Tokens at the end of a passage that the next one repeats, at most: whole sentences when one fits, else whole words. A thought
    /// that a cut would part is then whole in one of the two. At most half of `tokens_max`.
    pub overlap_tokens: usize,
}

impl PassageBounds {
    /// Passages that follow each other without overlap.
    pub fn adjacent(tokens_max: usize) -> Self {
        Self { tokens_max, overlap_tokens: 0 }
    }
}

/// What mining takes for one sentence of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MiningUnit {
    /// Each passage.
    #[default]
    Passage,
    /// Each document, by the mean of its passages' embeddings.
    Document,
}
