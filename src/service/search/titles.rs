//! Prefers documents whose title is the query.

use super::boosts::scale_odds;
use super::full::{RankedPassage, sort};
use super::ranking::Plan;
use crate::domain::PassageId;
use crate::embed::plain_title;
use crate::service::error::Error;
use crate::storage::{FirstPassages, Neighbor};
use crate::store::HitSizes;

/// Factor of the odds that a document answers if its title is the query, or the topic of a request. If it is the whole request, the
/// factor applies twice.
const TITLE_ODDS: f64 = 3.0;
/// Maximum number of documents whose titles are read, the most relevant ones.
const TITLES_MAX: usize = 10;
/// Maximum number of passages in which these documents are looked for. A long document may have many of them.
const PASSAGES_MAX: usize = 50;
/// Minimum share of the query's words that a passage must have for its document's title to be read.
const TITLE_SHARE_MIN: f32 = 0.7;
/// Maximum bytes of a title beyond twice the length of the query, for punctuation around its words.
const TITLE_MARKS_MAX: u64 = 16;
/// Maximum bytes of documents that are read for their titles. Others are left out.
const TITLED_BYTES_MAX: u64 = 256 << 10;

impl Plan<'_> {
    /// Raises the relevance of documents whose title is the query.
    pub(super) fn prefer_titled(&self, ranked: &mut [RankedPassage]) -> Result<(), Error> {
        if self.resolved.plain_titles.is_empty() {
            return Ok(());
        }
        let with_its_words = ranked.iter().take(PASSAGES_MAX).filter(|one| one.translated >= TITLE_SHARE_MIN);
        let passages: Vec<_> = with_its_words.map(|one| Neighbor { passage: one.passage, score: one.relevance }).collect();
        let mut documents = FirstPassages::new(TITLES_MAX);
        documents.add(&passages, |passages| self.collection.store.documents_of(passages))?;
        let titled = self.titled(&documents.into_vec().iter().map(|(first, _)| first.passage).collect::<Vec<_>>())?;
        for one in &mut *ranked {
            if let Some((_, factor)) = titled.iter().find(|(passage, _)| *passage == one.passage) {
                one.relevance = scale_odds(one.relevance, *factor) as f32;
            }
        }
        if !titled.is_empty() {
            sort(ranked);
        }
        Ok(())
    }

    /// Returns which of these passages belong to documents whose title is the query or its topic, with the factors of their odds.
    /// Only reads documents whose title is about as long.
    fn titled(&self, passages: &[PassageId]) -> Result<Vec<(PassageId, f64)>, Error> {
        let (store, titles) = (&self.collection.store, &self.resolved.plain_titles);
        let sizes = store.sizes_of(passages)?;
        if sizes.len() != passages.len() {
            // One was deleted in the meantime, so the sizes cannot be matched to the passages.
            return Ok(Vec::new());
        }
        let lengths = || titles.iter().map(|title| title.len() as u64);
        let is_about = |size: u64| lengths().any(|length| (length / 2..=2 * length + TITLE_MARKS_MAX).contains(&size));
        let mut left = TITLED_BYTES_MAX;
        let mut fits = |sizes: &HitSizes| {
            let rest = left.checked_sub(sizes.text + sizes.metadata).filter(|_| is_about(sizes.title) && sizes.title > 0);
            left = rest.unwrap_or(left);
            rest.is_some()
        };
        let fitting: Vec<PassageId> =
            passages.iter().zip(&sizes).filter(|(_, sizes)| fits(sizes)).map(|(passage, _)| *passage).collect();
        if fitting.is_empty() {
            return Ok(Vec::new());
        }
        let rows = store.passages(&fitting)?;
        let factor = |title: Option<String>| {
            let title = plain_title(&title?);
            // The whole query comes first.
            let index = titles.iter().position(|own| *own == title)?;
            Some(TITLE_ODDS.powi((titles.len() - index) as i32))
        };
        Ok(rows.into_iter().filter_map(|row| Some((row.passage.id, factor(row.document.title)?))).collect())
    }
}
