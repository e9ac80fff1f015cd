//! Errors of the embedder.

use std::path::PathBuf;
use std::sync::Arc;

use crate::ranking::TableError;
use crate::text::TextError;

/// An error of the embedder. It can be cloned, because a failed batch fails many callers.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EmbedError {
    #[error("the embedding queue holds {waiting} texts, and its limit is {limit}")]
    QueueFull { waiting: usize, limit: usize },
    /// The caller sent more texts at once than the queue ever accepts, and must send fewer at a time.
    #[error("a request sent {texts} texts at once, but the embedding queue takes at most {limit}")]
    TooManyTexts { texts: usize, limit: usize },
    #[error("the embedder is stopping")]
    Stopping,
    /// The bundle's tokenizer or language head cannot be loaded, or a text cannot be tokenized.
    #[error(transparent)]
    Text(Arc<TextError>),
    #[error(transparent)]
    Table(Arc<TableError>),
    #[error(
        "cannot load ONNX Runtime from {}: run `make run` once, which fetches it, or set ORT_DYLIB_PATH to the path of libonnxruntime.so",
        path.display()
    )]
    Library { path: PathBuf, source: Arc<dyn std::error::Error + Send + Sync> },
    #[error("cannot load the model {}", path.display())]
    Model { path: PathBuf, source: Arc<dyn std::error::Error + Send + Sync> },
    #[error("the model has {got}, but a bundle's encoder needs {expected}")]
    Contract { expected: String, got: String },
    #[error("cannot run on cuda:{device}: {reason}")]
    Device { device: u32, reason: String },
    #[error("cannot start the embedder's thread")]
    Thread(#[source] Arc<std::io::Error>),
    #[error("the model failed on a batch of {texts} texts")]
    Forward { texts: usize, source: Arc<dyn std::error::Error + Send + Sync> },
    /// The model returned a vector without a direction: its values are NaN, infinite or all zero.
    #[error("the model returned an embedding that is not finite or has no length")]
    NotFinite,
    #[error("the encoder panicked: {message}")]
    Panicked { message: String },
}

impl From<TextError> for EmbedError {
    fn from(source: TextError) -> Self {
        Self::Text(Arc::new(source))
    }
}
