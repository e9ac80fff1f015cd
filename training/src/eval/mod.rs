//! Measures an encoder: retrieval of translations (P@1) among long news-like and among short everyday sentences.

pub mod encoder;
pub mod flores;
pub mod report;
pub mod retrieval;
pub mod session;
pub mod short;
pub mod torch;

pub use encoder::{Embeddings, PaddedBatch, SentenceEncoder, TextEncoder, TokenEncoder};
pub use report::{Report, measure};
pub use session::OnnxEncoder;
pub use torch::TorchEncoder;
