//! Results of mining: pairs of sentences, and clusters of duplicates.

use serde::{Deserialize, Serialize};

use super::Language;

/// Two sentences with a score. `S` is a number during the comparison, and a `MinedSentence` in the results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScoredPair<S> {
    /// The margin score.
    pub score: f32,
    /// The sentence in the first language.
    pub first: S,
    /// The sentence in the second language.
    pub second: S,
}

/// A sentence in the results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MinedSentence {
    /// The document's id, or the text's position in the list.
    pub id: String,
    /// The language, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// The text.
    pub text: String,
    /// Where it begins in its document, in characters; `None` for a document that is one passage, and for lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<usize>,
    /// Where it ends, in the same unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<usize>,
}

/// A cluster of duplicates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DuplicateCluster {
    /// The number of members.
    pub size: usize,
    /// The id of the member that is nearest to all others.
    pub representative: String,
    /// The members.
    pub members: Vec<MinedSentence>,
}
