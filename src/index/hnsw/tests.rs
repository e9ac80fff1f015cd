//! Tests of the index in memory.

use super::*;
use crate::domain::{HnswSettings, Quantization};

const PARAMETERS: IndexParameters = IndexParameters {
    dimension: 4,
    metric: Metric::Cosine,
    quantization: Quantization::F16,
    hnsw: HnswSettings { m: 16, ef_construction: 64, ef_search: 64 },
};

/// Returns a different direction for each number, spread over a quarter circle.
fn direction(number: u64) -> Embedding {
    let angle = number as f32 * 0.001;
    Embedding::normalized(vec![angle.cos(), angle.sin(), 0.0, 0.0]).unwrap()
}

fn filled(keys: std::ops::Range<u64>) -> Index {
    let index = Index::create(&PARAMETERS).unwrap();
    for key in keys {
        index.add(PassageId(key), &direction(key)).unwrap();
    }
    index
}

fn nearest(index: &Index, query: u64, limit: usize) -> Vec<u64> {
    index.search(&direction(query), limit).unwrap().iter().map(|neighbor| neighbor.passage.0).collect()
}

#[test]
fn an_empty_index_finds_nothing() {
    let index = Index::create(&PARAMETERS).unwrap();
    assert!(index.is_empty());
    assert!(nearest(&index, 1, 10).is_empty());
}

#[test]
fn a_limit_of_zero_and_a_limit_beyond_the_size_both_work() {
    let index = filled(0..3);
    assert!(nearest(&index, 0, 0).is_empty());
    assert_eq!(nearest(&index, 0, 1_000_000), [0, 1, 2]);
}

/// Adds 900 passages one by one: most are near-duplicates, every ninth is less similar.
#[test]
fn every_passage_of_a_small_index_is_found_despite_near_duplicates() {
    let mut state = 5u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    let parameters = IndexParameters { dimension: 64, ..PARAMETERS };
    let index = Index::create(&parameters).unwrap();
    let embeddings: Vec<_> = (0..900)
        .map(|n| {
            let spread = if n % 9 == 0 { 0.5 } else { 0.05 };
            Embedding::normalized((0..64).map(|_| 0.3 + spread * random()).collect()).unwrap()
        })
        .collect();
    for (key, embedding) in embeddings.iter().enumerate() {
        index.add(PassageId(key as u64), embedding).unwrap();
    }
    let lost = |limit: usize| {
        let found =
            |key: usize| index.search(&embeddings[key], limit).unwrap().iter().any(|neighbor| neighbor.passage.0 == key as u64);
        (0..embeddings.len()).filter(|&key| !found(key)).count()
    };
    assert_eq!((lost(3), lost(900)), (0, 0));
}

#[test]
fn adding_a_key_again_replaces_it() {
    let index = filled(0..100);
    index.add(PassageId(3), &direction(1_500)).unwrap();
    assert_eq!(index.len(), 100);
    assert_eq!(nearest(&index, 1_500, 1), [3]);
    assert_ne!(nearest(&index, 3, 1), [3]);
}

#[test]
fn a_removed_key_is_not_found_and_can_come_back() {
    let index = filled(0..100);
    assert!(index.remove(PassageId(50)).unwrap());
    assert!(!index.remove(PassageId(50)).unwrap());
    assert!(!nearest(&index, 50, 100).contains(&50));
    assert_eq!(index.len(), 99);
    index.add(PassageId(50), &direction(50)).unwrap();
    assert_eq!(nearest(&index, 50, 1), [50]);
}

#[test]
fn removing_everything_leaves_an_index_that_works() {
    let index = filled(0..10);
    for key in 0..10 {
        assert!(index.remove(PassageId(key)).unwrap());
    }
    assert!(nearest(&index, 5, 10).is_empty());
    index.add(PassageId(77), &direction(77)).unwrap();
    assert_eq!(nearest(&index, 5, 10), [77]);
}

#[test]
fn vectors_of_another_dimension_are_refused() {
    let index = filled(0..2);
    let short = Embedding::normalized(vec![1.0, 2.0]).unwrap();
    assert!(matches!(index.add(PassageId(9), &short), Err(IndexError::Dimension { expected: 4, got: 2 })));
    assert!(matches!(index.search(&short, 1), Err(IndexError::Dimension { expected: 4, got: 2 })));
}

