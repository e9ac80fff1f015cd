//! Random numbers that are the same in every run of a benchmark.

#![allow(dead_code, reason = "each benchmark uses its part")]

/// SplitMix64 with a given seed.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// From 0 to 1.
    pub fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// The Box-Muller transform.
    pub fn normal(&mut self) -> f32 {
        let radius = (-2.0 * self.unit().max(1e-7).ln()).sqrt();
        radius * (std::f32::consts::TAU * self.unit()).cos()
    }
}
