//! Tests of one graph.

use super::*;

fn embedding(number: usize) -> Embedding {
    Embedding::normalized((0..16).map(|index| ((number * 16 + index) as f32 * 0.7).sin()).collect()).unwrap()
}

#[test]
fn cosine_scores_ignore_vector_length() {
    for quantization in [Quantization::F32, Quantization::Bf16, Quantization::F16, Quantization::I8] {
        let parameters = IndexParameters::new(16, Metric::Cosine, quantization);
        let engine = Engine::create(&parameters).unwrap();
        engine.reserve(60, 1).unwrap();
        let scaled = |number: usize, by: f32| {
            Embedding::unscaled(embedding(number).as_slice().iter().map(|value| value * by).collect()).unwrap()
        };
        for number in 0..50 {
            engine.add(number as u64, &scaled(number, 0.1 + number as f32)).unwrap();
        }
        for number in 0..50 {
            let (key, score) = engine.search(&scaled(number, 7.0), 5).unwrap()[0];
            assert!((score - 1.0).abs() < 0.01, "{quantization:?}: {number} found {key} with {score}");
            // Every 23rd number has nearly the same direction, which quantized values do not always distinguish.
            let cosine = embedding(key as usize).cosine(&embedding(number));
            assert!(cosine > 0.999, "{quantization:?}: {number} found {key}, whose cosine is {cosine}");
            assert!(quantization != Quantization::F32 || key == number as u64, "{number} found {key}");
        }
    }
}

#[test]
fn an_old_f16_graph_with_the_cosine_metric_can_still_be_loaded() {
    let parameters = IndexParameters::new(16, Metric::Cosine, Quantization::F16);
    let options = IndexOptions {
        dimensions: 16,
        metric: MetricKind::Cos,
        quantization: ScalarKind::F16,
        connectivity: parameters.hnsw.m,
        expansion_add: parameters.hnsw.ef_construction,
        expansion_search: 1,
        multi: false,
    };
    let (old, new) = (usearch::Index::new(&options).unwrap(), Engine::create(&parameters).unwrap());
    old.reserve(60).unwrap();
    new.reserve(60, 1).unwrap();
    for number in 0..50 {
        old.add(number as u64, embedding(number).as_slice()).unwrap();
        new.add(number as u64, &embedding(number)).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.usearch");
    old.save(path.to_str().unwrap()).unwrap();
    check_head(&path, &parameters).unwrap();
    let loaded = Engine::create(&parameters).unwrap();
    loaded.load(&path, u64::MAX).unwrap();
    loaded.reserve(60, 1).unwrap();
    loaded.add(50, &embedding(50)).unwrap();
    new.add(50, &embedding(50)).unwrap();
    for number in 0..51 {
        let [found, expected] = [&loaded, &new].map(|engine| engine.search(&embedding(number), 5).unwrap());
        assert_eq!((found.len(), found[0].0), (5, number as u64));
        for ((_, score), (_, expected)) in found.into_iter().zip(expected) {
            assert!((score - expected).abs() < 1e-3, "{number}: {score} and {expected}");
        }
    }
    let wrong = IndexParameters { metric: Metric::L2, ..parameters };
    assert!(matches!(check_head(&path, &wrong), Err(IndexError::Parameters { what: "values", .. })));
}

#[test]
fn all_keys_are_listed_however_sparse_they_are() {
    let parameters = IndexParameters::new(16, Metric::Cosine, Quantization::I8);
    let sorted_keys = |engine: &Engine| {
        let mut keys = engine.keys().unwrap();
        keys.sort_unstable();
        keys
    };
    for step in [1, 40] {
        let engine = Engine::create(&parameters).unwrap();
        engine.reserve(1_000, 1).unwrap();
        (0..1_000).for_each(|number| engine.add(number * step, &embedding(number as usize)).unwrap());
        let highest = 998 * step + 1;
        engine.mark_removed(999 * step).unwrap();
        engine.rename(5 * step, highest).unwrap();
        let expected: Vec<u64> = (0..999).filter(|number| *number != 5).map(|number| number * step).chain([highest]).collect();
        assert_eq!(sorted_keys(&engine), expected, "step {step}");
        engine.key_bound.store(u64::MAX, Ordering::Relaxed);
        assert_eq!((sorted_keys(&engine), engine.key_bound()), (expected, highest + 1), "unknown bound, step {step}");
    }
}
