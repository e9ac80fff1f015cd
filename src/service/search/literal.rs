//! Finds the passages that have parts of a query as they are written (`text::literal_parts`), or in another spelling
//! (`text::spellings`).

use std::sync::Arc;

use super::ranking::Plan;
use super::tokens::with_tokens;
use crate::domain::{LiteralPart, PassageId, QueryTerm, QueryTerms, SearchCondition, TermPhrase};
use crate::embed::{date_in_words, word_key};
use crate::ranking::{Translations, WordIndex, WordScores};
use crate::service::error::Error;
use crate::storage::{PassageSet, RequiredPassages};

/// Minimum share of a literal part's words that a passage with this part gets. It is lower if the part is the beginning of a
/// word, because the longer word may mean something else, and lowest if the beginning is itself a word in some language,
/// such as "car" in "carving".
const AS_WRITTEN: f32 = 0.8;
const BEGINNING: f32 = 0.7;
const WHOLE_WORD: f32 = 0.3;
/// The same for a number with its word in another notation, which means exactly the same: "World War II".
const NOTATION: f32 = 0.9;
/// Maximum share of the words of a number that counts for a passage without the number.
const OTHER_NUMBER: f32 = 0.3;
/// What a passage gains beyond the words of a literal part if it has them in order, exactly as written.
const IN_ORDER: f32 = 0.4;
/// Minimum number of characters of a term that is marked wherever it occurs, not only as part of its phrase.
const MARKED_CHARS_MIN: usize = 3;
/// Maximum number of parts in other spellings to search for: those that make up most of the query.
const SPELLINGS_MAX: usize = 8;
/// Maximum number of ways to split one word that are tried.
const SPLITS_MAX: usize = 3;
/// If a word is a smaller share of its query than this, the query is a sentence. Then its last word counts as the beginning
/// of a longer one only if it is not a word in any language, and its words are only searched by their stems if no passage has
/// them or words that probably mean the same.
const SENTENCE_SHARE: f32 = 0.3;

/// Maximum number of passages of a collection in which words are searched for by their beginning, because this reads every
/// passage that has one.
const PREFIXES_MAX: usize = 200_000;

/// The passages that have literal parts of a query.
#[derive(Debug, Default)]
pub(super) struct LiteralMatches {
    /// In the order of their words.
    parts: Vec<Part>,
    /// Terms that match in addition to those of the query.
    pub(super) terms: Vec<QueryTerm>,
}

/// The passages that have a part of the query.
#[derive(Debug)]
struct Part {
    /// The position of its first word in the query.
    position: usize,
    /// The numbers of its words.
    words: Vec<u32>,
    /// Its share of the query's words, by their count.
    share: f32,
    /// The minimum share of the part that its passages get.
    minimum: f32,
    /// What its passages gain in addition, as a share of the part.
    gain: f32,
    /// Whether no passage has its words as the query spells them, so that they are not counted yet.
    is_uncounted: bool,
    /// Whether it is a number whose groups mean little by themselves.
    is_number: bool,
    /// Whether its passages have the word itself or the beginning of a code, as opposed to a longer word that begins with it.
    is_whole: bool,
    found: Arc<PassageSet>,
}

/// What a passage's literal parts contribute, as shares of the query's words.
#[derive(Debug, Clone, Copy, Default)]
struct Raise {
    /// A minimum: words of these parts may already be counted.
    minimum: f32,
    /// What is added in any case.
    added: f32,
}

impl Raise {
    fn max(self, other: Self) -> Self {
        Self { minimum: self.minimum.max(other.minimum), added: self.added.max(other.added) }
    }
}

impl LiteralMatches {
    /// Returns the share of each part of the query. Words weigh as much as in `scores`.
    pub(super) fn shares(&self, scores: Option<&WordScores>) -> Vec<f32> {
        let weighed = |part: &Part| scores.and_then(|scores| scores.share_of(&part.words));
        self.parts.iter().map(|part| weighed(part).unwrap_or_default().max(part.share)).collect()
    }

