//! Ratio margin scoring of candidates (Artetxe and Schwenk, 2019, equations 1 and 2; EMS, section V-C): divides the cosine of
//! target and passage by the mean cosine of both with their neighbors.
//!
//! Some passages are near to everything, and cosines across languages are lower than within one language. The neighborhood
//! shows how much a cosine means for a particular passage. Mining looks for neighbors in the other language. A search has no
//! other language, so it looks for neighbors in the whole collection.

use std::collections::HashMap;

use super::fusion::sort;
use super::hits::Candidate;
use crate::domain::{Embedding, PassageId, SearchParameters};
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;
use crate::storage::{NearestSearch, Scope};
use crate::store::SearchFilter;

/// Replaces the scores of candidates and sorts them by the new scores. The candidates must be sorted by their cosines. A
/// neighborhood has `k` neighbors, or as many as there are.
pub(super) fn rescore(
    collection: &OpenCollection,
    candidates: &mut Vec<Candidate>,
    k: usize,
    parameters: SearchParameters,
) -> Result<(), Error> {
    let around_target = mean(candidates.iter().map(|candidate| candidate.score).take(k));
    let passages: Vec<PassageId> = candidates.iter().map(|candidate| candidate.passage).collect();
    let embeddings: HashMap<PassageId, Embedding> = collection.store.embeddings_of(&passages)?.into_iter().collect();
    // A passage that was deleted in the meantime has no embedding to score.
    candidates.retain(|candidate| embeddings.contains_key(&candidate.passage));
    let (everywhere, ef_search) = (SearchFilter::default(), collection.current().hnsw.ef_search);
    let scope = Scope { filter: &everywhere, words: None };
    for candidate in candidates.iter_mut() {
        let Some(embedding) = embeddings.get(&candidate.passage) else { continue };
        let search = NearestSearch { parameters, ..NearestSearch::passages(embedding, k + 1, scope, ef_search) };
        let near = collection.store.nearest(&search)?.neighbors;
        let others = near.iter().filter(|neighbor| neighbor.passage != candidate.passage);
        let around_passage = mean(others.map(|neighbor| neighbor.score).take(k));
        candidate.score = ratio(candidate.score, around_target, around_passage);
    }
    sort(candidates);
    Ok(())
}

fn mean(scores: impl Iterator<Item = f32>) -> Option<f32> {
    let (sum, count) = scores.fold((0.0, 0usize), |(sum, count), score| (sum + score, count + 1));
    (count > 0).then(|| sum / count as f32)
}

/// Computes the "ratio" margin. A passage that is alone in its collection uses the neighborhood of the target. If the mean
/// cosine is not positive, the ratio is meaningless, so it is 0.
fn ratio(cosine: f32, around_target: Option<f32>, around_passage: Option<f32>) -> f32 {
    let Some(around_target) = around_target else { return 0.0 };
    let neighborhood = (around_target + around_passage.unwrap_or(around_target)) / 2.0;
    if neighborhood > 0.0 { cosine / neighborhood } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cosine: f32, around_target: &[f32], around_passage: &[f32], expect: f32) {
        let [target, passage] = [around_target, around_passage].map(|scores| mean(scores.iter().copied()));
        let got = ratio(cosine, target, passage);
        assert!((got - expect).abs() < 1e-6, "{got}, not {expect}");
    }

    #[test]
    fn the_ratio_divides_the_cosine_by_the_mean_neighborhood() {
        check(0.8, &[0.8, 0.4], &[0.5, 0.3], 0.8 / ((0.6 + 0.4) / 2.0));
        check(0.5, &[0.5], &[0.9, 0.9], 0.5 / 0.7);
    }

    #[test]
    fn the_ratio_is_zero_without_a_positive_neighborhood() {
        check(0.6, &[0.6, 0.2], &[], 1.5);
        check(0.5, &[0.1], &[-0.3], 0.0);
        check(0.5, &[], &[], 0.0);
    }
}
