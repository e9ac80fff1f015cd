//! Applies boosts to the scores of candidates, which changes their order.
//!
//! All boosts of a search are multiplied into one factor. In mode `full` the factor multiplies the odds of the relevance, so
//! the relevance stays between 0 and 1. In the other modes it multiplies the score. Among negative scores those nearer to zero
//! are better, so it divides negative scores.

use std::collections::HashMap;

use super::hits::Candidate;
use crate::domain::{Boost, BoostedScore, DocumentHead, PassageId, SearchMode, SearchRequest};
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;

/// Changes the scores of candidates and sorts them by the new scores. Candidates with equal scores keep their order.
pub(super) fn apply(collection: &OpenCollection, request: &SearchRequest, candidates: &mut Vec<Candidate>) -> Result<(), Error> {
    if request.boosts.is_empty() {
        return Ok(());
    }
    let passages: Vec<PassageId> = candidates.iter().map(|candidate| candidate.passage).collect();
    let factors = |head: &DocumentHead| request.boosts.iter().map(|boost| boost.factor(head)).collect();
    let heads = collection.store.heads_of(&passages)?.into_iter();
    let mut factors: HashMap<PassageId, Vec<f64>> = heads.map(|(passage, head)| (passage, factors(&head))).collect();
    // A document that was deleted in the meantime has no factors here. It is dropped when hits are read.
    let mut scored: Vec<(f64, Candidate)> = candidates
        .drain(..)
        .map(|mut candidate| {
            let factors = factors.remove(&candidate.passage).unwrap_or_default();
            let (from, factor) = (candidate.score, Boost::product(factors.iter().copied()));
            let score = if matches!(request.mode, SearchMode::Full { .. }) {
                scale_odds(from, factor)
            } else {
                scale_score(from, factor)
            };
            candidate.score = score as f32;
            candidate.ranks.boosted = Some(BoostedScore { from, factors });
            (score, candidate)
        })
        .collect();
    // Sorts by `f64`, because scores close to 1 would be equal as `f32`.
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    candidates.extend(scored.into_iter().map(|(_, candidate)| candidate));
    Ok(())
}

/// Returns the probability whose odds are `factor` times as high.
pub(super) fn scale_odds(probability: f32, factor: f64) -> f64 {
    let probability = f64::from(probability);
    let for_it = probability * factor;
    for_it / (for_it + (1.0 - probability))
}

fn scale_score(score: f32, factor: f64) -> f64 {
    if score < 0.0 { f64::from(score) / factor } else { f64::from(score) * factor }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn boosts_multiply_relevance_odds_and_scale_other_scores() {
        assert!((scale_odds(0.5, 3.0) - 0.75).abs() < 1e-9);
        assert!((scale_odds(0.75, 1.0 / 3.0) - 0.5).abs() < 1e-9);
        assert_eq!((scale_odds(0.0, 1_000.0), scale_odds(1.0, 0.001)), (0.0, 1.0));
        assert_eq!((scale_score(0.5, 2.0), scale_score(-0.5, 2.0), scale_score(-0.5, 0.5)), (1.0, -0.25, -1.0));
    }

    proptest! {
        #[test]
        fn a_boosted_relevance_stays_in_range_and_follows_the_factor(relevance in 0.0_f32..=1.0, factor in 0.001..1_000.0) {
            let moved = scale_odds(relevance, factor);
            prop_assert!((0.0..=1.0).contains(&moved));
            let along_factor = (moved - f64::from(relevance)) * (factor - 1.0);
            prop_assert!(along_factor >= -1e-9, "{} by {} is {}", relevance, factor, moved);
        }

        #[test]
        fn a_larger_factor_never_lowers_a_score(score in -100.0_f32..100.0, less in 0.001..1_000.0, more in 1.0..10.0) {
            prop_assert!(scale_score(score, less * more) >= scale_score(score, less));
        }
    }
}
