//! Estimates the score threshold of pairs from known pairs.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::Candidate;

/// Known translation pairs, and what they say about the others.
#[derive(Debug, Clone, Copy)]
pub enum KnownPairs<'a> {
    /// All translations: a proposed pair that is not among them is wrong. As in BUCC, and in the evaluation in `training`.
    All(&'a HashSet<(u32, u32)>),
    /// Some, each with the only translation of its sentences: a proposed pair is evaluated only if it has a sentence of a known
    /// pair.
    Some(&'a HashSet<(u32, u32)>),
}

/// Precision and recall of pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PairQuality {
    /// Of the evaluated pairs, the share that is known; 0 without any.
    pub precision: f64,
    /// Of the known pairs, the share that is proposed; 0 without any.
    pub recall: f64,
    /// Their harmonic mean.
    pub f1: f64,
}

/// A threshold and the quality of the pairs that reach it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ThresholdFit {
    /// Minimum score of proposed pairs. Finer than scores, so that it can lie between any two.
    pub threshold: f64,
    /// Number of evaluated pairs that reach it.
    pub evaluated: usize,
    /// Their quality.
    pub quality: PairQuality,
}

/// Finds the threshold with the highest F1 for `pairs`, which fall in score: halfway between the last evaluated pair that it
/// accepts and the next one. Of equally good thresholds, the highest; pairs with equal scores are accepted together. `None` if no
/// known pair is proposed at all. The definition is that of the evaluation in `training`, whose known pairs are
/// `KnownPairs::All`.
pub fn best_threshold(pairs: &[Candidate], known: KnownPairs<'_>) -> Option<ThresholdFit> {
    let evaluated_pairs: Vec<&Candidate> = known.evaluated(pairs).collect();
    let mut best: Option<ThresholdFit> = None;
    let mut right = 0;
    for (number, pair) in evaluated_pairs.iter().enumerate() {
        right += usize::from(known.has(pair));
        let next = evaluated_pairs.get(number + 1).map(|next| next.score);
        let evaluated = number + 1;
        let quality = PairQuality::counted(right, evaluated, known.pairs().len());
        if next.is_none_or(|next| next < pair.score) && quality.f1 > best.map_or(0.0, |best| best.quality.f1) {
            let threshold = (f64::from(pair.score) + f64::from(next.unwrap_or(pair.score))) / 2.0;
            best = Some(ThresholdFit { threshold, evaluated, quality });
        }
    }
    best
}

/// The quality of the pairs with at least the score `threshold`.
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
    fn the_threshold_is_the_one_worked_by_hand() {
        // Right, wrong, right, wrong of three known: F1 is 2/4, 2/5, 4/6, 4/7. Halfway between 1.2 and 1.0.
        let proposed = pairs(&[(0, 0, 1.5), (1, 2, 1.3), (2, 2, 1.2), (3, 1, 1.0)]);
        let known = HashSet::from([(0, 0), (2, 2), (9, 9)]);
        check(best_threshold(&proposed, KnownPairs::All(&known)), 1.1, 3, 4.0 / 6.0);
        let quality = evaluate(&proposed, KnownPairs::All(&known), 1.1);
        assert_eq!((quality.precision, quality.recall, quality.f1), (2.0 / 3.0, 2.0 / 3.0, 4.0 / 6.0));
    }

    #[test]
    fn of_some_known_pairs_nothing_is_concluded_about_other_sentences() {
        // 5-5 and 6-6 are not evaluated; 0-3 is wrong, since 0 belongs to 0. Right, wrong, right of two: 2/3, 2/4, 4/5.
        let proposed = pairs(&[(5, 5, 1.9), (0, 0, 1.5), (6, 6, 1.4), (0, 3, 1.3), (2, 2, 1.2), (7, 7, 0.9)]);
        let known = HashSet::from([(0, 0), (2, 2)]);
        check(best_threshold(&proposed, KnownPairs::Some(&known)), 1.2, 3, 4.0 / 5.0);
        // Taken for all, 5-5 and 6-6 would be wrong: 0, 2/4, 2/5, 2/6, 4/7, 4/8.
        check(best_threshold(&proposed, KnownPairs::All(&known)), 1.05, 5, 4.0 / 7.0);
    }

    #[test]
    fn pairs_of_equal_score_stand_or_fall_together() {
        let proposed = pairs(&[(0, 0, 1.5), (1, 2, 1.5), (3, 3, 1.0)]);
        check(best_threshold(&proposed, KnownPairs::All(&HashSet::from([(0, 0)]))), 1.25, 2, 2.0 / 3.0);
    }

    #[test]
    fn of_equally_good_thresholds_the_highest_is_taken() {
        // F1 is 2/3, 2/4, 2/5, 4/6 of two known.
        let proposed = pairs(&[(0, 0, 1.5), (1, 2, 1.4), (3, 2, 1.3), (4, 4, 1.2)]);
        check(best_threshold(&proposed, KnownPairs::All(&HashSet::from([(0, 0), (4, 4)]))), 1.45, 1, 2.0 / 3.0);
    }

    #[test]
    fn where_nothing_known_is_proposed_there_is_no_threshold() {
        let proposed = pairs(&[(0, 1, 1.5)]);
        assert_eq!(best_threshold(&proposed, KnownPairs::All(&HashSet::from([(0, 0)]))), None);
        assert_eq!(best_threshold(&proposed, KnownPairs::All(&HashSet::new())), None);
        assert_eq!(best_threshold(&[], KnownPairs::Some(&HashSet::from([(0, 0)]))), None);
    }

    #[test]
    fn a_threshold_stands_between_neighboring_scores() {
        let (above, below) = (1.5_f32, 1.5_f32.next_down());
        let proposed = pairs(&[(0, 0, above), (1, 2, below)]);
        let fit = best_threshold(&proposed, KnownPairs::All(&HashSet::from([(0, 0)]))).unwrap();
        assert!(f64::from(below) < fit.threshold && fit.threshold < f64::from(above));
    }

    proptest! {
        #[test]
        fn no_other_threshold_is_better(
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
            for score in scores {
                prop_assert!(evaluate(&proposed, known, f64::from(score)).f1 <= best_f1 + 1e-12);
            }
        }
    }
}
