//! Significance of the difference between two search configurations: the paired bootstrap over queries (Efron and Tibshirani,
//! 1993; for retrieval, Sakai, 2006).

use serde::Serialize;

use super::retrieval::mean;
use crate::classify::random::Random;

/// Default number of resamples.
pub const RESAMPLES: usize = 10_000;
/// Default seed.
pub const SEED: u64 = 1;

/// Tolerance for rounding errors when comparing a resampled difference with the observed one.
const ROUNDING: f64 = 1e-9;

/// The difference between the mean scores of two configurations.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// The difference of the means; positive if the second one is better.
    pub difference: f64,
    /// Lower end of the 95% confidence interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The two-sided p-value: the probability of a difference at least as large if the two are equally good.
    pub p: f64,
}

/// Compares two lists of scores of the same queries, in the same order.
///
/// Draws `resamples` samples of all queries, with replacement. The interval contains the middle 95% of the mean differences of
/// the samples. `p` is the share of these means, shifted to have mean 0, that are at least as far from 0 as the observed one.
/// The observed mean is counted as a sample, so `p` is never 0.
pub fn paired_bootstrap(first: &[f64], second: &[f64], resamples: usize, seed: u64) -> Difference {
    debug_assert_eq!(first.len(), second.len(), "scores are of the same queries");
    let differences: Vec<f64> = second.iter().zip(first).map(|(second, first)| second - first).collect();
    let difference = mean(differences.iter().copied());
    if differences.is_empty() || resamples == 0 {
        return Difference { difference, low: difference, high: difference, p: 1.0 };
    }
    let mut random = Random::new(seed);
    let mut means: Vec<f64> = (0..resamples)
        .map(|_| mean((0..differences.len()).map(|_| differences[random.below(differences.len() as u64) as usize])))
        .collect();
    let as_far = means.iter().filter(|drawn| (*drawn - difference).abs() + ROUNDING >= difference.abs()).count();
    means.sort_by(f64::total_cmp);
    let quantile = |share: f64| means[((resamples - 1) as f64 * share).round() as usize];
    let p = (as_far + 1) as f64 / (resamples + 1) as f64;
    Difference { difference, low: quantile(0.025), high: quantile(0.975), p }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_scores_show_no_difference() {
        let scores = [0.0, 100.0, 50.0, 33.3];
        let same = paired_bootstrap(&scores, &scores, 1_000, SEED);
        assert_eq!(same, Difference { difference: 0.0, low: 0.0, high: 0.0, p: 1.0 });
    }

    #[test]
    fn a_difference_that_most_queries_show_is_significant() {
        let first: Vec<f64> = (0..60).map(|query| f64::from(query % 5) * 20.0).collect();
        let second: Vec<f64> =
            first.iter().enumerate().map(|(index, score)| score + if index % 4 == 0 { -5.0 } else { 15.0 }).collect();
        let better = paired_bootstrap(&first, &second, RESAMPLES, SEED);
        assert!((better.difference - 10.0).abs() < 1e-9, "{better:?}");
        assert!(better.low > 7.0 && better.low < 10.0 && better.high > 10.0 && better.high < 13.0, "{better:?}");
        assert!(better.p < 0.001, "{better:?}");
        let worse = paired_bootstrap(&second, &first, RESAMPLES, SEED);
        assert!((worse.difference + 10.0).abs() < 1e-9 && worse.high < 0.0 && worse.p < 0.001, "{worse:?}");
    }

    #[test]
    fn a_difference_in_a_few_queries_is_not_significant() {
        let first = [50.0; 20];
        let mut second = first;
        (second[0], second[1], second[2]) = (100.0, 100.0, 0.0);
        let unclear = paired_bootstrap(&first, &second, RESAMPLES, SEED);
        assert!(unclear.p > 0.2 && unclear.low < 0.0 && unclear.high > 0.0, "{unclear:?}");
    }

    #[test]
    fn random_scores_rarely_show_a_significant_difference() {
        // 200 comparisons of 50 queries with pure noise: about one in twenty has p below 0.05.
        let mut random = Random::new(7);
        let mut draw = || -> Vec<f64> { (0..50).map(|_| random.below(101) as f64).collect() };
        let found = (0..200).filter(|_| paired_bootstrap(&draw(), &draw(), 500, SEED).p < 0.05).count();
        assert!((3..=22).contains(&found), "{found}");
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (first, second) = ([10.0, 20.0, 30.0, 0.0], [20.0, 0.0, 60.0, 40.0]);
        let of = |seed| paired_bootstrap(&first, &second, 100, seed);
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }

    #[test]
    fn a_comparison_without_queries_is_not_significant() {
        assert_eq!(paired_bootstrap(&[], &[], RESAMPLES, SEED).p, 1.0);
    }
}
