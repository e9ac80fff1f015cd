//! Computes how well a passage answers a question. This is arithmetic on tokens and scores, without index, store or
//! model. A background thread precomputes what only depends on the model (`precompute`).

mod bm25;
mod concept;
mod expansions;
mod lexicon;
mod misspellings;
mod phrases;
mod precompute;
pub mod question;
pub mod relevance;
mod rows;
pub mod scorer;
mod sense_table;
mod sounding;
mod sounds;
mod table_file;
pub mod token_index;
pub mod token_table;
pub mod translations;
mod weighted_words;
pub mod word_index;

pub use lexicon::Lexicon;
pub use question::{LateEstimates, Question, TokenMatch};
pub use relevance::{Evidence, lexical_share};
pub use rows::ScorerError;
pub use scorer::TokenScorer;
pub use sense_table::Sense;
pub use table_file::TableError;
pub use token_index::TokenIndex;
pub use token_table::TokenTable;
pub use translations::Translations;
pub use weighted_words::{SignificantWord, WordScores};
pub use word_index::WordIndex;

use crate::domain::PassageId;

/// Number of scores that are tested in one step. A constant, so that the test compiles to a few wide
/// instructions.
const CHUNK: usize = 32;

/// Returns the `limit` passages with the highest scores above 0, highest first, and among equal scores the older first.
/// `passage` returns the passage in a slot, or `None` if it does not count. It is only called for few slots.
fn best(scores: &[f32], passage: impl Fn(usize) -> Option<PassageId>, limit: usize) -> Vec<(PassageId, f32)> {
    let better = |a: &(PassageId, f32), b: &(PassageId, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    let (mut best, mut threshold) = (Vec::new(), f32::MIN_POSITIVE);
    if limit == 0 {
        return best;
    }
    let mut take = |first_slot: usize, scores: &[f32], threshold: &mut f32| {
        for (slot, &score) in (first_slot..).zip(scores).filter(|(_, score)| **score >= *threshold) {
            best.extend(passage(slot).map(|passage| (passage, score)));
        }
        if best.len() > limit.saturating_mul(2) {
            let (_, (_, last), _) = best.select_nth_unstable_by(limit - 1, better);
            *threshold = *last;
            best.truncate(limit);
        }
    };
    let (chunks, rest) = scores.as_chunks::<CHUNK>();
    for (first_slot, chunk) in (0..).step_by(CHUNK).zip(chunks) {
        // Avoids a branch for each score, because few chunks have a score that counts.
        if chunk.iter().fold(false, |any, score| any | (*score >= threshold)) {
            take(first_slot, chunk, &mut threshold);
        }
    }
    take(scores.len() - rest.len(), rest, &mut threshold);
    best.sort_unstable_by(better);
    best.truncate(limit);
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_rank_the_oldest_passages_first() {
        // Slots hold passages from the newest to the oldest, 40 of each score. One of four groups of five slots is empty.
        let scores: Vec<f32> = (0..200).map(|slot| (slot % 5) as f32 / 4.0).collect();
        let passage = |slot: usize| (slot / 5 % 4 != 3).then(|| PassageId(1_000 - slot as u64));
        let mut all: Vec<_> = scores.iter().enumerate().filter_map(|(slot, &score)| Some((passage(slot)?, score))).collect();
        all.retain(|(_, score)| *score > 0.0);
        all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        for limit in [0, 1, 7, 45, 1_000] {
            assert_eq!(best(&scores, passage, limit), all[..limit.min(all.len())], "{limit}");
        }
    }
}
