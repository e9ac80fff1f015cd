//! What can go wrong with mining and with duplicates.

use crate::domain::{Code, CollectionName, JobId, JobStatus, JobType};
use crate::mining::MiningError;

/// An error of mining.
#[derive(Debug, thiserror::Error)]
pub enum MineError {
    /// Too few sentences for the neighbors that each is to have.
    #[error("{side} must hold at least as many different embedded sentences as neighbors, {expected}, got {got}")]
    TooFewSentences {
        /// Which sentences.
        side: &'static str,
        /// The least.
        expected: usize,
        /// What there is.
        got: usize,
    },
    /// Both sides are the same sentences.
    #[error(
        "first and second are the same sentences, of collection {collection}; to find duplicates within one collection, use \
         POST /v1/collections/{collection}/duplicates"
    )]
    SameSides {
        /// The collection of both.
        collection: CollectionName,
    },
    /// The sides hold embeddings that cannot be compared.
    #[error(
        "first and second must hold embeddings of the same model, or vectors of one dimension; first has {first}, second {second}"
    )]
    Incomparable {
        /// What the first side holds.
        first: String,
        /// What the second side holds.
        second: String,
    },
    /// A known pair cannot be used.
    #[error("known pair {index}: its {side} {problem}")]
    KnownPair {
        /// Its place in the request.
        index: usize,
        /// Which of its sentences.
        side: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A threshold cannot be estimated.
    #[error("none of the known pairs is among the proposed pairs, so no threshold can be estimated from them")]
    NoKnownPairFound,
    /// A job would need more memory than one may.
    #[error("the job needs about {needed} bytes of memory, but one job may use at most {limit} (mining_memory_bytes_max)")]
    TooMuchMemory {
        /// Needed.
        needed: u64,
        /// The bound.
        limit: u64,
    },
    /// The machine has too little memory now.
    #[error("the job needs about {needed} bytes of memory, but only {free} are free")]
    NoMemory {
        /// Needed.
        needed: u64,
        /// Free now.
        free: u64,
    },
    /// A job has no results of the kind that was asked for.
    #[error(
        "job {id} is of type {} and {}; {what} exist once a job of type {} has succeeded",
        kind.name(), status.name(), of.name()
    )]
    NoResults {
        /// The id.
        id: JobId,
        /// What it does.
        kind: JobType,
        /// Where it is.
        status: JobStatus,
        /// What was asked for.
        what: &'static str,
        /// Which type has it.
        of: JobType,
    },
    /// The computation refused what it was given.
    #[error("mining failed")]
    Numbers(#[from] MiningError),
}

impl MineError {
    /// The code that the wire sends.
    pub fn code(&self) -> Code {
        match self {
            Self::TooFewSentences { .. }
            | Self::SameSides { .. }
            | Self::Incomparable { .. }
            | Self::KnownPair { .. }
            | Self::NoKnownPairFound
            | Self::TooMuchMemory { .. } => Code::InvalidRequest,
            Self::NoMemory { .. } => Code::Overloaded,
            Self::NoResults { .. } => Code::NoResults,
            Self::Numbers(_) => Code::Internal,
        }
    }
}