#[test]
fn more_threads_than_contexts_can_use_the_index_concurrently() {
    let index = Index::create(&PARAMETERS).unwrap();
    let threads = 8 + 2 * std::thread::available_parallelism().map_or(1, usize::from) as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let index = &index;
            scope.spawn(move || {
                for key in (0..200).map(|n| thread * 1_000 + n) {
                    index.add(PassageId(key), &direction(key)).unwrap();
                    if key % 5 == 0 {
                        assert!(index.remove(PassageId(key)).unwrap());
                    } else if key % 5 == 1 {
                        index.add(PassageId(key), &direction(key + 1)).unwrap();
                    }
                    index.search(&direction(key), 10).unwrap();
                }
            });
        }
    });
    assert_eq!(index.len() as u64, threads * 160);
}

#[test]
fn concurrent_adds_of_the_same_key_leave_one_node() {
    let index = filled(1_000..1_100);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for key in 0..50 {
                    index.add(PassageId(key), &direction(key)).unwrap();
                }
            });
        }
    });
    assert_eq!(index.len(), 150);
}

#[test]
fn a_filtered_search_finds_the_nearest_that_match() {
    let index = filled(0..3_000);
    let found = index.search_matching(&direction(1_000), 4, 64, |passage| passage.0 % 500 == 7).unwrap();
    assert_eq!(found.iter().map(|neighbor| neighbor.passage.0).collect::<Vec<_>>(), [1_007, 507, 1_507, 7]);
    assert!(index.search_matching(&direction(1_000), 4, 64, |_| false).unwrap().is_empty());
    assert!(index.search_matching(&direction(1_000), 0, 64, |_| true).unwrap().is_empty());
}

#[test]
fn a_wider_search_returns_no_more_than_the_limit() {
    let index = filled(0..3_000);
    assert_eq!(index.search_with_ef(&direction(1_000), 5, 200).unwrap().len(), 5);
    assert_eq!(nearest(&index, 1_000, 5).len(), 5);
}

/// Passages by key with their embeddings: thousands around two centers, some with spread zero, and others that resemble nothing
/// else.
struct Crowd {
    passages: Vec<(u64, Embedding)>,
}

/// Keys of the passages that resemble nothing else.
const OTHERS: std::ops::Range<u64> = 1_000_000..1_000_400;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn values(&mut self, dimension: usize) -> Vec<f32> {
        (0..dimension).map(|_| (0..4).map(|_| self.next() as f32 / (1u64 << 31) as f32 - 0.5).sum()).collect()
    }
}

impl Crowd {
    const DIMENSION: usize = 64;

    fn new(spread: f32) -> Self {
        let mut random = Random(11);
        let centers = [random.values(Self::DIMENSION), random.values(Self::DIMENSION)];
        let near = (0..2_600).map(|key| {
            let noise = random.values(Self::DIMENSION);
            let center = &centers[(key % 2) as usize];
            (key, Embedding::normalized(center.iter().zip(noise).map(|(a, b)| a + spread * b).collect()).unwrap())
        });
        let mut passages: Vec<_> = near.collect();
        passages.extend(OTHERS.map(|key| (key, Embedding::normalized(random.values(Self::DIMENSION)).unwrap())));
        Self { passages }
    }

    fn index(&self, quantization: Quantization) -> Index {
        let index = Index::create(&IndexParameters { dimension: Self::DIMENSION, quantization, ..PARAMETERS }).unwrap();
        for (key, embedding) in &self.passages {
            index.add(PassageId(*key), embedding).unwrap();
        }
        assert_eq!(index.len(), self.passages.len());
        index
    }

    /// Counts the others that a search for their own embedding does not find first.
    fn lost(&self, index: &Index) -> usize {
        let others = self.passages.iter().filter(|(key, _)| OTHERS.contains(key));
        others.filter(|(key, embedding)| index.search(embedding, 3).unwrap()[0].passage.0 != *key).count()
    }
}

/// Documents with thousands of equal or nearly equal passages used to hide all other passages, because they filled every list
/// of neighbors.
#[test]
fn passages_beside_thousands_of_near_duplicates_are_found() {
    for spread in [0.0, 1e-4, 1e-2, 0.1] {
        let mut crowd = Crowd::new(spread);
        assert_eq!(crowd.lost(&crowd.index(Quantization::F16)), 0, "spread {spread}, near-duplicates first");
        crowd.passages.reverse();
        assert_eq!(crowd.lost(&crowd.index(Quantization::F16)), 0, "spread {spread}, near-duplicates last");
        let mut random = Random(5);
        crowd.passages.sort_by_cached_key(|_| random.next());
        assert_eq!(crowd.lost(&crowd.index(Quantization::F16)), 0, "spread {spread}, mixed");
    }
}

