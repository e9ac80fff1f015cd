//! Searches an index of up to about a hundred thousand passages without the graph: first by signs and rows of 8-bit
//! integers, then by exact values.
//!
//! The rows are created by `prepare_scan` or the first search that needs them, and updated with each change from then on. They
//! take nine bits per value, in addition to the graph.

use super::{Among, EXACT_SIZE_MAX, Index, IndexParameters, Metric, Neighbor, PassageId, REMOVED_KEYS_START, Scan};
use crate::domain::Embedding;
use crate::index::IndexError;
use crate::index::engine::ReadBuffers;

/// Maximum number of passages in an index that is searched this way. Bounds the memory for the rows. A graph search with the
/// same recall takes longer (`tests/bench/index.rs`).
pub(super) const SCAN_SIZE_MAX: usize = 1 << 17;

/// The scan compares extra passages by their exact values: one for this many that were requested, but at least
/// `COMPARED_MIN`. Integers only swap passages whose scores are very close.
const COMPARED_PART: usize = 2;
/// Minimum number of extra passages, see `COMPARED_PART`.
const COMPARED_MIN: usize = 64;

/// Number of passages in the sample whose mean is subtracted from all rows.
const SAMPLE: usize = 1 << 10;

/// Reserves room for one extra row per this many, because `Vec` would double its capacity for the next row.
const ROOM_PART: usize = 16;

/// Maximum dimension of an index with `SCAN_SIZE_MAX` passages: that of the shipped model. For longer vectors the maximum
/// number of passages is lower.
const DIMENSION_USUAL: usize = 256;

impl Index {
    /// Returns the nearest `limit` of the passages that `among` selects, nearest first, by comparing with each. If there are
    /// fewer than requested, there are no more. Returns `None` if a graph search is better: in a large or very small index,
    /// under L2 distance, if only signs are stored, or while changes keep the rows from being created.
    pub fn scan(&self, query: &Embedding, limit: usize, among: Among<'_>) -> Result<Option<Vec<Neighbor>>, IndexError> {
        let compared = limit.saturating_add((limit / COMPARED_PART).max(COMPARED_MIN));
        let Some(near) = self.scan_roughly(query, compared, among)? else { return Ok(None) };
        let found = self.search_among(query, limit, near.into_iter().map(|neighbor| neighbor.passage))?;
        Ok(found.map(|found| found.neighbors))
    }

    /// Does the same with the integers alone: passages with very close scores may be in the wrong order, and the scores are
    /// only comparable with each other.
    pub fn scan_roughly(&self, query: &Embedding, limit: usize, among: Among<'_>) -> Result<Option<Vec<Neighbor>>, IndexError> {
        if !self.can_scan() {
            return Ok(None);
        }
        let _span = tracing::info_span!("index_scan", limit).entered();
        self.check_dimension(query)?;
        if self.scan.read().is_none() && !self.create_rows()? {
            return Ok(None);
        }
        Ok(self.scan.read().as_ref().map(|scan| scan.nearest(query, limit, among)))
    }

    fn can_scan(&self) -> bool {
        let size_max = self.scan_size_limit(SCAN_SIZE_MAX);
        let IndexParameters { metric, quantization, .. } = self.parameters;
        metric != Metric::L2 && !quantization.keeps_signs_only() && (EXACT_SIZE_MAX + 1..=size_max).contains(&self.len())
    }

    /// Makes the next `scan` faster. Returns false if changes keep it from doing so. Blocks.
    pub fn prepare_scan(&self) -> Result<bool, IndexError> {
        Ok(!self.can_scan() || self.scan.read().is_some() || self.create_rows()?)
    }

    /// Creates the rows of all passages. Returns whether they exist. Does nothing while changes run, so some searches use the
    /// graph until then.
    fn create_rows(&self) -> Result<bool, IndexError> {
        let Some(_no_changes) = self.changes.try_write() else { return Ok(false) };
        let graph = self.graph.read();
        let mut scan = self.scan.write();
        if scan.is_some() {
            return Ok(true);
        }
        let near_duplicates = graph.near_duplicates.read();
        // A node may have the key of a near-duplicate, whose values are its own.
        let keys: Vec<u64> =
            graph.engine.keys()?.into_iter().filter(|key| *key < REMOVED_KEYS_START && !near_duplicates.contains(*key)).collect();
        let mut reading = ReadBuffers::new(self.parameters.dimension);
        let mut sample = Vec::with_capacity(SAMPLE);
        // The keys are sorted, by number or by score for one query, so a sample takes every n-th of them.
        for key in keys.iter().step_by(keys.len().div_ceil(SAMPLE).max(1)) {
            sample.extend(graph.engine.read(*key, &mut reading)?.map(<[f32]>::to_vec));
        }
        let mut rows = Scan::centered_on(&sample, &self.parameters);
        rows.reserve(graph.len() + graph.len() / ROOM_PART);
        for key in keys {
            if let Some(values) = graph.engine.read(key, &mut reading)? {
                rows.insert(key, values);
            }
        }
        near_duplicates.for_each(|passage, values| rows.insert(passage, values));
        *scan = Some(rows);
        Ok(true)
    }

