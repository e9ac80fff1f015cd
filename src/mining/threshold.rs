//! Estimates the score threshold from known pairs.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::Candidate;

/// Known translation pairs: all or some of them.
#[derive(Debug, Clone, Copy)]
pub enum KnownPairs<'a> {
    /// All translations: any other proposed pair is wrong. As in BUCC and the evaluation in `training`.
    All(&'a HashSet<(u32, u32)>),
    /// A sample of the translations, each the only one of its sentences. A proposed pair is only evaluated if it has a sentence
    /// of a known pair, so precision is too high if other sentences have no translation.
    Some(&'a HashSet<(u32, u32)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairQuality {
    /// The share of known pairs among the evaluated ones; 0 without any.
    pub precision: f64,
    /// The share of proposed pairs among the known ones; 0 without any.
    pub recall: f64,
    pub f1: f64,
}

/// A threshold and the quality of the pairs that reach it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThresholdFit {
    /// Minimum score of accepted pairs. An f64, so that it can lie between any two f32 scores.
    pub threshold: f64,
    /// Number of evaluated pairs that reach it.
    pub evaluated: usize,
    pub quality: PairQuality,
}

/// Finds the best threshold for `pairs`, which must be in descending order of score: with `KnownPairs::All` the one with the
/// highest F1, with `KnownPairs::Some` the one with the highest estimated product of precision and recall. In a tie, it is the
/// highest; pairs with equal scores are accepted together. Returns `None` if no known pair is proposed.
pub fn best_threshold(pairs: &[Candidate], known: KnownPairs<'_>) -> Option<ThresholdFit> {
    match known {
        KnownPairs::All(_) => highest_f1(pairs, known),
        KnownPairs::Some(_) => highest_product(pairs, known),
    }
}

/// The definition of the evaluation in `training`. The threshold is halfway between the last pair that it accepts and the next.
fn highest_f1(pairs: &[Candidate], known: KnownPairs<'_>) -> Option<ThresholdFit> {
    let mut best: Option<ThresholdFit> = None;
    let mut right = 0;
    for (number, pair) in pairs.iter().enumerate() {
        right += usize::from(known.has(pair));
        let next = pairs.get(number + 1).map(|next| next.score);
        let evaluated = number + 1;
        let quality = PairQuality::counted(right, evaluated, known.pairs().len());
        if next.is_none_or(|next| next < pair.score) && quality.f1 > best.map_or(0.0, |best| best.quality.f1) {
            let threshold = (f64::from(pair.score) + f64::from(next.unwrap_or(pair.score))) / 2.0;
            best = Some(ThresholdFit { threshold, evaluated, quality });
        }
    }
    best
}

/// The criterion of Lee and Liu (2003, "Learning with positive and unlabeled examples using weighted logistic regression").
///
/// Let a threshold accept A pairs and the share R of the known ones, and let there be N translations, most of them unknown. If
/// the known ones are a random sample, about R N of the A pairs are right: the precision is R N / A, the recall R, and their
/// product R² N / A. N is the same for each threshold, so it need not be known. The threshold is the score of a known pair,
/// which does not count in R: it is accepted in any case.
fn highest_product(pairs: &[Candidate], known: KnownPairs<'_>) -> Option<ThresholdFit> {
    let mut best: Option<(f64, f64)> = None;
    let mut right = 0_usize;
    for (number, pair) in pairs.iter().enumerate() {
        right += usize::from(known.has(pair));
        let is_last_of_score = pairs.get(number + 1).is_none_or(|next| next.score < pair.score);
        let others = right.saturating_sub(1) as f64;
        let product = others * others / (number + 1) as f64;
        if is_last_of_score && right > 0 && best.is_none_or(|(highest, _)| product > highest) {
            best = Some((product, f64::from(pair.score)));
        }
    }
    let (_, threshold) = best?;
    let evaluated = known.evaluated(pairs).filter(|pair| f64::from(pair.score) >= threshold).count();
    Some(ThresholdFit { threshold, evaluated, quality: evaluate(pairs, known, threshold) })
}

/// Evaluates the pairs with a score of at least `threshold`.
pub fn evaluate(pairs: &[Candidate], known: KnownPairs<'_>, threshold: f64) -> PairQuality {
    let proposed = known.evaluated(pairs).filter(|pair| f64::from(pair.score) >= threshold);
    let (count, right) = proposed.fold((0, 0), |(count, right), pair| (count + 1, right + usize::from(known.has(pair))));
    PairQuality::counted(right, count, known.pairs().len())
}

