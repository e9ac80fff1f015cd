//! Changes texts in ways that keep their meaning, so that an encoder learns to embed them alike.

use dragoman::text::Tokenizer;

use super::strip_diacritics::DiacriticsRemover;
use super::subword_splits::SubwordSplitter;

/// The changes that need the tokenizer of the shards.
#[derive(Debug)]
pub struct Augmenter {
    /// Removes diacritics.
    pub diacritics_remover: DiacriticsRemover,
    /// Splits tokens.
    pub subword_splitter: SubwordSplitter,
}

impl Augmenter {
    /// Prepares the changes for the tokenizer that the shards were made with.
    pub fn new(tokenizer: Tokenizer) -> Self {
        Self { subword_splitter: SubwordSplitter::new(&tokenizer), diacritics_remover: DiacriticsRemover::new(tokenizer) }
    }
}
