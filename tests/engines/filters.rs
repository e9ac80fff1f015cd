//! Filters mean the same in each engine: what `SearchFilter::matches` says.

use dragoman::domain::{
    Document, DocumentOrder, Field, Filter, MetadataPath, Page, Precondition, Relation, Scalar, ScrollRequest, Test,
};
use dragoman::store::{PreparedDocument, SearchFilter};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use crate::contract::{Engine, document, language, over_both_engines, with};

/// The documents of one generated case.
const DOCUMENTS: usize = 6;

/// A value, often from a small set, so that many values are equal.
fn scalars() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        4 => "[ab]{0,2}|\u{10ffff}|été|1".prop_map(Scalar::Text),
        1 => "[\0\u{1}\u{2}a]{0,3}".prop_map(Scalar::Text),
        1 => any::<String>().prop_map(Scalar::Text),
        4 => (-1i64..3).prop_map(Scalar::Integer),
        1 => any::<i64>().prop_map(Scalar::Integer),
        4 => (-2i32..5).prop_map(|half| Scalar::Real(f64::from(half) / 2.0)),
        1 => any::<f64>().prop_filter("JSON has no NaN or infinity", |real| real.is_finite()).prop_map(Scalar::Real),
        1 => (50u32..64).prop_map(|power| Scalar::Real(2f64.powi(power as i32) + 1.0)),
        1 => (50u32..63).prop_map(|power| Scalar::Integer((1 << power) + 1)),
        2 => any::<bool>().prop_map(Scalar::Bool),
    ]
}

fn to_json(scalar: &Scalar) -> Value {
    match scalar {
        Scalar::Text(text) => json!(text),
        Scalar::Integer(integer) => json!(integer),
        Scalar::Real(real) => json!(real),
        Scalar::Bool(truth) => json!(truth),
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf =
        prop_oneof![8 => scalars().prop_map(|scalar| to_json(&scalar)), 1 => Just(Value::Null), 1 => Just(json!(u64::MAX))];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let object = prop::collection::hash_map(keys(), inner.clone(), 0..3);
        prop_oneof![
            prop::collection::vec(inner, 0..3).prop_map(Value::Array),
            object.prop_map(|members| Value::Object(Map::from_iter(members))),
        ]
    })
}

fn keys() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[abc]", 1 => "['\"\\\\.$? ]", 1 => Just("\u{1}".to_owned())]
}

fn conditions() -> impl Strategy<Value = Filter> {
    let relation = || prop_oneof![Just(Relation::Gt), Just(Relation::Gte), Just(Relation::Lt), Just(Relation::Lte)];
    let ordered = scalars().prop_filter("booleans have no order", |scalar| !matches!(scalar, Scalar::Bool(_)));
    let test = prop_oneof![
        scalars().prop_map(Test::Eq),
        scalars().prop_map(Test::Ne),
        prop::collection::vec(scalars(), 0..4).prop_map(Test::In),
        prop::collection::vec(scalars(), 0..4).prop_map(Test::Any),
        (relation(), ordered).prop_map(|(relation, scalar)| Test::Compare(relation, scalar)),
        any::<bool>().prop_map(Test::Exists),
        "[ab]{0,2}|\u{10ffff}|é|\0|\u{1}".prop_map(Test::Prefix),
    ]
    .boxed();
    let paths = prop::collection::vec(keys(), 1..3).prop_map(|keys| Field::Metadata(MetadataPath::new(keys).unwrap()));
    let own = prop_oneof![Just(Field::Id), Just(Field::Language), Just(Field::CreatedAt), Just(Field::UpdatedAt)];
    let code = || prop_oneof![Just("fr"), Just("de")].prop_map(|code| Scalar::Text(code.to_owned()));
    let spoken = prop_oneof![
        code().prop_map(Test::Eq),
        code().prop_map(Test::Ne),
        prop::collection::vec(code(), 0..3).prop_map(Test::In),
    ];
    prop_oneof![8 => (paths, test.clone()), 2 => (own, test), 1 => (Just(Field::Language), spoken)]
        .prop_map(|(field, test)| Filter::Field(field, test))
}

