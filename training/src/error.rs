//! Errors of training, each with the file, the line or the setting at fault.

use std::path::{Path, PathBuf};

/// An error of the trainer.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants are")]
pub enum Error {
    #[error("cannot access {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}: {problem}", path.display())]
    Line { path: PathBuf, line: usize, problem: &'static str },
    #[error("{} has {got} lines, but the files next to it have {expected}", path.display())]
    Misaligned { path: PathBuf, expected: usize, got: usize },
    #[error(transparent)]
    Table(#[from] dragoman::ranking::TableError),
    #[error("{} is not usable: {problem}", path.display())]
    Content { path: PathBuf, problem: String },
    #[error("setting {setting}: {problem}")]
    Setting { setting: &'static str, problem: String },
    #[error("no usable data in {}", path.display())]
    NoData { path: PathBuf },
    #[error(
        "no batch for step {step}: the thread that makes them ended, with the error above; do the shards have this tokenizer?"
    )]
    NoBatch { step: u64 },
    #[error("the loss is {loss} at step {step}; a lower learning rate or longer warm-up may help")]
    Diverged { step: u64, loss: f64 },
    #[error("cannot listen for signals")]
    Signal(#[source] std::io::Error),
    #[error("parity of {variant}: {problem}")]
    Parity { variant: &'static str, problem: String },
    #[error("libtorch failed")]
    Torch(#[from] tch::TchError),
    #[error("ONNX Runtime failed")]
    Onnx(#[from] ort::Error),
    #[error(transparent)]
    Evaluation(#[from] dragoman::evaluation::EvaluationError),
    #[error(transparent)]
    Text(#[from] dragoman::text::TextError),
    #[error(transparent)]
    Bundle(#[from] dragoman::bundle::BundleError),
    #[error(transparent)]
    Scorer(#[from] dragoman::ranking::ScorerError),
    #[error("cannot train the tokenizer")]
    Tokenizer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Adds the path to an input or output error.
    pub fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }
}