    /// Raises the share of the query's words that a passage has, for the literal parts in it. `shares` are the shares of the
    /// parts. If several parts begin with the same word, only one counts.
    pub(super) fn raise(&self, share: f32, shares: &[f32], passage: PassageId) -> f32 {
        let (mut minimum, mut added, mut missing, mut from) = (0.0, 0.0, 0.0, 0);
        for same_word in self.parts.chunk_by(|a, b| a.position == b.position) {
            let weighed = same_word.iter().zip(shares[from..].iter().copied());
            let (found, absent): (Vec<_>, Vec<_>) = weighed.partition(|(part, _)| part.found.contains(passage));
            if found.is_empty() {
                missing += absent.iter().filter(|(part, _)| part.is_number).map(|(_, share)| *share).fold(0.0, f32::max);
            }
            let best = found.into_iter().map(|(part, share)| part.raise(share)).fold(Raise::default(), Raise::max);
            (minimum, added, from) = (minimum + best.minimum, added + best.added, from + same_word.len());
        }
        // The share can be above 1, because a passage may repeat the words.
        let share = if missing > 0.0 { share.min(1.0 - (1.0 - OTHER_NUMBER) * missing.min(1.0)) } else { share };
        share.max(minimum) + added
    }

    /// Whether the query has a number that contains this word.
    pub(super) fn has_number(&self, word: u32) -> bool {
        self.parts.iter().any(|part| part.is_number && part.words.contains(&word))
    }

    /// Whether a passage has a part with this word, as it is written or in another spelling.
    pub(super) fn has(&self, word: u32, passage: PassageId) -> bool {
        let whole = self.parts.iter().filter(|part| part.is_whole && part.words.contains(&word));
        whole.into_iter().any(|part| part.found.contains(passage))
    }

    /// Returns the passages that have a part and that `accept` accepts, and whether these are all. Of each part, those with the
    /// highest `score`, at most `limit`.
    pub(super) fn passages(
        &self,
        limit: usize,
        accept: impl Fn(PassageId) -> bool,
        score: impl Fn(PassageId) -> f32,
    ) -> (Vec<PassageId>, bool) {
        let (mut best, mut all) = (Vec::new(), true);
        for part in &self.parts {
            let mut found: Vec<_> =
                part.found.iter().filter(|passage| accept(*passage)).map(|passage| (score(passage), passage)).collect();
            if found.len() > limit {
                all = false;
                found.select_nth_unstable_by(limit, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                found.truncate(limit);
            }
            best.extend(found.into_iter().map(|(_, passage)| passage));
        }
        (best, all)
    }
}

impl Part {
    /// Returns what the part contributes to a passage that has it. `share` is the part's share of the query's words.
    fn raise(&self, share: f32) -> Raise {
        match self.is_uncounted {
            true => Raise { minimum: 0.0, added: share * (self.minimum + self.gain) },
            false => Raise { minimum: share * self.minimum, added: share * self.gain },
        }
    }
}

impl Plan<'_> {
    /// Finds the passages with the literal parts of the query. Without translations it finds none, because in that case
    /// another list already has the passages with the query's literal words.
    pub(super) fn literal_matches(&self) -> Result<LiteralMatches, Error> {
        let mut matches = LiteralMatches::default();
        let parts = &self.resolved.literal_parts;
        let Some(translations) = self.evidence.translations.filter(|_| !parts.is_empty()) else { return Ok(matches) };
        let mut searched: Vec<Searched<'_>> = with_tokens(self.collection, Some(translations), |_, words| {
            parts.iter().map(|part| Searched::new(part, words, translations)).collect()
        })?;
        let passages = self.collection.store.searchable()?;
        searched.retain(|part| !part.phrases.is_empty());
        searched.sort_by(|a, b| b.part.share.total_cmp(&a.part.share));
        let mut spellings = 0;
        for Searched { part, phrases, is_uncounted } in searched {
            let has_prefix = phrases.iter().any(|phrase| phrase.prefix);
            let is_spelling = !matches!(part.condition, SearchCondition::Always | SearchCondition::Number);
            spellings += usize::from(is_spelling);
            if spellings > SPELLINGS_MAX && is_spelling || has_prefix && passages > PREFIXES_MAX {
                continue;
            }
            let terms = QueryTerms { required: vec![phrases.clone()], ..QueryTerms::default() };
            let found = self.collection.store.required_matches(&terms).map_err(|error| self.add_preparation_progress(error))?;
            let Some(RequiredPassages::Only(found)) = found else { continue };
            let (minimum, gain) = match &part.condition {
                SearchCondition::Always | SearchCondition::Number | SearchCondition::Time => (AS_WRITTEN, IN_ORDER),
                SearchCondition::Notation => (NOTATION, 0.0),
                SearchCondition::Beginning(word) if translations.has_learned(*word) => (WHOLE_WORD, 0.0),
                SearchCondition::Beginning(_) => (BEGINNING, 0.0),
                _ => (AS_WRITTEN, 0.0),
            };
            if is_spelling && !found.is_empty() {
                let is_form = matches!(part.condition, SearchCondition::OtherForm(_));
                // Numbers of a time also stand elsewhere.
                let marked =
                    phrases.into_iter().filter(|phrase| part.condition != SearchCondition::Time || phrase.terms.len() == 1);
                matches.terms.extend(marked.flat_map(|phrase| query_terms(phrase, is_form)));
            }
            let (words, share) = (part.words.clone(), part.share);
            let is_number = match part.condition {
                SearchCondition::Number => true,
                SearchCondition::Time => !found.is_empty(),
                _ => false,
            };
            let is_code = part.phrases.iter().flat_map(|phrase| &phrase.terms).any(|term| term.contains(char::is_numeric));
            let is_whole = is_code || !matches!(part.condition, SearchCondition::Beginning(_));
            matches.parts.push(Part {
                position: part.position,
                words,
                share,
                minimum,
                gain,
                is_uncounted,
                is_number,
                is_whole,
                found,
            });
        }
        matches.parts.sort_by_key(|part| part.position);
        Ok(matches)
    }
}

