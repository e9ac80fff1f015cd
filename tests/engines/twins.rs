//! Both engines side by side: after the same writes they give the same responses, down to sequence numbers, keys and scores.

use std::sync::atomic::Ordering;

use dragoman::domain::{
    DocumentOrder, DocumentPatch, Embedding, FacetRequest, Field, Filter, HistogramInterval, JobId, MetadataPath, Page,
    PassageId, Precondition, QueryTerm, QueryTerms, Scalar, ScrollRequest, TermPhrase, Test,
};
use dragoman::storage::{NearestSearch, Scope, Unit};
use dragoman::store::{BatchChange, PatchOutcome, PreparedDocument, SearchFilter};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::contract::{Engine, clock, document, embedded, embedding, id, language, patch, with};

#[derive(Debug, Clone)]
enum Write {
    Upsert(Vec<PreparedDocument>),
    Delete(String),
    DeleteMatching(i64),
    Patch(String, i64, Option<&'static str>),
    UpdateMatching(i64, Option<i64>),
    DeleteExpired,
    Wait(i64),
    Embed(usize),
}

const WORDS: [&str; 6] = ["sea", "grey", "old", "été", "wall", "seas"];

fn a_document() -> impl Strategy<Value = PreparedDocument> {
    let words = prop::collection::vec(prop::sample::select(&WORDS[..]), 1..6);
    let code = prop::option::of(prop::sample::select(&["fr", "de"][..]));
    let values = (0i64..3, a_value(), prop::option::weighted(0.3, 0i64..30));
    ("[a-e]", words, code, values, prop::option::of(0u8..3), any::<bool>()).prop_map(|(name, words, code, values, own, cut)| {
        let (text, (year, value, expires_at_ms)) = (words.join(" "), values);
        let mut made = with(document(&name, &text), json!({"year": year, "tags": words, "x": value}));
        made.expires_at_ms = expires_at_ms;
        made.language = code.and_then(language);
        match own {
            Some(number) => made.embedding = Some(embedding(f32::from(number))),
            None if cut => made.passages = one_passage_per_word(&text),
            None => (),
        }
        made
    })
}

/// A value of any kind.
fn a_value() -> impl Strategy<Value = Value> {
    let values = [
        json!(null),
        json!(1),
        json!(2.5),
        json!(-3),
        json!(true),
        json!("b"),
        json!("été"),
        json!("1"),
        json!([1, "b"]),
        json!([]),
        json!({"b": 1, "a": [2.0, null]}),
        json!("2020-02-03"),
        json!(["2021-05-06T07:08:09Z", 2, 2]),
    ];
    prop::sample::select(values.to_vec())
}

fn one_passage_per_word(text: &str) -> Vec<dragoman::domain::PassageSpan> {
    let start = |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split(' ').map(|word| (start(word)..start(word) + word.len()).into()).collect()
}

fn writes() -> impl Strategy<Value = Write> {
    prop_oneof![
        6 => prop::collection::vec(a_document(), 1..6).prop_map(Write::Upsert),
        1 => "[a-e]".prop_map(Write::Delete),
        1 => (0i64..3).prop_map(Write::DeleteMatching),
        2 => ("[a-e]", 0i64..3, prop::option::of(prop::sample::select(&["fr", "ja"][..])))
            .prop_map(|(name, year, code)| Write::Patch(name, year, code)),
        3 => (1usize..9).prop_map(Write::Embed),
        1 => (0i64..3, prop::option::of(0i64..30)).prop_map(|(year, expires_at_ms)| Write::UpdateMatching(year, expires_at_ms)),
        1 => Just(Write::DeleteExpired),
        2 => (1i64..8).prop_map(Write::Wait),
    ]
}

fn year(number: i64) -> SearchFilter {
    crate::contract::equals("year", Scalar::Integer(number))
}

/// Performs the write and describes its outcome.
fn done(engine: &Engine, write: &Write) -> String {
    match write {
        Write::Upsert(documents) => format!("{:?}", engine.upsert_if(documents.clone(), Precondition::None)),
        Write::Delete(name) => format!("{:?}", engine.delete_if(&id(name), Precondition::None)),
        Write::DeleteMatching(number) => {
            let until = engine.sequence().unwrap();
            format!("{}", engine.change_batch(&BatchChange::Delete, &year(*number), until, 0).unwrap().rows.len())
        }
        Write::Patch(name, number, code) => {
            let patch = DocumentPatch { language: code.and_then(language), ..patch(json!({"year": number})) };
            match engine.patch(&id(name), patch, None, Precondition::None).unwrap() {
                PatchOutcome::Done(document, pending) => format!("{document:?} {pending:?}"),
                other => format!("{other:?}"),
            }
        }
        Write::UpdateMatching(number, expires_at_ms) => {
            let patch = DocumentPatch { expires_at_ms: Some(*expires_at_ms), ..patch(json!({"updated": true})) };
            let until = engine.sequence().unwrap();
            let updated = engine.change_batch(&BatchChange::Update(patch), &year(*number), until, 0).unwrap();
            format!("{} {} {:?}", updated.matched, updated.rows.len(), updated.next)
        }
        Write::DeleteExpired => {
            let was_due = engine.expiry_due();
            let expired = engine.delete_expired().unwrap();
            format!("{was_due} {} {} {}", expired.rows.len(), expired.more, engine.expiry_due())
        }
        // Both see the same clock.
        Write::Wait(_) => String::new(),
        Write::Embed(many) => {
            let pending = engine.pending(PassageId(0), *many).unwrap();
            let embeddings = pending.iter().map(|passage| (passage.id, embedded(passage.id))).collect();
            format!("{:?}", engine.set_embeddings(embeddings).unwrap())
        }
    }
}

/// A description of everything that is stored.
fn description(engine: &Engine) -> Vec<String> {
    engine.catch_up_index();
    let documents = engine.list(&Page { after: None, limit: 100 }, u64::MAX).unwrap().documents;
    let mut description: Vec<String> = documents.into_iter().map(|document| format!("{document:?}")).collect();
    let counts = engine.counts().unwrap();
    description.push(format!(
        "{:?} {:?}",
        dragoman::domain::CollectionCounts { disk_bytes: 0, ..counts },
        engine.sequence().unwrap()
    ));
    description.push(format!("{:?}", engine.pending(PassageId(0), 100).unwrap()));
    let fields = [
        ("year", 4, Some(HistogramInterval::Width(2.0))),
        ("tags", 4, None),
        ("language", 4, None),
        ("x", 0, Some(HistogramInterval::Month)),
        ("x", 9, Some(HistogramInterval::Width(0.5))),
        ("created_at", 0, Some(HistogramInterval::Hour)),
        ("updated_at", 0, None),
    ];
    let fields = fields.map(|(field, limit, histogram)| FacetRequest {
        field: Field::parse(field).unwrap(),
        limit,
        stats: true,
        histogram,
    });
    for filter in [&SearchFilter::default(), &year(1)] {
        description.push(format!("{:?}", engine.facets(filter, &fields, 1_000).unwrap()));
    }
    let all: Vec<PassageId> = (1..200).map(PassageId).collect();
    description.push(format!("{:?}", engine.heads_of(&all).unwrap()));
    let mut tokens = engine.token_changes(None, true).unwrap();
    tokens.passages.sort_by_key(|(passage, _)| *passage);
    tokens.words.sort_by_key(|(passage, _)| *passage);
    description.push(format!("{tokens:?}"));
    description.extend(scrolled(engine));
    description
}

/// The pages in each order.
fn scrolled(engine: &Engine) -> Vec<String> {
    let at = |path| DocumentOrder::Metadata(MetadataPath::parse(path).unwrap());
    let orders =
        [DocumentOrder::Id, DocumentOrder::CreatedAt, DocumentOrder::UpdatedAt, at("year"), at("tags"), at("x"), at("x.b")];
    let mut description = Vec::new();
    for (order, descending) in orders.into_iter().flat_map(|order| [(order.clone(), false), (order, true)]) {
        let filter = Filter::Not(Box::new(year(1).filter));
        let mut request = ScrollRequest { filter, order, descending, limit: 2, after: None };
        for _ in 0..9 {
            let page = engine.scroll(&request, 1_000).unwrap();
            let names: Vec<String> = page.documents.iter().map(|document| document.id.to_string()).collect();
            description.push(format!("{:?} {descending} {names:?} {:?}", request.order, page.next));
            request.after = page.next;
            if request.after.is_none() {
                break;
            }
        }
    }
    description
}

/// Scores, rounded because different summation orders differ.
fn words(engine: &Engine) -> Vec<Vec<(PassageId, i64)>> {
    let term = |text: &str| QueryTerm { text: text.trim_end_matches('*').to_owned(), prefix: text.ends_with('*') };
    let phrase =
        |terms: &[&str]| TermPhrase { terms: terms.iter().map(|&term| term.to_owned()).collect(), prefix: false, folded: true };
    let asked = |texts: &[&str]| QueryTerms { terms: texts.iter().map(|text| term(text)).collect(), ..QueryTerms::default() };
    let queries = [
        asked(&["sea", "ete"]),
        asked(&["se*", "wall"]),
        QueryTerms { required: vec![vec![phrase(&["grey", "old"]), phrase(&["sea"])]], ..asked(&["grey"]) },
        QueryTerms { excluded: vec![phrase(&["wall"])], ..asked(&["old", "été"]) },
    ];
    let rounded = |(passage, score): (PassageId, f32)| (passage, (f64::from(score) * 1e4).round() as i64);
    let found = queries.map(|terms| {
        let mut hits: Vec<_> = engine.lexical(&terms, &SearchFilter::default(), 100).unwrap().into_iter().map(rounded).collect();
        hits.sort_by_key(|(passage, score)| (-score, *passage));
        hits
    });
    found.to_vec()
}

fn nearest(engine: &Engine, query: &Embedding, unit: Unit, filter: &SearchFilter) -> Vec<(PassageId, f32)> {
    let scope = Scope { filter, words: None };
    let search = NearestSearch { unit, exact: true, ..NearestSearch::passages(query, 4, scope, 96) };
    engine.nearest(&search).unwrap().neighbors.into_iter().map(|neighbor| (neighbor.passage, neighbor.score)).collect()
}

#[test]
fn both_engines_give_the_same_results_after_the_same_writes() {
    clock!(NOW, clock);
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    let cases = (prop::collection::vec(writes(), 1..16), any::<bool>());
    let run = TestRunner::new(config).run(&cases, |(writes, with_indexes)| {
        NOW.store(0, Ordering::SeqCst);
        let [one, other] = Engine::both_at(clock);
        if with_indexes {
            let paths = vec![MetadataPath::parse("year").unwrap()];
            one.set_metadata_indexes(paths.clone()).unwrap();
            other.set_metadata_indexes(paths).unwrap();
        }
        for write in &writes {
            if let Write::Wait(ms) = write {
                NOW.fetch_add(*ms, Ordering::SeqCst);
            }
            prop_assert_eq!(done(&one, write), done(&other, write), "{:?}", write);
        }
        prop_assert_eq!(description(&one), description(&other));
        prop_assert_eq!(words(&one), words(&other));
        // The first engine's index keeps expired documents until they are removed.
        prop_assert_eq!(done(&one, &Write::DeleteExpired), done(&other, &Write::DeleteExpired));
        prop_assert_eq!(description(&one), description(&other));
        let exists = Filter::Field(Field::parse("year").unwrap(), Test::Exists(true));
        let with_year = SearchFilter { filter: exists, ..SearchFilter::default() };
        for filter in [&SearchFilter::default(), &year(1), &with_year] {
            for unit in [Unit::Passage, Unit::Document] {
                let query = embedding(3.0);
                prop_assert_eq!(nearest(&one, &query, unit, filter), nearest(&other, &query, unit, filter));
            }
        }
        let Engine::Postgres(engine) = &other else { unreachable!("it is on a server") };
        engine.remove().unwrap();
        Ok(())
    });
    run.unwrap();
}

/// Moves everything into another engine, in several steps.
fn move_all(from: &Engine, to: &Engine) {
    let (job, sequence) = (JobId::parse("00000000-0000-0000-0000-000000000001").unwrap(), from.sequence().unwrap());
    let mut after = None;
    loop {
        let documents = from.document_records(after, 2, u64::MAX).unwrap();
        after = documents.last().map(|document| document.key);
        to.insert_records(&job, documents, sequence, String::new()).unwrap();
        if after.is_none() {
            return;
        }
    }
}

#[test]
fn moving_data_to_the_other_engine_and_back_keeps_the_results() {
    clock!(NOW, clock);
    let config = ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() };
    let run = TestRunner::new(config).run(&prop::collection::vec(writes(), 1..16), |writes| {
        NOW.store(0, Ordering::SeqCst);
        let [source, _] = Engine::both_at(clock);
        let [back, there] = Engine::both_at(clock);
        for write in &writes {
            if let Write::Wait(ms) = write {
                NOW.fetch_add(*ms, Ordering::SeqCst);
            }
            done(&source, write);
        }
        move_all(&source, &there);
        move_all(&there, &back);
        for engine in [&there, &back] {
            prop_assert_eq!(description(&source), description(engine));
            prop_assert_eq!(words(&source), words(engine));
            let query = embedding(3.0);
            for unit in [Unit::Passage, Unit::Document] {
                let filter = SearchFilter::default();
                prop_assert_eq!(nearest(&source, &query, unit, &filter), nearest(engine, &query, unit, &filter));
            }
        }
        prop_assert_eq!(done(&back, &Write::DeleteExpired), done(&there, &Write::DeleteExpired));
        let Engine::Postgres(engine) = &there else { unreachable!("it is on a server") };
        engine.remove().unwrap();
        Ok(())
    });
    run.unwrap();
}
