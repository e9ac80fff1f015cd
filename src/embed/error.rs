//! Errors of the embedder.

use std::path::PathBuf;
use std::sync::Arc;

use crate::ranking::{ScorerError, TokenTableError, TranslationsError};
use crate::text::TextError;

/// An error of the embedder. It can be cloned, because a failed batch fails many callers.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EmbedError {
    /// The queue is full; retry later.
    #[error("the embedding queue holds {waiting} texts, and its limit is {limit}")]
    QueueFull {
        /// Texts that wait now.
        waiting: usize,
        /// The bound.
        limit: usize,
    },
    /// More texts at once than the queue ever takes; send fewer at a time.
    #[error("a request sent {texts} texts at once, but the embedding queue takes at most {limit}")]
    TooManyTexts {
        /// Texts of the submission.
        texts: usize,
        /// The bound.
        limit: usize,
    },
    /// The embedder is stopping.
    #[error("the embedder is stopping")]
    Stopping,
    /// The bundle's tokenizer or language head cannot be loaded, or a text cannot be tokenized.
    #[error(transparent)]
    Text(Arc<TextError>),
    /// The bundle's token table cannot be loaded.
    #[error(transparent)]
    TokenTable(Arc<TokenTableError>),
    /// The bundle's translation table cannot be loaded.
    #[error(transparent)]
    Translations(Arc<TranslationsError>),
    /// The bundle's token table cannot be used.
    #[error(transparent)]
    Scorer(Arc<ScorerError>),
    /// ONNX Runtime's shared library cannot be loaded.
    #[error(
        "cannot load ONNX Runtime from {}: run `make run` once, which fetches it, or set ORT_DYLIB_PATH to the path of libonnxruntime.so",
        path.display()
    )]
    Library {
        /// The path that was tried.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The weights cannot be loaded.
    #[error("cannot load the model {}", path.display())]
    Model {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The model's inputs or outputs do not match those of a bundle's encoder.
    #[error("the model has {got}, but a bundle's encoder needs {expected}")]
    Contract {
        /// What it must have.
        expected: String,
        /// What it has.
        got: String,
    },
    /// The requested device is not available.
    #[error("cannot run on cuda:{device}: {reason}")]
    Device {
        /// Its number.
        device: u32,
        /// The reason.
        reason: String,
    },
    /// The thread that owns the session cannot be started.
    #[error("cannot start the embedder's thread")]
    Thread(#[source] Arc<std::io::Error>),
    /// The forward pass of the batch with this text failed.
    #[error("the model failed on a batch of {texts} texts")]
    Forward {
        /// Texts of the batch.
        texts: usize,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The model returned something without a direction: NaN, infinity or zero.
    #[error("the model returned an embedding that is not finite or has no length")]
    NotFinite,
    /// The encoder panicked on the batch with this text.
    #[error("the encoder panicked: {message}")]
    Panicked {
        /// Its message.
        message: String,
    },
}

impl From<TextError> for EmbedError {
    fn from(source: TextError) -> Self {
        Self::Text(Arc::new(source))
    }
}
