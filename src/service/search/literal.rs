//! Finds the passages that have parts of a query as they are written (`text::literal_parts`), and documents whose title is the
//! query.

use std::collections::HashSet;
use std::sync::Arc;

use super::super::Error;
use super::ranking::Plan;
use crate::domain::{LiteralPart, PassageId, QueryTerms, SearchTarget};
use crate::embed::plain_title;
use crate::ranking::{Translations, WordIndex};
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

    /// Returns the passages that have a part and that `accept` accepts. Of each part, those with the highest `score`, at most `limit`.
    pub(super) fn passages(
        &self,
        limit: usize,
        accept: impl Fn(PassageId) -> bool,
        score: impl Fn(PassageId) -> f32,
    ) -> Vec<PassageId> {
        let best = |part: &Part| {
            let mut found: Vec<_> = part.found.iter().filter(|passage| accept(*passage)).map(|one| (score(one), one)).collect();
            if found.len() > limit {
                found.select_nth_unstable_by(limit, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
                found.truncate(limit);
            }
            found.into_iter().map(|(_, passage)| passage)
        };
        self.parts.iter().flat_map(best).collect()
    }
}

impl Plan<'_> {
    /// Finds the passages with the literal parts of the query. The last word is not the beginning of another one if the collection
    /// has it.
    pub(super) fn literal_matches(
        &self,
        words: &WordIndex,
        translations: Option<&Translations>,
    ) -> Result<LiteralMatches, Error> {
        let mut matches = LiteralMatches::default();
        let is_known = |word: u32| translations.is_some_and(|translations| translations.has(word));
        for LiteralPart { phrases, share, beginning_of } in &self.resolved.literal_parts {
            let is_word = |word| words.has(word) || (*share < SENTENCE_SHARE && is_known(word));
            if beginning_of.is_some_and(is_word) {
                continue;
            }
            let terms = QueryTerms { required: vec![phrases.clone()], ..QueryTerms::default() };
            let found = self.collection.store.required_matches(&terms).map_err(|error| self.add_preparation_progress(error))?;
            let Some(RequiredPassages::Only(found)) = found else { continue };
            let (least, gain) = if beginning_of.is_some() { (BEGINNING, 0.0) } else { (AS_WRITTEN, IN_ORDER) };
            matches.parts.push(Part { least: least * share, gain: gain * share, found });
            if beginning_of.is_some() {
                matches.beginning = phrases.first().and_then(|phrase| phrase.terms.first()).cloned();
            }
        }
        Ok(matches)
    }

    /// Returns which of these passages belong to documents whose title is the query.
    pub(super) fn titled(&self, passages: &[PassageId]) -> Result<HashSet<PassageId>, Error> {
        let SearchTarget::Text(query) = &self.request.target else { return Ok(HashSet::new()) };
        let query = plain_title(query);
        let rows = self.collection.store.passages_while(passages, &mut |_| true)?.unwrap_or_default();
        let is_query = |title: &String| plain_title(title) == query;
        Ok(rows.into_iter().filter(|row| row.document.title.as_ref().is_some_and(is_query)).map(|row| row.passage.id).collect())
    }
}
