//! Recall@10 of the HNSW index against exact search, on seeded clustered data: fresh, after a third was replaced, after a round
//! trip through disk, and when built by several threads. Also, each passage must be found by its own embedding, whatever was
//! added, replaced and removed before.

use std::collections::HashMap;

use dragoman::domain::{Embedding, HnswSettings, Metric, PassageId, Quantization, Sequence};
use dragoman::index::{Index, IndexParameters, load, save, search_exact};

const DIMENSION: usize = 96;
const PASSAGES: u64 = 4_000;
const QUERIES: u64 = 200;
const LIMIT: usize = 10;
const RECALL_MIN: f64 = 0.95;

const PARAMETERS: IndexParameters = IndexParameters {
    dimension: DIMENSION,
    metric: Metric::Cosine,
    quantization: Quantization::F16,
    hnsw: HnswSettings { m: 16, ef_construction: 128, ef_search: 64 },
};

/// SplitMix64, so that the data is the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Approximately normal: the sum of twelve uniform numbers minus six.
    fn normal(&mut self) -> f32 {
        (0..12).map(|_| (self.next() >> 40) as f32 / (1u64 << 24) as f32).sum::<f32>() - 6.0
    }

    fn values(&mut self) -> Vec<f32> {
        (0..DIMENSION).map(|_| self.normal()).collect()
    }
}

/// Embeddings around shared centers, like sentences that cluster around topics.
struct Clusters {
    centers: Vec<Vec<f32>>,
    random: Random,
}

impl Clusters {
    fn new(seed: u64) -> Self {
        Self::around(50, seed)
    }

    fn around(centers: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let centers = (0..centers).map(|_| random.values()).collect();
        Self { centers, random }
    }

    fn embedding(&mut self) -> Embedding {
        let center = (self.random.next() % self.centers.len() as u64) as usize;
        let noise = self.random.values();
        let values = self.centers[center].iter().zip(noise).map(|(a, b)| a + 0.5 * b).collect();
        Embedding::normalized(values).expect("random values have a direction")
    }
}

struct Data {
    passages: Vec<(PassageId, Embedding)>,
    queries: Vec<Embedding>,
    clusters: Clusters,
}

fn data() -> Data {
    let mut clusters = Clusters::new(7);
    let passages = (0..PASSAGES).map(|key| (PassageId(key), clusters.embedding())).collect();
    let queries = (0..QUERIES).map(|_| clusters.embedding()).collect();
    Data { passages, queries, clusters }
}

fn build(passages: &[(PassageId, Embedding)]) -> Index {
    let index = Index::create(&PARAMETERS).expect("an index");
    for (key, embedding) in passages {
        index.add(*key, embedding).expect("it adds");
    }
    index
}

/// The share of the exact ten nearest that the index finds, over all queries.
fn recall(index: &Index, data: &Data) -> f64 {
    let mut found = 0;
    for query in &data.queries {
        let exact = search_exact(Metric::Cosine, data.passages.iter().map(|(key, embedding)| (*key, embedding)), query, LIMIT);
        let approximate = index.search(query, LIMIT).expect("it searches");
        assert_eq!(approximate.len(), LIMIT);
        assert!(approximate.windows(2).all(|pair| pair[0].score >= pair[1].score), "nearest first");
        found += exact.iter().filter(|hit| approximate.iter().any(|other| other.passage == hit.passage)).count();
    }
    found as f64 / (data.queries.len() * LIMIT) as f64
}

#[track_caller]
fn check(index: &Index, data: &Data) {
    let recall = recall(index, data);
    println!("recall@{LIMIT} {recall:.4}");
    assert!(recall >= RECALL_MIN, "recall@{LIMIT} is {recall:.4}");
}

#[test]
fn a_fresh_index_reaches_the_minimum_recall() {
    let data = data();
    check(&build(&data.passages), &data);
}

#[test]
fn scores_match_exact_search_within_f16_rounding() {
    let data = data();
    let index = build(&data.passages);
    for query in &data.queries {
        for hit in index.search(query, LIMIT).unwrap() {
            let exact = query.cosine(&data.passages[hit.passage.0 as usize].1);
            assert!((hit.score - exact).abs() < 1e-3, "{} against {exact}", hit.score);
        }
    }
}

#[test]
fn replacing_a_third_costs_no_recall() {
    let mut data = data();
    let index = build(&data.passages);
    for place in (0..data.passages.len()).step_by(3) {
        let embedding = data.clusters.embedding();
        index.add(data.passages[place].0, &embedding).unwrap();
        data.passages[place].1 = embedding;
    }
    assert_eq!(index.len() as u64, PASSAGES);
    check(&index, &data);
}

