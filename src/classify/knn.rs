//! k-nearest-neighbor classification by a vote of labeled neighbors. The caller finds the neighbors; this module does not use
//! an index.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::ClassifyError;

/// A neighbor and its labels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabeledNeighbor<'a> {
    /// Its cosine with the query.
    pub score: f32,
    /// The numbers of its labels, without repetitions. A neighbor without labels votes for none.
    pub labels: &'a [u32],
}

/// The weight of a neighbor's vote.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum VoteWeight {
    /// All votes have the same weight.
    Equal,
    /// The weight is the score; 0 for negative scores.
    Score,
    /// e to the power of its score divided by the temperature. The lower the temperature, the more weight the nearest have.
    Softmax {
        /// Above 0. Because scores are cosines, 0.05 to 0.1 is usual.
        temperature: f32,
    },
}

/// The rule for counting votes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VoteRule {
    /// The weight of votes.
    pub weight: VoteWeight,
    /// Neighbors below this score do not vote; with -1, all vote.
    pub score_min: f32,
}

/// The result of a vote.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Votes {
    /// Labels in descending order of share. Ties are broken by the nearest neighbor, then by the lower label.
    pub ranked: Vec<LabelShare>,
    /// Number of neighbors that voted.
    pub neighbors: usize,
}

/// A label's share of the votes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LabelShare {
    /// The number of the label.
    pub label: u32,
    /// Its votes divided by all votes, 0 to 1. If each neighbor has one label, shares sum to 1.
    pub share: f32,
    /// The score of its nearest neighbor.
    pub nearest: f32,
}

/// Counts the votes of `neighbors`, in any order.
pub fn vote<'a>(neighbors: impl IntoIterator<Item = LabeledNeighbor<'a>>, rule: &VoteRule) -> Result<Votes, ClassifyError> {
    if let VoteWeight::Softmax { temperature } = rule.weight
        && !(temperature.is_finite() && temperature > 0.0)
    {
        let expected = "a finite number above 0".to_owned();
        return Err(ClassifyError::Parameter { name: "temperature", expected, got: temperature.to_string() });
    }
    let mut voting: Vec<LabeledNeighbor<'a>> = Vec::new();
    for (example, neighbor) in neighbors.into_iter().enumerate() {
        if !neighbor.score.is_finite() {
            return Err(ClassifyError::NotFinite { example });
        }
        if rule.lets_vote(neighbor.score) {
            voting.push(neighbor);
        }
    }
    // A sum of floats depends on their order, but the order of neighbors with equal scores must not matter.
    voting.sort_by(|a, b| b.score.total_cmp(&a.score).then_with(|| a.labels.cmp(b.labels)));
    let nearest = voting.first().map_or(0.0, |neighbor| neighbor.score);
    let mut all = 0.0;
    let mut shares: BTreeMap<u32, (f64, f32)> = BTreeMap::new();
    for neighbor in &voting {
        let weight = match rule.weight {
            VoteWeight::Equal => 1.0,
            VoteWeight::Score => f64::from(neighbor.score.max(0.0)),
            VoteWeight::Softmax { temperature } => (f64::from(neighbor.score - nearest) / f64::from(temperature)).exp(),
        };
        all += weight;
        for label in neighbor.labels {
            shares.entry(*label).or_insert((0.0, neighbor.score)).0 += weight;
        }
    }
    let share = |votes: f64| if all > 0.0 { (votes / all) as f32 } else { 0.0 };
    let shares = shares.into_iter().map(|(label, (votes, nearest))| LabelShare { label, share: share(votes), nearest });
    let mut ranked: Vec<LabelShare> = shares.collect();
    ranked.sort_by(more_votes_first);
    Ok(Votes { ranked, neighbors: voting.len() })
}

impl VoteRule {
    /// Whether a neighbor with this score votes.
    pub fn lets_vote(&self, score: f32) -> bool {
        score >= self.score_min
    }
}

impl Votes {
    /// Returns the label with the most votes. Abstains with `None` if no neighbor voted, if no label has a share of at least
    /// `share_min`, or if all votes have weight 0.
    pub fn winner(&self, share_min: f32) -> Option<u32> {
        self.ranked.first().filter(|best| best.share > 0.0 && best.share >= share_min).map(|best| best.label)
    }

    /// Returns all labels with a share of at least `share_min`, ascending; for neighbors with any number of labels. Abstains
    /// with `None` if no neighbor voted.
    pub fn winners(&self, share_min: f32) -> Option<Vec<u32>> {
        let chosen = self.ranked.iter().filter(|label| label.share > 0.0 && label.share >= share_min);
        let mut labels: Vec<u32> = chosen.map(|label| label.label).collect();
        labels.sort_unstable();
        (self.neighbors > 0).then_some(labels)
    }
}

/// Returns the label with the highest score, or the lowest label in a tie. `scores` is indexed by label. `None` if it is empty.
pub fn highest(scores: &[f32]) -> Option<u32> {
    (0..scores.len() as u32).reduce(|best, label| if scores[label as usize] > scores[best as usize] { label } else { best })
}

