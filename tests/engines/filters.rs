//! Filters mean the same in each engine: what `SearchFilter::matches` says.

use dragoman::domain::{
    Document, DocumentOrder, Field, Filter, MetadataPath, Page, Precondition, Relation, Scalar, ScrollRequest, Test,
};
use dragoman::store::{PreparedDocument, SearchFilter};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Map, Value, json};

use crate::contract::{Engine, document, id, language, over_both_engines, with};

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
        prop::collection::vec(scalars(), 0..4).prop_map(|values| Test::In(values.into())),
        prop::collection::vec(scalars(), 0..4).prop_map(|values| Test::Any(values.into())),
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
        prop::collection::vec(code(), 0..3).prop_map(|values| Test::In(values.into())),
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

/// Whether a document matches by the domain's rules.
fn matches(document: &Document, filter: &Filter) -> bool {
    SearchFilter::from(filter.clone()).matches(&document.clone().into())
}

fn matching(stored: &[Document], filter: &Filter) -> Vec<String> {
    stored.iter().filter(|document| matches(document, filter)).map(|document| document.id.to_string()).collect()
}

fn path(keys: &[&str]) -> MetadataPath {
    MetadataPath::new(keys.iter().map(|&key| key.to_owned()).collect()).unwrap()
}

fn equal(keys: &[&str], value: Scalar) -> Filter {
    Filter::Field(Field::Metadata(path(keys)), Test::Eq(value))
}

fn text(text: &str) -> Scalar {
    Scalar::Text(text.to_owned())
}

/// Checks whether the value at the path equals `value`.
#[track_caller]
fn check(engine: &Engine, metadata: Value, keys: &[&str], value: Scalar, expect: bool) {
    engine.put(with(document("a", "text"), metadata.clone()));
    let filter = equal(keys, value);
    assert_eq!(found(engine, &filter) == ["a"], expect, "{metadata}: {filter:?}");
}

