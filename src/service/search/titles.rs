//! Prefers documents whose title is the query, or has it.

use super::boosts::scale_odds;
use super::full::{RankedPassage, sort};
use super::ranking::Plan;
use crate::domain::PassageId;
use crate::embed::{is_part_of_title, plain_title};
use crate::service::error::Error;
use crate::store::HitSizes;

/// Factor of the odds that a document answers if its title has the query, or the topic of a request. If the title is the topic, the
/// factor applies twice, and if it is the whole request, three times.
const TITLE_ODDS: f64 = 2.0;
/// Maximum number of passages whose documents' titles are read, the most relevant ones.
const PASSAGES_MAX: usize = 100;
/// Minimum share of the query's words that a passage must have for its document's title to be read.
const TITLE_SHARE_MIN: f32 = 0.7;
/// Maximum bytes of a title beyond twice the length of the query, for punctuation around its words.
const TITLE_MARKS_MAX: u64 = 16;
/// Maximum bytes of documents that are read for their titles. Others are left out.
const TITLED_BYTES_MAX: u64 = 256 << 10;

impl Plan<'_> {
    /// Raises the relevance of documents whose title is the query, or has it.
    pub(super) fn prefer_titled(&self, ranked: &mut [RankedPassage]) -> Result<(), Error> {
        if self.resolved.plain_titles.is_empty() {
            return Ok(());
        }
        let with_its_words = ranked.iter().take(PASSAGES_MAX).filter(|one| one.translated >= TITLE_SHARE_MIN);
        let titled = self.titled(&with_its_words.map(|one| one.passage).collect::<Vec<_>>())?;
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

    /// Returns which of these passages belong to documents whose title is or has the query or its topic, with the factors of their odds.
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
            let times = match titles.iter().position(|own| *own == title) {
                Some(index) => titles.len() - index + 1,
                None => usize::from(titles.iter().any(|own| is_part_of_title(own, &title))),
            };
            (times > 0).then(|| TITLE_ODDS.powi(times as i32))
        };
        Ok(rows.into_iter().filter_map(|row| Some((row.passage.id, factor(row.document.title)?))).collect())
    }
}
