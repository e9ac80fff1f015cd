//! k-nearest-neighbor classification by a vote of labeled neighbors. The caller finds the neighbors; this module does not use
//! an index.

use std::collections::BTreeMap;

use super::ClassifyError;
use super::error::check_temperature;
use crate::domain::{KnnSettings, NeighborWeight};

/// The temperature of the softmax of cosines if neither the settings nor calibration say another.
pub const TEMPERATURE: f32 = 0.07;

#[derive(Debug, Clone, PartialEq)]
pub struct Votes<'a, L> {
    /// Labels with their shares, in descending order of share. Ties are broken by the nearest neighbor, then by the lower label.
    /// A share is the label's votes divided by all votes, 0 to 1. If each neighbor has one label, shares sum to 1.
    pub ranked: Vec<(&'a L, f32)>,
    /// Number of neighbors that voted.
    pub neighbors: usize,
}

/// Counts the votes of `neighbors`, in any order. Each has its cosine with the query and its labels, without repetitions. A
/// neighbor without labels votes for none.
pub fn vote<'a, L: Ord + 'a>(
    neighbors: impl IntoIterator<Item = (f32, &'a [L])>,
    settings: &KnnSettings,
) -> Result<Votes<'a, L>, ClassifyError> {
    let temperature = settings.temperature.unwrap_or(TEMPERATURE);
    if settings.weight == NeighborWeight::Softmax {
        check_temperature(temperature)?;
    }
    let mut voting: Vec<(f32, &'a [L])> = Vec::new();
    for (example, (score, labels)) in neighbors.into_iter().enumerate() {
        if !score.is_finite() {
            return Err(ClassifyError::NotFinite { example });
        }
        if score >= settings.score_min {
            voting.push((score, labels));
        }
    }
    // A sum of floats depends on their order, but the order of neighbors with equal scores must not matter.
    voting.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let nearest = voting.first().map_or(0.0, |(score, _)| *score);
    let mut all = 0.0;
    let mut shares: BTreeMap<&'a L, (f64, f32)> = BTreeMap::new();
    for &(score, labels) in &voting {
        let weight = match settings.weight {
            NeighborWeight::Equal => 1.0,
            NeighborWeight::Score => f64::from(score.max(0.0)),
            NeighborWeight::Softmax => (f64::from(score - nearest) / f64::from(temperature)).exp(),
        };
        all += weight;
        for label in labels {
            shares.entry(label).or_insert((0.0, score)).0 += weight;
        }
    }
    let share = |votes: f64| if all > 0.0 { (votes / all) as f32 } else { 0.0 };
    let shares = shares.into_iter().map(|(label, (votes, nearest))| (label, share(votes), nearest));
    let mut ranked: Vec<(&'a L, f32, f32)> = shares.collect();
    // The sort is stable, and the map is ordered by label.
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.2.total_cmp(&a.2)));
    let ranked = ranked.into_iter().map(|(label, share, _)| (label, share)).collect();
    Ok(Votes { ranked, neighbors: voting.len() })
}