#[test]
fn removing_a_third_costs_no_recall() {
    let mut data = data();
    let index = build(&data.passages);
    data.passages.retain(|(key, _)| key.0 % 3 != 0);
    for key in (0..PASSAGES).step_by(3) {
        assert!(index.remove(PassageId(key)).unwrap());
    }
    check(&index, &data);
}

#[test]
fn a_saved_and_loaded_index_returns_the_same_results() {
    let data = data();
    let index = build(&data.passages);
    let folder = tempfile::tempdir().unwrap();
    save(&index, folder.path(), Sequence(9), "origin").unwrap();
    let loaded = load(folder.path(), &PARAMETERS, "origin").unwrap();
    assert_eq!(loaded.sequence, Sequence(9));
    for query in &data.queries {
        assert_eq!(loaded.index.search(query, LIMIT).unwrap(), index.search(query, LIMIT).unwrap());
    }
}

#[test]
fn building_with_several_threads_costs_no_recall() {
    let data = data();
    let index = Index::create(&PARAMETERS).unwrap();
    std::thread::scope(|scope| {
        for part in data.passages.chunks(data.passages.len() / 4) {
            let (index, queries) = (&index, &data.queries);
            scope.spawn(move || {
                for (turn, (key, embedding)) in part.iter().enumerate() {
                    index.add(*key, embedding).unwrap();
                    index.search(&queries[turn % queries.len()], LIMIT).unwrap();
                }
            });
        }
    });
    assert_eq!(index.len() as u64, PASSAGES);
    check(&index, &data);
}

/// Recall when the index returns an oversampled candidate list that is rescored with full-precision values, as the service does
/// with coarse quantizations.
fn recall_of(metric: Metric, quantization: Quantization) -> f64 {
    let mut data = data();
    if metric != Metric::Cosine {
        // Lengths between 0.5 and 2.
        let mut random = Random(3);
        let mut stretch = |embedding: &Embedding| {
            let factor = 0.5 + 1.5 * (random.next() >> 40) as f32 / (1u64 << 24) as f32;
            Embedding::unscaled(embedding.as_slice().iter().map(|value| value * factor).collect()).expect("finite values")
        };
        data.passages.iter_mut().for_each(|(_, embedding)| *embedding = stretch(embedding));
    }
    let index = Index::create(&IndexParameters { metric, quantization, ..PARAMETERS }).expect("an index");
    for (key, embedding) in &data.passages {
        index.add(*key, embedding).expect("it adds");
    }
    let candidates = (LIMIT as f32 * quantization.oversampling()) as usize;
    let mut found = 0;
    for query in &data.queries {
        let exact = search_exact(metric, data.passages.iter().map(|(key, embedding)| (*key, embedding)), query, LIMIT);
        let nearest = index.search(query, candidates).expect("it searches");
        let again = nearest.iter().map(|neighbor| (neighbor.passage, &data.passages[neighbor.passage.0 as usize].1));
        let nearest = search_exact(metric, again, query, LIMIT);
        found += exact.iter().filter(|hit| nearest.iter().any(|other| other.passage == hit.passage)).count();
    }
    found as f64 / (data.queries.len() * LIMIT) as f64
}

#[test]
fn every_quantization_and_metric_reaches_the_minimum_recall() {
    for metric in Metric::ALL {
        for quantization in Quantization::ALL {
            if quantization.needs_cosine() && metric != Metric::Cosine {
                continue;
            }
            let recall = recall_of(metric, quantization);
            println!("{} {}: recall@{LIMIT} {recall:.4}", metric.name(), quantization.name());
            assert!(recall >= RECALL_MIN, "{metric:?} {quantization:?}: recall@{LIMIT} is {recall:.4}");
        }
    }
}

/// The passages that a search for their own embedding, at the default width, does not return.
fn lost(index: &Index, passages: &[(PassageId, Embedding)]) -> Vec<PassageId> {
    let found =
        |key: PassageId, embedding: &Embedding| index.search(embedding, LIMIT).unwrap().iter().any(|hit| hit.passage == key);
    passages.iter().filter(|(key, embedding)| !found(*key, embedding)).map(|(key, _)| *key).collect()
}

