//! The tokens that SMLM and UGT mask: one per pair, in one of its two sentences.

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::sampler::Sentence;

/// Separates the random draws of masks from those of pairs, which have the same seed and step.
const STREAM: u64 = 1 << 63;

/// For each sentence, left ones first, the position of its masked token. Each of the first `pairs_max` pairs gets one: side and
/// token are drawn uniformly and depend only on the seed and the step, so that a resumed run masks the same tokens as an
/// uninterrupted one.
pub fn draw(seed: u64, step: u64, pairs: &[(Sentence, Sentence)], pairs_max: usize) -> Vec<Option<usize>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(STREAM | step);
    let mut hidden = vec![None; 2 * pairs.len()];
    for (number, pair) in pairs.iter().enumerate().take(pairs_max) {
        let right: bool = random.random();
        let length = if right { pair.1.ids.len() } else { pair.0.ids.len() };
        hidden[number + if right { pairs.len() } else { 0 }] = Some(random.random_range(0..length));
    }
    hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(count: usize) -> Vec<(Sentence, Sentence)> {
        let sentence = |length: usize| Sentence::new(vec![4; length], 0);
        (0..count).map(|_| (sentence(3), sentence(1))).collect()
    }

    #[test]
    fn each_pair_has_one_token_masked_on_a_random_side() {
        let hidden = draw(1, 2, &pairs(400), 400);
        let (left, right) = hidden.split_at(400);
        assert!(left.iter().zip(right).all(|(left, right)| left.is_some() != right.is_some()));
        // Each side about 200 times, with a standard deviation of 10; each position of the left side about 67 times.
        let count = |position: usize| left.iter().filter(|&&hidden| hidden == Some(position)).count();
        assert!((150..250).contains(&right.iter().flatten().count()));
        assert!((0..3).all(|position| (30..105).contains(&count(position))));
    }

    #[test]
    fn pairs_beyond_the_maximum_are_not_masked() {
        assert_eq!(draw(1, 2, &pairs(9), 4).iter().flatten().count(), 4);
    }

    #[test]
    fn masks_repeat_for_the_same_step_and_differ_between_steps() {
        assert_eq!(draw(1, 2, &pairs(50), 50), draw(1, 2, &pairs(50), 50));
        assert_ne!(draw(1, 2, &pairs(50), 50), draw(1, 3, &pairs(50), 50));
    }
}
