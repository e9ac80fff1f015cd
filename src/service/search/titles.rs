//! Prefers documents whose title is the query, or has it.

use rustc_hash::{FxHashMap, FxHashSet};

use super::boosts::scale_odds;
use super::full::{RankedPassage, sort};
use super::ranking::Plan;
use crate::domain::{DocumentId, Language, PassageId};
use crate::embed::{is_part_of_title, plain_title, stemmed_title, title_terms};
use crate::service::error::Error;
use crate::store::{HitSizes, PassageParts};

/// Factor of the odds that a document answers if its title has the query, or the topic of a request. If the title is the topic,
/// the factor applies twice, and if it is the whole request, three times.
const TITLE_ODDS: f64 = 2.0;
/// Maximum number of passages whose documents' titles are read, the most relevant ones.
const PASSAGES_MAX: usize = 100;
/// Minimum share of the query's words that a passage must have for its document's title to be read.
const TITLE_SHARE_MIN: f32 = 0.7;
/// Maximum bytes of a title beyond twice the length of the query, for punctuation around its words.
const TITLE_MARKS_MAX: u64 = 16;
/// Maximum bytes of documents that are read for their titles, beside the first one. Others are left out.
const TITLED_BYTES_MAX: u64 = 256 << 10;
/// Maximum number of words of a query that is looked up among the titles. Passages with all words of a longer one are among the
/// best by its words anyway.
const LOOKED_UP_WORDS: usize = 4;
/// Maximum number of documents with such a title that are considered, the oldest ones.
const LOOKED_UP_MAX: usize = 400;

impl Plan<'_> {
    /// Finds the first passages of documents that probably have the query as their title, and that `accept` accepts. The lists
    /// may lack them if many passages have the query's words.
    pub(super) fn passages_titled_as_query(&self, accept: impl Fn(PassageId) -> bool) -> Result<Vec<PassageId>, Error> {
        let mut found = Vec::new();
        if (1..=LOOKED_UP_WORDS).contains(&self.resolved.words_typed) {
            for title in &self.resolved.plain_titles {
                let length = title.len() as u64;
                let lengths = length / 2..=length + TITLE_MARKS_MAX;
                found.extend(self.collection.store.titled(&title_terms(title), lengths, LOOKED_UP_MAX)?);
            }
        }
        found.retain(|passage| accept(*passage));
        found.truncate(PASSAGES_MAX);
        Ok(found)
    }

    /// Raises the relevance of documents whose title is the query, or has it. `looked_up` are passages of documents that probably
    /// have such a title.
    pub(super) fn prefer_titled(&self, ranked: &mut [RankedPassage], looked_up: &[PassageId]) -> Result<(), Error> {
        if self.resolved.plain_titles.is_empty() {
            return Ok(());
        }
        let best = ranked
            .iter()
            .take(PASSAGES_MAX)
            .filter(|candidate| candidate.translated >= TITLE_SHARE_MIN)
            .map(|candidate| candidate.passage);
        let mut seen = FxHashSet::default();
        let passages: Vec<PassageId> = looked_up.iter().copied().chain(best).filter(|passage| seen.insert(*passage)).collect();
        let titled: FxHashMap<PassageId, f64> = self.titled(&passages)?.into_iter().collect();
        for candidate in ranked.iter_mut() {
            if let Some(factor) = titled.get(&candidate.passage) {
                candidate.relevance = scale_odds(candidate.relevance, *factor) as f32;
            }
        }
        if !titled.is_empty() {
            sort(ranked);
        }
        Ok(())
    }

    /// Returns which of these passages belong to documents whose title is or has the query or its topic, with the factors of
    /// their odds. Reads each document once, and only those whose title is about as long.
    fn titled(&self, passages: &[PassageId]) -> Result<Vec<(PassageId, f64)>, Error> {
        let store = &self.collection.store;
        let sizes = store.sizes_of(passages)?;
        if sizes.len() != passages.len() {
            // One was deleted in the meantime, so the sizes cannot be matched to the passages.
            return Ok(Vec::new());
        }
        let lengths = || self.resolved.plain_titles.iter().map(|title| title.len() as u64);
        let is_about = |size: u64| lengths().any(|length| (length / 2..=2 * length + TITLE_MARKS_MAX).contains(&size));
        let fits = |sizes: &HitSizes| sizes.title > 0 && is_about(sizes.title);
        let mut fitting: Vec<(PassageId, HitSizes)> =
            passages.iter().copied().zip(sizes).filter(|(_, sizes)| fits(sizes)).collect();
        if fitting.is_empty() {
            return Ok(Vec::new());
        }
        // Titles that are as long as the query are read first, because they may be equal to it.
        fitting.sort_by_key(|(_, sizes)| !lengths().any(|length| length == sizes.title));
        let bytes: FxHashMap<PassageId, u64> =
            fitting.iter().map(|(passage, sizes)| (*passage, sizes.text + sizes.metadata)).collect();
        let fitting: Vec<PassageId> = fitting.into_iter().map(|(passage, _)| passage).collect();
        let documents = store.documents_of(&fitting)?;
        let (mut left, mut wanted, mut seen) = (TITLED_BYTES_MAX, Vec::new(), FxHashSet::default());
        for document in documents.iter().filter(|document| seen.insert(document.key)) {
            let bytes = bytes[&document.passage];
            // The first one is read in any case.
            if wanted.is_empty() || bytes <= left {
                left = left.saturating_sub(bytes);
                wanted.push(document.passage);
            }
        }
        let rows = store.passages(&wanted, PassageParts::TITLE)?.into_iter();
        let factors: FxHashMap<DocumentId, f64> =
            rows.filter_map(|row| Some((row.document.id, self.title_factor(&row.title?, row.document.language)?))).collect();
        Ok(documents.into_iter().filter_map(|document| Some((document.passage, *factors.get(&document.document)?))).collect())
    }

    /// Returns the factor of the odds of a document with this title, in this language.
    fn title_factor(&self, title: &str, language: Option<Language>) -> Option<f64> {
        let (titles, title) = (&self.resolved.plain_titles, plain_title(title));
        // The whole query comes first.
        if let Some(index) = titles.iter().position(|other| *other == title) {
            return Some(TITLE_ODDS.powi((titles.len() - index + 1) as i32));
        }
        let stems = |text: &str| stemmed_title(text, language);
        let has = |other: &String| is_part_of_title(other, &title) || is_part_of_title(&stems(other), &stems(&title));
        titles.iter().any(has).then_some(TITLE_ODDS)
    }
}
