//! Errors of mining.

/// An error of mining.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MiningError {
    /// A number outside of its bounds.
    #[error("{name}: expected {min} to {max}, got {got}")]
    Bounds {
        /// What it is.
        name: &'static str,
        /// The least.
        min: u64,
        /// The greatest.
        max: u64,
        /// What was given.
        got: u64,
    },
    /// The number of a sentence that does not exist.
    #[error("{name}: expected less than {sentences}, got {got}")]
    Sentence {
        /// What it is.
        name: &'static str,
        /// How many sentences there are.
        sentences: usize,
        /// What was given.
        got: u32,
    },
    /// A score that is NaN or infinite.
    #[error("the score of {first} and {second} is not finite")]
    NotFinite {
        /// The number of the one sentence.
        first: u32,
        /// The number of the other.
        second: u32,
    },
    /// A sentence that is twice among the neighbors of another.
    #[error("sentence {query} lists neighbor {neighbor} twice")]
    Repeated {
        /// The number of the sentence.
        query: u32,
        /// The number of its neighbor.
        neighbor: u32,
    },
    /// Embeddings whose values are not whole rows.
    #[error("the embeddings of a block are not whole rows")]
    Shape,
    /// Rounded embeddings that cannot be held or multiplied.
    #[error("rounded embeddings: {problem}")]
    Rounded {
        /// The library's message.
        problem: String,
    },
    /// Lists that are not the two directions of one pair of sets.
    #[error(
        "forward is from {forward_queries} sentences to {forward_others}, backward from {backward_queries} to {backward_others}"
    )]
    Directions {
        /// Sentences whose neighbors `forward` has.
        forward_queries: usize,
        /// Sentences that they are among.
        forward_others: usize,
        /// Sentences whose neighbors `backward` has.
        backward_queries: usize,
        /// Sentences that they are among.
        backward_others: usize,
    },
}

/// Refuses the number of a sentence that is not below `sentences`.
pub(super) fn below(name: &'static str, got: u32, sentences: usize) -> Result<(), MiningError> {
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

/// Refuses `got` outside of `min` to `max`.
pub(super) fn within(name: &'static str, got: usize, min: usize, max: usize) -> Result<(), MiningError> {
    match (min..=max).contains(&got) {
        true => Ok(()),
        false => Err(MiningError::Bounds { name, min: min as u64, max: max as u64, got: got as u64 }),
    }
}
