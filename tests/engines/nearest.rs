//! Nearest-neighbor search: exact when that is requested or few passages match, otherwise by an index that does not lose
//! matching passages.

use std::sync::Arc;

use dragoman::domain::{DenseMethod, Embedding, Filter, Metric, PassageId, Precondition, Quantization, Scalar};
use dragoman::storage::{Nearest, NearestSearch, PassageSet, RequiredPassages, Scope, Unit, search_exact};
use dragoman::store::{PreparedDocument, SearchFilter};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use serde_json::json;

use crate::contract::{Engine, collection, cut, document, embedding, equals, id, over_both_engines, with};

/// Enough documents that an index is used, and embeddings that an index handles well.
const MANY: usize = 7_000;
const VALUES: usize = 16;

fn values(random: &mut Xoshiro256PlusPlus) -> Vec<f32> {
    (0..VALUES).map(|_| (random.next_u32() as f32 / u32::MAX as f32) - 0.5).collect()
}

/// A collection with many documents. The metadata of each holds its number modulo 3 and modulo 600.
fn filled(engine: Engine, metric: Metric) -> (Engine, Vec<(PassageId, Embedding)>) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut stored = Vec::with_capacity(MANY);
    for part in 0..MANY / 1_000 {
        let of = |number: usize, random: &mut Xoshiro256PlusPlus| {
            let values = values(random);
            let embedding = if metric == Metric::Cosine { Embedding::normalized(values) } else { Embedding::unscaled(values) };
            let metadata = json!({"third": number % 3, "rare": number % 600});
            PreparedDocument { embedding: Some(embedding.unwrap()), ..with(document(&format!("d{number}"), "text"), metadata) }
        };
        let documents: Vec<_> = (part * 1_000..(part + 1) * 1_000).map(|number| of(number, &mut random)).collect();
        let embeddings: Vec<Embedding> = documents.iter().filter_map(|document| document.embedding.clone()).collect();
        let first = stored.len() as u64 + 1;
        engine.upsert_if(documents, Precondition::None).unwrap();
        stored.extend(embeddings.into_iter().enumerate().map(|(at, embedding)| (PassageId(first + at as u64), embedding)));
    }
    engine.catch_up_index();
    (engine, stored)
}

fn ask(engine: &Engine, query: &Embedding, filter: &SearchFilter, exact: bool, unit: Unit) -> Nearest {
    let scope = Scope { filter, words: None };
    engine.nearest(&NearestSearch { unit, exact, ..NearestSearch::passages(query, 10, scope, 96) }).unwrap()
}

fn passages(nearest: &Nearest) -> Vec<PassageId> {
    nearest.neighbors.iter().map(|neighbor| neighbor.passage).collect()
}

/// Compares what ten queries find with an exact comparison of all matches.
fn check_recall(engine: &Engine, metric: Metric, stored: &[(PassageId, Embedding)]) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(8);
    let (third, rare) = (equals("third", Scalar::Integer(1)), equals("rare", Scalar::Integer(7)));
    let everything = SearchFilter::default();
    let most = SearchFilter { filter: Filter::Not(Box::new(third.filter.clone())), ..SearchFilter::default() };
    let modulo = |passage: PassageId, divisor: u64| (passage.0 - 1) % divisor;
    let scopes: [(&SearchFilter, &dyn Fn(PassageId) -> bool); 4] = [
        (&everything, &|_| true),
        (&most, &|passage| modulo(passage, 3) != 1),
        (&third, &|passage| modulo(passage, 3) == 1),
        (&rare, &|passage| modulo(passage, 600) == 7),
    ];
    for (filter, matches) in scopes {
        let (mut found, mut expected) = (0, 0);
        for _ in 0..10 {
            let values = values(&mut random);
            let query =
                if metric == Metric::Cosine { Embedding::normalized(values) } else { Embedding::unscaled(values) }.unwrap();
            let items = stored.iter().filter(|(passage, _)| matches(*passage)).map(|(passage, embedding)| (*passage, embedding));
            let truth = search_exact(metric, items, &query, 10);
            let exact = ask(engine, &query, filter, true, Unit::Passage);
            assert_eq!(exact.neighbors, truth, "{metric:?} {filter:?}");
            assert_eq!(exact.method, DenseMethod::Scan);
            let usual = ask(engine, &query, filter, false, Unit::Document);
            assert_eq!(usual.neighbors.len(), 10, "{metric:?} {filter:?}");
            assert!(usual.neighbors.iter().all(|neighbor| matches(neighbor.passage)), "{metric:?} {filter:?}");
            assert_eq!(usual.documents.iter().map(|row| row.passage).collect::<Vec<_>>(), passages(&usual));
            expected += truth.len();
            found += truth.iter().filter(|neighbor| passages(&usual).contains(&neighbor.passage)).count();
        }
        assert!(found * 100 >= expected * 95, "{metric:?}: {found} of {expected} with {filter:?}");
    }
}

