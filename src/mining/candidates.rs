//! Selects pairs from candidates (Artetxe and Schwenk, 2019, section 3). The strategies are those of the evaluation in
//! `training`.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Candidate, Margin, MarginScores, NeighborLists};

/// `max_score`: the best pair of each sentence on both sides, in descending order of score; each sentence is used at most once.
/// `intersection`: pairs that are the best in both directions. `forward`: the best pair of each sentence on the first side.
/// `backward`: the best pair of each sentence on the second side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = MiningStrategy)]
pub enum Strategy {
    // EMS's strategy.
    #[default]
    MaxScore,
    Intersection,
    Forward,
    Backward,
}

/// Returns the pairs that a strategy proposes, in descending order of score, then by the lower first number, then by the lower
/// second number.
pub fn propose(strategy: Strategy, scores: &MarginScores<'_>) -> Vec<Candidate> {
    let (first, second) = scores.sizes();
    let mut pairs: Vec<Candidate> = match strategy {
        Strategy::Forward => gather(first, scores.best_forward()),
        Strategy::Backward => gather(second, scores.best_backward()),
        Strategy::Intersection => {
            let mut best_of_second = vec![u32::MAX; second];
            scores.best_backward().for_each(|pair| best_of_second[pair.second as usize] = pair.first);
            let both = scores.best_forward().filter(|pair| best_of_second[pair.second as usize] == pair.first);
            gather(first.min(second), both)
        }
        Strategy::MaxScore => {
            let pairs = gather(first + second, scores.best_forward().chain(scores.best_backward()));
            return one_to_one(pairs, first, second);
        }
    };
    pairs.sort_unstable_by(higher_first);
    pairs
}

/// Greedy matching: takes pairs in descending order of score and skips those with a sentence that is already taken. For equal
/// scores, the lower first number goes first, then the lower second number. Numbers are below `first` and `second`.
pub fn one_to_one(mut pairs: Vec<Candidate>, first: usize, second: usize) -> Vec<Candidate> {
    pairs.sort_unstable_by(higher_first);
    let (mut first_used, mut second_used) = (vec![false; first], vec![false; second]);
    pairs.retain(|pair| {
        let used = (&mut first_used[pair.first as usize], &mut second_used[pair.second as usize]);
        let free = !*used.0 && !*used.1;
        if free {
            (*used.0, *used.1) = (true, true);
        }
        free
    });
    pairs
}

/// Estimates the peak memory of mining in bytes, without texts and embeddings, for `first` and `second` sentences with
/// `per_query` neighbors each. A job calls this before it starts. Grouping texts happens earlier, takes up to 72 bytes per
/// distinct text, and frees most of it.
pub fn bytes_needed(first: u64, second: u64, per_query: u64, margin: Margin) -> u64 {
    let sentences = first.saturating_add(second);
    let mean_bytes = if margin == Margin::Absolute { 0 } else { 8 };
    // Per sentence: a pair of 12 bytes, one byte for whether it is taken, and 4 for the group of its text.
    let lists = NeighborLists::bytes(first, per_query).saturating_add(NeighborLists::bytes(second, per_query));
    lists.saturating_add(sentences.saturating_mul(mean_bytes + 12 + 1 + 4))
}

/// Allocates room for `max` pairs at once, because a growing vector takes up to three times its content.
fn gather(max: usize, pairs: impl Iterator<Item = Candidate>) -> Vec<Candidate> {
    let mut gathered = Vec::with_capacity(max);
    gathered.extend(pairs);
    gathered
}