impl<'a> KnownPairs<'a> {
    fn pairs(self) -> &'a HashSet<(u32, u32)> {
        match self {
            Self::All(pairs) | Self::Some(pairs) => pairs,
        }
    }

    fn has(self, pair: &Candidate) -> bool {
        self.pairs().contains(&(pair.first, pair.second))
    }

    fn evaluated(self, candidates: &[Candidate]) -> impl Iterator<Item = &Candidate> {
        let touched = match self {
            Self::All(_) => None,
            Self::Some(pairs) => {
                let firsts: HashSet<u32> = pairs.iter().map(|(first, _)| *first).collect();
                let seconds: HashSet<u32> = pairs.iter().map(|(_, second)| *second).collect();
                Some((firsts, seconds))
            }
        };
        candidates.iter().filter(move |pair| {
            let touches =
                |(firsts, seconds): &(HashSet<u32>, HashSet<u32>)| firsts.contains(&pair.first) || seconds.contains(&pair.second);
            touched.as_ref().is_none_or(touches)
        })
    }
}

impl PairQuality {
    fn counted(right: usize, evaluated: usize, known: usize) -> Self {
        let share = |part: usize, of: usize| if of == 0 { 0.0 } else { part as f64 / of as f64 };
        Self { precision: share(right, evaluated), recall: share(right, known), f1: share(2 * right, evaluated + known) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pairs(pairs: &[(u32, u32, f32)]) -> Vec<Candidate> {
        pairs.iter().map(|&(first, second, score)| Candidate { first, second, score }).collect()
    }

    #[track_caller]
    fn check(found: Option<ThresholdFit>, threshold: f64, evaluated: usize, f1: f64) {
        let fit = found.unwrap();
        assert!((fit.threshold - threshold).abs() < 1e-6, "{fit:?}");
        assert!(fit.evaluated == evaluated && (fit.quality.f1 - f1).abs() < 1e-9, "{fit:?}");
    }

    #[test]
    fn the_best_threshold_matches_the_hand_computed_one() {
        // Correct, wrong, correct, wrong, with three known pairs: F1 is 2/4, 2/5, 4/6, 4/7. The threshold is halfway between
        // 1.2 and 1.0.
        let proposed = pairs(&[(0, 0, 1.5), (1, 2, 1.3), (2, 2, 1.2), (3, 1, 1.0)]);
        let known = HashSet::from([(0, 0), (2, 2), (9, 9)]);
        check(best_threshold(&proposed, KnownPairs::All(&known)), 1.1, 3, 4.0 / 6.0);
        let quality = evaluate(&proposed, KnownPairs::All(&known), 1.1);
        assert_eq!((quality.precision, quality.recall, quality.f1), (2.0 / 3.0, 2.0 / 3.0, 4.0 / 6.0));
    }

    #[test]
    fn with_some_known_pairs_other_sentences_are_not_evaluated() {
        // 5-5 and 6-6 are not evaluated; 0-3 is wrong, because 0 belongs to 0. Correct, wrong, correct, with two known pairs:
        // 2/3, 2/4, 4/5.
        let proposed = pairs(&[(5, 5, 1.9), (0, 0, 1.5), (6, 6, 1.4), (0, 3, 1.3), (2, 2, 1.2), (7, 7, 0.9)]);
        let known = HashSet::from([(0, 0), (2, 2)]);
        check(best_threshold(&proposed, KnownPairs::Some(&known)), 1.2, 3, 4.0 / 5.0);
        // With `KnownPairs::All`, 5-5 and 6-6 are wrong: 0, 2/4, 2/5, 2/6, 4/7, 4/8.
        check(best_threshold(&proposed, KnownPairs::All(&known)), 1.05, 5, 4.0 / 7.0);
    }

    #[test]
    fn a_sample_of_known_pairs_keeps_out_pairs_of_sentences_without_a_translation() {
        // Twenty pairs of sentences that nothing is known about lie between the third known pair and the fourth. With one known
        // pair left out, the products are 0, 1/2, 4/3 and 9/24.
        let unknown = (10..30).map(|n| (n, n, 1.3));
        let known_ones = [(0, 0, 1.9), (1, 1, 1.8), (2, 2, 1.7)].into_iter();
        let proposed = pairs(&known_ones.chain(unknown).chain([(3, 3, 1.1)]).collect::<Vec<_>>());
        let known = HashSet::from([(0, 0), (1, 1), (2, 2), (3, 3)]);
        check(best_threshold(&proposed, KnownPairs::Some(&known)), 1.7, 3, 6.0 / 7.0);
        check(best_threshold(&proposed, KnownPairs::All(&known)), 1.5, 3, 6.0 / 7.0);
    }

    #[test]
    fn a_sample_accepts_pairs_of_equal_score_together() {
        // The products are 0 after the first pair, and 1/4 after all four, not 1/2 after the second.
        let proposed = pairs(&[(0, 0, 1.5), (1, 1, 1.4), (8, 8, 1.4), (9, 9, 1.4)]);
        check(best_threshold(&proposed, KnownPairs::Some(&HashSet::from([(0, 0), (1, 1)]))), 1.4, 2, 1.0);
        check(best_threshold(&proposed, KnownPairs::Some(&HashSet::from([(1, 1)]))), 1.4, 1, 1.0);
    }

    #[test]
    fn ties_fall_on_the_same_side_of_the_threshold() {
        let proposed = pairs(&[(0, 0, 1.5), (1, 2, 1.5), (3, 3, 1.0)]);
        check(best_threshold(&proposed, KnownPairs::All(&HashSet::from([(0, 0)]))), 1.25, 2, 2.0 / 3.0);
    }

    #[test]
    fn ties_take_the_highest_threshold() {
        // With two known pairs, F1 is 2/3, 2/4, 2/5, 4/6.
        let proposed = pairs(&[(0, 0, 1.5), (1, 2, 1.4), (3, 2, 1.3), (4, 4, 1.2)]);
        check(best_threshold(&proposed, KnownPairs::All(&HashSet::from([(0, 0), (4, 4)]))), 1.45, 1, 2.0 / 3.0);
    }

    #[test]
    fn there_is_no_threshold_if_no_known_pair_is_proposed() {
        let proposed = pairs(&[(0, 1, 1.5)]);
        assert_eq!(best_threshold(&proposed, KnownPairs::All(&HashSet::from([(0, 0)]))), None);
        assert_eq!(best_threshold(&proposed, KnownPairs::All(&HashSet::new())), None);
        assert_eq!(best_threshold(&[], KnownPairs::Some(&HashSet::from([(0, 0)]))), None);
    }

    #[test]
    fn a_threshold_lies_strictly_between_adjacent_floats() {
        let (above, below) = (1.5_f32, 1.5_f32.next_down());
        let proposed = pairs(&[(0, 0, above), (1, 2, below)]);
        let fit = best_threshold(&proposed, KnownPairs::All(&HashSet::from([(0, 0)]))).unwrap();
        assert!(f64::from(below) < fit.threshold && fit.threshold < f64::from(above));
    }

    proptest! {
        #[test]
        fn no_other_threshold_is_better_and_that_of_a_sample_is_a_known_score(
            scores in prop::collection::vec(1_u8..20, 1..30), known in prop::collection::hash_set((0_u32..30).prop_map(|n| (n, n)), 0..20),
            part: bool,
        ) {
            let mut scores = scores;
            scores.sort_unstable_by(|a, b| b.cmp(a));
            let proposed: Vec<Candidate> =
                (0..).zip(&scores).map(|(n, score)| Candidate { first: n, second: n ^ (n & 1), score: f32::from(*score) }).collect();
            let known = if part { KnownPairs::Some(&known) } else { KnownPairs::All(&known) };
            let best = best_threshold(&proposed, known);
            let best_f1 = best.map_or(0.0, |best| best.quality.f1);
            if let Some(best) = best {
                prop_assert_eq!(evaluate(&proposed, known, best.threshold), best.quality);
            }
            if part {
                let is_known_score = |best: ThresholdFit| {
                    proposed.iter().any(|pair| known.has(pair) && f64::from(pair.score) == best.threshold)
                };
                prop_assert!(best.is_none_or(is_known_score));
                return Ok(());
            }
            for score in scores {
                prop_assert!(evaluate(&proposed, known, f64::from(score)).f1 <= best_f1 + 1e-12);
            }
        }
    }
}
