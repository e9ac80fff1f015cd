//! Errors of mining.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MiningError {
    #[error("{name}: expected {min} to {max}, got {got}")]
    Bounds { name: &'static str, min: u64, max: u64, got: u64 },
    #[error("{name}: expected less than {sentences}, got {got}")]
    Sentence { name: &'static str, sentences: usize, got: u32 },
    #[error("the score of {first} and {second} is not finite")]
    NotFinite { first: u32, second: u32 },
    #[error("sentence {query} lists neighbor {neighbor} twice")]
    Repeated { query: u32, neighbor: u32 },
    #[error("the embeddings of a block are not whole rows")]
    Shape,
    #[error("rounded embeddings: {problem}")]
    Rounded { problem: String },
    #[error(
        "forward is from {forward_queries} sentences to {forward_others}, backward from {backward_queries} to {backward_others}"
    )]
    Directions { forward_queries: usize, forward_others: usize, backward_queries: usize, backward_others: usize },
}

/// Refuses a sentence number that is not below `sentences`.
pub(super) fn check_below(name: &'static str, got: u32, sentences: usize) -> Result<(), MiningError> {
    match (got as usize) < sentences {
        true => Ok(()),
        false => Err(MiningError::Sentence { name, sentences, got }),
    }
}

impl MiningError {
    pub(super) fn rounded(error: numkong::TensorError) -> Self {
        Self::Rounded { problem: error.to_string() }
    }
}

pub(super) fn check_range(name: &'static str, got: usize, min: usize, max: usize) -> Result<(), MiningError> {
    match (min..=max).contains(&got) {
        true => Ok(()),
        false => Err(MiningError::Bounds { name, min: min as u64, max: max as u64, got: got as u64 }),
    }
}
