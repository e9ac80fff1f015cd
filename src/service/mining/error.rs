//! Errors of mining and of finding duplicates.

use crate::domain::{Code, CollectionName, JobId, JobStatus, JobType};
use crate::mining::MiningError;

#[derive(Debug, thiserror::Error)]
pub enum MineError {
    /// There are fewer sentences than neighbors per sentence.
    #[error("{corpus} {}", too_few_sentences(*expected, *got))]
    TooFewSentences { corpus: &'static str, expected: usize, got: usize },
    #[error(
        "first and second are the same sentences, of collection {collection}; to find duplicates within one collection, use \
         POST /v1/collections/{collection}/duplicates"
    )]
    SameSides { collection: CollectionName },
    #[error(
        "first and second must have embeddings of the same model, or vectors of one dimension; first has {first}, second {second}"
    )]
    Incomparable { first: String, second: String },
    #[error("known pair {index}: its {corpus} {problem}")]
    KnownPair { index: usize, corpus: &'static str, problem: String },
    #[error("none of the known pairs is among the proposed pairs, so no threshold can be estimated from them")]
    NoKnownPairFound,
    #[error(
        "every known pair whose documents still exist has identical texts, or a number, date or code that both sides have; the \
         request leaves out such pairs (skip_identical), so no threshold can be estimated from them"
    )]
    KnownPairsExcluded,
    #[error("the job needs about {needed} bytes of memory, but one job may use at most {limit} (mining_memory_bytes_max)")]
    TooMuchMemory { needed: u64, limit: u64 },
    #[error("the job needs about {needed} bytes of memory, but only {free} are free")]
    NoMemory { needed: u64, free: u64 },
    #[error(
        "job {id} is of type {} and {}; {what} exist once a job of type {} has succeeded",
        kind.name(), status.name(), of.name()
    )]
    NoResults { id: JobId, kind: JobType, status: JobStatus, what: &'static str, of: JobType },
    #[error("mining failed")]
    Numbers(#[from] MiningError),
}

/// What is wrong with a side of `got` sentences.
pub fn too_few_sentences(expected: usize, got: usize) -> String {
    format!("must have at least as many different embedded sentences as neighbors, {expected}, got {got}")
}

impl MineError {
    pub fn code(&self) -> Code {
        match self {
            Self::TooFewSentences { .. }
            | Self::SameSides { .. }
            | Self::Incomparable { .. }
            | Self::KnownPair { .. }
            | Self::NoKnownPairFound
            | Self::KnownPairsExcluded
            | Self::TooMuchMemory { .. } => Code::InvalidRequest,
            Self::NoMemory { .. } => Code::Overloaded,
            Self::NoResults { .. } => Code::NoResults,
            Self::Numbers(_) => Code::Internal,
        }
    }
}
