//! Maximal marginal relevance (Carbonell and Goldstein, 1998): chooses each next hit to be relevant but different from the hits
//! before it.
//!
//! The next hit is the remaining candidate with the highest `(1 - d) * relevance - d * similarity`. The relevance is the score
//! relative to the best score. The similarity is the cosine with the most similar hit already chosen, comparing their best
//! passages. Both are between 0 and 1. Among equal candidates the earlier one comes first, so the order is deterministic.

use std::collections::HashMap;

use super::hits::Candidate;
use super::preference::preferred_score;
use crate::domain::{Embedding, Language, PassageId};
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;

/// Number of candidates that are reordered, unless the page reaches further. Each is compared with each.
const COMPARED_MIN: usize = 200;

/// Reorders the best candidates for `diversity`. They must be sorted, best first. The page ends at position `end`.
pub(super) fn reorder(
    collection: &OpenCollection,
    candidates: &mut Vec<Candidate>,
    preferred: &[Language],
    (diversity, end): (f32, usize),
) -> Result<(), Error> {
    let rest = candidates.split_off(COMPARED_MIN.max(end).min(candidates.len()));
    let passages: Vec<PassageId> = candidates.iter().map(|candidate| candidate.passage).collect();
    let embeddings: HashMap<PassageId, Embedding> = collection.store.embeddings_of(&passages)?.into_iter().collect();
    // A passage that still waits for its embedding counts as similar to no other.
    let directions: Vec<Vec<f32>> =
        passages.iter().map(|passage| embeddings.get(passage).map(direction).unwrap_or_default()).collect();
    let scores: Vec<f32> = candidates.iter().map(|candidate| preferred_score(candidate, preferred)).collect();
    // The sum of nothing is -0.
    let similar =
        |a: usize, b: usize| directions[a].iter().zip(&directions[b]).map(|(a, b)| a * b).sum::<f32>().clamp(0.0, 1.0) + 0.0;
    let relevances = relevances(&scores);
    let order = diversified(&relevances, diversity, similar);
    let mut remaining: Vec<Option<Candidate>> = candidates.drain(..).map(Some).collect();
    for (index, similarity) in order {
        let Some(mut candidate) = remaining[index].take() else { continue };
        candidate.ranks.similarity = similarity;
        candidates.push(candidate);
    }
    candidates.extend(rest);
    Ok(())
}

/// Scales an embedding to unit length, because callers' own vectors may have any length.
fn direction(embedding: &Embedding) -> Vec<f32> {
    let values = embedding.as_slice();
    let norm = values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    if norm > 0.0 { values.iter().map(|value| (f64::from(*value) / norm) as f32).collect() } else { Vec::new() }
}

/// Returns each score relative to the best one. Negative scores are distances, or cosines of opposite directions, so for those
/// it is the best score divided by the score.
fn relevances(scores: &[f32]) -> Vec<f32> {
    let best = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let part = |score: &f32| match *score {
        score if score == best => 1.0,
        score if best > 0.0 => (score / best).clamp(0.0, 1.0),
        score => (best / score).clamp(0.0, 1.0),
    };
    scores.iter().map(part).collect()
}

/// Returns the positions in their new order, each with its similarity to the most similar one before it.
fn diversified(
    relevances: &[f32],
    diversity: f32,
    similar: impl Fn(usize, usize) -> f32,
) -> impl Iterator<Item = (usize, Option<f32>)> {
    let mut left: Vec<(usize, Option<f32>)> = (0..relevances.len()).map(|index| (index, None)).collect();
    std::iter::from_fn(move || {
        let marginal = |&(index, nearest): &(usize, Option<f32>)| {
            (1.0 - diversity) * relevances[index] - diversity * nearest.unwrap_or_default()
        };
        // `max_by` returns the last of equal elements, so reverse them to get the first.
        let (index, _) = left.iter().map(marginal).enumerate().rev().max_by(|a, b| a.1.total_cmp(&b.1))?;
        let next = left.remove(index);
        for (index, nearest) in &mut left {
            let similarity = similar(*index, next.0);
            *nearest = Some(nearest.map_or(similarity, |nearest| nearest.max(similarity)));
        }
        Some(next)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The topic of each candidate: three have the same, the other two have their own.
    const GROUPS: [u8; 5] = [1, 1, 1, 2, 3];

    #[track_caller]
    fn check(relevances: &[f32; 5], diversity: f32, expect: &[usize]) {
        let similar = |a: usize, b: usize| if GROUPS[a] == GROUPS[b] { 0.9 } else { 0.1 };
        let got: Vec<usize> = diversified(relevances, diversity, similar).map(|(index, _)| index).collect();
        assert_eq!(got, expect, "{diversity}");
    }

    #[test]
    fn higher_diversity_moves_different_candidates_forward() {
        let relevances = [1.0, 0.95, 0.9, 0.6, 0.1];
        check(&relevances, 0.0, &[0, 1, 2, 3, 4]);
        check(&relevances, 0.2, &[0, 1, 2, 3, 4]);
        check(&relevances, 0.4, &[0, 3, 1, 2, 4]);
        check(&relevances, 1.0, &[0, 3, 4, 1, 2]);
    }

    #[test]
    fn ties_keep_their_order() {
        check(&[1.0; 5], 0.5, &[0, 3, 4, 1, 2]);
    }

    #[test]
    fn each_candidate_has_its_highest_similarity_to_those_before_it() {
        let similar = |a: usize, b: usize| (a * b) as f32 / 10.0;
        let got: Vec<_> = diversified(&[1.0, 0.9, 0.8], 0.0, similar).collect();
        assert_eq!(got, [(0, None), (1, Some(0.0)), (2, Some(0.2))]);
    }

    #[test]
    fn relevances_are_relative_to_the_best_score_of_either_sign() {
        assert_eq!(relevances(&[8.0, 4.0, -1.0]), [1.0, 0.5, 0.0]);
        assert_eq!(relevances(&[-1.0, -2.0, -4.0]), [1.0, 0.5, 0.25]);
        assert_eq!(relevances(&[0.0, -2.0]), [1.0, 0.0]);
        assert_eq!(relevances(&[]), [0.0; 0]);
    }
}
