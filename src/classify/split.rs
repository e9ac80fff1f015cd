//! Stratified split: holds out examples of each class for validation, in proportion.

use std::collections::BTreeMap;

use super::ClassifyError;
use super::random::Random;

/// The stratum of examples without a label.
const UNLABELED: u32 = u32::MAX;

/// Example numbers, ascending; each example is in exactly one part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    pub train: Vec<u32>,
    /// To validate on; may be empty.
    pub validation: Vec<u32>,
}

/// Holds out `validation_share` (0 to below 1) of the examples, given the class of each.
///
/// The number of held-out examples is rounded to the nearest integer and apportioned to classes by the largest remainder, with
/// ties to the lower class. Each class keeps at least one training example, so a class with one example is never held out, and
/// fewer examples are held out if there are not enough. The seed determines which examples of a class are held out.
pub fn stratified_split(strata: &[u32], validation_share: f64, seed: u64) -> Result<Split, ClassifyError> {
    if !(0.0..1.0).contains(&validation_share) {
        let expected = "a share from 0 to below 1".to_owned();
        return Err(ClassifyError::Parameter { name: "validation_share", expected, got: validation_share.to_string() });
    }
    let mut members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (example, stratum) in strata.iter().enumerate() {
        members.entry(*stratum).or_default().push(example as u32);
    }
    let sizes: Vec<usize> = members.values().map(Vec::len).collect();
    let mut random = Random::new(seed);
    let mut split = Split { train: Vec::new(), validation: Vec::new() };
    for (mut members, apart) in members.into_values().zip(apportion(&sizes, validation_share)) {
        random.shuffle(&mut members);
        split.validation.extend_from_slice(&members[..apart]);
        split.train.extend_from_slice(&members[apart..]);
    }
    split.train.sort_unstable();
    split.validation.sort_unstable();
    Ok(split)
}

/// Returns the stratum of each multi-label example: its rarest label, or the lowest in a tie. Examples without labels are a
/// separate stratum. A random split would lose rare labels.
pub fn strata_of_label_sets(sets: &[Vec<u32>]) -> Vec<u32> {
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for label in sets.iter().flatten() {
        *counts.entry(*label).or_default() += 1;
    }
    let rarest = |set: &Vec<u32>| set.iter().copied().min_by_key(|label| (counts[label], *label)).unwrap_or(UNLABELED);
    sets.iter().map(rarest).collect()
}

/// Returns how many examples of each class to hold out.
fn apportion(sizes: &[usize], share: f64) -> Vec<usize> {
    let total = (sizes.iter().sum::<usize>() as f64 * share).round() as usize;
    let quotas: Vec<f64> = sizes.iter().map(|size| *size as f64 * share).collect();
    // A share below 1 of a class, rounded down, is never the whole class, even for the largest float below 1.
    let mut apart: Vec<usize> = quotas.iter().map(|quota| *quota as usize).collect();
    let mut order: Vec<usize> = (0..sizes.len()).filter(|class| apart[*class] + 1 < sizes[*class]).collect();
    order.sort_by(|a, b| (quotas[*b].fract()).total_cmp(&quotas[*a].fract()).then(a.cmp(b)));
    let missing = total.saturating_sub(apart.iter().sum());
    for class in order.into_iter().take(missing) {
        apart[class] += 1;
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(sizes: &[usize], share: f64, expect: &[usize]) {
        assert_eq!(apportion(sizes, share), expect, "{sizes:?} {share}");
    }

    #[test]
    fn validation_shares_use_the_largest_remainder_method() {
        check(&[100, 50], 0.1, &[10, 5]);
        // Quotas 1.5, 0.8 and 0.7 of 3: the first gets 1, then 0.8 and 0.7 are the largest remainders.
        check(&[15, 8, 7], 0.1, &[1, 1, 1]);
        // Quotas of 0.5 each, 2 in all: the lower classes get them.
        check(&[5, 5, 5, 5], 0.1, &[1, 1, 0, 0]);
        check(&[7], 0.0, &[0]);
    }

    #[test]
    fn every_class_keeps_a_training_example() {
        check(&[1, 1, 8], 0.5, &[0, 0, 5]);
        check(&[1], 0.9, &[0]);
        check(&[2], 0.99, &[1]);
        check(&[1, 2, 3, 5, 1_025], 1.0_f64.next_down(), &[0, 1, 2, 4, 1_024]);
        check(&[1, 3], 0.9, &[0, 2]);
        check(&[], 0.5, &[]);
    }

    #[test]
    fn the_seed_decides_which_examples_are_held_out() {
        let strata = [0; 40];
        let split = |seed| stratified_split(&strata, 0.25, seed).unwrap();
        assert_eq!(split(1), split(1));
        assert_ne!(split(1), split(2));
        assert_eq!(split(1).validation.len(), 10);
    }

    #[test]
    fn invalid_validation_shares_are_refused() {
        for share in [1.0, -0.1, f64::NAN] {
            let refused = stratified_split(&[0, 1], share, 1).unwrap_err().to_string();
            assert!(refused.starts_with("validation_share: expected a share from 0 to below 1, got "), "{refused}");
        }
    }

    #[test]
    fn label_sets_are_stratified_by_their_rarest_label() {
        // Label 0 occurs three times, 1 twice, 2 and 3 once.
        let sets = [vec![0, 1], vec![0, 2, 3], vec![0], vec![], vec![1]];
        assert_eq!(strata_of_label_sets(&sets), [1, 2, 0, UNLABELED, 1]);
    }

    proptest! {
        #[test]
        fn every_example_is_in_one_part_and_every_class_in_training(
            strata in prop::collection::vec(0_u32..8, 0..200), share in 0.0..0.99_f64, seed: u64,
        ) {
            let split = stratified_split(&strata, share, seed).unwrap();
            let mut all = [split.train.clone(), split.validation.clone()].concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..strata.len() as u32).collect::<Vec<_>>());
            prop_assert!(split.validation.len() <= (strata.len() as f64 * share).round() as usize);
            for class in &strata {
                prop_assert!(split.train.iter().any(|example| strata[*example as usize] == *class));
            }
        }
    }
}
