//! Tests of the saved index.

use super::*;
use crate::domain::{Embedding, HnswSettings, Metric, PassageId, Quantization};

const PARAMETERS: IndexParameters = IndexParameters {
    dimension: 8,
    metric: Metric::Cosine,
    quantization: Quantization::F16,
    hnsw: HnswSettings { m: 16, ef_construction: 64, ef_search: 64 },
};

const ORIGIN: &str = "c0ffee";

/// Returns a different direction for each number.
fn embedding(number: u64) -> Embedding {
    // The output function of SplitMix64.
    let value = |index: u64| {
        let z = (number * 8 + index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 40
    };
    Embedding::normalized((0..8).map(|index| value(index) as f32 / (1 << 24) as f32 - 0.5).collect()).unwrap()
}

fn index_of(keys: std::ops::Range<u64>) -> Index {
    let index = Index::create(&PARAMETERS).unwrap();
    for key in keys {
        index.add(PassageId(key), &embedding(key)).unwrap();
    }
    index
}

/// Checks that both find the same for many queries.
fn assert_alike(one: &Index, other: &Index) {
    for number in 0..50 {
        assert_eq!(one.search(&embedding(number), 20).unwrap(), other.search(&embedding(number), 20).unwrap());
    }
}

/// Makes a folder with a saved index of 100 passages as of change 42.
fn saved() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    save(&index_of(0..100), folder.path(), Sequence(42), ORIGIN).unwrap();
    folder
}

/// Returns why `load` refuses the folder, without paths.
fn refusal(folder: &Path) -> String {
    match load(folder, &PARAMETERS, ORIGIN) {
        Ok(loaded) => panic!("loaded {loaded:?}"),
        Err(error) => error.to_string().replace(folder.to_str().unwrap(), ""),
    }
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[offset] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_loaded_index_can_be_changed() {
    let index = index_of(0..100);
    index.remove(PassageId(5)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    save(&index, folder.path(), Sequence(1), ORIGIN).unwrap();
    let loaded = load(folder.path(), &PARAMETERS, ORIGIN).unwrap().index;
    assert_eq!(loaded.len(), 99);
    assert!(!loaded.remove(PassageId(5)).unwrap());
    for key in 200..500 {
        loaded.add(PassageId(key), &embedding(key)).unwrap();
    }
    assert_eq!(loaded.len(), 399);
}

#[test]
fn an_empty_index_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    save(&index_of(0..0), folder.path(), Sequence(0), ORIGIN).unwrap();
    let loaded = load(folder.path(), &PARAMETERS, ORIGIN).unwrap().index;
    assert!(loaded.is_empty());
    loaded.add(PassageId(1), &embedding(1)).unwrap();
    assert_eq!(loaded.search(&embedding(1), 3).unwrap().len(), 1);
}

#[test]
fn saving_again_replaces_the_files_and_leaves_no_others() {
    let folder = saved();
    save(&index_of(0..7), folder.path(), Sequence(43), ORIGIN).unwrap();
    assert_eq!(load(folder.path(), &PARAMETERS, ORIGIN).unwrap().sequence, Sequence(43));
    let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [COPIES, DESCRIPTION, GRAPH]);
}

#[test]
fn a_missing_file_is_reported() {
    for name in [GRAPH, COPIES, DESCRIPTION] {
        let folder = saved();
        std::fs::remove_file(folder.path().join(name)).unwrap();
        assert_eq!(refusal(folder.path()), format!("there is no /{name}"));
    }
}

#[test]
fn a_file_that_is_not_regular_is_refused_and_a_link_to_a_regular_one_is_not() {
    for name in FILES {
        let folder = saved();
        let (path, moved) = (folder.path().join(name), folder.path().join("moved"));
        std::fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &path).unwrap();
        assert!(load(folder.path(), &PARAMETERS, ORIGIN).is_ok(), "{name}");
        std::fs::remove_file(&moved).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &moved, rustix::fs::Mode::RWXU).unwrap();
        assert_eq!(refusal(folder.path()), format!("/{name} is not a regular file"));
    }
}

#[test]
fn a_torn_graph_is_refused() {
    let folder = saved();
    let path = folder.path().join(GRAPH);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let expect = format!("/{GRAPH} has {} bytes, but its description says {}", bytes.len() / 2, bytes.len());
    assert_eq!(refusal(folder.path()), expect);
}