fn more_votes_first(a: &LabelShare, b: &LabelShare) -> Ordering {
    b.share.total_cmp(&a.share).then(b.nearest.total_cmp(&a.nearest)).then(a.label.cmp(&b.label))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: VoteRule = VoteRule { weight: VoteWeight::Equal, score_min: -1.0 };

    fn votes(neighbors: &[(f32, &[u32])], rule: &VoteRule) -> Votes {
        vote(neighbors.iter().map(|&(score, labels)| LabeledNeighbor { score, labels }), rule).unwrap()
    }

    #[track_caller]
    fn check(neighbors: &[(f32, &[u32])], rule: &VoteRule, expect: &[(u32, f32)]) {
        let ranked = votes(neighbors, rule).ranked;
        assert_eq!(ranked.iter().map(|label| label.label).collect::<Vec<_>>(), expect.iter().map(|e| e.0).collect::<Vec<_>>());
        assert!(ranked.iter().zip(expect).all(|(label, expect)| (label.share - expect.1).abs() < 1e-6), "{ranked:?}");
    }

    #[test]
    fn vote_shares_follow_the_weighting_rule() {
        let neighbors: &[(f32, &[u32])] = &[(0.9, &[1]), (0.5, &[2]), (0.4, &[2]), (-0.2, &[3])];
        check(neighbors, &ALL, &[(2, 0.5), (1, 0.25), (3, 0.25)]);
        // 0.9 of 1.8 each: label 1 has the nearer neighbor. A neighbor with a negative cosine has no weight.
        check(neighbors, &VoteRule { weight: VoteWeight::Score, ..ALL }, &[(1, 0.5), (2, 0.5), (3, 0.0)]);
        // Weights e⁰ = 1, e^-ln 2 = 1/2 and 1/4 of 7/4.
        let halves: &[(f32, &[u32])] =
            &[(0.9, &[7]), (0.9 - 0.1 * std::f32::consts::LN_2, &[5]), (0.9 - 0.2 * std::f32::consts::LN_2, &[5])];
        let softmax = VoteRule { weight: VoteWeight::Softmax { temperature: 0.1 }, ..ALL };
        check(halves, &softmax, &[(7, 4.0 / 7.0), (5, 3.0 / 7.0)]);
    }

    #[test]
    fn vote_ties_go_to_the_nearer_neighbor_then_the_lower_label() {
        check(&[(0.4, &[1]), (0.5, &[2]), (0.4, &[3])], &ALL, &[(2, 1.0 / 3.0), (1, 1.0 / 3.0), (3, 1.0 / 3.0)]);
    }

    #[test]
    fn a_neighbor_votes_for_each_of_its_labels() {
        let neighbors: &[(f32, &[u32])] = &[(0.9, &[1, 4]), (0.8, &[4]), (0.7, &[]), (0.6, &[4])];
        check(neighbors, &ALL, &[(4, 0.75), (1, 0.25)]);
        let votes = votes(neighbors, &ALL);
        assert_eq!((votes.winners(0.5), votes.winners(0.25)), (Some(vec![4]), Some(vec![1, 4])));
        assert_eq!(votes.winners(0.8), Some(vec![]));
    }

    #[test]
    fn abstains_when_shares_or_scores_are_too_low() {
        let neighbors: &[(f32, &[u32])] = &[(0.3, &[1]), (0.2, &[2]), (0.1, &[1])];
        assert_eq!(votes(neighbors, &ALL).winner(0.6), Some(1));
        assert_eq!(votes(neighbors, &ALL).winner(0.7), None);
        let strict = votes(neighbors, &VoteRule { score_min: 0.5, ..ALL });
        assert_eq!((strict.neighbors, strict.winner(0.0), strict.winners(0.0)), (0, None, None));
        let away = votes(&[(-0.5, &[1])], &VoteRule { weight: VoteWeight::Score, ..ALL });
        assert_eq!(away.winner(0.0), None);
        assert_eq!(votes(&[], &ALL), Votes::default());
    }

    #[test]
    fn nan_scores_and_a_zero_temperature_are_rejected() {
        let nan = [LabeledNeighbor { score: f32::NAN, labels: &[] }];
        assert_eq!(vote(nan, &ALL), Err(ClassifyError::NotFinite { example: 0 }));
        let cold = VoteRule { weight: VoteWeight::Softmax { temperature: 0.0 }, ..ALL };
        assert!(vote([], &cold).unwrap_err().to_string().starts_with("temperature: expected a finite number above 0"));
    }

    #[test]
    fn highest_returns_the_first_of_equal_scores() {
        assert_eq!((highest(&[0.1, 0.4, 0.4]), highest(&[])), (Some(1), None));
    }

    proptest! {
        #[test]
        fn shares_sum_to_one_and_ignore_the_order_of_neighbors(
            mut neighbors in prop::collection::vec((-1.0_f32..1.0, 0_u32..5), 1..30), temperature in 0.01_f32..2.0,
        ) {
            let rule = VoteRule { weight: VoteWeight::Softmax { temperature }, ..ALL };
            let count = |neighbors: &[(f32, u32)]| {
                let labeled = neighbors.iter().map(|(score, label)| LabeledNeighbor { score: *score, labels: std::slice::from_ref(label) });
                vote(labeled, &rule).unwrap()
            };
            let votes = count(&neighbors);
            prop_assert!((votes.ranked.iter().map(|label| label.share).sum::<f32>() - 1.0).abs() < 1e-4);
            neighbors.reverse();
            prop_assert_eq!(count(&neighbors), votes);
        }
    }
}
