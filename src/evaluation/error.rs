//! Errors of evaluations, always with the file, the line or the numbers at fault.

use std::error::Error;
use std::path::{Path, PathBuf};

use crate::classify::ClassifyError;
use crate::mining::MiningError;

/// An error of an evaluation.
#[derive(Debug, thiserror::Error)]
pub enum EvaluationError {
    /// A file cannot be read.
    #[error("cannot access {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A field of a line does not have the documented format.
    #[error("{}:{line}: {field}: expected {expected}, got {got}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
        /// Its name in the documentation of the format.
        field: &'static str,
        /// What the format says.
        expected: String,
        /// What the line has.
        got: String,
    },
    /// Aligned files differ in length.
    #[error("{} has {got} lines, but the files beside it have {expected}", path.display())]
    Misaligned {
        /// The file.
        path: PathBuf,
        /// Lines of the others.
        expected: usize,
        /// Lines of this one.
        got: usize,
    },
    /// The content of a file is not usable.
    #[error("{} is not usable: {problem}", path.display())]
    Content {
        /// The file, or the folder.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A folder without the files of the task.
    #[error("no usable data in {}", path.display())]
    NoData {
        /// The folder.
        path: PathBuf,
    },
    /// Embeddings or labels cannot be compared.
    #[error("{problem}")]
    Unusable {
        /// Expected and got.
        problem: String,
    },
    /// Candidates cannot be scored.
    #[error(transparent)]
    Mining(#[from] MiningError),
    /// A classifier cannot be trained or evaluated.
    #[error(transparent)]
    Classify(#[from] ClassifyError),
    /// The encoder under evaluation failed.
    #[error(transparent)]
    Measured(Box<dyn Error + Send + Sync>),
}

impl EvaluationError {
    /// Names the file of an input error.
    pub fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }

    /// Wraps the error of what is evaluated.
    pub fn measured(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Measured(error.into())
    }
}
