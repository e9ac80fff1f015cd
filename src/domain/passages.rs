//! Passages: how texts are split into them, their context, and their tokens.

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Minimum tokens per passage: fewer carry too little meaning.
pub const TOKENS_MIN: usize = 8;

/// Maximum characters of a heading: anything longer is a paragraph, whatever its markup.
pub const HEADING_CHARS_MAX: usize = 200;
/// Maximum headings above a passage: one of each level.
pub const HEADINGS_MAX: usize = 6;

/// How texts are split into passages, each with its own embedding.
// The overlap consists of whole sentences if one fits, otherwise of whole words, and has at most half of `tokens_max`. A
// thought that a boundary would split is then complete in one of the two passages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = PassageInfo)]
pub struct PassageBounds {
    /// Maximum tokens per passage.
    #[schema(minimum = 1)]
    pub tokens_max: usize,
    /// Maximum tokens at the end of a passage that the next one repeats.
    #[schema(minimum = 0)]
    pub overlap_tokens: usize,
}

impl PassageBounds {
    /// Adjacent passages, without overlap.
    pub fn adjacent(tokens_max: usize) -> Self {
        Self { tokens_max, overlap_tokens: 0 }
    }
}

/// The position of a passage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassageSpan {
    /// Its bytes in the document's text.
    pub range: Range<usize>,
    /// The headings above it that are not in it, outermost first, one per line; `None` if there are none.
    pub headings: Option<String>,
}

impl From<Range<usize>> for PassageSpan {
    fn from(range: Range<usize>) -> Self {
        Self { range, headings: None }
    }
}

/// The context of a passage. It is embedded with the passage, and its words count as the passage's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassageContext {
    /// The title of the document.
    pub title: Option<String>,
    /// The headings above the passage, as `PassageSpan` has them.
    pub headings: Option<String>,
}

impl PassageContext {
    /// Whether the context is empty.
    pub fn is_empty(&self) -> bool {
        self.title.is_none() && self.headings.is_none()
    }

    /// Returns a passage as it is embedded and indexed for lexical search: title, headings, then the passage itself. This is the
    /// only place that joins them.
    pub fn prepend_to<'p>(&self, passage: &'p str) -> Cow<'p, str> {
        if self.is_empty() {
            return Cow::Borrowed(passage);
        }
        let above = [self.title.as_deref(), self.headings.as_deref()];
        let lines: Vec<&str> = above.into_iter().flatten().chain([passage]).collect();
        Cow::Owned(lines.join("\n"))
    }
}

/// `passage`: each passage; a document that the model reads in full has only one. `document`: each document, by the mean of its
/// passages' embeddings. `sentence`: each sentence of the documents; the job embeds the sentences itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the text above says what the variants are")]
pub enum MiningUnit {
    #[default]
    Passage,
    Document,
    Sentence,
}

/// The distinct tokens of a passage, which late interaction compares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenSet(Vec<u16>);

impl TokenSet {
    /// The tokens of a text. Ids beyond 65,535 are left out: no token table has them.
    pub fn from_ids(ids: &[u32]) -> Self {
        let mut distinct: Vec<u16> = ids.iter().filter_map(|&id| u16::try_from(id).ok()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        Self(distinct)
    }

    /// The ids, ascending.
    pub fn as_slice(&self) -> &[u16] {
        &self.0
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Little-endian u16 values, as stored in SQLite.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|id| id.to_le_bytes()).collect()
    }

    /// Reads the output of `to_bytes`. Returns `None` if the bytes are not ascending ids.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (pairs, rest) = bytes.as_chunks::<2>();
        let ids: Vec<u16> = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).collect();
        (rest.is_empty() && ids.is_sorted_by(|a, b| a < b)).then_some(Self(ids))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_sets_drop_duplicates_and_round_trip_through_bytes() {
        let tokens = TokenSet::from_ids(&[7, 60_000, 7, 3, 70_000]);
        assert_eq!(tokens.as_slice(), [3, 7, 60_000]);
        assert_eq!(TokenSet::from_bytes(&tokens.to_bytes()), Some(tokens));
    }

    #[test]
    fn bytes_without_strictly_ascending_ids_are_refused() {
        for bytes in [&[1][..], &[2, 0, 1, 0], &[2, 0, 2, 0]] {
            assert_eq!(TokenSet::from_bytes(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_passage_follows_its_title_and_headings() {
        let check = |title: Option<&str>, headings: Option<&str>, expect: &str| {
            let context = PassageContext { title: title.map(str::to_owned), headings: headings.map(str::to_owned) };
            assert_eq!(context.prepend_to("Open daily."), expect);
        };
        check(None, None, "Open daily.");
        check(Some("Museum"), None, "Museum\nOpen daily.");
        check(None, Some("Visit\nHours"), "Visit\nHours\nOpen daily.");
        check(Some("Museum"), Some("Visit\nHours"), "Museum\nVisit\nHours\nOpen daily.");
    }
}