/// Runs the server's background maintenance until nothing is left to do.
fn run_maintenance(index: &Index, passages: &[(PassageId, Embedding)]) {
    let known: HashMap<PassageId, &Embedding> = passages.iter().map(|(key, embedding)| (*key, embedding)).collect();
    let original = |passage: PassageId| known.get(&passage).map(|embedding| (*embedding).clone());
    if index.needs_compaction() {
        assert!(index.compact(&original, &|| false).unwrap());
    }
    while index.needs_check() {
        index.check(&original, &|| false).unwrap();
    }
}

#[test]
fn every_passage_stays_findable_through_twenty_replacement_rounds() {
    const ROUNDS: u64 = 20;
    const REPLACED: usize = 2_000;
    let mut clusters = Clusters::around(10, 1);
    let index = Index::create(&PARAMETERS).unwrap();
    let mut passages: Vec<_> = (0..PASSAGES).map(|key| (PassageId(key), clusters.embedding())).collect();
    index.add_all(&passages).unwrap();
    let mut compacted = 0;
    for round in 1..=ROUNDS {
        // A replaced document gets passages with new keys; the previous ones are removed afterwards.
        let begin = round as usize * REPLACED % passages.len();
        let new: Vec<_> = (0..REPLACED as u64).map(|n| (PassageId(round * 10_000 + n), clusters.embedding())).collect();
        index.add_all(&new).unwrap();
        for (place, new) in passages[begin..].iter_mut().zip(new) {
            let (old, _) = std::mem::replace(place, new);
            assert!(index.remove(old).unwrap());
        }
        compacted += u32::from(index.needs_compaction());
        run_maintenance(&index, &passages);
        assert_eq!(lost(&index, &passages), [], "after round {round}");
    }
    assert_eq!(index.len() as u64, PASSAGES);
    assert!(compacted > 5, "removed nodes pile up");
}

#[test]
fn every_passage_is_findable_after_concurrent_adds() {
    for quantization in [Quantization::F16, Quantization::I8] {
        let mut clusters = Clusters::around(5, 2);
        let passages: Vec<_> = (0..2 * PASSAGES).map(|key| (PassageId(key), clusters.embedding())).collect();
        let index = Index::create(&IndexParameters { quantization, ..PARAMETERS }).unwrap();
        std::thread::scope(|scope| {
            for part in passages.chunks(passages.len() / 4) {
                scope.spawn(|| part.chunks(200).for_each(|some| index.add_all(some).unwrap()));
            }
        });
        run_maintenance(&index, &passages);
        assert_eq!(lost(&index, &passages), [], "{quantization:?}");
        assert_eq!(index.len(), passages.len());
    }
}

#[test]
fn every_passage_can_be_removed_once_after_maintenance() {
    let mut clusters = Clusters::around(2, 3);
    let passages: Vec<_> = (0..PASSAGES).map(|key| (PassageId(key), clusters.embedding())).collect();
    let index = Index::create(&PARAMETERS).unwrap();
    index.add_all(&passages).unwrap();
    run_maintenance(&index, &passages);
    for (gone, (key, _)) in passages.iter().enumerate() {
        assert!(index.remove(*key).unwrap(), "{key:?}");
        assert!(!index.remove(*key).unwrap(), "{key:?}");
        assert_eq!(index.len(), passages.len() - gone - 1);
    }
}

#[test]
fn compaction_during_changes_and_searches_loses_no_passage() {
    let mut clusters = Clusters::around(50, 4);
    let mut passages: Vec<_> = (0..2 * PASSAGES).map(|key| (PassageId(key), clusters.embedding())).collect();
    let index = Index::create(&PARAMETERS).unwrap();
    index.add_all(&passages).unwrap();
    for (key, _) in passages.drain(..PASSAGES as usize) {
        index.remove(key).unwrap();
    }
    assert!(index.needs_compaction());
    let later: Vec<_> = (0..600).map(|key| (PassageId(50_000 + key), clusters.embedding())).collect();
    let going = &passages[..600];
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(index.compact(&|_| None, &|| false).unwrap()));
        for ((new, embedding), (old, _)) in later.iter().zip(going) {
            index.add(*new, embedding).unwrap();
            assert!(index.remove(*old).unwrap());
            assert!(index.search(embedding, LIMIT).unwrap().iter().any(|hit| hit.passage == *new));
        }
    });
    let gone: Vec<_> = passages.drain(..600).collect();
    passages.extend(later);
    assert!(!index.needs_compaction());
    run_maintenance(&index, &passages);
    assert_eq!(lost(&index, &passages), []);
    assert_eq!(lost(&index, &gone).len(), gone.len());
    assert_eq!(index.len(), passages.len());
}
