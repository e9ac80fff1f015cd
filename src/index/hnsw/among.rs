//! Searches among some of the passages: through the graph with a predicate, or by comparing with each of them.

use super::{EXACT_SIZE_MAX, Index, KEY_LOCKS, Neighbor};
use crate::domain::{Embedding, PassageId};
use crate::index::IndexError;
use crate::index::engine::ReadBuffers;
use crate::index::nearest::Nearest;
use crate::vectors::{PREFETCHED_ROWS, prefetch};

/// Passages that were compared one by one.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The passages, nearest first.
    pub neighbors: Vec<Neighbor>,
    /// Maximum error of a score in comparison with the passage's exact values. 0 if the stored values count as exact.
    pub error: f32,
}

impl Index {
    /// Searches among the passages that `matches` accepts. `matches` is called for each node that the search meets, far more
    /// often than `limit` times, so it must be fast and must not block. If it accepts fewer passages than `ef`, the search
    /// visits the whole graph.
    pub fn search_matching(
        &self,
        query: &Embedding,
        limit: usize,
        ef: usize,
        matches: impl Fn(PassageId) -> bool,
    ) -> Result<Vec<Neighbor>, IndexError> {
        let _span = tracing::info_span!("index_search", limit).entered();
        self.check_dimension(query)?;
        let _permit = self.permits.acquire();
        let graph = self.graph.read();
        let wanted = limit.min(graph.len());
        if wanted == 0 {
            return Ok(Vec::new());
        }
        let accept = |key| matches(PassageId(key));
        let nodes = if graph.engine.size() <= EXACT_SIZE_MAX {
            graph.engine.search_exact(query, graph.engine.size())?
        } else {
            let near_duplicates = graph.near_duplicates.read();
            graph.engine.search_matching(query, wanted.max(ef), |node| near_duplicates.any_accepted(node, accept))?
        };
        Ok(graph.passages(nodes, self.metric_of(query), wanted, accept))
    }

    /// Compares with each of `passages` by its stored values. Leaves out missing ones. Returns `None` if the index only stores
    /// signs. In that case the caller must compare by the values in the database.
    pub fn search_among(
        &self,
        query: &Embedding,
        limit: usize,
        passages: impl Iterator<Item = PassageId>,
    ) -> Result<Option<Compared>, IndexError> {
        if self.parameters.quantization.keeps_signs_only() {
            return Ok(None);
        }
        let _span = tracing::info_span!("index_search", limit).entered();
        self.check_dimension(query)?;
        let metric = self.parameters.metric;
        let mut reading = ReadBuffers::new(query.dimension());
        let mut nearest = Nearest::new(limit);
        let others = self.compare_rows(query, passages.map(|passage| passage.0).collect(), &mut reading, &mut nearest);
        let mut parts: Vec<Vec<u64>> = vec![Vec::new(); KEY_LOCKS];
        others.into_iter().for_each(|key| parts[(key % KEY_LOCKS as u64) as usize].push(key));
        for (keys, mut part) in self.keys.iter().zip(parts).filter(|(_, part)| !part.is_empty()) {
            // usearch publishes a key before it has copied the values. The lock of the key excludes a thread that is adding it.
            let _keys = keys.lock();
            let graph = self.graph.read();
            // A node may have the key of a near-duplicate, so near-duplicates come first.
            graph.near_duplicates.read().take_scored(&mut part, (metric, query), &mut nearest);
            for key in part {
                if let Some(values) = graph.engine.read(key, &mut reading)? {
                    nearest.offer(key, metric.score_values(query.as_slice(), values));
                }
            }
        }
        Ok(Some(Compared { neighbors: nearest.into_sorted(), error: reading.error() }))
    }

