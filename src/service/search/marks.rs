//! Marks the words of a hit's passage and title that match the query: the query's own words, their translations, and words in any
//! language that late interaction finds near to it.

use std::ops::Range;

use rustc_hash::FxHashSet;

use super::resolve::ResolvedQuery;
use crate::domain::{Language, PassageMark, QueryTerm, SearchTarget};
use crate::embed::{DependentToken, Embedder, PassageWords, TermMatcher, merge_marks, overlap, query_terms};
use crate::ranking::{Question, SignificantWord, TokenMatch};
use crate::service::error::Error;

/// Maximum number of letters after a short word that may be its ending. With more letters it is another word.
const ENDING_MAX: usize = 3;
/// Minimum weight of a word that means a word of the query (`Embedder::weight`). Among English passages, "el" is so rare that it
/// is significant in a query, but "the" says nothing.
const MEANING_WEIGHT_MIN: f32 = 0.3;

/// The query's tokens and words in the model, to mark what matches them.
#[derive(Default)]
pub(super) struct QueryMatcher {
    /// The query as late interaction compared it, if it did.
    pub(super) question: Option<Question>,
    /// The significant words of the query, with the words of the collection that mean the same.
    pub(super) words: Vec<SignificantWord>,
    /// Terms that match in addition to those of the query: other spellings of its words, and the beginning of a word that it
    /// ends with.
    pub(super) terms: Vec<QueryTerm>,
}

/// What to mark in passages and titles.
pub(super) struct Marking<'a> {
    /// `None` if the search has no text.
    term_matcher: Option<TermMatcher>,
    /// The query as late interaction compared it, if it did.
    question: Option<Question>,
    /// Tokens of the query that mark nothing, because they are fragments of words.
    fragments: Vec<u32>,
    /// Tokens of the query that mark nothing where they belong to another word.
    dependent_tokens: Vec<DependentToken>,
    /// The numbers of words that mean a significant word of the query.
    meanings: FxHashSet<u32>,
    embedder: &'a Embedder,
}

impl<'a> Marking<'a> {
    /// Collects what to mark for a search. `resolved` is what it looked for.
    pub(super) fn new(target: &SearchTarget, resolved: ResolvedQuery, matcher: QueryMatcher, embedder: &'a Embedder) -> Self {
        let ResolvedQuery { terms, fragments, dependent_tokens, .. } = resolved;
        let term_matcher = match target {
            SearchTarget::Text(text) => {
                let mut terms = terms.unwrap_or_else(|| query_terms(text, None));
                terms.terms.extend(matcher.terms);
                Some(TermMatcher::new(terms))
            }
            _ => None,
        };
        let meanings = matcher.words.into_iter().flat_map(|word| word.meanings).collect();
        Self { term_matcher, question: matcher.question, fragments, dependent_tokens, meanings, embedder }
    }

    /// Returns the marks of a passage or a title. `language` is the document's language, if known.
    pub(super) fn marks(&self, text: &str, language: Option<Language>) -> Result<Vec<PassageMark>, Error> {
        let Some(term_matcher) = &self.term_matcher else { return Ok(Vec::new()) };
        let words = PassageWords::new(text, language);
        let mut marks = words.find_terms(term_matcher);
        let reads_pieces = self.question.is_some() || !self.meanings.is_empty();
        let pieces = if reads_pieces { self.embedder.pieces(text)? } else { Vec::new() };
        if let Some(question) = &self.question {
            // A question never contains ids beyond 16 bits, so the highest id can stand for them as unknown.
            let tokens: Vec<u16> = pieces.iter().map(|(id, _)| u16::try_from(*id).unwrap_or(u16::MAX)).collect();
            let matches = question.matches(&tokens, &self.fragments);
            let ranges_of = |kind: TokenMatch| {
                let found = pieces.iter().zip(&matches).filter(move |(_, relation)| **relation == kind).map(|(piece, _)| piece);
                let found = found.filter(|(token, range)| !self.is_other_word(*token, text, range));
                found.map(|(_, range)| range.clone()).collect::<Vec<_>>()
            };
            let light = ranges_of(TokenMatch::Light);
            marks.retain(|mark| !is_covered(mark, &light, pieces.iter().map(|(_, range)| range)));
            marks.extend(words.find_pieces(&ranges_of(TokenMatch::Near)));
        }
        if !self.meanings.is_empty() {
            let found = words.find_words(|word| self.meanings.contains(&word), &self.embedder.vocabulary());
            marks.extend(found.into_iter().filter(|word| self.embedder.weight(word, &pieces) >= MEANING_WEIGHT_MIN));
        }
        Ok(in_characters(text, &merge_marks(marks)))
    }

    /// Whether a piece of a text is a token of the query but belongs to another word: the "Url" of "Urlaub" does not match
    /// "url", nor does the "Ham" of "Hamburg" match "ham".
    fn is_other_word(&self, token: u32, text: &str, range: &Range<usize>) -> bool {
        let rest = text.get(range.end..).unwrap_or_default();
        let more = rest.chars().take(ENDING_MAX + 1).take_while(|c| c.is_alphanumeric()).count();
        let is_other = |dependent: &DependentToken| if dependent.shorter.is_some() { more == 0 } else { more > ENDING_MAX };
        self.dependent_tokens.iter().any(|dependent| dependent.token == token && !dependent.is_group && is_other(dependent))
    }
}

/// Whether all pieces of a mark are among `light`.
fn is_covered<'a>(mark: &Range<usize>, light: &[Range<usize>], pieces: impl Iterator<Item = &'a Range<usize>>) -> bool {
    let mut covered_pieces = pieces.filter(|piece| overlap(piece, mark)).peekable();
    covered_pieces.peek().is_some() && covered_pieces.all(|piece| light.contains(piece))
}

/// Converts sorted ranges of bytes to marks, which count characters (Unicode code points).
fn in_characters(text: &str, marks: &[Range<usize>]) -> Vec<PassageMark> {
    let (mut counted_to, mut count) = (0, 0);
    let mut character = |position: usize| {
        count += text.get(counted_to..position).map_or(0, |between| between.chars().count());
        counted_to = position;
        count
    };
    marks.iter().map(|mark| PassageMark { start: character(mark.start), end: character(mark.end) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_ranges_count_code_points() {
        let check = |text: &str, bytes: &[Range<usize>], expect: [(usize, usize); 2]| {
            assert_eq!(in_characters(text, bytes), expect.map(|(start, end)| PassageMark { start, end }), "{text}");
        };
        check("añ京👍x", &[1..3, 6..11], [(1, 2), (3, 5)]);
        check("e\u{301}te\u{301} a", &[0..7, 8..9], [(0, 5), (6, 7)]);
    }
}
