//! Texts with their embeddings: those to predict, and those that a classifier was created with.

use super::error::ClassifierError;
use super::persisted::damaged_row;
use crate::domain::{CollectionName, DocumentId, Embedding, Language};
use crate::store::ClassifierText;

#[derive(Debug, Clone)]
pub(super) struct PredictionInput {
    /// The document that it belongs to, if any, with its collection.
    pub(super) document: Option<(CollectionName, DocumentId)>,
    /// Its position among the classifier's own texts, if it is one of them.
    pub(super) position: Option<usize>,
    /// The language, given or detected.
    pub(super) language: Option<Language>,
    pub(super) embedding: Embedding,
}

impl PredictionInput {
    pub(super) fn of_text(language: Option<Language>, embedding: Embedding) -> Self {
        Self { document: None, position: None, language, embedding }
    }

    /// Returns the document that it belongs to, if that is in a collection.
    pub(super) fn document_in(&self, collection: &CollectionName) -> Option<&DocumentId> {
        self.document.as_ref().filter(|(source, _)| source == collection).map(|(_, id)| id)
    }
}

/// A text of the request that created the classifier, with its embedding.
pub(super) type EmbeddedText = ClassifierText<Embedding>;

/// Returns the texts with their embeddings. Fails if one has none.
pub(super) fn embedded_texts(texts: impl IntoIterator<Item = ClassifierText>) -> Result<Vec<EmbeddedText>, ClassifierError> {
    let embedded = texts.into_iter().map(|ClassifierText { description, text, labels, language, embedding }| {
        let embedding = embedding.ok_or_else(|| damaged_row("a text has no embedding"))?;
        Ok(EmbeddedText { description, text, labels, language, embedding })
    });
    embedded.collect()
}