#[test]
fn a_flipped_bit_in_the_graph_or_copies_fails_the_checksum() {
    let folder = saved();
    for name in [GRAPH, COPIES] {
        let path = folder.path().join(name);
        let length = std::fs::metadata(&path).unwrap().len() as usize;
        for offset in [0, length / 3, length - 1] {
            flip(&path, offset);
            assert!(
                matches!(load(folder.path(), &PARAMETERS, ORIGIN), Err(IndexError::Checksum { .. })),
                "byte {offset} of {name}"
            );
            flip(&path, offset);
        }
    }
}

#[test]
fn an_altered_sequence_number_fails_the_checksum() {
    let folder = saved();
    let path = folder.path().join(DESCRIPTION);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"sequence\": 42", "\"sequence\": 46")).unwrap();
    assert!(matches!(load(folder.path(), &PARAMETERS, ORIGIN), Err(IndexError::Checksum { .. })));
}

#[test]
fn a_torn_description_is_refused() {
    let folder = saved();
    let path = folder.path().join(DESCRIPTION);
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(refusal(folder.path()), format!("/{DESCRIPTION} does not describe an index"));
}

#[test]
fn files_from_two_different_saves_are_refused() {
    for (damaged_file, length_differs) in [(GRAPH, true), (DESCRIPTION, true), (GRAPH, false), (DESCRIPTION, false)] {
        let folder = saved();
        let before = std::fs::read(folder.path().join(damaged_file)).unwrap();
        let later = if length_differs { index_of(0..120) } else { index_of(1_000..1_100) };
        save(&later, folder.path(), Sequence(50), ORIGIN).unwrap();
        std::fs::write(folder.path().join(damaged_file), before).unwrap();
        let error = load(folder.path(), &PARAMETERS, ORIGIN).unwrap_err();
        assert!(matches!(error, IndexError::Torn { .. } | IndexError::Checksum { .. }), "{error}");
    }
}

#[test]
fn loading_with_a_different_parameter_names_the_mismatch() {
    let folder = saved();
    for (what, parameters) in [
        ("dimension", IndexParameters { dimension: 9, ..PARAMETERS }),
        ("metric", IndexParameters { metric: Metric::L2, ..PARAMETERS }),
        ("quantization", IndexParameters { quantization: Quantization::B1, ..PARAMETERS }),
        ("m", IndexParameters { hnsw: HnswSettings { m: 32, ..PARAMETERS.hnsw }, ..PARAMETERS }),
        ("ef_construction", IndexParameters { hnsw: HnswSettings { ef_construction: 128, ..PARAMETERS.hnsw }, ..PARAMETERS }),
    ] {
        match load(folder.path(), &parameters, ORIGIN) {
            Err(IndexError::Parameters { what: got, .. }) => assert_eq!(got, what),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_index_loads_with_a_different_ef_search() {
    let folder = saved();
    assert!(
        load(folder.path(), &IndexParameters { hnsw: HnswSettings { ef_search: 200, ..PARAMETERS.hnsw }, ..PARAMETERS }, ORIGIN)
            .is_ok()
    );
}

#[test]
fn an_index_cannot_be_saved_to_a_missing_folder() {
    let folder = tempfile::tempdir().unwrap();
    let error = save(&index_of(0..3), &folder.path().join("gone"), Sequence(1), ORIGIN).unwrap_err();
    assert!(matches!(error, IndexError::Engine { .. } | IndexError::Missing { .. }), "{error}");
}

#[test]
fn near_duplicates_round_trip_after_their_first_passage_is_removed() {
    let index = Index::create(&PARAMETERS).unwrap();
    for key in 0..1_000 {
        index.add(PassageId(key), &embedding(key % 11)).unwrap();
    }
    index.remove(PassageId(0)).unwrap();
    index.remove(PassageId(12)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    save(&index, folder.path(), Sequence(1), ORIGIN).unwrap();
    let loaded = load(folder.path(), &PARAMETERS, ORIGIN).unwrap().index;
    assert_eq!(loaded.len(), 998);
    assert_alike(&index, &loaded);
    for key in (0..1_000).rev() {
        assert_eq!(loaded.remove(PassageId(key)).unwrap(), key != 0 && key != 12);
    }
    assert!(loaded.is_empty());
    assert!(loaded.search(&embedding(1), 5).unwrap().is_empty());
}

#[test]
fn a_mapped_index_returns_the_same_results_as_one_in_memory() {
    let folder = saved();
    let viewed = load_or_view(folder.path(), &PARAMETERS, ORIGIN, 0).unwrap().index;
    assert!(viewed.is_viewed());
    assert_alike(&viewed, &index_of(0..100));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert_alike(&viewed, &index_of(0..100)));
        }
    });
}

