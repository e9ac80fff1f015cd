//! Finds the passages that have parts of a query as they are written (`text::literal_parts`), or in another spelling
//! (`text::spellings`).

use std::sync::Arc;

use super::super::Error;
use super::ranking::Plan;
use super::tokens::with_tokens;
use crate::domain::{LiteralPart, PassageId, QueryTerm, QueryTerms, Sought, TermPhrase};
use crate::ranking::{Translations, WordIndex};
use crate::storage::{PassageSet, RequiredPassages};

/// The share of the query's words that a passage has at least if it has a literal part, as a share of the part: lower for the
/// beginning of a word, because longer words may mean something else.
const AS_WRITTEN: f32 = 0.8;
const BEGINNING: f32 = 0.7;
/// What a passage gains beyond the words of a literal part if it has them in the order of the part, as they are written.
const IN_ORDER: f32 = 0.3;
/// Maximum number of ways to split one word that are sought.
const SPLITS_MAX: usize = 3;
/// If a word is a smaller share of its query than this, the query is a sentence. Its last word is taken for the beginning of a
/// longer one only if no language has it.
const SENTENCE_SHARE: f32 = 0.3;

/// Maximum number of passages of a collection in which words are sought by their beginning, because this reads every passage that
/// has one.
const PREFIXES_MAX: usize = 200_000;

/// The passages that have literal parts of a query.
#[derive(Debug, Default)]
pub(super) struct LiteralMatches {
    /// In the order of their words.
    parts: Vec<Part>,
    /// Terms that match beside those of the query.
    pub(super) terms: Vec<QueryTerm>,
}

/// The passages that have a part of the query.
#[derive(Debug)]
struct Part {
    /// The position of its first word in the query.
    at: usize,
    /// What its passages have of the query's words at least.
    least: f32,
    /// What they gain.
    gain: f32,
    found: Arc<PassageSet>,
}

impl LiteralMatches {
    /// Raises the share of the query's words that a passage has by the literal parts that it has. Of parts that are the same
    /// word, only one counts.
    pub(super) fn raise(&self, share: f32, passage: PassageId) -> f32 {
        let same_word = self.parts.chunk_by(|a, b| a.at == b.at);
        let (least, gain) = same_word.fold((0.0, 0.0), |(least, gain), parts| {
            let found = parts.iter().filter(|part| part.found.contains(passage));
            let best = found.map(|part| (part.least, part.gain)).reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)));
            best.map_or((least, gain), |(of_word, gain_of_word)| (least + of_word, gain + gain_of_word))
        });
        share.max(least.min(1.0)) + gain
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
            let mut found: Vec<_> = part.found.iter().filter(|passage| accept(*passage)).map(|one| (score(one), one)).collect();
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

impl Plan<'_> {
    /// Finds the passages with the literal parts of the query. Without translations there are none: then the passages with the
    /// query's words are listed as they are written anyway.
    pub(super) fn literal_matches(&self) -> Result<LiteralMatches, Error> {
        let mut matches = LiteralMatches::default();
        let parts = &self.resolved.literal_parts;
        let Some(translations) = self.evidence.translations.filter(|_| !parts.is_empty()) else { return Ok(matches) };
        let sought: Vec<(&LiteralPart, Vec<TermPhrase>)> = with_tokens(self.collection, Some(translations), |_, words| {
            parts.iter().map(|part| (part, sought(part, words, translations))).collect()
        })?;
        let passages = self.collection.store.searchable()?.0;
        for (part, phrases) in sought {
            let has_prefix = phrases.iter().any(|phrase| phrase.prefix);
            if phrases.is_empty() || has_prefix && passages > PREFIXES_MAX {
                continue;
            }
            let terms = QueryTerms { required: vec![phrases.clone()], ..QueryTerms::default() };
            let found = self.collection.store.required_matches(&terms).map_err(|error| self.add_preparation_progress(error))?;
            let Some(RequiredPassages::Only(found)) = found else { continue };
            let (least, gain) = match part.sought {
                Sought::Always => (AS_WRITTEN, IN_ORDER),
                Sought::Beginning(_) => (BEGINNING, 0.0),
                _ => (AS_WRITTEN, 0.0),
            };
            if part.sought != Sought::Always && !found.is_empty() {
                matches.terms.extend(phrases.into_iter().flat_map(query_terms));
            }
            matches.parts.push(Part { at: part.at, least: least * part.share, gain: gain * part.share, found });
        }
        matches.parts.sort_by_key(|part| part.at);
        Ok(matches)
    }
}

/// Returns the phrases of a part that are sought in a collection with these words.
fn sought(part: &LiteralPart, words: &WordIndex, translations: &Translations) -> Vec<TermPhrase> {
    let is_sought = match &part.sought {
        Sought::Always => true,
        Sought::Beginning(word) => {
            let is_sentence = part.share < SENTENCE_SHARE;
            !(words.finds(*word, translations) || is_sentence && translations.has(*word))
        }
        Sought::Unfound(word) => !words.finds(*word, translations),
        Sought::Joined(word) => words.has(*word),
        Sought::Split { word, words: split } => {
            let ways = part.phrases.iter().zip(split).filter(|_| !words.has(*word));
            let known = ways.filter(|(_, own)| own.iter().all(|one| words.has(*one)));
            return known.map(|(phrase, _)| phrase.clone()).take(SPLITS_MAX).collect();
        }
    };
    if is_sought { part.phrases.clone() } else { Vec::new() }
}

/// Returns the terms of a phrase, which match on their own where matches are marked.
fn query_terms(phrase: TermPhrase) -> impl Iterator<Item = QueryTerm> {
    let last = phrase.terms.len() - 1;
    let prefix = move |at: usize| phrase.prefix && at == last;
    phrase.terms.into_iter().enumerate().map(move |(at, text)| QueryTerm { text, prefix: prefix(at) })
}
