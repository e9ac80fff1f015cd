//! What is known of a loaded model, and what it answers.

use super::{Embedding, Language};

/// Where the encoder runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// ONNX Runtime's CPU provider, int8 weights.
    Cpu,
    /// A CUDA device by its number, fp16 weights.
    Cuda(u32),
}

/// The loaded model, as `/v1/models` shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// The bundle's name, such as `ems-small`.
    pub name: String,
    /// The bundle's version.
    pub version: String,
    /// SHA-256 over what decides an embedding (tokenizer, weights, text version), in hexadecimal. Two models with the same
    /// fingerprint give the same embeddings; a collection never mixes two fingerprints.
    pub fingerprint: String,
    /// Values per embedding.
    pub dimension: usize,
    /// Tokens that one text may have; longer ones are cut.
    pub tokens_max: usize,
    /// Languages that it was trained on.
    pub languages: Vec<Language>,
    /// Where it runs.
    pub device: Device,
    /// Why it does not run where it was asked to, when that is so.
    pub device_note: Option<String>,
    /// Measured quality: (name of the measurement, value), such as `flores_p_at_1_english`.
    pub quality: Vec<(String, f64)>,
}

/// One text's answer from the encoder.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedded {
    /// The embedding.
    pub embedding: Embedding,
    /// How many tokens were read, after truncation.
    pub tokens: usize,
    /// Whether the text had more tokens than the model reads.
    pub truncated: bool,
}
