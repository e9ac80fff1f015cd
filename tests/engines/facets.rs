//! The range and the histogram of a field's numbers and dates.

use dragoman::domain::{FacetBucket, FacetRequest, FacetStats, Field, HistogramInterval, Scalar};
use dragoman::store::{SearchFilter, StoreError};
use serde_json::json;

use crate::contract::{Engine, document, over_both_engines, with};

fn request(field: &str, histogram: Option<HistogramInterval>) -> FacetRequest {
    FacetRequest { field: Field::parse(field).unwrap(), limit: 0, stats: true, histogram }
}

fn facet(engine: &Engine, field: &str, histogram: Option<HistogramInterval>) -> (u64, FacetStats, Vec<FacetBucket>) {
    let facets = engine.facets(&SearchFilter::default(), &[request(field, histogram)], 1_000).unwrap();
    let facet = facets.counts[0].clone();
    assert!(facet.values.is_empty(), "a limit of zero returns no values");
    (facet.missing, facet.stats.unwrap(), facet.histogram.unwrap_or_default())
}

fn bucket(from: Scalar, documents: u64) -> FacetBucket {
    FacetBucket { from, documents }
}

/// Stores a document for each value of `n`, and returns the counted values.
fn counted(engine: &Engine, values: &[serde_json::Value]) -> Vec<(serde_json::Value, u64)> {
    for (place, value) in values.iter().enumerate() {
        engine.put(with(document(&place.to_string(), "text"), json!({"n": value})));
    }
    let request = FacetRequest { limit: 9, stats: false, ..request("n", None) };
    let facets = engine.facets(&SearchFilter::default(), &[request], 1_000).unwrap();
    facets.counts[0].values.iter().map(|one| (json!(one.value), one.documents)).collect()
}

over_both_engines! {
    fn each_document_counts_once_per_value(engine) {
        let found = counted(engine, &[json!(["a", "b", "a"]), json!(["b", null, ["c"], {}])]);
        assert_eq!(found, [(json!("b"), 2), (json!("a"), 1)]);
    }

    fn equal_numbers_are_one_value(engine) {
        let found = counted(engine, &[json!(1), json!(1.0), json!(-0.0), json!(0), json!(1.5), json!("1")]);
        assert_eq!(found, [(json!(0), 2), (json!(1), 2), (json!(1.5), 1), (json!("1"), 1)]);
    }

    fn large_numbers_are_different_values(engine) {
        assert_eq!(counted(engine, &[json!(i64::MAX), json!(u64::MAX), json!(1e300)]).len(), 3);
    }

    fn equally_frequent_values_are_in_order(engine) {
        let found = counted(engine, &[json!("b"), json!(true), json!(10), json!("B"), json!(2.5), json!(false), json!(-3)]);
        let expect = [json!(false), json!(-3), json!(2.5), json!(10), json!("B"), json!("b"), json!(true)];
        assert_eq!(found.into_iter().map(|(value, _)| value).collect::<Vec<_>>(), expect);
    }

    fn numeric_facets_have_statistics_and_histograms(engine) {
        let values = [json!(1), json!([2, 2.5, 12, "no", true, null]), json!(-0.5), json!("7"), json!(null), json!(true), json!({"n": 9})];
        for (place, value) in values.into_iter().enumerate() {
            engine.put(with(document(&place.to_string(), "text"), json!({"n": value})));
        }
        engine.put(document("none", "text"));
        let (missing, stats, histogram) = facet(engine, "n", Some(HistogramInterval::Width(10.0)));
        assert_eq!(missing, 2);
        let (min, max) = (Some(Scalar::Real(-0.5)), Some(Scalar::Integer(12)));
        assert_eq!(stats, FacetStats { count: 5, min, max, sum: Some(17.0), mean: Some(3.4) });
        assert_eq!(histogram, [bucket(Scalar::Integer(-10), 1), bucket(Scalar::Integer(0), 2), bucket(Scalar::Integer(10), 1)]);
    }

    fn integers_that_are_the_same_float_are_told_apart(engine) {
        const BIG: i64 = 9_007_199_254_740_992;
        engine.put(with(document("a", "text"), json!({"n": [BIG + 1, BIG + 3, BIG]})));
        engine.put(with(document("b", "text"), json!({"n": [BIG + 1, 0.5]})));
        let (_, stats, _) = facet(engine, "n", None);
        let (min, max) = (Some(Scalar::Real(0.5)), Some(Scalar::Integer(BIG + 3)));
        let sum = (4 * BIG + 5) as f64 + 0.5;
        assert_eq!(stats, FacetStats { count: 5, min, max, sum: Some(sum), mean: Some(sum / 5.0) });
        let counted = FacetRequest { limit: 2, ..request("n", None) };
        let facets = engine.facets(&SearchFilter::default(), &[counted], 1_000).unwrap();
        let values: Vec<_> = facets.counts[0].values.iter().map(|value| (value.value.clone(), value.documents)).collect();
        assert_eq!(values, [(Scalar::Integer(BIG + 1), 2), (Scalar::Real(0.5), 1)]);
    }

    fn date_histograms_follow_the_calendar(engine) {
        for (name, at) in [("a", json!("2024-02-29")), ("b", json!(["2024-02-01T23:00:00-02:00", "2024-03-31", "soon"])), ("c", json!("x"))] {
            engine.put(with(document(name, "text"), json!({"at": at})));
        }
        let (missing, stats, histogram) = facet(engine, "at", Some(HistogramInterval::Month));
        let text = |text: &str| Scalar::Text(text.to_owned());
        let (min, max) = (Some(text("2024-02-02T01:00:00.000Z")), Some(text("2024-03-31T00:00:00.000Z")));
        assert_eq!((missing, stats), (0, FacetStats { count: 3, min, max, sum: None, mean: None }));
        assert_eq!(histogram, [bucket(text("2024-02-01T00:00:00.000Z"), 2), bucket(text("2024-03-01T00:00:00.000Z"), 1)]);
        let (_, stats, histogram) = facet(engine, "created_at", Some(HistogramInterval::Year));
        assert_eq!((stats.count, histogram.iter().map(|bucket| bucket.documents).sum::<u64>()), (3, 3));
        assert_eq!(facet(engine, "language", None).1.count, 0);
    }

    fn histograms_with_too_many_buckets_are_refused(engine) {
        let numbers: Vec<usize> = (0..=HistogramInterval::BUCKETS_MAX).collect();
        engine.put(with(document("a", "text"), json!({"n": numbers})));
        let refused = engine.facets(&SearchFilter::default(), &[request("n", Some(HistogramInterval::Width(1.0)))], 1_000);
        assert!(matches!(&refused, Err(StoreError::TooManyBuckets { field, .. }) if field == "n"), "{refused:?}");
        assert_eq!(facet(engine, "n", Some(HistogramInterval::Width(2.0))).2.len(), 501);
    }
}
