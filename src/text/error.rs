//! Errors between raw text and token ids.

use std::path::PathBuf;

/// An error of the text pipeline.
#[derive(Debug, thiserror::Error)]
pub enum TextError {
    /// The tokenizer's file cannot be read or is not a tokenizer.
    #[error("cannot load the tokenizer {}", path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A file of the text pipeline cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The head that recognizes languages is damaged, or made for another tokenizer.
    #[error("cannot use the language head {}: {problem}", path.display())]
    LanguageHead {
        /// The file.
        path: PathBuf,
        /// Expected and got.
        problem: String,
    },
    /// The tokenizer failed on a text.
    #[error("cannot tokenize a text of {bytes} bytes")]
    Tokenize {
        /// The text's length.
        bytes: usize,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