/// A part of the query with what to search for in a collection.
struct Searched<'q> {
    part: &'q LiteralPart,
    phrases: Vec<TermPhrase>,
    /// Whether no passage has its words as the query spells them, so that they are not counted yet.
    is_uncounted: bool,
}

impl<'q> Searched<'q> {
    fn new(part: &'q LiteralPart, words: &WordIndex, translations: &Translations) -> Self {
        let is_uncounted = match &part.condition {
            SearchCondition::Beginning(_) | SearchCondition::Split { .. } => true,
            // Words that mean the same may be counted.
            SearchCondition::Unfound(word) => !words.finds(*word, translations),
            _ => false,
        };
        Self { part, phrases: searched_phrases(part, words, translations), is_uncounted }
    }
}

/// Returns the phrases of a part to search for in a collection with these words.
fn searched_phrases(part: &LiteralPart, words: &WordIndex, translations: &Translations) -> Vec<TermPhrase> {
    // In other scripts, terms differ from words.
    let is_word = |term: &&String| term.is_ascii();
    let keys = |phrase: &TermPhrase| phrase.terms.iter().filter(is_word).map(|term| word_key(term)).collect::<Vec<_>>();
    let is_searched = match &part.condition {
        SearchCondition::Always | SearchCondition::Number => {
            let dates = part.dates.iter().flat_map(|date| date_in_words(date, |all| words.has_together(all)));
            // Dates and amounts have many ways, and a passage that has one has all of its words.
            let may_be_found = |(index, phrase): &(usize, &TermPhrase)| *index == 0 || words.has_together(&keys(phrase));
            let phrases = part.phrases.iter().enumerate().filter(may_be_found).map(|(_, phrase)| phrase.clone());
            return phrases.chain(dates).collect();
        }
        SearchCondition::Time | SearchCondition::Notation => {
            return part.phrases.iter().filter(|phrase| words.has_together(&keys(phrase))).cloned().collect();
        }
        SearchCondition::Beginning(word) => {
            let is_sentence = part.share < SENTENCE_SHARE;
            !(words.finds(*word, translations) || is_sentence && translations.has_learned(*word))
        }
        SearchCondition::Unfound(word) => {
            !words.has(*word) && (part.share >= SENTENCE_SHARE || !words.finds(*word, translations))
        }
        SearchCondition::Joined(word) => words.has(*word),
        SearchCondition::OtherForm(form) => words.has_together(form),
        SearchCondition::Initials(word) => words.has(*word) && !translations.has_learned(*word),
        SearchCondition::Split { word, words: split } => {
            let is_missing = !words.finds(*word, translations);
            let phrases = part.phrases.iter().zip(split).filter(|_| is_missing);
            let known = phrases.filter(|(_, parts)| parts.iter().all(|word| words.has(*word)));
            return known.map(|(phrase, _)| phrase.clone()).take(SPLITS_MAX).collect();
        }
    };
    if is_searched { part.phrases.clone() } else { Vec::new() }
}