#[test]
fn nearest_search_has_high_recall_on_a_database_server() {
    for metric in [Metric::Cosine, Metric::L2] {
        let (engine, stored) = filled(Engine::postgres_of(&collection(VALUES, metric)), metric);
        check_recall(&engine, metric, &stored);
        let query = &stored[5].1;
        assert_eq!(ask(&engine, query, &SearchFilter::default(), false, Unit::Passage).method, DenseMethod::Index);
        let third = equals("third", Scalar::Integer(1));
        let most = SearchFilter { filter: Filter::Not(Box::new(third.filter)), ..SearchFilter::default() };
        assert_eq!(ask(&engine, query, &most, false, Unit::Document).method, DenseMethod::Index);
        let rare = equals("rare", Scalar::Integer(7));
        assert_eq!(ask(&engine, query, &rare, false, Unit::Passage).method, DenseMethod::Scan);
    }
}

#[test]
fn nearest_search_has_high_recall_in_the_embedded_engine() {
    let (engine, stored) = filled(Engine::embedded_of(&collection(VALUES, Metric::Cosine)), Metric::Cosine);
    check_recall(&engine, Metric::Cosine, &stored);
}

#[test]
fn a_server_compares_values_beyond_f16_and_8192_dimensions() {
    let large = dragoman::domain::Collection { quantization: Quantization::F32, ..collection(2, Metric::L2) };
    let engine = Engine::postgres_of(&large);
    let at = |x: f32| Embedding::unscaled(vec![x, 0.0]).unwrap();
    for (name, x) in [("a", 1e6), ("b", 2e6), ("c", 5e6)] {
        engine.put(PreparedDocument { embedding: Some(at(x)), ..document(name, "text") });
    }
    let found = ask(&engine, &at(2.1e6), &SearchFilter::default(), false, Unit::Document);
    assert_eq!(found.documents.iter().map(|row| row.document.as_str()).collect::<Vec<_>>(), ["b", "a", "c"]);
    assert_eq!(found.neighbors[0].score, -1e5);
    let wide = Engine::postgres_of(&collection(8_192, Metric::Cosine));
    let embedding = Embedding::normalized(vec![1.0; 8_192]).unwrap();
    wide.put(PreparedDocument { embedding: Some(embedding.clone()), ..document("a", "text") });
    assert_eq!(ask(&wide, &embedding, &SearchFilter::default(), false, Unit::Document).documents.len(), 1);
}

over_both_engines! {
    fn document_search_uses_the_nearest_passage_of_each_document(engine) {
        let long = engine.put(cut("long", "a b c", vec![0..1, 2..3, 4..5]));
        let short = engine.put(document("short", "text"));
        engine.embed(&long.pending);
        engine.embed(&short.pending);
        engine.catch_up_index();
        let query = embedding(2.0);
        let everything = SearchFilter::default();
        let documents = ask(engine, &query, &everything, false, Unit::Document);
        assert_eq!(documents.documents.iter().map(|row| row.document.clone()).collect::<Vec<_>>(), [id("long"), id("short")]);
        assert_eq!(passages(&documents)[0], long.pending[1].id);
        assert!((documents.neighbors[0].score - 1.0).abs() < 1e-2);
        let all = ask(engine, &query, &everything, false, Unit::Passage);
        assert_eq!((all.neighbors.len(), all.documents.len()), (4, 0));
        engine.delete_if(&id("long"), Precondition::None).unwrap();
        engine.catch_up_index();
        assert_eq!(passages(&ask(engine, &query, &everything, true, Unit::Document)), [short.pending[0].id]);
    }

    fn a_passage_set_restricts_the_search(engine) {
        let stored: Vec<PassageId> = (0..5)
            .map(|number| {
                let outcome = engine.put(document(&number.to_string(), "text"));
                engine.embed(&outcome.pending);
                outcome.pending[0].id
            })
            .collect();
        engine.catch_up_index();
        let set: Arc<PassageSet> = Arc::new([stored[1], stored[3], PassageId(99)].into_iter().collect());
        let filter = SearchFilter::default();
        let query = embedding(1.0);
        let found = |words: &RequiredPassages| {
            let scope = Scope { filter: &filter, words: Some(words) };
            let mut found = passages(&engine.nearest(&NearestSearch::passages(&query, 9, scope, 96)).unwrap());
            found.sort();
            found
        };
        assert_eq!(found(&RequiredPassages::Only(Arc::clone(&set))), [stored[1], stored[3]]);
        let others = RequiredPassages::AllBut(Arc::clone(&set));
        assert_eq!(found(&others), [stored[0], stored[2], stored[4]]);
        let scope = Scope { filter: &filter, words: Some(&others) };
        assert_eq!(engine.passages_in(scope).unwrap().iter().collect::<Vec<_>>(), [stored[0], stored[2], stored[4]]);
        let compared = engine.compare(&query, &set).unwrap();
        let mut of_both: Vec<_> = compared.iter().map(|neighbor| neighbor.passage).collect();
        of_both.sort();
        assert_eq!(of_both, [stored[1], stored[3]]);
        assert!(compared[0].score >= compared[1].score);
    }

    fn reports_the_number_of_searchable_passages(engine) {
        engine.ready().unwrap();
        let waiting = engine.put(cut("a", "a b", vec![0..1, 2..3]));
        engine.embed(&waiting.pending[..1]);
        engine.catch_up_index();
        assert_eq!(engine.searchable().unwrap(), 1);
        assert_eq!(ask(engine, &embedding(1.0), &SearchFilter::default(), true, Unit::Passage).neighbors.len(), 1);
        let ids = [waiting.pending[0].id];
        assert_eq!(engine.keep_matching(&SearchFilter::default(), &[PassageId(99), ids[0]]).unwrap(), ids);
    }
}
