//! Margin scoring of translation candidates (Artetxe and Schwenk, 2019, "Margin-based parallel corpus mining", section 3,
//! equations 1 and 2; EMS, 2024, sections V-C and V-D).
//!
//! Cosines of different sentences are not comparable, because some sentences are near to everything (hubs). So the cosine a of
//! a pair is compared with the average cosine of the neighbors of both:
//!
//! b = Σ cos(x, z) / 2k over the k nearest z of x + Σ cos(y, z) / 2k over the k nearest z of y
//!
//! Neighbors are searched for in the other language. A sentence with fewer than k neighbors uses those that it has. With the
//! margin "ratio", these are the scores of the evaluation in `training`, except for rounding: here they are f32.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{MiningError, NeighborLists};
use crate::domain::ScoredPair;

/// The k of Artetxe and Schwenk, and of the evaluation in `training`.
pub const NEIGHBORS: usize = 4;

/// `ratio`: the cosine of the pair divided by the mean cosine of its neighbors; above 1, the two are nearer to each other than
/// to their neighbors. `distance`: the cosine minus this mean. `absolute`: the cosine itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MarginName)]
pub enum Margin {
    // The papers' choice.
    #[default]
    Ratio,
    Distance,
    Absolute,
}

/// A candidate pair of sentence numbers: 12 bytes.
pub type Candidate = ScoredPair<u32>;

/// Scores pairs by the neighbors in both directions.
#[derive(Debug)]
pub struct MarginScores<'a> {
    forward: &'a NeighborLists,
    backward: &'a NeighborLists,
    margin: Margin,
    /// Mean cosines of the neighborhoods. Empty for `Margin::Absolute`.
    first_means: Vec<f64>,
    second_means: Vec<f64>,
}

impl Margin {
    /// Returns the score of a pair from its cosine and the mean cosines of both neighborhoods. If the average of the means is
    /// not positive, a ratio is not meaningful, and the score is 0.
    pub fn score(self, cosine: f64, first_mean: f64, second_mean: f64) -> f64 {
        let neighborhood = (first_mean + second_mean) / 2.0;
        match self {
            Self::Absolute => cosine,
            Self::Distance => cosine - neighborhood,
            Self::Ratio if neighborhood > 0.0 => cosine / neighborhood,
            Self::Ratio => 0.0,
        }
    }
}

impl<'a> MarginScores<'a> {
    /// `forward` has the neighbors of the first language in the second, `backward` those of the second in the first.
    pub fn new(forward: &'a NeighborLists, backward: &'a NeighborLists, margin: Margin) -> Result<Self, MiningError> {
        if forward.len() != backward.others() || backward.len() != forward.others() {
            return Err(MiningError::Directions {
                forward_queries: forward.len(),
                forward_others: forward.others(),
                backward_queries: backward.len(),
                backward_others: backward.others(),
            });
        }
        let means = |lists: &NeighborLists| match margin {
            Margin::Absolute => Vec::new(),
            Margin::Distance | Margin::Ratio => (0..lists.len()).map(|query| lists.mean_cosine(query)).collect(),
        };
        Ok(Self { forward, backward, margin, first_means: means(forward), second_means: means(backward) })
    }

    /// The numbers of sentences of the two languages.
    pub fn sizes(&self) -> (usize, usize) {
        (self.forward.len(), self.backward.len())
    }

    /// Returns for each sentence of the first language its neighbor with the highest score, or the nearest in a tie. Leaves out
    /// sentences without neighbors.
    pub fn best_forward(&self) -> impl Iterator<Item = Candidate> {
        (0..self.forward.len()).filter_map(|first| highest(self.candidates_of_first(first)))
    }

    /// Like `best_forward`, for each sentence of the second language.
    pub fn best_backward(&self) -> impl Iterator<Item = Candidate> {
        (0..self.backward.len()).filter_map(|second| highest(self.candidates_of_second(second)))
    }

    /// Returns the candidates of one sentence of the first language, nearest first.
    pub(super) fn candidates_of_first(&self, first: usize) -> impl Iterator<Item = Candidate> {
        self.forward.of(first).map(move |(second, cosine)| self.candidate(first as u32, second, cosine))
    }

    /// Returns the candidates of one sentence of the second language, nearest first.
    pub(super) fn candidates_of_second(&self, second: usize) -> impl Iterator<Item = Candidate> {
        self.backward.of(second).map(move |(first, cosine)| self.candidate(first, second as u32, cosine))
    }

    fn candidate(&self, first: u32, second: u32, cosine: f32) -> Candidate {
        let mean = |means: &[f64], number: u32| means.get(number as usize).copied().unwrap_or(0.0);
        let (first_mean, second_mean) = (mean(&self.first_means, first), mean(&self.second_means, second));
        let score = self.margin.score(f64::from(cosine), first_mean, second_mean) as f32;
        Candidate { first, second, score }
    }
}