    /// Compares by the rows of the scan, if they have the index's own values: they are in memory, while the graph may be mapped
    /// from its file, and they are read ahead. Returns the keys that are not there.
    fn compare_rows(&self, query: &Embedding, mut keys: Vec<u64>, reading: &mut ReadBuffers, nearest: &mut Nearest) -> Vec<u64> {
        let metric = self.parameters.metric;
        if !self.scan.read().as_ref().is_some_and(|scan| scan.has_index_integers) {
            return keys;
        }
        self.graph.read().near_duplicates.read().take_scored(&mut keys, (metric, query), nearest);
        let scan = self.scan.read();
        let Some(rows) = scan.as_ref() else { return keys };
        let mut others = Vec::new();
        for part in keys.chunks(PREFETCHED_ROWS) {
            let part: Vec<_> = part.iter().map(|key| (*key, rows.index_integers(*key))).collect();
            prefetch(part.iter().filter_map(|(_, integers)| *integers));
            for (key, integers) in part {
                match integers {
                    Some(integers) => nearest.offer(key, metric.score_values(query.as_slice(), reading.scaled(integers))),
                    None => others.push(key),
                }
            }
        }
        others
    }
}

#[cfg(test)]
mod tests {
    use super::super::IndexParameters;
    use super::*;
    use crate::domain::{Metric, Quantization};
    use crate::vectors::test_values;

    fn random(seed: u64) -> Embedding {
        Embedding::normalized(test_values(seed, 12)).unwrap()
    }

    fn filled(size: u64) -> Index {
        filled_with(Metric::Cosine, Quantization::F16, size)
    }

    fn filled_with(metric: Metric, quantization: Quantization, size: u64) -> Index {
        let index = Index::create(&IndexParameters::new(12, metric, quantization)).unwrap();
        for key in 1..=size {
            index.add(PassageId(key), &random(key)).unwrap();
        }
        index
    }

    fn among(index: &Index, query: &Embedding, limit: usize, passages: impl Iterator<Item = PassageId>) -> Vec<Neighbor> {
        index.search_among(query, limit, passages).unwrap().unwrap().neighbors
    }

    fn keys(found: &[Neighbor]) -> Vec<u64> {
        found.iter().map(|neighbor| neighbor.passage.0).collect()
    }

    #[test]
    fn rows_of_the_scan_give_the_same_scores_as_the_graph() {
        let [with_rows, without] = [(), ()].map(|()| filled_with(Metric::Cosine, Quantization::I8, 2_000));
        assert!(with_rows.prepare_scan().unwrap());
        for index in [&with_rows, &without] {
            (1..500).step_by(3).for_each(|key| index.add(PassageId(key), &random(key + 10_000)).unwrap());
            (500..600).for_each(|key| assert!(index.remove(PassageId(key)).unwrap()));
            (2_001..2_050).for_each(|key| index.add(PassageId(key), &random(key)).unwrap());
        }
        for query in (5_000..5_010).map(random) {
            let found = |index: &Index| index.search_among(&query, usize::MAX, (1..2_100).map(PassageId)).unwrap().unwrap();
            assert_eq!(found(&with_rows), found(&without));
            assert_eq!(found(&with_rows).neighbors.len(), 1_949);
        }
    }

    #[test]
    fn search_among_returns_the_nearest_of_the_given_passages() {
        let index = filled(2_000);
        let some = || (1..=2_100).step_by(7).map(PassageId);
        let query = random(9_999);
        let mut expect: Vec<(u64, f32)> = (1..=2_000).step_by(7).map(|key| (key, query.cosine(&random(key)))).collect();
        expect.sort_by(|a, b| b.1.total_cmp(&a.1));
        let found = among(&index, &query, 10, some());
        assert_eq!(keys(&found), expect.iter().take(10).map(|(key, _)| *key).collect::<Vec<_>>());
        assert!(found.iter().zip(&expect).all(|(found, expect)| (found.score - expect.1).abs() < 1e-2), "{found:?}");
        assert_eq!(among(&index, &query, 0, some()), []);
        assert_eq!(among(&index, &query, 5_000, some()).len(), expect.len());
    }