/// Returns the label with the highest score, or the lowest label in a tie. `scores` is indexed by label. `None` if it is empty.
pub fn highest(scores: &[f32]) -> Option<u32> {
    (0..scores.len() as u32).reduce(|best, label| if scores[label as usize] > scores[best as usize] { label } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: KnnSettings = KnnSettings { neighbors: 30, weight: NeighborWeight::Equal, temperature: None, score_min: -1.0 };

    fn softmax(temperature: f32) -> KnnSettings {
        KnnSettings { weight: NeighborWeight::Softmax, temperature: Some(temperature), ..ALL }
    }

    #[track_caller]
    fn check(neighbors: &[(f32, &[u32])], settings: &KnnSettings, expect: &[(u32, f32)]) {
        let ranked = vote(neighbors.iter().copied(), settings).unwrap().ranked;
        assert_eq!(ranked.iter().map(|label| *label.0).collect::<Vec<_>>(), expect.iter().map(|e| e.0).collect::<Vec<_>>());
        assert!(ranked.iter().zip(expect).all(|(label, expect)| (label.1 - expect.1).abs() < 1e-6), "{ranked:?}");
    }

    #[test]
    fn vote_shares_follow_the_weighting_rule() {
        let neighbors: &[(f32, &[u32])] = &[(0.9, &[1]), (0.5, &[2]), (0.4, &[2]), (-0.2, &[3])];
        check(neighbors, &ALL, &[(2, 0.5), (1, 0.25), (3, 0.25)]);
        // 0.9 of 1.8 each: label 1 has the nearer neighbor. A neighbor with a negative cosine has no weight.
        check(neighbors, &KnnSettings { weight: NeighborWeight::Score, ..ALL }, &[(1, 0.5), (2, 0.5), (3, 0.0)]);
        // Weights e⁰ = 1, e^-ln 2 = 1/2 and 1/4 of 7/4.
        let halves: &[(f32, &[u32])] =
            &[(0.9, &[7]), (0.9 - 0.1 * std::f32::consts::LN_2, &[5]), (0.9 - 0.2 * std::f32::consts::LN_2, &[5])];
        check(halves, &softmax(0.1), &[(7, 4.0 / 7.0), (5, 3.0 / 7.0)]);
    }

    #[test]
    fn vote_ties_go_to_the_nearer_neighbor_then_the_lower_label() {
        check(&[(0.4, &[1]), (0.5, &[2]), (0.4, &[3])], &ALL, &[(2, 1.0 / 3.0), (1, 1.0 / 3.0), (3, 1.0 / 3.0)]);
    }

    #[test]
    fn a_neighbor_votes_for_each_of_its_labels() {
        let neighbors: &[(f32, &[u32])] = &[(0.9, &[1, 4]), (0.8, &[4]), (0.7, &[]), (0.6, &[4])];
        check(neighbors, &ALL, &[(4, 0.75), (1, 0.25)]);
    }

    #[test]
    fn only_neighbors_above_the_minimum_score_vote() {
        let neighbors: [(f32, &[u32]); 3] = [(0.3, &[1]), (0.2, &[2]), (0.1, &[1])];
        let voted = |score_min| vote(neighbors, &KnnSettings { score_min, ..ALL }).unwrap();
        assert_eq!(voted(0.2), Votes { ranked: vec![(&1, 0.5), (&2, 0.5)], neighbors: 2 });
        assert_eq!(voted(0.5), Votes { ranked: Vec::new(), neighbors: 0 });
        // A vote without weight gets no share.
        check(&[(-0.5, &[1])], &KnnSettings { weight: NeighborWeight::Score, ..ALL }, &[(1, 0.0)]);
    }

    #[test]
    fn nan_scores_and_a_zero_temperature_are_refused() {
        assert_eq!(vote::<u32>([(f32::NAN, &[][..])], &ALL), Err(ClassifyError::NotFinite { example: 0 }));
        assert!(
            vote::<u32>([], &softmax(0.0)).unwrap_err().to_string().starts_with("temperature: expected a finite number above 0")
        );
    }

    #[test]
    fn highest_returns_the_first_of_tied_scores() {
        assert_eq!((highest(&[0.1, 0.4, 0.4]), highest(&[])), (Some(1), None));
    }

    proptest! {
        #[test]
        fn shares_sum_to_one_and_ignore_the_order_of_neighbors(
            mut neighbors in prop::collection::vec((-1.0_f32..1.0, 0_u32..5), 1..30), temperature in 0.01_f32..2.0,
        ) {
            let settings = softmax(temperature);
            let ranked = |neighbors: &[(f32, u32)]| {
                let labeled = neighbors.iter().map(|(score, label)| (*score, std::slice::from_ref(label)));
                let votes = vote(labeled, &settings).unwrap();
                votes.ranked.into_iter().map(|(label, share)| (*label, share)).collect::<Vec<_>>()
            };
            let before = ranked(&neighbors);
            prop_assert!((before.iter().map(|(_, share)| share).sum::<f32>() - 1.0).abs() < 1e-4);
            neighbors.reverse();
            prop_assert_eq!(ranked(&neighbors), before);
        }
    }
}
