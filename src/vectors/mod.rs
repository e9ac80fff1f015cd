//! Vector arithmetic that the index and the ranking share.

pub mod signs;

pub use signs::Signs;

/// Number of rows to `prefetch` together: their cache lines fit into the fastest cache.
pub const PREFETCHED_ROWS: usize = 32;
/// Number of bytes in a cache line.
const CACHE_LINE: usize = 64;

/// Reads a byte of each cache line of some rows. So the processor waits for all of them at once, instead of for one after
/// the other during the comparison. If rows are far apart in memory, waiting takes longer than comparing.
pub fn prefetch<'r>(rows: impl Iterator<Item = &'r [i8]>) {
    let of_lines = |row: &[i8]| row.iter().step_by(CACHE_LINE).fold(0, |all, value| all ^ value);
    std::hint::black_box(rows.fold(0, |all, row| all ^ of_lines(row)));
}

/// Returns pseudorandom values from -0.5 to 0.5 for tests, the same for the same seed.
#[cfg(test)]
pub(crate) fn test_values(seed: u64, dimension: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..dimension).map(|_| next()).collect()
}