/// The canonical order of pairs.
fn higher_first(a: &Candidate, b: &Candidate) -> Ordering {
    b.score.total_cmp(&a.score).then_with(|| (a.first, a.second).cmp(&(b.first, b.second)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mining::neighbors::tests_support::both_ways;
    use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, proptest};
    use proptest::strategy::Strategy as _;
    use std::collections::BTreeSet;

    #[track_caller]
    fn check(found: &[Candidate], expect: &[(u32, u32)]) {
        assert_eq!(found.iter().map(|pair| (pair.first, pair.second)).collect::<Vec<_>>(), expect);
    }

    fn pairs(pairs: &[(u32, u32, f32)]) -> Vec<Candidate> {
        pairs.iter().map(|&(first, second, score)| Candidate { first, second, score }).collect()
    }

    /// Returns all pairs that are neighbors in either direction, without repetitions, sorted as in `propose`.
    fn candidate_pairs(scores: &MarginScores<'_>) -> Vec<Candidate> {
        let (first, second) = scores.sizes();
        let forward = (0..first).flat_map(|first| scores.candidates_of_first(first));
        let backward = (0..second).flat_map(|second| scores.candidates_of_second(second));
        let mut pairs: Vec<Candidate> = forward.chain(backward).collect();
        // The two directions may round a cosine differently, so this keeps the higher score.
        pairs.sort_unstable_by(|a, b| (a.first, a.second).cmp(&(b.first, b.second)).then(b.score.total_cmp(&a.score)));
        pairs.dedup_by_key(|pair| (pair.first, pair.second));
        pairs.sort_unstable_by(higher_first);
        pairs
    }

    #[test]
    fn strategies_propose_the_pairs_computed_by_hand() {
        //       b0    b1    b2
        // a0   0.9   0.8   0.1
        // a1   0.85  0.2   0.3
        // a2   0.1   0.7   0.6
        // Forward a0-b0, a1-b0, a2-b1; backward a0-b0, a0-b1, a2-b2.
        let (forward, backward) = both_ways(&[&[0.9, 0.8, 0.1], &[0.85, 0.2, 0.3], &[0.1, 0.7, 0.6]], 3);
        let scores = MarginScores::new(&forward, &backward, Margin::Absolute).unwrap();
        check(&propose(Strategy::Forward, &scores), &[(0, 0), (1, 0), (2, 1)]);
        check(&propose(Strategy::Backward, &scores), &[(0, 0), (0, 1), (2, 2)]);
        check(&propose(Strategy::Intersection, &scores), &[(0, 0)]);
        // a1-b0 and a0-b1 come after a0-b0, which takes a0 and b0; a2-b1 (0.7) comes before a2-b2 (0.6).
        check(&propose(Strategy::MaxScore, &scores), &[(0, 0), (2, 1)]);
        // From all pairs, the remaining a1 and b2 are matched.
        let all = candidate_pairs(&scores);
        assert_eq!(all.len(), 9);
        check(&all[..4], &[(0, 0), (1, 0), (0, 1), (2, 1)]);
        check(&one_to_one(all, 3, 3), &[(0, 0), (2, 1), (1, 2)]);
    }

    #[test]
    fn one_to_one_breaks_ties_by_lower_numbers() {
        let tied = pairs(&[(1, 1, 0.5), (1, 0, 0.5), (0, 1, 0.5), (0, 0, 0.5)]);
        check(&one_to_one(tied, 2, 2), &[(0, 0), (1, 1)]);
    }

    #[test]
    fn a_pair_found_in_both_directions_is_proposed_once() {
        let (forward, backward) = both_ways(&[&[0.5]], 1);
        let scores = MarginScores::new(&forward, &backward, Margin::Ratio).unwrap();
        check(&candidate_pairs(&scores), &[(0, 0)]);
        check(&propose(Strategy::MaxScore, &scores), &[(0, 0)]);
    }

    #[test]
    fn empty_sets_propose_nothing() {
        let (forward, backward) = (NeighborLists::new(0, 2, 4).unwrap(), NeighborLists::new(2, 0, 4).unwrap());
        let scores = MarginScores::new(&forward, &backward, Margin::Ratio).unwrap();
        for strategy in [Strategy::Forward, Strategy::Backward, Strategy::Intersection, Strategy::MaxScore] {
            check(&propose(strategy, &scores), &[]);
        }
        check(&candidate_pairs(&scores), &[]);
    }

    #[test]
    fn bytes_needed_matches_the_memory_per_sentence_and_saturates() {
        assert_eq!(std::mem::size_of::<Candidate>(), 12);
        assert_eq!(bytes_needed(1, 0, 4, Margin::Ratio), 33 + 25);
        assert_eq!(bytes_needed(1_000_000, 1_000_000, 16, Margin::Ratio), 308_000_000);
        assert_eq!(bytes_needed(u64::MAX, 1, 16, Margin::Ratio), u64::MAX);
    }

    fn cosines() -> impl proptest::strategy::Strategy<Value = (usize, Vec<f32>)> {
        (1_usize..7, 1_usize..7).prop_flat_map(|(first, second)| {
            // Few distinct values, so that scores are often equal.
            let cosine = (1_u8..6).prop_map(|tenths| f32::from(tenths) / 10.0);
            (Just(second), prop::collection::vec(cosine, first * second))
        })
    }

    proptest! {
        #[test]
        fn strategies_satisfy_their_defining_properties((second, cosines) in cosines(), per_query in 1_usize..4) {
            let rows: Vec<&[f32]> = cosines.chunks(second).collect();
            let (forward, backward) = both_ways(&rows, per_query);
            let scores = MarginScores::new(&forward, &backward, Margin::Ratio).unwrap();
            let set = |strategy| propose(strategy, &scores).iter().map(|pair| (pair.first, pair.second)).collect::<BTreeSet<_>>();
            let [forward, backward, both, most] =
                [Strategy::Forward, Strategy::Backward, Strategy::Intersection, Strategy::MaxScore].map(set);
            prop_assert_eq!(&both, &forward.intersection(&backward).copied().collect());
            prop_assert!(most.is_subset(&forward.union(&backward).copied().collect()));
            for strategy in [Strategy::Intersection, Strategy::MaxScore] {
                let found = propose(strategy, &scores);
                prop_assert!(found.is_sorted_by(|a, b| higher_first(a, b).is_lt()));
                let firsts: BTreeSet<u32> = found.iter().map(|pair| pair.first).collect();
                let seconds: BTreeSet<u32> = found.iter().map(|pair| pair.second).collect();
                prop_assert!(firsts.len() == found.len() && seconds.len() == found.len());
            }
            // Greedy: a pair is only left out for one that shares a sentence with it and is not worse.
            let all = candidate_pairs(&scores);
            let chosen = one_to_one(all.clone(), rows.len(), second);
            for pair in &all {
                let blocked = |other: &Candidate| (other.first == pair.first || other.second == pair.second) && !higher_first(other, pair).is_gt();
                prop_assert!(chosen.iter().any(blocked));
            }
        }
    }
}
