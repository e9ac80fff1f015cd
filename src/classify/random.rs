//! Seeded random numbers, the same on every machine and in every version: xoshiro256++ (Blackman and Vigna, 2018), seeded by
//! SplitMix64. Not for secrets. The sampling methods are implemented here because those of the crate rand may change the
//! numbers they draw in its next version.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

pub(crate) struct Random(Xoshiro256PlusPlus);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a uniform number below `limit`, which must not be 0 (Lemire, 2019).
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        let uneven = limit.wrapping_neg() % limit;
        loop {
            let wide = u128::from(self.next()) * u128::from(limit);
            if wide as u64 >= uneven {
                return (wide >> 64) as u64;
            }
        }
    }

    /// Returns a uniform number between -`bound` and `bound`.
    pub(crate) fn within(&mut self, bound: f32) -> f32 {
        let unit = (self.next() >> 40) as f32 / (1_u64 << 24) as f32;
        (2.0 * unit - 1.0) * bound
    }

    /// Shuffles `items` uniformly (Fisher–Yates).
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// Fills `mask` with the factors of dropout: 0 with the probability `dropout`, in steps of 2⁻¹⁶, otherwise the factor that
    /// preserves the mean.
    pub(super) fn fill_mask(&mut self, mask: &mut [f32], dropout: f32) {
        let limit = (f64::from(dropout) * 65_536.0).round() as u64;
        let scale = (65_536.0 / (65_536 - limit.min(65_535)) as f64) as f32;
        for four in mask.chunks_mut(4) {
            let mut drawn = self.next();
            for value in four {
                *value = if drawn & 0xffff < limit { 0.0 } else { scale };
                drawn >>= 16;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_in_every_version() {
        // Computed from the published algorithms, independently of the crate.
        let mut random = Random::new(0);
        let drawn = [(); 4].map(|()| random.next());
        assert_eq!(
            drawn,
            [5_987_356_902_031_041_503, 7_051_070_477_665_621_255, 6_633_766_593_972_829_180, 211_316_841_551_650_330]
        );
    }

    #[test]
    fn numbers_below_a_limit_are_equally_likely() {
        let mut counts = [0; 3];
        let mut random = Random::new(1);
        for _ in 0..30_000 {
            counts[random.below(3) as usize] += 1;
        }
        // The expected count is 10,000, with a standard deviation of 82.
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_shuffle_loses_nothing_and_depends_on_the_seed() {
        let shuffled = |seed| {
            let mut items: Vec<u32> = (0..50).collect();
            Random::new(seed).shuffle(&mut items);
            items
        };
        let mut sorted = shuffled(1);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
    }

    #[test]
    fn a_dropout_mask_preserves_the_mean() {
        let mut mask = vec![9.0; 40_001];
        Random::new(5).fill_mask(&mut mask, 0.2);
        let zeros = mask.iter().filter(|value| **value == 0.0).count();
        assert!((7_700..8_300).contains(&zeros), "{zeros}");
        assert!(mask.iter().all(|value| *value == 0.0 || (*value - 1.25).abs() < 1e-4));
        Random::new(5).fill_mask(&mut mask, 0.0);
        assert!(mask.iter().all(|value| *value == 1.0));
    }

    #[test]
    fn bounded_numbers_spread_over_both_signs() {
        let mut random = Random::new(2);
        let drawn: Vec<f32> = (0..1_000).map(|_| random.within(0.5)).collect();
        assert!(drawn.iter().all(|value| value.abs() <= 0.5));
        assert!(drawn.iter().any(|value| *value > 0.45) && drawn.iter().any(|value| *value < -0.45));
    }
}
