//! A loaded model and its output.

use std::str::FromStr;

use super::{Embedding, Language, TokenSet};

/// Where the encoder runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Device {
    /// ONNX Runtime's CPU provider, int8 weights.
    Cpu,
    /// A CUDA device by its number, fp16 weights.
    Cuda(u32),
}

/// The device that the operator requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChoice {
    /// CUDA if available, otherwise the CPU. In the second case the log and `/v1/models` say why.
    Auto,
    /// The CPU.
    Cpu,
    /// This CUDA device. The server refuses to start without it.
    Cuda(u32),
}

impl FromStr for DeviceChoice {
    type Err = String;

    /// Parses `auto`, `cpu`, `cuda` (the first device) or `cuda:N`.
    fn from_str(text: &str) -> Result<Self, String> {
        let numbered = || text.strip_prefix("cuda:")?.parse().ok().map(Self::Cuda);
        match text {
            "auto" => Ok(Self::Auto),
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => numbered().ok_or_else(|| format!("expected auto, cpu, cuda or cuda:N, got {text:?}")),
        }
    }
}

/// The loaded model, as `/v1/models` shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelInfo {
    /// The bundle's name, such as `ems-small`.
    pub name: String,
    /// The bundle's version.
    pub version: String,
    /// SHA-256 over everything that determines an embedding (tokenizer, weights, text version), in hexadecimal. Two models with
    /// the same fingerprint give the same embeddings; a collection never mixes two fingerprints.
    pub fingerprint: String,
    /// Values per embedding.
    pub dimension: usize,
    /// Maximum tokens of a text; longer texts are cut off.
    pub tokens_max: usize,
    /// Languages that it was trained on.
    pub languages: Vec<Language>,
    /// Where it runs.
    pub device: Device,
    /// Why it does not run on the requested device, if so.
    pub device_note: Option<String>,
    /// Measured quality: (name of the measure, value), such as `flores_p_at_1_english`.
    pub quality: Vec<(String, f64)>,
}

/// The encoder's output for one text.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedded {
    /// The embedding.
    pub embedding: Embedding,
    /// The ids of the tokens that were read, after truncation.
    pub tokens: Vec<u32>,
    /// Whether the text had more tokens than the model reads.
    pub truncated: bool,
}

/// A passage's embedding and tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct PassageEmbedding {
    /// The embedding.
    pub embedding: Embedding,
    /// Its tokens; none for a caller's own vector.
    pub tokens: TokenSet,
}

impl From<Embedded> for PassageEmbedding {
    fn from(embedded: Embedded) -> Self {
        Self { tokens: TokenSet::from_ids(&embedded.tokens), embedding: embedded.embedding }
    }
}

impl From<Embedding> for PassageEmbedding {
    fn from(embedding: Embedding) -> Self {
        Self { embedding, tokens: TokenSet::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_choices_are_parsed() {
        for (text, expect) in [
            ("auto", Some(DeviceChoice::Auto)),
            ("cpu", Some(DeviceChoice::Cpu)),
            ("cuda", Some(DeviceChoice::Cuda(0))),
            ("cuda:3", Some(DeviceChoice::Cuda(3))),
            ("cuda:", None),
            ("cuda:x", None),
            ("tpu", None),
            ("", None),
        ] {
            assert_eq!(text.parse::<DeviceChoice>().ok(), expect, "{text:?}");
        }
    }
}
