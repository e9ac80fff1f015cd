//! From text files to batches of token ids.

/// Changes of texts.
pub mod augmenter;
/// Batches as tensors.
pub mod batch;
/// Reads parallel text.
pub mod corpus;
/// Hard negatives.
pub mod hard_negatives;
/// Masked tokens.
pub mod masking;
/// Text to shards.
pub mod prepare;
/// Draws the pairs of a step.
pub mod sampler;
/// Tokenized corpora on disk.
pub mod shard;
#[cfg(test)]
mod shipped_tokens;
/// Removes diacritics.
pub mod strip_diacritics;
/// Subword regularization.
pub mod subword_splits;
/// Trains the tokenizer.
pub mod tokenizer;
/// The vocabulary of the tokenizer.
pub mod unigram;
/// How often a run sees each text.
pub mod views;
/// Burmese text in Zawgyi.
pub mod zawgyi;
