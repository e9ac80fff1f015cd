//! The papers' evaluations of an encoder on files, one task per file: retrieval of translations (P@1), mining, classification,
//! similarity, and relevance of search. Reads files and computes; the caller brings what embeds, classifies or searches.
//!
//! The trainer evaluates bundles and weights with it, `dragoman eval` whatever a server has loaded: the numbers are the same.

#[cfg(test)]
mod angles;
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

pub use encoder::{Embeddings, SentenceEncoder};
pub use error::EvaluationError;
pub use report::{Report, measure};
