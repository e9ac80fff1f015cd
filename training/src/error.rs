//! Errors of training, each with the file, the line or the setting at fault.

use std::path::{Path, PathBuf};

/// An error of the trainer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("cannot access {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A line of a file is not in its format.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What was expected.
        problem: &'static str,
    },
    /// Aligned files differ in length.
    #[error("{} has {got} lines, but the files next to it have {expected}", path.display())]
    Misaligned {
        /// The file.
        path: PathBuf,
        /// Lines of the other files.
        expected: usize,
        /// Lines of this file.
        got: usize,
    },
    /// A bundle's table cannot be read or written.
    #[error(transparent)]
    Table(#[from] dragoman::ranking::TableError),
    /// A file's content is not what this program expects.
    #[error("{} is not usable: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A setting is out of range, or two contradict each other.
    #[error("setting {setting}: {problem}")]
    Setting {
        /// Its name in the configuration or on the command line.
        setting: &'static str,
        /// Expected and got.
        problem: String,
    },
    /// There is nothing to train or evaluate on.
    #[error("no usable data in {}", path.display())]
    NoData {
        /// The folder.
        path: PathBuf,
    },
    /// The thread that makes batches has ended.
    #[error(
        "no batch for step {step}: the thread that makes them ended, with the error above; do the shards have this tokenizer?"
    )]
    NoBatch {
        /// Steps done.
        step: u64,
    },
    /// The loss is not finite.
    #[error("the loss is {loss} at step {step}; a lower learning rate or longer warm-up may help")]
    Diverged {
        /// The step.
        step: u64,
        /// The loss.
        loss: f64,
    },
    /// Signal handlers cannot be registered.
    #[error("cannot listen for signals")]
    Signal(#[source] std::io::Error),
    /// The exported graph failed a parity check.
    #[error("parity of {variant}: {problem}")]
    Parity {
        /// fp32, fp16 or int8.
        variant: &'static str,
        /// Expected and got.
        problem: String,
    },
    /// A server failed to embed texts.
    #[error("server {url}: {problem}")]
    Server {
        /// The requested URL.
        url: String,
        /// Expected and got.
        problem: String,
    },
    /// libtorch failed.
    #[error("libtorch failed")]
    Torch(#[from] tch::TchError),
    /// ONNX Runtime failed.
    #[error("ONNX Runtime failed")]
    Onnx(#[from] ort::Error),
    /// An evaluation failed.
    #[error(transparent)]
    Evaluation(#[from] dragoman::evaluation::EvaluationError),
    /// The text pipeline failed.
    #[error(transparent)]
    Text(#[from] dragoman::text::TextError),
    /// The bundle failed.
    #[error(transparent)]
    Bundle(#[from] dragoman::bundle::BundleError),
    /// Late interaction failed.
    #[error(transparent)]
    Scorer(#[from] dragoman::ranking::ScorerError),
    /// The tokenizer's training failed.
    #[error("cannot train the tokenizer")]
    Tokenizer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Adds the path to an input or output error.
    pub fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }
}
