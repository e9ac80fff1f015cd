//! Finds the passages that have parts of a query as they are written (`text::literal_parts`).

use std::sync::Arc;

use super::super::Error;
use super::ranking::Plan;
use super::tokens::with_tokens;
use crate::domain::{LiteralPart, PassageId, QueryTerms};
use crate::ranking::WordIndex;
use crate::storage::{PassageSet, RequiredPassages};

/// The share of the query's words that a passage has at least if it has a literal part, as a share of the part: lower for the
/// beginning of a word, because longer words may mean something else.
const AS_WRITTEN: f32 = 0.8;
const BEGINNING: f32 = 0.7;
/// What a passage gains beyond the words of a literal part if it has them in the order of the part.
const IN_ORDER: f32 = 0.3;
/// If a word is a smaller share of its query than this, the query is a sentence. Its last word is taken for the beginning of a
/// longer one only if no language has it.
const SENTENCE_SHARE: f32 = 0.3;

/// Maximum number of passages of a collection in which words are sought by their beginning, because this reads every passage that
/// has one.
const PREFIXES_MAX: usize = 200_000;

/// The passages that have literal parts of a query.
#[derive(Debug, Default)]
pub(super) struct LiteralMatches {
    parts: Vec<Part>,
    /// The beginning of a word, if the query ends with one.
    pub(super) beginning: Option<String>,
}

/// The passages that have a part of the query.
#[derive(Debug)]
struct Part {
    /// What its passages have of the query's words at least.
    least: f32,
    /// What they gain.
    gain: f32,
    found: Arc<PassageSet>,
}

impl LiteralMatches {
    /// Raises the share of the query's words that a passage has by the literal parts that it has.
    pub(super) fn raise(&self, share: f32, passage: PassageId) -> f32 {
        let found = self.parts.iter().filter(|part| part.found.contains(passage));
        let (least, gain) = found.fold((0.0, 0.0), |(least, gain), part| (least + part.least, gain + part.gain));
        share.max(least) + gain
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
        let is_complete = |words: &WordIndex, part: &LiteralPart| {
            let is_sentence = part.share < SENTENCE_SHARE;
            part.beginning_of.is_some_and(|word| words.finds(word, translations) || (is_sentence && translations.has(word)))
        };
        let complete: Vec<bool> = with_tokens(self.collection, Some(translations), |_, words| {
            parts.iter().map(|part| is_complete(words, part)).collect()
        })?;
        let passages = self.collection.store.searchable()?.0;
        for (part, _) in parts.iter().zip(complete).filter(|(_, complete)| !complete) {
            let has_prefix = part.phrases.iter().any(|phrase| phrase.prefix);
            if has_prefix && passages > PREFIXES_MAX {
                continue;
            }
            let terms = QueryTerms { required: vec![part.phrases.clone()], ..QueryTerms::default() };
            let found = self.collection.store.required_matches(&terms).map_err(|error| self.add_preparation_progress(error))?;
            let Some(RequiredPassages::Only(found)) = found else { continue };
            let (least, gain) = if part.beginning_of.is_some() { (BEGINNING, 0.0) } else { (AS_WRITTEN, IN_ORDER) };
            matches.parts.push(Part { least: least * part.share, gain: gain * part.share, found });
            if part.beginning_of.is_some() {
                matches.beginning = part.phrases.first().and_then(|phrase| phrase.terms.first()).cloned();
            }
        }
        Ok(matches)
    }
}