#[test]
fn near_duplicates_are_returned_with_their_own_scores() {
    let crowd = Crowd::new(0.05);
    let index = crowd.index(Quantization::F16);
    for (key, embedding) in crowd.passages.iter().take(200) {
        let found = index.search(embedding, 5).unwrap();
        assert_eq!(found[0].passage.0, *key, "{found:?}");
        let by_hand: Vec<_> = crowd.passages.iter().map(|(key, other)| (*key, other)).collect();
        let exact = super::super::search_exact(
            Metric::Cosine,
            by_hand.iter().map(|(key, other)| (PassageId(*key), *other)),
            embedding,
            5,
        );
        for (found, exact) in found.iter().zip(&exact) {
            assert!((found.score - exact.score).abs() < 1e-3, "{found:?} against {exact:?}");
        }
    }
}

#[test]
fn near_duplicates_are_removed_one_by_one_in_any_order() {
    let crowd = Crowd::new(0.01);
    let index = crowd.index(Quantization::F16);
    let mut order: Vec<usize> = (0..2_600).collect();
    let mut random = Random(3);
    order.sort_by_cached_key(|_| random.next());
    for (round, number) in order.into_iter().enumerate() {
        let (key, embedding) = &crowd.passages[number];
        assert!(index.remove(PassageId(*key)).unwrap());
        assert!(!index.remove(PassageId(*key)).unwrap());
        if round % 97 == 0 {
            assert_eq!(index.len(), crowd.passages.len() - round - 1);
            assert!(index.search(embedding, 20).unwrap().iter().all(|found| found.passage.0 != *key));
        }
    }
    assert_eq!(index.len(), OTHERS.count());
    assert_eq!(crowd.lost(&index), 0);
}

#[test]
fn equal_passages_are_all_returned_up_to_the_limit() {
    let index = filled(0..1_500);
    let alike = Embedding::normalized(vec![0.0, 0.0, 1.0, 0.0]).unwrap();
    for key in 10_000..15_000 {
        index.add(PassageId(key), &alike).unwrap();
    }
    for limit in [3, 200, 5_000, 6_000] {
        let found = index.search(&alike, limit).unwrap();
        assert_eq!(found.len(), limit);
        assert!(found.iter().take(5_000).all(|neighbor| neighbor.passage.0 >= 10_000));
    }
    let found = index.search_matching(&alike, 10, 64, |passage| passage.0 % 1_000 == 1).unwrap();
    assert_eq!(found.iter().filter(|neighbor| neighbor.passage.0 >= 10_000).count(), 5);
    assert_eq!(found.len(), 7);
}

#[test]
fn every_metric_and_quantization_can_find_remove_and_add_again() {
    for metric in Metric::ALL {
        for quantization in Quantization::ALL {
            if quantization.needs_cosine() && metric != Metric::Cosine {
                continue;
            }
            let parameters = IndexParameters { dimension: 20, metric, quantization, ..PARAMETERS };
            let index = Index::create(&parameters).unwrap();
            let mut random = Random(9);
            let embeddings: Vec<_> = (0..1_500).map(|_| Embedding::normalized(random.values(20)).unwrap()).collect();
            for (key, embedding) in embeddings.iter().enumerate() {
                index.add(PassageId(key as u64), embedding).unwrap();
            }
            let what = format!("{metric:?} {quantization:?}");
            assert_eq!(index.len(), 1_500, "{what}");
            let found = |key: usize| {
                let found = index.search(&embeddings[key], 50).unwrap();
                found.iter().any(|neighbor| neighbor.passage.0 == key as u64)
            };
            let seen = (0..1_500).filter(|key| found(*key)).count();
            assert!(seen >= 1_485, "{what}: {seen}");
            assert!(index.remove(PassageId(7)).unwrap());
            assert!(!found(7), "{what}");
            index.add(PassageId(7), &embeddings[7]).unwrap();
            assert!(found(7), "{what}");
        }
    }
}
