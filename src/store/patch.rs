//! Computes the result of a patch, for both engines.

use super::{PreparedDocument, StoreError};
use crate::domain::{Document, DocumentPatch, Embedding, Language, Metadata, PassageSpan, metadata};

/// A text that was split again because its title changes.
#[derive(Debug, Clone)]
pub struct ResplitText {
    /// The title that it was split with.
    pub title: Option<String>,
    pub text: String,
    pub passages: Vec<PassageSpan>,
    /// Whether its only passage keeps its embedding, because that is the caller's own vector.
    pub keeps_embedding: bool,
}

/// The new values of the fields that a patch can change.
#[derive(Debug)]
pub(crate) struct PatchedFields {
    pub(crate) metadata: Metadata,
    pub(crate) language: Option<Language>,
    pub(crate) language_confidence: Option<f32>,
    pub(crate) title: Option<String>,
    pub(crate) expires_at_ms: Option<i64>,
    /// Whether the passages stay but need the terms of another language.
    pub(crate) renews_terms: bool,
}

/// Returns the result of a patch, or `None` if it changes nothing.
pub(crate) fn compute_patched_fields(document: &Document, patch: &DocumentPatch) -> Result<Option<PatchedFields>, StoreError> {
    let mut merged = document.metadata.clone();
    metadata::merge(&mut merged, &patch.metadata);
    let bounds = [
        ("bytes as JSON (metadata_bytes_max)", patch.metadata_bytes_max, metadata::bytes(&merged)),
        ("levels (metadata_depth_max)", patch.metadata_depth_max, metadata::depth(&merged)),
    ];
    if let Some(&(unit, max, got)) = bounds.iter().find(|(_, max, got)| got > max) {
        return Err(StoreError::MetadataTooLarge { unit, max, got });
    }
    // A language given by the caller is no longer a guess, even if it is the detected one.
    let (language, language_confidence) = match patch.language {
        Some(language) => (Some(language), None),
        None => (document.language, document.language_confidence),
    };
    let title = patch.title.clone().applied(document.title.clone());
    let expires_at_ms = patch.expires_at_ms.unwrap_or(document.expires_at_ms);
    let keeps_language = language == document.language;
    let keeps_title = title == document.title;
    let keeps_confidence = language_confidence == document.language_confidence;
    if merged == document.metadata && keeps_language && keeps_confidence && keeps_title && expires_at_ms == document.expires_at_ms
    {
        return Ok(None);
    }
    // If the title changes, the caller replaces the passages anyway.
    let renews_terms = !keeps_language && keeps_title;
    Ok(Some(PatchedFields { metadata: merged, language, language_confidence, title, expires_at_ms, renews_terms }))
}

impl ResplitText {
    /// Returns the text whose passages replace those of the document: none if the patch keeps the title. Returns `None` if
    /// `resplit` was not split with the new title, or is not the document's text.
    pub(crate) fn for_patch<'r>(
        resplit: Option<&'r Self>,
        document: &Document,
        patch: &DocumentPatch,
    ) -> Option<Option<&'r Self>> {
        let title = patch.title.clone().applied(document.title.clone());
        if title == document.title {
            return Some(None);
        }
        resplit.filter(|resplit| resplit.title == title && resplit.text == document.text).map(Some)
    }

    /// Returns the document with the passages that replace its old ones. `embedding` is that of its only passage, if it keeps
    /// one.
    pub(crate) fn prepare(&self, document: &Document, embedding: Option<Embedding>) -> PreparedDocument {
        PreparedDocument {
            id: document.id.clone(),
            title: self.title.clone(),
            text: self.text.clone(),
            language: document.language,
            language_confidence: document.language_confidence,
            metadata: Default::default(),
            expires_at_ms: None,
            passages: self.passages.clone(),
            embedding,
        }
    }
}