#[test]
fn changing_a_mapped_index_loads_it_into_memory() {
    for change in [0, 1] {
        let folder = saved();
        let viewed = load_or_view(folder.path(), &PARAMETERS, ORIGIN, 0).unwrap().index;
        if change == 0 {
            viewed.add(PassageId(500), &embedding(500)).unwrap();
        } else {
            assert!(viewed.remove(PassageId(7)).unwrap());
        }
        assert!(!viewed.is_viewed());
        assert_eq!(viewed.len(), if change == 0 { 101 } else { 99 });
        save(&viewed, folder.path(), Sequence(43), ORIGIN).unwrap();
        assert_alike(&viewed, &load(folder.path(), &PARAMETERS, ORIGIN).unwrap().index);
    }
}

#[test]
fn an_index_of_another_database_is_refused() {
    let folder = saved();
    let error = load(folder.path(), &PARAMETERS, "decaf").unwrap_err();
    assert_eq!(error.to_string(), "the saved index has origin c0ffee, but this program needs decaf");
}

#[test]
fn files_of_an_unfinished_save_are_removed() {
    let folder = saved();
    for name in FILES {
        std::fs::write(temporary_path(folder.path(), name), "half of it").unwrap();
    }
    load(folder.path(), &PARAMETERS, ORIGIN).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), FILES.len());
}

/// Fills a folder with a graph as earlier versions left it: after rounds of replacing, new nodes took the slots of removed
/// ones, which cut off other nodes. Returns its passages.
fn saved_by_an_earlier_version(folder: &Path, parameters: &IndexParameters) -> Vec<(PassageId, Embedding)> {
    let around = |key: u64| {
        let center = embedding(key % 8);
        let values = (0..parameters.dimension).map(|index| {
            let noise = embedding(key * 1_000 + index as u64).as_slice()[index % 8];
            center.as_slice()[index % 8] + 1.2 * noise
        });
        (PassageId(key), Embedding::normalized(values.collect()).unwrap())
    };
    let mut passages: Vec<_> = (0..4_000).map(around).collect();
    let graph = usearch::Index::new(&usearch::IndexOptions {
        dimensions: parameters.dimension,
        metric: usearch::MetricKind::IP,
        quantization: usearch::ScalarKind::F16,
        connectivity: parameters.hnsw.m,
        expansion_add: parameters.hnsw.ef_construction,
        expansion_search: 1,
        multi: false,
    })
    .unwrap();
    graph.reserve(4_100).unwrap();
    passages.iter().for_each(|(key, embedding)| graph.add(key.0, embedding.as_slice()).unwrap());
    for round in 0..12 {
        let begin = round % 4 * 1_000;
        passages[begin..begin + 1_000].iter().for_each(|(key, _)| assert_eq!(graph.remove(key.0).unwrap(), 1));
        for (index, key) in (begin..begin + 1_000).zip(4_000 + 1_000 * round as u64..) {
            passages[index] = around(key);
            graph.add(key, passages[index].1.as_slice()).unwrap();
        }
    }
    // Leaves some slots free at the end.
    passages.drain(..20).for_each(|(key, _)| assert_eq!(graph.remove(key.0).unwrap(), 1));
    save(&Index::create(parameters).unwrap(), folder, Sequence(7), ORIGIN).unwrap();
    graph.save(folder.join(GRAPH).to_str().unwrap()).unwrap();
    let description = Description::read(&folder.join(DESCRIPTION)).unwrap();
    let described =
        Description { count: passages.len(), graph: FileSum::of(&folder.join(GRAPH)).unwrap(), checked: false, ..description };
    described.write(&folder.join(DESCRIPTION)).unwrap();
    passages
}

