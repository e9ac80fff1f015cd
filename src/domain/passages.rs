//! How texts are cut into passages, and what a passage is read under.

use std::borrow::Cow;
use std::ops::Range;

/// Tokens that a passage may have, at least: fewer hold no thought.
pub const TOKENS_MIN: usize = 8;

/// Bounds on the passages of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PassageBounds {
    /// Tokens of one passage at most; what the model reads, or fewer.
    pub tokens_max: usize,
    /// Tokens at the end of a passage that the next one repeats, at most: whole sentences when one fits, else whole words. A thought
    /// that a cut would part is then whole in one of the two. At most half of `tokens_max`.
    pub overlap_tokens: usize,
}

impl PassageBounds {
    /// Passages that follow each other without overlap.
    pub fn adjacent(tokens_max: usize) -> Self {
        Self { tokens_max, overlap_tokens: 0 }
    }
}

/// Where a passage is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassageSpan {
    /// Bytes of the document's text.
    pub range: Range<usize>,
    /// The headings above it that are not in it, outermost first, one on each line; `None` when there are none.
    pub headings: Option<String>,
}

impl From<Range<usize>> for PassageSpan {
    fn from(range: Range<usize>) -> Self {
        Self { range, headings: None }
    }
}

/// What a passage is read under. It is embedded with the passage, and its words count as the passage's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PassageContext {
    /// The title of the document.
    pub title: Option<String>,
    /// The headings above the passage, as `PassageSpan` has them.
    pub headings: Option<String>,
}

impl PassageContext {
    /// Whether there is nothing above the passage.
    pub fn is_empty(&self) -> bool {
        self.title.is_none() && self.headings.is_none()
    }

    /// A passage as it is embedded and as its words are found: title, headings, then the passage itself. Nothing else puts these
    /// together.
    pub fn with<'p>(&self, passage: &'p str) -> Cow<'p, str> {
        if self.is_empty() {
            return Cow::Borrowed(passage);
        }
        let above = [self.title.as_deref(), self.headings.as_deref()];
        let lines: Vec<&str> = above.into_iter().flatten().chain([passage]).collect();
        Cow::Owned(lines.join("\n"))
    }
}

/// What mining takes for one sentence of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MiningUnit {
    /// Each passage.
    #[default]
    Passage,
    /// Each document, by the mean of its passages' embeddings.
    Document,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passage_stands_below_its_title_and_its_headings() {
        let check = |title: Option<&str>, headings: Option<&str>, expect: &str| {
            let context = PassageContext { title: title.map(str::to_owned), headings: headings.map(str::to_owned) };
            assert_eq!(context.with("Open daily."), expect);
        };
        check(None, None, "Open daily.");
        check(Some("Museum"), None, "Museum\nOpen daily.");
        check(None, Some("Visit\nHours"), "Visit\nHours\nOpen daily.");
        check(Some("Museum"), Some("Visit\nHours"), "Museum\nVisit\nHours\nOpen daily.");
    }
}
