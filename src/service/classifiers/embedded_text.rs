//! Texts with their embeddings: those that a classifier is asked about, and those that came with it.

use crate::domain::{DocumentId, Embedding, Language};

/// A text that is asked about, ready to be compared.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// The document that it is of, if it is of one.
    pub(super) document: Option<DocumentId>,
    /// Its place among the texts that came with the classifier, if it is one of them.
    pub(super) place: Option<usize>,
    /// The language, given or detected.
    pub(super) language: Option<Language>,
    /// The embedding.
    pub(super) embedding: Embedding,
}

/// A text that came with the request.
#[derive(Debug, Clone)]
pub(super) struct EmbeddedText {
    pub(super) description: bool,
    pub(super) text: String,
    pub(super) labels: Vec<String>,
    pub(super) language: Option<Language>,
    pub(super) embedding: Embedding,
}