    /// Applies a change to the rows. `values` are the passage's current values, or `None` if it is gone.
    pub(super) fn update_scan(&self, passage: PassageId, values: Option<&Embedding>) {
        if self.scan.read().is_none() {
            return;
        }
        let mut scan = self.scan.write();
        let Some(rows) = scan.as_mut() else { return };
        match values {
            Some(embedding) => rows.insert(passage.0, embedding.as_slice()),
            None => rows.remove(passage.0),
        }
        if rows.len() > self.scan_size_limit(SCAN_SIZE_MAX) {
            *scan = None;
        }
    }

    /// Returns the maximum number of passages for vectors of this dimension.
    fn scan_size_limit(&self, passages: usize) -> usize {
        passages.min(passages * DIMENSION_USUAL / self.parameters.dimension.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Quantization;
    use crate::index::search_exact;
    use crate::vectors::test_values;

    /// Returns a pseudorandom direction for each number; about one in twenty nearly equals another.
    fn embedding(number: u64) -> Embedding {
        let mut values = test_values(if number.is_multiple_of(20) { number / 20 } else { number }, 24);
        values[0] += number as f32 * 1e-6;
        Embedding::normalized(values).unwrap()
    }

    fn filled(metric: Metric, quantization: Quantization, keys: std::ops::Range<u64>) -> Index {
        let index = Index::create(&IndexParameters::new(24, metric, quantization)).unwrap();
        let passages: Vec<_> = keys.map(|key| (PassageId(key), embedding(key))).collect();
        index.add_all(&passages).unwrap();
        index
    }

    fn exact(metric: Metric, query: &Embedding, keys: impl Iterator<Item = u64>, limit: usize) -> Vec<Neighbor> {
        let all: Vec<_> = keys.map(|key| (PassageId(key), embedding(key))).collect();
        search_exact(metric, all.iter().map(|(passage, embedding)| (*passage, embedding)), query, limit)
    }

    /// Checks the scores against those of comparing with all exact values, up to rounding.
    fn check(metric: Metric, found: &[Neighbor], expect: &[Neighbor]) {
        assert_eq!(found.len(), expect.len());
        for (found, expect) in found.iter().zip(expect) {
            assert!((found.score - expect.score).abs() < 2e-3, "{metric:?}: {found:?}, expected {expect:?}");
        }
    }

    #[test]
    fn scan_scores_match_exact_search_under_cosine_and_dot() {
        for metric in [Metric::Cosine, Metric::Dot] {
            let index = filled(metric, Quantization::F16, 1..3_000);
            for query in (5_000..5_020).map(embedding) {
                let found = index.scan(&query, 10, Among::All).unwrap().unwrap();
                check(metric, &found, &exact(metric, &query, 1..3_000, 10));
            }
        }
    }

    #[test]
    fn a_filtered_scan_finds_all_and_only_the_accepted_passages() {
        let (index, query) = (filled(Metric::Cosine, Quantization::F16, 1..3_000), embedding(7_001));
        let found = index.scan(&query, 10, Among::Where(&|passage| passage.0 % 500 == 3)).unwrap().unwrap();
        let some = || (1..3_000).filter(|key| key % 500 == 3);
        check(Metric::Cosine, &found, &exact(Metric::Cosine, &query, some(), 10));
        assert_eq!(found.len(), 6, "fewer passages are accepted than requested");
        let mut each = some().chain([9_999]).map(PassageId);
        assert_eq!(
            index.scan(&query, 10, Among::Each(&mut each)).unwrap(),
            Some(found),
            "a passage that is not in the index is ignored"
        );
        assert_eq!(index.scan(&query, 10, Among::Where(&|_| false)).unwrap(), Some(Vec::new()));
        assert_eq!(index.scan(&query, 0, Among::All).unwrap(), Some(Vec::new()));
    }

    #[test]
    fn scans_see_added_replaced_and_removed_passages() {
        let (index, query) = (filled(Metric::Cosine, Quantization::F16, 1..2_000), embedding(7_001));
        index.scan(&query, 1, Among::All).unwrap().unwrap();
        (2_000..2_500).for_each(|key| index.add(PassageId(key), &embedding(key)).unwrap());
        (1..2_500).step_by(3).for_each(|key| assert!(index.remove(PassageId(key)).unwrap()));
        index.add(PassageId(2), &query).unwrap();
        let found = index.scan(&query, 3_000, Among::All).unwrap().unwrap();
        assert_eq!((found[0].passage, found.len()), (PassageId(2), index.len()));
        let left = (1..2_500).filter(|key| key % 3 != 1 && *key != 2);
        check(Metric::Cosine, &found[1..], &exact(Metric::Cosine, &query, left, 3_000));
    }

    /// Returns an embedding of many values. `common` is the weight of a direction that all of them share.
    fn long(number: u64, common: f32) -> Embedding {
        let values = |number: u64| (0..6).flat_map(move |part| embedding(number * 6 + part).as_slice().to_vec());
        Embedding::normalized(values(number).zip(values(777_777)).map(|(value, same)| value + common * same).collect()).unwrap()
    }

    /// Checks how many of the ten nearest are found among many passages: at first, with a filter, and after changes.
    #[track_caller]
    fn check_many(metric: Metric, common: f32) {
        let all: Vec<_> = (0..10_000).map(|key| (PassageId(key), long(key, common))).collect();
        let queries: Vec<_> = (50_000..50_010).map(|number| long(number, common)).collect();
        let index = Index::create(&IndexParameters::new(144, metric, Quantization::F16)).unwrap();
        index.add_all(&all[..9_000]).unwrap();
        let check = |keys: &dyn Fn(u64) -> bool| {
            let (mut hits, mut wanted) = (0, 0);
            for query in &queries {
                let accepted = all.iter().filter(|(key, _)| keys(key.0)).map(|(key, values)| (*key, values));
                let exact = search_exact(metric, accepted, query, 10);
                let found = index.scan(query, 20, Among::Where(&|passage| keys(passage.0))).unwrap().unwrap();
                assert!(found.iter().all(|found| keys(found.passage.0)));
                hits += exact.iter().filter(|exact| found.iter().any(|found| found.passage == exact.passage)).count();
                wanted += exact.len();
            }
            assert!(hits * 100 >= wanted * 97, "{metric:?}, {common} in common: {hits} of {wanted}");
        };
        check(&|key| key < 9_000);
        check(&|key| key < 9_000 && key % 100 == 7);
        all[9_000..].iter().for_each(|(key, values)| index.add(*key, values).unwrap());
        (0..10_000).step_by(13).for_each(|key| assert!(index.remove(PassageId(key)).unwrap()));
        check(&|key| !key.is_multiple_of(13));
    }

    #[test]
    fn preselection_by_signs_keeps_recall_among_many_passages() {
        check_many(Metric::Cosine, 0.0);
        check_many(Metric::Dot, 0.0);
    }

    #[test]
    fn a_direction_common_to_all_passages_does_not_lower_recall() {
        check_many(Metric::Cosine, 6.0);
    }

    #[test]
    fn small_l2_and_b1_indexes_are_not_scanned() {
        let query = embedding(7_001);
        assert_eq!(filled(Metric::Cosine, Quantization::F16, 1..1_000).scan(&query, 1, Among::All).unwrap(), None);
        assert_eq!(filled(Metric::L2, Quantization::F16, 1..1_500).scan(&query, 1, Among::All).unwrap(), None);
        assert_eq!(filled(Metric::Cosine, Quantization::B1, 1..1_500).scan(&query, 1, Among::All).unwrap(), None);
    }

    #[test]
    fn long_vectors_lower_the_number_of_scanned_passages() {
        let of = |dimension| {
            let parameters = IndexParameters::new(dimension, Metric::Cosine, Quantization::F16);
            Index::create(&parameters).unwrap().scan_size_limit(SCAN_SIZE_MAX)
        };
        assert_eq!([24, 256, 1_024].map(of), [SCAN_SIZE_MAX, SCAN_SIZE_MAX, SCAN_SIZE_MAX / 4]);
    }

    #[test]
    fn an_index_beyond_the_scan_limit_drops_its_rows() {
        let index = filled(Metric::Cosine, Quantization::F16, 1..10);
        let mut rows = Scan::centered_on(&[], &index.parameters);
        (0..SCAN_SIZE_MAX as u64).for_each(|key| rows.insert(key, embedding(key).as_slice()));
        *index.scan.write() = Some(rows);
        index.update_scan(PassageId(0), Some(&embedding(3)));
        assert!(index.scan.read().is_some());
        index.update_scan(PassageId(SCAN_SIZE_MAX as u64), Some(&embedding(3)));
        assert!(index.scan.read().is_none());
    }
}
