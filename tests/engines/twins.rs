//! The two engines beside each other: after the same writes they give the same answers, down to numbers, keys and scores.

use dragoman::domain::{
    Document, DocumentOrder, DocumentPatch, Embedding, FacetRequest, Field, Filter, MetadataPath, Page, PassageId, Precondition,
    QueryTerm, QueryTerms, Scalar, ScrollRequest, SearchParameters, TermPhrase, Test, TitleChange,
};
use dragoman::storage::{NearestSearch, Scope, Unit};
use dragoman::store::{PatchOutcome, PreparedDocument, SearchFilter};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::contract::{Engine, document, embedded, embedding, id, language, with};

#[derive(Debug, Clone)]
enum Write {
    Upsert(Vec<PreparedDocument>),
    Delete(String),
    DeleteMatching(i64),
    Patch(String, i64, Option<&'static str>),
    Embed(usize),
}

const WORDS: [&str; 6] = ["sea", "grey", "old", "été", "wall", "seas"];

fn a_document() -> impl Strategy<Value = PreparedDocument> {
    let words = prop::collection::vec(prop::sample::select(&WORDS[..]), 1..6);
    let code = prop::option::of(prop::sample::select(&["fr", "de"][..]));
    ("[a-e]", words, code, 0i64..3, prop::option::of(0u8..3), any::<bool>()).prop_map(|(name, words, code, year, own, cut)| {
        let text = words.join(" ");
        let mut made = with(document(&name, &text), json!({"year": year, "tags": words}));
        made.language = code.and_then(language);
        match own {
            Some(number) => made.embedding = Some(embedding(f32::from(number))),
            None if cut => made.passages = words_apart(&text),
            None => (),
        }
        made
    })
}

fn words_apart(text: &str) -> Vec<dragoman::domain::PassageSpan> {
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
    ]
}

fn year(number: i64) -> SearchFilter {
    crate::contract::equals("year", Scalar::Integer(number))
}

/// Does it and tells what came of it.
fn done(engine: &Engine, write: &Write) -> String {
    match write {
        Write::Upsert(documents) => format!("{:?}", engine.upsert_if(documents.clone(), Precondition::None)),
        Write::Delete(name) => format!("{:?}", engine.delete_if(&id(name), Precondition::None)),
        Write::DeleteMatching(number) => {
            let until = engine.sequence().unwrap();
            format!("{}", engine.delete_some(&year(*number), until, 0).unwrap().rows.len())
        }
        Write::Patch(name, number, code) => {
            let patch = DocumentPatch {
                title: TitleChange::Keep,
                metadata: json!({"year": number}).as_object().unwrap().clone(),
                language: code.and_then(language),
                metadata_bytes_max: 1_000,
                metadata_depth_max: 3,
            };
            match engine.patch(&id(name), patch, None, Precondition::None).unwrap() {
                PatchOutcome::Done(document, pending) => format!("{:?} {pending:?}", timeless(*document)),
                other => format!("{other:?}"),
            }
        }
        Write::Embed(many) => {
            let pending = engine.pending(PassageId(0), *many).unwrap();
            let embeddings = pending.iter().map(|passage| (passage.id, embedded(passage.id))).collect();
            format!("{:?}", engine.set_embeddings(embeddings).unwrap())
        }
    }
}

fn timeless(document: Document) -> Document {
    Document { created_at_ms: 0, updated_at_ms: 0, ..document }
}

/// What is told of everything that is stored.
fn told(engine: &Engine) -> Vec<String> {
    engine.settle();
    let documents = engine.list(&Page { after: None, limit: 100 }, u64::MAX).unwrap().documents;
    let mut told: Vec<String> = documents.into_iter().map(|document| format!("{:?}", timeless(document))).collect();
    let counts = engine.counts().unwrap();
    told.push(format!("{:?} {:?}", dragoman::domain::CollectionCounts { disk_bytes: 0, ..counts }, engine.sequence().unwrap()));
    told.push(format!("{:?}", engine.pending(PassageId(0), 100).unwrap()));
    let fields = ["year", "tags", "language"].map(|field| FacetRequest { field: Field::parse(field).unwrap(), limit: 4 });
    told.push(format!("{:?}", engine.facets(&SearchFilter::default(), &fields, 1_000).unwrap()));
    let mut tokens = engine.token_changes(None, true).unwrap();
    tokens.passages.sort_by_key(|(passage, _)| *passage);
    tokens.words.sort_by_key(|(passage, _)| *passage);
    told.push(format!("{tokens:?}"));
    let request = ScrollRequest {
        filter: Filter::Not(Box::new(year(1).filter)),
        order: DocumentOrder::Id,
        descending: true,
        limit: 3,
        after: None,
    };
    let page = engine.scroll(&request, 1_000).unwrap();
    told.push(format!("{:?} {:?}", page.documents.into_iter().map(timeless).collect::<Vec<_>>(), page.next));
    told
}

/// Scores, rounded where two ways of adding up differ.
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
    let search =
        NearestSearch { query, scope, limit: 4, unit, exact: true, parameters: SearchParameters::default(), ef_search: 96 };
    engine.nearest(&search).unwrap().neighbors.into_iter().map(|neighbor| (neighbor.passage, neighbor.score)).collect()
}

#[test]
fn the_same_writes_give_the_same_answers() {
    let config = ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() };
    let cases = (prop::collection::vec(writes(), 1..16), any::<bool>());
    let run = TestRunner::new(config).run(&cases, |(writes, with_indexes)| {
        let (one, other) = (Engine::embedded(), Engine::postgres());
        if with_indexes {
            let paths = vec![MetadataPath::parse("year").unwrap()];
            one.set_metadata_indexes(paths.clone()).unwrap();
            other.set_metadata_indexes(paths).unwrap();
        }
        for write in &writes {
            prop_assert_eq!(done(&one, write), done(&other, write), "{:?}", write);
        }
        prop_assert_eq!(told(&one), told(&other));
        prop_assert_eq!(words(&one), words(&other));
        let recent = SearchFilter { filter: Filter::Field(Field::parse("year").unwrap(), Test::Exists(true)), ..year(0) };
        for filter in [&SearchFilter::default(), &year(1), &recent] {
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