    #[test]
    fn filtered_search_obeys_the_predicate_and_keeps_its_recall() {
        for size in [900, 3_000] {
            let index = filled(size);
            let (mut hits, mut wanted) = (0, 0);
            for number in 0..50 {
                let query = random(50_000 + number);
                let found = index.search_matching(&query, 10, 40, |passage| passage.0.is_multiple_of(5)).unwrap();
                assert!(found.iter().all(|neighbor| neighbor.passage.0.is_multiple_of(5)));
                let exact = among(&index, &query, 10, (5..=size).step_by(5).map(PassageId));
                wanted += exact.len();
                hits += keys(&exact).iter().filter(|key| keys(&found).contains(key)).count();
            }
            assert!(hits * 100 >= wanted * 95, "{size}: {hits} of {wanted}");
        }
    }

    #[test]
    fn search_among_works_during_concurrent_adds_and_removals() {
        let index = filled(1_500);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for key in 1_501..=2_500 {
                    index.add(PassageId(key), &random(key)).unwrap();
                    index.remove(PassageId(key - 1_000)).unwrap();
                }
            });
            for thread in 0..2 {
                let index = &index;
                scope.spawn(move || {
                    for number in 0..20 {
                        let found = among(index, &random(thread * 100 + number), 5, (1..=3_000).map(PassageId));
                        assert!(found.len() == 5 && found.is_sorted_by(|a, b| a.score >= b.score));
                    }
                });
            }
        });
    }

    #[test]
    fn near_duplicates_are_scored_by_their_own_values() {
        for metric in Metric::ALL {
            for quantization in [Quantization::F32, Quantization::Bf16, Quantization::F16, Quantization::I8] {
                if quantization.needs_cosine() && metric != Metric::Cosine {
                    continue;
                }
                let index = Index::create(&IndexParameters::new(12, metric, quantization)).unwrap();
                let near = |key: u64| {
                    let mut values = random(key % 10 + 1).as_slice().to_vec();
                    values[0] += key as f32 * 1e-5;
                    match metric {
                        Metric::Cosine => Embedding::normalized(values).unwrap(),
                        Metric::Dot | Metric::L2 => Embedding::unscaled(values).unwrap(),
                    }
                };
                (1..=2_000).for_each(|key| index.add(PassageId(key), &near(key)).unwrap());
                // Removes the passages that nodes were created for, so that nodes have the keys of near-duplicates.
                (1..=20).for_each(|key| assert!(index.remove(PassageId(key)).unwrap()));
                let query = near(2_003);
                let found = among(&index, &query, 2_000, (1..=2_000).map(PassageId));
                assert_eq!(found.len(), 1_980, "{metric:?} {quantization:?}");
                for neighbor in found {
                    let expect = metric.score(&query, &near(neighbor.passage.0));
                    let wrong = (neighbor.score - expect).abs();
                    assert!(wrong < 0.01, "{metric:?} {quantization:?} {neighbor:?} {expect}");
                }
            }
        }
    }

    #[test]
    fn i8_scores_are_within_the_reported_error() {
        let index = filled_with(Metric::Cosine, Quantization::I8, 2_000);
        for number in 0..20 {
            let query = random(70_000 + number);
            let compared = index.search_among(&query, usize::MAX, (1..=2_000).map(PassageId)).unwrap().unwrap();
            assert_eq!(compared.neighbors.len(), 2_000);
            let wrong = |neighbor: &Neighbor| (neighbor.score - query.cosine(&random(neighbor.passage.0))).abs();
            let worst = compared.neighbors.iter().map(wrong).fold(0.0, f32::max);
            assert!(worst > 0.0 && worst <= compared.error && compared.error < 0.03, "{worst} {}", compared.error);
        }
        let exact = filled(50).search_among(&random(1), 5, (1..=9).map(PassageId)).unwrap().unwrap();
        assert_eq!(exact.error, 0.0, "f16 values count as exact");
    }

    #[test]
    fn search_among_does_not_support_b1_quantization() {
        let index = filled_with(Metric::Cosine, Quantization::B1, 9);
        assert_eq!(index.search_among(&random(1), 5, (1..=9).map(PassageId)).unwrap(), None);
    }
}