fn filters() -> impl Strategy<Value = Filter> {
    conditions().prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::And),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::Or),
            inner.prop_map(|filter| Filter::Not(Box::new(filter))),
        ]
    })
}

fn documents() -> impl Strategy<Value = Vec<PreparedDocument>> {
    let metadata = prop::collection::hash_map(keys(), values(), 0..4);
    let one = (metadata, prop::option::of(prop_oneof![Just("fr"), Just("de")]));
    prop::collection::vec(one, DOCUMENTS).prop_map(|all| {
        let named = all.into_iter().zip(["a", "b", "aa", "ab", "été", "1"]);
        let made = named.map(|((metadata, code), name)| {
            let document = with(document(name, "text"), Value::Object(Map::from_iter(metadata)));
            PreparedDocument { language: code.and_then(language), ..document }
        });
        made.collect()
    })
}

/// The ids that an engine finds.
fn found(engine: &Engine, filter: &Filter) -> Vec<String> {
    let request = ScrollRequest { filter: filter.clone(), order: DocumentOrder::Id, descending: false, limit: 100, after: None };
    let page = engine.scroll(&request, u64::MAX).unwrap();
    page.documents.into_iter().map(|document| document.id.to_string()).collect()
}

fn matching(stored: &[Document], filter: &Filter) -> Vec<String> {
    stored.iter().filter(|document| filter.matches(document)).map(|document| document.id.to_string()).collect()
}

/// Checks that the engine agrees with the domain, on random filters and documents.
fn check_meaning(engine: &Engine) {
    let config = ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() };
    let cases = (documents(), prop::collection::vec(filters(), 24));
    let run = TestRunner::new(config).run(&cases, |(documents, filters)| {
        engine.upsert_if(documents, Precondition::None).unwrap();
        let stored = engine.list(&Page { after: None, limit: 100 }, u64::MAX).unwrap().documents;
        prop_assert_eq!(stored.len(), DOCUMENTS);
        let created = stored[0].created_at_ms;
        let at = |relation, value| Filter::Field(Field::CreatedAt, Test::Compare(relation, value));
        let half = at(Relation::Gte, Scalar::Real(created as f64 - 0.5));
        let relations = [Relation::Gt, Relation::Gte, Relation::Lt, Relation::Lte];
        let exact = relations.map(|relation| at(relation, Scalar::Integer(created)));
        for filter in filters.into_iter().chain(exact).chain([half]) {
            prop_assert_eq!(found(engine, &filter), matching(&stored, &filter), "{:?} of {:?}", filter, stored);
        }
        Ok(())
    });
    run.unwrap();
}

over_both_engines! {
    fn sql_filters_agree_with_the_domain(engine) {
        check_meaning(engine);
    }

    fn sql_filters_agree_with_the_domain_with_indexes(engine) {
        let path = |keys: &[&str]| MetadataPath::new(keys.iter().map(|&key| key.to_owned()).collect()).unwrap();
        engine.set_metadata_indexes(vec![path(&["a"]), path(&["b"]), path(&["a", "b"])]).unwrap();
        check_meaning(engine);
    }

    fn a_document_matches_any_of_the_requested_languages(engine) {
        for (name, code) in [("a", "fr"), ("b", "de"), ("c", "ja")] {
            engine.put(PreparedDocument { language: language(code), ..document(name, "text") });
        }
        engine.put(document("none", "text"));
        let count = |codes: &[&str]| {
            let languages = codes.iter().filter_map(|code| language(code)).collect();
            engine.count_matching(&SearchFilter { languages, filter: Filter::default() }, 10).unwrap()
        };
        assert_eq!([count(&[]), count(&["fr"]), count(&["fr", "de"]), count(&["sv"])], [4, 1, 2, 0]);
    }
}
