//! From text files to batches of token ids.

/// Tensors.
pub mod batch;
/// Reads parallel text.
pub mod corpus;
/// Hard negatives.
pub mod hard_negatives;
/// Hidden tokens.
pub mod masking;
/// Text to shards.
pub mod prepare;
/// Which pairs a step sees.
pub mod sampler;
/// Tokenized corpora on disk.
pub mod shard;
/// Missing diacritics.
pub mod strip_diacritics;
/// Trains the tokenizer.
pub mod tokenizer;
/// The vocabulary of the tokenizer.
pub mod unigram;
/// How often a run sees each text.
pub mod views;
/// Burmese text in Zawgyi.
pub mod zawgyi;
