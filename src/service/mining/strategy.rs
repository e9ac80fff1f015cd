//! How neighbors are looked for: by comparing all with all, or through indexes. Comparing is exact, and the faster way as long as the
//! sides are not too large; what a search costs depends on how widely it must look among these embeddings to miss little.
//!
//! Costs are counted in pairs that are compared. They were measured with 256 values on a processor with AVX-512 VNNI (3 ns per pair,
//! 2 µs per candidate of a search, 400 µs per addition to an index); other processors differ, but less in the ratios.

use super::size::Size;

/// Candidates (ef) that searches of mining may have, the fewest that find enough are taken.
pub(crate) const EFS: [usize; 8] = [48, 64, 96, 128, 192, 256, 384, 512];
/// Candidates that searches of mining need at least, as a rule.
const LIKELY_EF: usize = 128;
/// Pairs that are compared in the time that a search takes for each of its candidates.
const PAIRS_PER_CANDIDATE: u64 = 650;
/// Pairs that are compared in the time in which an index takes in a sentence.
const PAIRS_PER_ADDED: u64 = 130_000;

/// Whether comparing all with all takes no longer than searching with so many candidates from the first side to the second and
/// back, with the indexes that must be made for it.
pub(crate) fn compares_all(first: Size, second: Size, (there, back): (usize, usize)) -> bool {
    let pairs = first.different.saturating_mul(second.different);
    let searching = |size: Size, ef: usize| size.different.saturating_mul(PAIRS_PER_CANDIDATE * ef as u64);
    let adding = first.indexed.saturating_add(second.indexed).saturating_mul(PAIRS_PER_ADDED);
    pairs <= searching(first, there).saturating_add(searching(second, back)).saturating_add(adding)
}

/// Whether that is so whatever a trial of the indexes would be likely to say: sentences without a translation, as most are, seldom
/// need fewer candidates, and comparing misses nothing.
pub(crate) fn compares_all_surely(first: Size, second: Size) -> bool {
    compares_all(first, second, (LIKELY_EF, LIKELY_EF))
}

/// Whether that may be so.
pub(crate) fn compares_all_perhaps(first: Size, second: Size) -> bool {
    let most = EFS[EFS.len() - 1];
    compares_all(first, second, (most, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(different: u64, indexed: bool) -> Size {
        Size { sentences: different, different, indexed: if indexed { different } else { 0 }, ..Size::default() }
    }

    #[test]
    fn what_is_small_on_one_side_is_compared_and_what_is_large_on_both_is_searched() {
        let way = |first, second| (compares_all_surely(first, second), compares_all_perhaps(first, second));
        assert_eq!(way(size(20_000, false), size(20_000, false)), (true, true));
        assert_eq!(way(size(10_000, false), size(5_000_000, false)), (true, true));
        assert_eq!(way(size(100_000, false), size(100_000, false)), (true, true));
        assert_eq!(way(size(250_000, false), size(250_000, false)), (false, true));
        assert_eq!(way(size(1_000_000, false), size(1_000_000, false)), (false, false));
        // With indexes to be made first, comparing pays longer.
        assert_eq!(way(size(250_000, true), size(250_000, true)), (true, true));
        assert_eq!(way(size(1_000_000, true), size(1_000_000, true)), (false, false));
    }
}