#[test]
fn an_index_saved_by_an_earlier_version_is_checked_and_repaired() {
    let parameters = IndexParameters { dimension: 32, ..PARAMETERS };
    let folder = tempfile::tempdir().unwrap();
    let passages = saved_by_an_earlier_version(folder.path(), &parameters);
    let index = load(folder.path(), &parameters, ORIGIN).unwrap().index;
    assert_eq!(index.len(), passages.len());
    let lost = |index: &Index| {
        let is_found = |key: &PassageId, embedding| index.search(embedding, 10).unwrap().iter().any(|hit| hit.passage == *key);
        passages.iter().filter(|(key, embedding)| !is_found(key, embedding)).count()
    };
    assert!(lost(&index) > 0, "the fixture lost no nodes, so the test proves nothing");
    assert!(index.needs_check() && index.needs_compaction());
    assert!(index.compact(&|_| None, &|| false).unwrap());
    while index.needs_check() {
        index.check(&|_| None, &|| false).unwrap();
    }
    assert_eq!(lost(&index), 0);
    save(&index, folder.path(), Sequence(8), ORIGIN).unwrap();
    let again = load(folder.path(), &parameters, ORIGIN).unwrap().index;
    assert_eq!((lost(&again), again.needs_check(), again.needs_compaction()), (0, false, false));
}

#[test]
fn a_mapped_index_can_be_checked_and_saved() {
    let folder = tempfile::tempdir().unwrap();
    let index = index_of(0..3_000);
    save(&index, folder.path(), Sequence(1), ORIGIN).unwrap();
    let viewed = load_or_view(folder.path(), &PARAMETERS, ORIGIN, 0).unwrap().index;
    assert!(viewed.needs_check());
    while viewed.needs_check() {
        viewed.check(&|_| None, &|| false).unwrap();
    }
    save(&viewed, folder.path(), Sequence(1), ORIGIN).unwrap();
    let again = load_or_view(folder.path(), &PARAMETERS, ORIGIN, 0).unwrap().index;
    assert!(!again.needs_check());
    assert_alike(&viewed, &again);
}

#[test]
fn removed_nodes_stay_removed_in_a_saved_index() {
    let index = index_of(0..3_000);
    (0..1_200).for_each(|key| assert!(index.remove(PassageId(key)).unwrap()));
    let folder = tempfile::tempdir().unwrap();
    save(&index, folder.path(), Sequence(1), ORIGIN).unwrap();
    for view_bytes_min in [0, u64::MAX] {
        let loaded = load_or_view(folder.path(), &PARAMETERS, ORIGIN, view_bytes_min).unwrap().index;
        assert_eq!(loaded.len(), 1_800);
        assert!(loaded.needs_compaction());
        assert!(loaded.search(&embedding(7), 50).unwrap().iter().all(|hit| hit.passage.0 >= 1_200));
        assert!(loaded.search_all(&embedding(7), 3_000).unwrap().iter().all(|hit| hit.passage.0 >= 1_200));
        assert!(loaded.compact(&|_| None, &|| false).unwrap());
        assert_eq!(loaded.len(), 1_800);
        assert!(!loaded.needs_compaction());
    }
}

#[test]
fn a_loaded_index_scans_all_of_its_passages() {
    let folder = tempfile::tempdir().unwrap();
    let index = index_of(0..3_000);
    for key in [7, 2_999] {
        index.remove(PassageId(key)).unwrap();
    }
    index.add(PassageId(5_000), &embedding(7)).unwrap();
    // No node of its own: a near-duplicate.
    index.add(PassageId(5_001), &embedding(8)).unwrap();
    save(&index, folder.path(), Sequence(1), ORIGIN).unwrap();
    let description = std::fs::read_to_string(folder.path().join(DESCRIPTION)).unwrap();
    assert!(description.contains("\"key_bound\": 5001"), "{description}");
    let expected: Vec<u64> = (0..2_999).filter(|key| *key != 7).chain([5_000, 5_001]).collect();
    for view_bytes_min in [0, u64::MAX] {
        let loaded = load_or_view(folder.path(), &PARAMETERS, ORIGIN, view_bytes_min).unwrap().index;
        let found = loaded.scan(&embedding(1), 4_000, crate::index::Among::All).unwrap().unwrap();
        let mut keys: Vec<u64> = found.into_iter().map(|neighbor| neighbor.passage.0).collect();
        keys.sort_unstable();
        assert_eq!(keys, expected);
    }
}
