//! Documents, passages and embeddings for tests of a store.

use std::ops::Range;

use dragoman::domain::{DocumentId, Embedding, Language, Metadata, PassageId};
use dragoman::store::{PendingPassage, PreparedDocument};

/// Parses an id.
pub fn id(text: &str) -> DocumentId {
    DocumentId::parse(text).unwrap()
}

/// Parses a language.
pub fn language(code: &str) -> Option<Language> {
    Some(Language::parse(code).unwrap())
}

/// A document of one passage.
pub fn document(name: &str, text: &str) -> PreparedDocument {
    let whole = 0..text.len();
    cut(name, text, vec![whole])
}

/// A document split into these passages.
pub fn cut(name: &str, text: &str, passages: Vec<Range<usize>>) -> PreparedDocument {
    PreparedDocument {
        id: id(name),
        title: None,
        text: text.to_owned(),
        language: None,
        language_confidence: None,
        metadata: Metadata::new(),
        expires_at_ms: None,
        passages: passages.into_iter().map(Into::into).collect(),
        embedding: None,
    }
}

/// The embedding that belongs to a number.
pub fn embedding(number: f32) -> Embedding {
    Embedding::normalized(vec![1.0, number, -2.0]).unwrap()
}

/// The keys of passages.
pub fn keys(pending: &[PendingPassage]) -> Vec<PassageId> {
    pending.iter().map(|passage| passage.id).collect()
}
