//! Chooses how to find neighbors: by comparing all with all, or by searching through indexes. Comparing is exact, and faster
//! unless the corpora are large. The cost of a search depends on the width that it needs to miss few neighbors among these
//! embeddings.
//!
//! The unit of cost is one compared pair. Costs were measured with 256 values on a processor with AVX-512 VNNI (3 ns per pair,
//! 2 µs per candidate of a search, 400 µs per addition to an index). Other processors have other times, but the ratios differ
//! less.

use super::size::Size;

/// The search widths (ef) that a trial compares. The smallest one that finds enough is used.
pub(crate) const EFS: [usize; 8] = [48, 64, 96, 128, 192, 256, 384, 512];
/// The smallest search width that mining usually needs.
const LIKELY_EF: usize = 128;
/// The cost of a search per candidate.
const PAIRS_PER_CANDIDATE: u64 = 650;
/// The cost of adding a sentence to an index.
const PAIRS_PER_ADDED: u64 = 130_000;

/// Whether comparing all with all costs no more than searching in both directions with these widths, including the cost of
/// building indexes.
pub(crate) fn compares_all(first: Size, second: Size, (there, back): (usize, usize)) -> bool {
    let pairs = first.different.saturating_mul(second.different);
    let searching = |size: Size, ef: usize| size.different.saturating_mul(PAIRS_PER_CANDIDATE * ef as u64);
    let adding = first.indexed.saturating_add(second.indexed).saturating_mul(PAIRS_PER_ADDED);
    pairs <= searching(first, there).saturating_add(searching(second, back)).saturating_add(adding)
}

/// Whether comparing is the better choice without a trial of the indexes. Most sentences have no translation, and a small search
/// width rarely suffices for them. Comparing also misses nothing.
pub(crate) fn should_compare_all(first: Size, second: Size) -> bool {
    compares_all(first, second, (LIKELY_EF, LIKELY_EF))
}

/// Whether a trial could show that comparing is the better choice.
pub(crate) fn may_compare_all(first: Size, second: Size) -> bool {
    let ef_max = EFS[EFS.len() - 1];
    compares_all(first, second, (ef_max, ef_max))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(different: u64, indexed: bool) -> Size {
        Size { sentences: different, different, indexed: if indexed { different } else { 0 }, ..Size::default() }
    }

    #[test]
    fn corpora_are_compared_exhaustively_unless_both_are_large() {
        let decide = |first, second| (should_compare_all(first, second), may_compare_all(first, second));
        assert_eq!(decide(size(20_000, false), size(20_000, false)), (true, true));
        assert_eq!(decide(size(10_000, false), size(5_000_000, false)), (true, true));
        assert_eq!(decide(size(100_000, false), size(100_000, false)), (true, true));
        assert_eq!(decide(size(250_000, false), size(250_000, false)), (false, true));
        assert_eq!(decide(size(1_000_000, false), size(1_000_000, false)), (false, false));
        // If indexes must be built first, comparing pays off for larger corpora.
        assert_eq!(decide(size(250_000, true), size(250_000, true)), (true, true));
        assert_eq!(decide(size(1_000_000, true), size(1_000_000, true)), (false, false));
    }
}
