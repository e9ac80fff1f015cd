//! Estimates the memory that a mining job needs, and reads how much is free.

use super::size::Size;
use super::{MineError, strategy};
use crate::domain::Limits;
use crate::mining::{Block, Margin, NeighborLists, bytes_needed};

/// Bytes per different text while equal texts are grouped. They are freed before the search for neighbors.
const GROUPING_BYTES: u64 = 76;
/// Bytes per pair of near-duplicates while pairs become clusters.
const DUPLICATE_PAIR_BYTES: u64 = 48;
/// Bytes per passage while pairs become clusters: its document and language, its nodes in the trees, the sums, the occurrences
/// of its text, and its nearest neighbor.
const DUPLICATE_BYTES: u64 = 17 + 20 + 16 + 52 + 24;
/// Approximate bytes that a pair with its texts takes on disk.
pub(crate) const PAIR_BYTES: u64 = 640;

/// Returns the peak memory of mining, in bytes.
pub(crate) fn mining_bytes(
    (first, second): (Size, Size),
    neighbors: usize,
    margin: Margin,
    dimension: usize,
    exact: Option<bool>,
) -> u64 {
    let lists = bytes_needed(first.sentences, second.sentences, neighbors as u64, margin);
    let grouping = first.sentences.max(second.sentences).saturating_mul(GROUPING_BYTES);
    let indexes = first.index_bytes(dimension).saturating_add(second.index_bytes(dimension));
    // For a moment, the neighbor lists of the corpus in memory exist in addition to the lists that pairs are made from.
    let held = first.different.min(second.different).saturating_mul(Block::bytes(dimension) + neighbors as u64 * 8 + 16);
    let surely = strategy::should_compare_all(first, second);
    let vectors = match exact {
        Some(true) => held,
        Some(false) => indexes,
        None if surely => held,
        None if strategy::may_compare_all(first, second) => held.max(indexes),
        None => indexes,
    };
    let corpora = first.bytes().saturating_add(second.bytes());
    corpora.saturating_add(vectors).saturating_add(lists.max(grouping))
}

/// Returns the peak memory of finding duplicates if every neighbor is near enough to count, in bytes.
pub(crate) fn duplicates_bytes(size: Size, neighbors: usize, dimension: usize) -> u64 {
    let pairs = size.sentences.saturating_mul(neighbors as u64).saturating_mul(DUPLICATE_PAIR_BYTES);
    let clusters = NeighborLists::bytes(size.sentences, neighbors as u64)
        .saturating_add(pairs)
        .saturating_add(size.sentences.saturating_mul(DUPLICATE_BYTES));
    size.bytes()
        .saturating_add(size.index_bytes(dimension))
        .saturating_add(clusters.max(size.sentences.saturating_mul(GROUPING_BYTES)))
}

/// Returns the memory of an index of this many passages, in bytes.
pub(crate) fn index_bytes(passages: u64, dimension: usize) -> u64 {
    Size { indexed: passages, ..Size::default() }.index_bytes(dimension)
}

/// Refuses a job that needs more than the free memory.
pub(crate) fn check_free(needed: u64) -> Result<(), MineError> {
    match available_memory() {
        Some(free) if needed > free => Err(MineError::NoMemory { needed, free }),
        _ => Ok(()),
    }
}

/// Refuses a job that needs more than the limit or the free memory.
pub(crate) fn check(needed: u64, limits: &Limits) -> Result<(), MineError> {
    let limit = limits.mining_memory_bytes_max;
    if needed > limit {
        return Err(MineError::TooMuchMemory { needed, limit });
    }
    check_free(needed)
}

/// Returns the memory available without swapping, within the limit of the process's control group, in bytes. `None` if the
/// system does not report it.
fn available_memory() -> Option<u64> {
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let group = number("/sys/fs/cgroup/memory.max").map(|max| {
        let used = number("/sys/fs/cgroup/memory.current").unwrap_or(0);
        let statistics = std::fs::read_to_string("/sys/fs/cgroup/memory.stat").unwrap_or_default();
        let files = statistics.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok()).unwrap_or(0);
        max.saturating_sub(used.saturating_sub(files))
    });
    match (machine, group) {
        (Some(machine), Some(group)) => Some(machine.min(group)),
        (one, other) => one.or(other),
    }
}

/// Returns `MemAvailable` of `/proc/meminfo`, in bytes.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1_024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_parsed_from_meminfo() {
        assert_eq!(available("MemTotal:  100 kB\nMemAvailable:     64 kB\n"), Some(65_536));
        assert_eq!(available("MemTotal: 100 kB\n"), None);
    }

    #[test]
    fn a_job_that_exceeds_the_limit_or_the_free_memory_is_refused() {
        let limits = Limits { mining_memory_bytes_max: 1_000, ..Limits::default() };
        assert!(check(1_000, &limits).is_ok());
        assert!(matches!(check(1_001, &limits), Err(MineError::TooMuchMemory { needed: 1_001, limit: 1_000 })));
        let unbounded = Limits { mining_memory_bytes_max: u64::MAX, ..Limits::default() };
        let reported = available_memory().is_some();
        assert!(reported || !cfg!(target_os = "linux"), "Linux reports the free memory");
        assert_eq!(matches!(check(u64::MAX, &unbounded), Err(MineError::NoMemory { .. })), reported);
    }

    #[test]
    fn mining_a_million_sentences_with_an_existing_index_fits_in_256_mib() {
        let million = Size { sentences: 1_000_000, different: 1_000_000, ..Size::default() };
        for (hashed, megabytes) in [(false, 148), (true, 164)] {
            let size = Size { hashed, ..million };
            let needed = mining_bytes((size, size), 4, Margin::Ratio, 384, None);
            assert_eq!(needed, megabytes * 1_000_000, "hashed: {hashed}");
        }
    }
}
