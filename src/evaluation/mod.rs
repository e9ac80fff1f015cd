//! The papers' evaluations of an encoder on data files, one task per module: retrieval of translations (P@1), mining,
//! classification, similarity, and search relevance. Reads the files and computes metrics; the caller provides the encoder,
//! classifier or search.
//!
//! The trainer evaluates bundles and weights with it, and `dragoman eval` the model that a server has loaded, so their numbers
//! are comparable.

pub mod candidates;
pub mod classification;
pub mod comparison;
pub mod encoder;
pub mod error;
pub mod flores;
pub mod judged;
pub mod labeled;
pub mod lines;
pub mod mining;
pub mod neighbors;
pub mod passages;
pub mod relevance;
pub mod report;
pub mod retrieval;
pub mod runs;
pub mod short;
pub mod significance;
pub mod sts;
pub mod tatoeba;
#[cfg(test)]
mod test_encoders;

pub use encoder::{Embeddings, SentenceEncoder};
pub use error::EvaluationError;
pub use report::{Report, measure};