fn highest(candidates: impl Iterator<Item = Candidate>) -> Option<Candidate> {
    candidates.reduce(|best, candidate| if candidate.score > best.score { candidate } else { best })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mining::neighbors::tests_support::both_ways;

    #[track_caller]
    fn check(found: impl Iterator<Item = Candidate>, expect: &[(u32, u32, f32)]) {
        let found: Vec<Candidate> = found.collect();
        assert_eq!(found.len(), expect.len(), "{found:?}");
        for (pair, &(first, second, score)) in found.iter().zip(expect) {
            assert_eq!((pair.first, pair.second), (first, second), "{found:?}");
            assert!((pair.score - score).abs() < 1e-6, "{found:?}");
        }
    }

    #[test]
    fn scores_compare_cosines_with_both_neighborhoods() {
        //          b0=(1,0)  b1=(0.6,0.8)     mean
        // a0=(1,0)    1        0.6             0.8
        // a1=(0.8,.6) 0.8      0.96            0.88
        // mean        0.9      0.78
        // a0-b0: 1 / ((0.8 + 0.9) / 2) = 1.1764706, 1 - 0.85 = 0.15; a1-b1: 0.96 / 0.83 = 1.1566265, 0.96 - 0.83 = 0.13.
        let (forward, backward) = both_ways(&[&[1.0, 0.6], &[0.8, 0.96]], 2);
        let scores = |margin| MarginScores::new(&forward, &backward, margin).unwrap();
        check(scores(Margin::Ratio).best_forward(), &[(0, 0, 1.176_470_6), (1, 1, 1.156_626_5)]);
        check(scores(Margin::Ratio).best_backward(), &[(0, 0, 1.176_470_6), (1, 1, 1.156_626_5)]);
        check(scores(Margin::Distance).best_forward(), &[(0, 0, 0.15), (1, 1, 0.13)]);
        check(scores(Margin::Absolute).best_forward(), &[(0, 0, 1.0), (1, 1, 0.96)]);
        // a1-b0: 0.8 / 0.89 = 0.8988764, after the nearer b1.
        check(scores(Margin::Ratio).candidates_of_first(1), &[(1, 1, 1.156_626_5), (1, 0, 0.898_876_4)]);
    }

    #[test]
    fn ratio_and_distance_margins_penalize_hubs() {
        //             b0=(0.96,0.28)  b1=(0.6,0.8)    mean
        // a0=(0.8,0.6)    0.936          0.96          0.948
        // a1=(0.6,0.8)    0.8            1             0.9
        // a2=(0.28,0.96)  0.5376         0.936         0.7368
        // mean            0.7578667      0.9653333
        // By cosine a0 goes to b1 (0.96 > 0.936). By margin to b0: 0.936 / ((0.948 + 0.7578667) / 2) = 1.0973894 >
        // 0.96 / ((0.948 + 0.9653333) / 2) = 1.0034843; by distance too: 0.0830667 > 0.0033333.
        let (forward, backward) = both_ways(&[&[0.936, 0.96], &[0.8, 1.0], &[0.5376, 0.936]], 3);
        let first = |margin| MarginScores::new(&forward, &backward, margin).unwrap().best_forward().take(1).collect::<Vec<_>>();
        check(first(Margin::Ratio).into_iter(), &[(0, 0, 1.097_389_4)]);
        check(first(Margin::Distance).into_iter(), &[(0, 0, 0.083_066_7)]);
        check(first(Margin::Absolute).into_iter(), &[(0, 1, 0.96)]);
    }

    #[test]
    fn only_nearest_neighbors_are_candidates() {
        // The neighborhood of a0 is b1 alone, that of b0 and b1 is a0. a0-b1: 0.8 / ((0.8 + 0.8) / 2) = 1;
        // a0-b0: 0.6 / ((0.8 + 0.6) / 2) = 0.8571429.
        let (forward, backward) = both_ways(&[&[0.6, 0.8]], 1);
        let scores = MarginScores::new(&forward, &backward, Margin::Ratio).unwrap();
        check(scores.best_forward(), &[(0, 1, 1.0)]);
        check(scores.best_backward(), &[(0, 0, 0.857_142_9), (0, 1, 1.0)]);
    }

    #[test]
    fn ties_go_to_the_first_neighbor_and_isolated_sentences_are_skipped() {
        let mut forward = NeighborLists::new(2, 2, 2).unwrap();
        forward.put(1, &[(1, 0.5), (0, 0.5)]).unwrap();
        let backward = NeighborLists::new(2, 2, 2).unwrap();
        let scores = MarginScores::new(&forward, &backward, Margin::Ratio).unwrap();
        // Sentences of the second language have no neighbors: 0.5 / ((0.5 + 0) / 2) = 2.
        check(scores.best_forward(), &[(1, 0, 2.0)]);
        check(scores.best_backward(), &[]);
    }

    #[test]
    fn ratio_is_zero_over_a_negative_neighborhood_but_distance_is_not() {
        assert_eq!(Margin::Ratio.score(-0.5, -0.5, -0.5), 0.0);
        assert_eq!(Margin::Ratio.score(0.5, 0.5, 0.0), 2.0);
        assert_eq!(Margin::Distance.score(-0.5, -0.5, -1.0), 0.25);
    }

    #[test]
    fn mismatched_forward_and_backward_lists_are_refused() {
        let (forward, backward) = (NeighborLists::new(2, 3, 1).unwrap(), NeighborLists::new(3, 3, 1).unwrap());
        let error = MarginScores::new(&forward, &backward, Margin::Ratio).unwrap_err().to_string();
        assert_eq!(error, "forward is from 2 sentences to 3, backward from 3 to 3");
    }
}
