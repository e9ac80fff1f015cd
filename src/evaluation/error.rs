//! Errors of evaluations, with the file, line or numbers that caused them.

use std::error::Error;
use std::path::{Path, PathBuf};

use crate::classify::ClassifyError;
use crate::mining::MiningError;

/// An error of an evaluation.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants are")]
pub enum EvaluationError {
    #[error("cannot access {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// A field of a line does not have the documented format.
    #[error("{}:{line}: {field}: expected {expected}, got {got}", path.display())]
    Field { path: PathBuf, line: usize, field: &'static str, expected: String, got: String },
    #[error("{} has {got} lines, but the files next to it have {expected}", path.display())]
    Misaligned { path: PathBuf, expected: usize, got: usize },
    #[error("{} is not usable: {problem}", path.display())]
    Content { path: PathBuf, problem: String },
    #[error("no usable data in {}", path.display())]
    NoData { path: PathBuf },
    #[error("{problem}")]
    Unusable { problem: String },
    #[error(transparent)]
    Mining(#[from] MiningError),
    #[error(transparent)]
    Classify(#[from] ClassifyError),
    #[error(transparent)]
    Measured(Box<dyn Error + Send + Sync>),
}

impl EvaluationError {
    /// Wraps an input error with its file.
    pub fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }

    /// Wraps an error of the encoder or server under evaluation.
    pub fn measured(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Measured(error.into())
    }
}
