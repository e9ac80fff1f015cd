//! Collections with caller-supplied vectors, and how their values are stored.

use dragoman::domain::{
    Code, ColumnTypes, DocumentId, Embedding, Field, FileEncoding, FileFormat, Filter, HnswSettings, IndexState, Metric,
    NewCollection, NewDocument, NewSource, Quantization, Scalar, SearchParameters, SearchRequest, SearchTarget, Test, Wait,
};
use dragoman::service::Error;
use dragoman::service::documents::import::ImportFile;
use dragoman::service::documents::input::UpsertOutcome;
use futures::stream;

use crate::{Running, collection_folder, document, fresh, ids, name, open, request};

impl Running {
    async fn create_points(&self, dimension: usize, metric: Metric, quantization: Quantization) {
        let source = NewSource::OwnVectors(dimension);
        let new = NewCollection { source, metric, quantization, ..NewCollection::new(name("points")) };
        self.service.create_collection(new, None).await.unwrap();
    }

    /// Writes points whose ids are their positions.
    async fn write_points(&self, points: &[Vec<f32>]) {
        let row = self.on("points").row();
        let documents = points.iter().enumerate().map(|(place, values)| NewDocument {
            vector: Some(row.prepare_vector(values.clone()).unwrap()),
            ..document(&place.to_string(), "")
        });
        let outcomes = self.upsert("points", documents.collect(), Wait::Indexed).await.unwrap();
        assert!(outcomes.iter().all(Result::is_ok));
    }

    async fn nearest(&self, vector: &[f32], limit: usize, parameters: SearchParameters) -> Vec<(String, f32)> {
        let row = self.on("points").row();
        let target = SearchTarget::Vector(row.prepare_vector(vector.to_vec()).unwrap());
        let request = SearchRequest { parameters, ..SearchRequest::new(target, limit) };
        let found = self.on("points").search(request).await.unwrap();
        found.hits.iter().map(|hit| (hit.id.as_str().to_owned(), hit.score)).collect()
    }
}

/// Pseudo-random points, the same every time.
fn points(count: usize, dimension: usize) -> Vec<Vec<f32>> {
    let mut state = 3u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32 - 0.5
    };
    (0..count).map(|_| (0..dimension).map(|_| random()).collect()).collect()
}

#[tokio::test]
async fn points_are_ranked_by_the_metric_of_their_collection() {
    for (metric, nearest) in [(Metric::Cosine, ["0", "1", "2"]), (Metric::Dot, ["1", "0", "2"]), (Metric::L2, ["0", "2", "1"])] {
        let folder = tempfile::tempdir().unwrap();
        let running = open(folder.path()).await;
        running.create_points(2, metric, Quantization::F16).await;
        running.write_points(&[vec![1.0, 0.1], vec![9.0, 2.0], vec![0.4, 0.9]]).await;
        let found = running.nearest(&[1.0, 0.0], 3, SearchParameters::default()).await;
        assert_eq!(found.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), nearest, "{metric:?}");
        running.shutdown().await;
        // After saving and loading.
        let running = open(folder.path()).await;
        assert_eq!(running.nearest(&[1.0, 0.0], 3, SearchParameters::default()).await, found, "{metric:?}");
    }
}

