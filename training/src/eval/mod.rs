//! Measures an encoder, one task per file: retrieval of translations (P@1), mining, classification, similarity, speed.
//!
//! Whatever turns texts into embeddings can be measured (`encoder`): a run's weights in libtorch, an exported graph, a server.

#[cfg(test)]
mod angles;
pub mod candidates;
pub mod classification;
pub mod classifier;
pub mod encoder;
pub mod flores;
pub mod labeled;
pub mod language;
pub mod language_peers;
pub mod lines;
pub mod margin;
pub mod mining;
pub mod neighbors;
pub mod report;
pub mod retrieval;
pub mod server;
pub mod session;
pub mod short;
pub mod speed;
pub mod sts;
pub mod tatoeba;
pub mod torch;

pub use encoder::{Embeddings, PaddedBatch, SentenceEncoder, TextEncoder, TokenEncoder};
pub use report::{Report, measure};
pub use server::ServerEncoder;
pub use session::OnnxEncoder;
pub use speed::Speed;
pub use torch::TorchEncoder;