/// Checks whether one document passes the test, in the engine and by the domain's rules.
#[track_caller]
fn passes(engine: &Engine, field: &str, test: Test, expect: bool) {
    let metadata = json!({"year": 2020, "price": 1.5, "open": true, "title": "Été", "tags": ["a", 1], "none": null});
    engine.put(PreparedDocument { language: language("fr"), ..with(document("fr-1", "Bonjour"), metadata) });
    let stored = engine.get(&id("fr-1")).unwrap().unwrap();
    let filter = Filter::Field(Field::parse(field).unwrap(), test);
    assert_eq!((matches(&stored, &filter), found(engine, &filter) == ["fr-1"]), (expect, expect), "{filter:?}");
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
        engine.set_metadata_indexes(vec![path(&["a"]), path(&["b"]), path(&["a", "b"])]).unwrap();
        check_meaning(engine);
    }

    fn a_document_matches_any_of_the_requested_languages_and_every_condition(engine) {
        for (name, code) in [("a", "fr"), ("b", "de"), ("c", "ja")] {
            let document = with(document(name, "text"), json!({"year": 2020, "draft": false}));
            engine.put(PreparedDocument { language: language(code), ..document });
        }
        engine.put(document("none", "text"));
        let count = |codes: &[&str], conditions: &[Filter]| {
            let languages = codes.iter().filter_map(|code| language(code)).collect();
            engine.count_matching(&SearchFilter { languages, filter: Filter::And(conditions.to_vec()) }, 10).unwrap()
        };
        assert_eq!([count(&[], &[]), count(&["fr"], &[]), count(&["fr", "de"], &[]), count(&["sv"], &[])], [4, 1, 2, 0]);
        let (year, draft) = (equal(&["year"], Scalar::Integer(2020)), |value| equal(&["draft"], Scalar::Bool(value)));
        let in_french = |value| count(&["fr"], &[year.clone(), draft(value)]);
        assert_eq!([in_french(false), in_french(true), count(&["sv"], std::slice::from_ref(&year))], [1, 0, 0]);
    }

    fn values_of_one_type_are_compared_by_value(engine) {
        for (own, value, expect) in [
            (json!("été"), text("été"), true),
            (json!("été"), text("Été"), false),
            (json!(""), text(""), true),
            (json!("\0"), text("\0"), true),
            (json!("x\0y"), text("x\0z"), false),
            (json!(1), Scalar::Integer(1), true),
            (json!(1.0), Scalar::Integer(1), true),
            (json!(1), Scalar::Real(1.0), true),
            (json!(0.1), Scalar::Real(0.1), true),
            (json!(0.1), Scalar::Real(0.2), false),
            (json!(i64::MIN), Scalar::Integer(i64::MIN), true),
            (json!(i64::MAX), Scalar::Integer(i64::MAX - 1), false),
            (json!(u64::MAX), Scalar::Integer(i64::MAX), false),
            (json!(true), Scalar::Bool(true), true),
            (json!(true), Scalar::Bool(false), false),
            (json!(false), Scalar::Bool(false), true),
        ] {
            check(engine, json!({"a": own}), &["a"], value, expect);
        }
    }

    fn values_of_different_types_are_never_equal(engine) {
        for (own, value) in [
            (json!("1"), Scalar::Integer(1)),
            (json!(1), text("1")),
            (json!(true), Scalar::Integer(1)),
            (json!(1), Scalar::Bool(true)),
            (json!("true"), Scalar::Bool(true)),
            (json!(null), text("")),
            (json!(null), Scalar::Bool(false)),
            (json!(["x"]), text("[\"x\"]")),
            (json!({"b": 1}), text("{\"b\":1}")),
            (json!(1), Scalar::Real(f64::NAN)),
        ] {
            check(engine, json!({"a": own}), &["a"], value, false);
        }
    }

    fn a_metadata_path_traverses_only_objects(engine) {
        check(engine, json!({"a": {"b": {"c": 1}}}), &["a", "b", "c"], Scalar::Integer(1), true);
        check(engine, json!({"a": {"b": 1}}), &["a", "c"], Scalar::Integer(1), false);
        check(engine, json!({"a": "b"}), &["a", "b"], text("b"), false);
        for keys in [&["a", "0"][..], &["a", "[0]"], &["a[0]"]] {
            check(engine, json!({"a": [1]}), keys, Scalar::Integer(1), false);
        }
        check(engine, json!({}), &["a"], Scalar::Integer(1), false);
    }

    fn a_value_of_another_type_never_passes_a_test(engine) {
        passes(engine, "year", Test::Eq(Scalar::Real(2020.0)), true);
        passes(engine, "year", Test::Eq(text("2020")), false);
        passes(engine, "year", Test::Compare(Relation::Gt, text("")), false);
        passes(engine, "title", Test::Compare(Relation::Gt, Scalar::Integer(0)), false);
        passes(engine, "open", Test::Eq(Scalar::Integer(1)), false);
        passes(engine, "tags", Test::Eq(text("a")), false);
        passes(engine, "title", Test::Any(vec![text("Été")].into()), false);
        passes(engine, "year", Test::Prefix("20".to_owned()), false);
    }

    fn missing_fields_match_only_negated_conditions(engine) {
        passes(engine, "missing", Test::Eq(Scalar::Integer(1)), false);
        passes(engine, "missing", Test::Ne(Scalar::Integer(1)), true);
        passes(engine, "year", Test::Ne(text("2020")), true);
        passes(engine, "missing", Test::Exists(false), true);
        passes(engine, "none", Test::Exists(true), false);
        passes(engine, "tags", Test::Exists(true), true);
    }

    fn each_operator_means_what_it_says(engine) {
        passes(engine, "tags", Test::Any(vec![Scalar::Integer(2), Scalar::Integer(1)].into()), true);
        passes(engine, "tags", Test::Any(Vec::new().into()), false);
        passes(engine, "year", Test::In(vec![text("x"), Scalar::Integer(2020)].into()), true);
        passes(engine, "price", Test::Compare(Relation::Gt, Scalar::Integer(1)), true);
        passes(engine, "price", Test::Compare(Relation::Lte, Scalar::Real(1.5)), true);
        passes(engine, "title", Test::Prefix("Ét".to_owned()), true);
        passes(engine, "id", Test::Prefix("fr".to_owned()), true);
        passes(engine, "language", Test::In(vec![text("de"), text("fr")].into()), true);
        passes(engine, "created_at", Test::Compare(Relation::Lt, Scalar::Integer(i64::MAX)), true);
        passes(engine, "updated_at", Test::Compare(Relation::Gte, Scalar::Integer(i64::MAX)), false);
    }

    fn any_text_can_be_a_metadata_key(engine) {
        let keys = [
            " ", ".", "$", "a.b", "a[0]", "\"", "'", "\\", "\\\"", "a\"b", "\n", "\u{1}", "\u{7f}", "\0", "a\0b", "?", "?1", "été",
            "日付", "ключ", "🙂", "\u{2028}", "\u{fffd}", "é", "') or true --",
        ];
        for (number, key) in keys.iter().enumerate() {
            engine.put(with(document(&format!("{number}"), "text"), json!({*key: 1, "outer": {*key: "x"}})));
            engine.put(with(document(&format!("{number} twice"), "text"), json!({*key: {*key: true}})));
        }
        for (number, key) in keys.iter().enumerate() {
            assert_eq!(found(engine, &equal(&[key], Scalar::Integer(1))), [format!("{number}")], "{key:?}");
            assert_eq!(found(engine, &equal(&["outer", key], text("x"))), [format!("{number}")], "{key:?}");
            assert_eq!(found(engine, &equal(&[key, key], Scalar::Bool(true))), [format!("{number} twice")], "{key:?}");
        }
        check(engine, json!({"a\0b": 1, "a\0c": 2}), &["a\0c"], Scalar::Integer(2), true);
        check(engine, json!({"a": "no object", "a\0": 1}), &["a", "\0"], Scalar::Integer(1), false);
    }

    fn any_value_under_any_path_is_found(engine) {
        let config = ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() };
        let run = TestRunner::new(config).run(&(prop::collection::vec(".+", 1..4), scalars()), |(keys, value)| {
            let inside = |inner, key: &String| Value::Object(Map::from_iter([(key.clone(), inner)]));
            engine.put(with(document("a", "text"), keys.iter().rev().fold(to_json(&value), inside)));
            let path = Field::Metadata(MetadataPath::new(keys).unwrap());
            prop_assert_eq!(found(engine, &Filter::Field(path, Test::Eq(value))), ["a"]);
            Ok(())
        });
        run.unwrap();
    }
}