/// Returns the terms of a phrase to mark in passages. If there are several, leaves out short ones, because passages also
/// have them elsewhere, unless `keeps_short`: in scripts without spaces, all terms are short.
fn query_terms(phrase: TermPhrase, keeps_short: bool) -> impl Iterator<Item = QueryTerm> {
    let last = phrase.terms.len() - 1;
    let prefix = move |index: usize| phrase.prefix && index == last;
    let is_marked = move |text: &str| last == 0 || keeps_short || text.chars().nth(MARKED_CHARS_MIN - 1).is_some();
    let terms = phrase.terms.into_iter().enumerate().filter(move |(_, text)| is_marked(text));
    terms.map(move |(index, text)| QueryTerm { text, prefix: prefix(index) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSAGE: PassageId = PassageId(7);

    fn part(position: usize, is_uncounted: bool, gain: f32) -> Part {
        let found = Arc::new([PASSAGE].into_iter().collect());
        Part {
            position,
            words: Vec::new(),
            share: 0.5,
            minimum: 0.8,
            gain,
            is_uncounted,
            is_number: false,
            is_whole: true,
            found,
        }
    }

    fn raised(share: f32, parts: Vec<Part>) -> f32 {
        let matches = LiteralMatches { parts, terms: Vec::new() };
        (matches.raise(share, &matches.shares(None), PASSAGE) * 100.0).round() / 100.0
    }

    #[test]
    fn a_part_whose_words_may_be_counted_is_a_minimum() {
        assert_eq!(raised(0.3, vec![part(0, false, 0.0)]), 0.4);
        assert_eq!(raised(0.6, vec![part(0, false, 0.2)]), 0.7, "what it gains is added");
    }

    #[test]
    fn a_part_whose_words_are_not_counted_is_added() {
        assert_eq!(raised(0.3, vec![part(0, true, 0.0)]), 0.7);
    }

    #[test]
    fn only_the_best_of_the_parts_that_begin_with_the_same_word_counts() {
        assert_eq!(raised(0.0, vec![part(0, true, 0.0), part(0, true, 0.2)]), 0.5);
        assert_eq!(raised(0.0, vec![part(0, true, 0.0), part(1, true, 0.0)]), 0.8);
    }

    #[test]
    fn a_passage_without_a_number_has_little_of_its_groups() {
        let number = || vec![Part { is_number: true, ..part(0, false, 0.2) }];
        let matches = LiteralMatches { parts: number(), terms: Vec::new() };
        assert_eq!(matches.raise(1.0, &matches.shares(None), PassageId(8)), 0.65);
        assert_eq!(raised(1.0, number()), 1.1, "with the number, the groups count and it gains");
        assert_eq!(raised(1.3, number()), 1.4, "repeated words count too");
    }

    #[test]
    fn passages_without_a_part_are_not_raised() {
        let matches = LiteralMatches { parts: vec![part(0, true, 0.2)], terms: Vec::new() };
        assert_eq!(matches.raise(0.25, &matches.shares(None), PassageId(8)), 0.25);
    }
}