#[tokio::test]
async fn rewriting_vectors_replaces_them_without_adding_passages() {
    let (folder, running) = fresh().await;
    running.create_points(2, Metric::L2, Quantization::F32).await;
    running.write_points(&[vec![1.0, 0.0], vec![5.0, 5.0]]).await;
    let passages = async || running.service.get_collection(&name("points")).await.unwrap().counts;
    running.write_points(&[vec![1.0, 0.0], vec![5.0, 5.0]]).await;
    assert_eq!(running.nearest(&[1.0, 0.0], 1, SearchParameters::default()).await, [("0".to_owned(), 0.0)]);
    running.write_points(&[vec![8.0, 0.0], vec![5.0, 5.0]]).await;
    assert_eq!(running.nearest(&[8.0, 0.0], 1, SearchParameters::default()).await, [("0".to_owned(), 0.0)]);
    let counts = passages().await;
    assert_eq!((counts.documents, counts.passages, counts.passages_pending), (2, 2, 0));
    running.crash();
    let running = open(folder.path()).await;
    assert_eq!(running.nearest(&[8.0, 0.0], 1, SearchParameters::default()).await, [("0".to_owned(), 0.0)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn points_are_found_once_their_import_has_succeeded() {
    let (_folder, running) = fresh().await;
    running.create_points(2, Metric::L2, Quantization::F32).await;
    let file =
        ImportFile { format: FileFormat::Ndjson, encoding: FileEncoding::Identity, types: ColumnTypes::NONE, announced: None };
    for n in 0..20u8 {
        let line = format!("{{\"id\":\"{n}\",\"text\":\"a point\",\"vector\":[{n},1]}}\n");
        let body = stream::iter([Ok::<_, ()>(line.into_bytes())]);
        let job = running.on("points").import(file.clone(), body).await.unwrap();
        while !running.service.get_job(&job.id).await.unwrap().status.is_finished() {
            tokio::task::yield_now().await;
        }
        let found = running.nearest(&[f32::from(n), 1.0], 1, SearchParameters::default()).await;
        assert_eq!(found, [(n.to_string(), 0.0)]);
    }
}

#[tokio::test]
async fn vectors_and_queries_that_do_not_fit_the_collection_are_refused() {
    let (_folder, running) = fresh().await;
    running.create_points(2, Metric::Cosine, Quantization::F16).await;
    running.create("news").await;
    let failure = |outcomes: Vec<UpsertOutcome>| {
        let refusal = outcomes.into_iter().next().unwrap().unwrap_err();
        (refusal.code, refusal.problems[0].detail.clone())
    };
    let without = running.upsert("points", vec![document("a", "text")], Wait::Indexed).await.unwrap();
    let (code, detail) = failure(without);
    assert_eq!(code, Code::InvalidRequest);
    assert!(detail.contains("expected 2 values"), "{detail}");
    let row = running.on("points").row();
    let with = NewDocument { vector: row.prepare_vector(vec![1.0, 2.0]).ok(), ..document("a", "text") };
    let (code, detail) = failure(running.upsert("news", vec![with], Wait::Indexed).await.unwrap());
    assert_eq!(code, Code::InvalidRequest);
    assert!(detail.contains("must be left out"), "{detail}");
    let error = running.search("points", request("text", 3)).await.unwrap_err();
    assert!(matches!(error, Error::NoModel { dimension: 2, .. }), "{error:?}");
    let short = SearchTarget::Vector(Embedding::normalized(vec![1.0]).unwrap());
    let error = running.on("points").search(SearchRequest::new(short, 3)).await.unwrap_err();
    assert!(matches!(&error, Error::VectorDimension { expected: 2, got: 1, .. }), "{error:?}");
}

#[tokio::test]
async fn quantized_candidates_are_rescored_with_stored_vectors() {
    let points = points(1_500, 64);
    for quantization in [Quantization::I8, Quantization::B1] {
        let folder = tempfile::tempdir().unwrap();
        let running = open(folder.path()).await;
        running.create_points(64, Metric::Cosine, quantization).await;
        for part in points.chunks(1_000) {
            let row = running.on("points").row();
            let documents = part.iter().map(|values| NewDocument {
                vector: row.prepare_vector(values.clone()).ok(),
                id: None,
                ..document("x", "")
            });
            running.upsert("points", documents.collect(), Wait::Indexed).await.unwrap();
        }
        for point in points.iter().take(30) {
            let found = running.nearest(point, 5, SearchParameters::default()).await;
            assert!((found[0].1 - 1.0).abs() < 1e-5, "{quantization:?}: {found:?}");
        }
        // Without rescoring, scores are those of the index's values. A passage that the graph lost when two threads added is kept
        // with its exact values, so one alone may score the same.
        let once = SearchParameters { oversampling: Some(1.0), ef_search: Some(64) };
        let mut differences = Vec::new();
        for point in points.iter().take(30) {
            let exact = running.nearest(point, 2, SearchParameters::default()).await;
            let coarse = running.nearest(point, 2, once).await;
            differences.push((exact[1].1 - coarse[1].1).abs());
        }
        assert!(differences.iter().any(|difference| *difference > 1e-6), "{quantization:?}: {differences:?}");
    }
}

/// Graph searches, comparisons by the index's values, and comparisons by the store's values all agree.
#[tokio::test]
async fn filtered_search_is_accurate_for_every_metric_and_quantization() {
    let points = points(3_000, 8);
    let settings = [Quantization::F32, Quantization::Bf16, Quantization::F16]
        .into_iter()
        .flat_map(|quantization| Metric::ALL.map(|metric| (metric, quantization)))
        .chain([(Metric::Cosine, Quantization::I8), (Metric::Cosine, Quantization::B1)]);
    for (metric, quantization) in settings {
        let folder = tempfile::tempdir().unwrap();
        let running = open(folder.path()).await;
        running.create_points(8, metric, quantization).await;
        running.write_points(&points).await;
        let row = running.on("points").row();
        let query = row.prepare_vector(vec![0.5, -0.25, 0.125, 0.3, -0.4, 0.05, 0.2, -0.1]).unwrap();
        // Ids with these prefixes: nearly all, a third, a ninth of a third, and one.
        for (prefix, step) in [("", 1), ("1", 1), ("12", 1), ("123", 10)] {
            let left = |place: &usize| place.to_string().starts_with(prefix) && place.is_multiple_of(step);
            let filter = match step {
                1 => Filter::Field(Field::Id, Test::Prefix(prefix.to_owned())),
                _ => Filter::Field(Field::Id, Test::Eq(Scalar::Text("1230".to_owned()))),
            };
            let mut expect: Vec<(String, f32)> = (0..points.len())
                .filter(left)
                .map(|place| (place.to_string(), metric.score(&query, &row.prepare_vector(points[place].clone()).unwrap())))
                .collect();
            expect.sort_by(|a, b| b.1.total_cmp(&a.1));
            let request = SearchRequest { filter, ..SearchRequest::new(SearchTarget::Vector(query.clone()), 10) };
            let exact = SearchRequest { exact: true, ..request.clone() };
            let found = running.on("points").search(request).await.unwrap();
            let found: Vec<&DocumentId> = found.hits.iter().map(|hit| &hit.id).collect();
            let exact = running.on("points").search(exact).await.unwrap();
            assert_eq!(exact.hits.len(), expect.len().min(10), "{metric:?} {quantization:?} {prefix:?}");
            for (hit, (id, score)) in exact.hits.iter().zip(&expect) {
                assert!((hit.score - score).abs() < 0.01, "{metric:?} {quantization:?} {prefix:?}: {hit:?}, not {id} {score}");
            }
            let expect = &expect[..expect.len().min(10)];
            let hits = expect.iter().filter(|(id, _)| found.iter().any(|found| found.as_str() == id)).count();
            let place = format!("{metric:?} {quantization:?} {prefix:?}: {found:?} {expect:?}");
            assert_eq!(found.len(), expect.len(), "{place}");
            // One bit for each of eight values gives a graph search almost nothing to go by.
            let enough = if quantization == Quantization::B1 { expect.len() / 2 } else { expect.len() - expect.len() / 10 };
            assert!(hits >= enough, "{place}");
        }
    }
}

/// The index selects candidates by one byte per value; only those that may be among the nearest are rescored with full values.
#[tokio::test]
async fn exact_search_of_quantized_values_has_full_precision_order() {
    let points = points(3_000, 24);
    let (_folder, running) = fresh().await;
    running.create_points(24, Metric::Cosine, Quantization::I8).await;
    running.write_points(&points).await;
    let row = running.on("points").row();
    let points: Vec<Embedding> = points.into_iter().map(|values| row.prepare_vector(values).unwrap()).collect();
    let third = Filter::Field(Field::Id, Test::Prefix("1".to_owned()));
    for query in points.iter().step_by(500) {
        for (filter, prefix, limit) in [(Filter::default(), "", 10), (Filter::default(), "", 700), (third.clone(), "1", 100)] {
            let mut expect: Vec<(String, f32)> =
                points.iter().enumerate().map(|(place, point)| (place.to_string(), Metric::Cosine.score(query, point))).collect();
            expect.retain(|(id, _)| id.starts_with(prefix));
            expect.sort_by(|a, b| b.1.total_cmp(&a.1));
            let request = SearchRequest { filter, exact: true, ..SearchRequest::new(SearchTarget::Vector(query.clone()), limit) };
            let found = running.on("points").search(request).await.unwrap();
            let found: Vec<_> = found.hits.iter().map(|hit| (hit.id.as_str().to_owned(), hit.score)).collect();
            assert_eq!(found, expect[..limit], "{prefix:?}, {limit}");
        }
    }
}

/// A long document that repeats itself has thousands of passages, all nearer than any other document's.
#[tokio::test]
async fn documents_with_thousands_of_passages_do_not_crowd_out_others() {
    let (_folder, running) = fresh().await;
    let hnsw = HnswSettings { m: 8, ef_construction: 32, ef_search: 32 };
    running.service.create_collection(NewCollection { hnsw, ..NewCollection::new(name("news")) }, None).await.unwrap();
    let repeated = |word: &str| format!("{word} ").repeat(20_000);
    let mut documents = vec![document("sea", &repeated("sea")), document("seas", &repeated("seas"))];
    documents.extend((0..300).map(|n| document(&format!("d{n}"), &format!("number {n} of the many letters from {}", n * 7919))));
    running.upsert("news", documents, Wait::Indexed).await.unwrap();
    let passages = running.service.get_collection(&name("news")).await.unwrap().counts.passages;
    assert!(passages > 2_500, "{passages}");
    for limit in [1, 3, 50, 302] {
        let found = ids(&running.search("news", request("sea sea sea", limit)).await.unwrap());
        assert_eq!(found.len(), limit);
    }
    for n in [0, 150, 299] {
        let text = format!("number {n} of the many letters from {}", n * 7919);
        assert_eq!(ids(&running.search("news", request(&text, 3)).await.unwrap())[0], format!("d{n}"));
    }
}

/// The graph search starts among documents that do not match, and visits most of them before it reaches those that do.
#[tokio::test]
async fn matches_far_from_the_query_are_found_exactly() {
    check_far(Quantization::F16).await;
    check_far(Quantization::I8).await;
}

async fn check_far(quantization: Quantization) {
    const FAR_EVERY: usize = 5;
    let (_folder, running) = fresh().await;
    running.create_points(16, Metric::Cosine, quantization).await;
    let row = running.on("points").row();
    let is_far = |place: usize| place.is_multiple_of(FAR_EVERY);
    let points: Vec<Embedding> = points(15_000, 16)
        .into_iter()
        .enumerate()
        .map(|(place, mut values)| {
            values[0] += if is_far(place) { -1.5 } else { 1.5 };
            row.prepare_vector(values).unwrap()
        })
        .collect();
    for part in (0..points.len()).collect::<Vec<_>>().chunks(1_000) {
        let document = |place: &usize| {
            let mut document = NewDocument { vector: Some(points[*place].clone()), ..document(&place.to_string(), "") };
            document.metadata.insert("far".to_owned(), is_far(*place).into());
            document
        };
        running.upsert("points", part.iter().map(document).collect(), Wait::Indexed).await.unwrap();
    }
    let filter = Filter::Field(Field::parse("far").unwrap(), Test::Eq(Scalar::Bool(true)));
    for query in points.iter().skip(1).step_by(1_500) {
        let target = SearchTarget::Vector(query.clone());
        let request = SearchRequest { filter: filter.clone(), ..SearchRequest::new(target, 10) };
        let hits = running.on("points").search(request).await.unwrap().hits;
        let far = points.iter().enumerate().filter(|(place, _)| is_far(*place));
        let mut exact: Vec<(f32, String)> = far.map(|(place, point)| (query.cosine(point), place.to_string())).collect();
        exact.sort_by(|a, b| b.0.total_cmp(&a.0));
        assert_eq!(hits.len(), 10, "{:?}", ids(&hits));
        // In half precision, points at nearly equal distances may swap.
        assert!(
            hits.iter().zip(&exact).all(|(hit, exact)| (hit.score - exact.0).abs() < 1e-3),
            "{:?}, {:?}",
            ids(&hits),
            &exact[..10]
        );
    }
}

#[tokio::test]
async fn damaged_vectors_are_left_out_of_the_index_until_they_are_sent_again() {
    let (folder, running) = fresh().await;
    running.create_points(2, Metric::L2, Quantization::F32).await;
    let points = [vec![1.0, 0.0], vec![5.0, 5.0]];
    running.write_points(&points).await;
    running.shutdown().await;
    let collection = collection_folder(folder.path());
    std::fs::remove_file(collection.join("index.json")).unwrap();
    let database = rusqlite::Connection::open(collection.join("documents.sqlite")).unwrap();
    database.execute_batch("update passages set embedding = zeroblob(12)").unwrap();
    drop(database);
    let running = open(folder.path()).await;
    let view = running.service.get_collection(&name("points")).await.unwrap();
    assert_eq!((view.index_state, running.service.readiness().damaged), (IndexState::Ready, vec![name("points")]));
    let nearest = async || running.nearest(&[1.0, 0.0], 2, SearchParameters::default()).await;
    assert!(nearest().await.is_empty());
    running.write_points(&points).await;
    assert_eq!(nearest().await.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), ["0", "1"]);
}
