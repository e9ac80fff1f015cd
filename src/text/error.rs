//! Errors of the text pipeline, from raw text to token ids.

use std::path::PathBuf;

/// An error of the text pipeline.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the variants are")]
pub enum TextError {
    /// The tokenizer's file cannot be read or is not a tokenizer.
    #[error("cannot load the tokenizer {}", path.display())]
    Load { path: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("cannot read {}", path.display())]
    File { path: PathBuf, source: std::io::Error },
    /// The language head is damaged, or was made for another tokenizer.
    #[error("cannot use the language head {}: {problem}", path.display())]
    LanguageHead { path: PathBuf, problem: String },
    #[error("cannot tokenize a text of {bytes} bytes")]
    Tokenize { bytes: usize, source: Box<dyn std::error::Error + Send + Sync> },
}
