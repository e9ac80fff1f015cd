//! What a compiled filter means, on chosen metadata. `tests/engines/filters.rs` compares random filters with the domain.

use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::{Map, Value as Json, json};

use super::*;
use crate::domain::Language;
use crate::store::clock::{register_clock, system_clock};

fn connection() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    let table = "create table documents (id text, language text, created_at_ms integer, updated_at_ms integer, metadata text,
                 expires_at_ms integer, key integer primary key);
                 create index documents_expiring on documents (expires_at_ms) where expires_at_ms is not null";
    connection.execute_batch(table).unwrap();
    register_clock(&connection, system_clock).unwrap();
    connection
}

/// Whether a document with this metadata matches.
fn matches(metadata: &Json, filter: &SearchFilter) -> bool {
    let connection = connection();
    connection.execute("insert into documents values ('a', 'fr', 1, 2, ?1, null, null)", [metadata.to_string()]).unwrap();
    let condition = compile(filter, &[]);
    let sql = format!("select count(*) from documents d where {}", condition.sql);
    let count: i64 = connection.query_row(&sql, rusqlite::params_from_iter(condition.values), |row| row.get(0)).unwrap();
    count == 1
}

fn path(keys: &[&str]) -> MetadataPath {
    MetadataPath::new(keys.iter().map(|&key| key.to_owned()).collect()).unwrap()
}

fn condition(keys: &[&str], value: Scalar) -> Filter {
    Filter::Field(Field::Metadata(path(keys)), Test::Eq(value))
}

fn equals(keys: &[&str], value: Scalar) -> SearchFilter {
    SearchFilter { languages: Vec::new(), filter: condition(keys, value) }
}

fn text(text: &str) -> Scalar {
    Scalar::Text(text.to_owned())
}

#[track_caller]
fn check(metadata: Json, path: &[&str], value: Scalar, expect: bool) {
    assert_eq!(matches(&metadata, &equals(path, value.clone())), expect, "{metadata} at {path:?} equals {value:?}");
}

#[test]
fn an_empty_filter_matches_all() {
    assert!(matches(&json!({}), &SearchFilter::default()));
}

#[test]
fn values_of_one_type_are_compared_by_value() {
    check(json!({"a": "été"}), &["a"], text("été"), true);
    check(json!({"a": "été"}), &["a"], text("Été"), false);
    check(json!({"a": ""}), &["a"], text(""), true);
    check(json!({"a": "\0"}), &["a"], text("\0"), true);
    check(json!({"a": "x\0y"}), &["a"], text("x\0z"), false);
    check(json!({"a": 1}), &["a"], Scalar::Integer(1), true);
    check(json!({"a": 1.0}), &["a"], Scalar::Integer(1), true);
    check(json!({"a": 1}), &["a"], Scalar::Real(1.0), true);
    check(json!({"a": 0.1}), &["a"], Scalar::Real(0.1), true);
    check(json!({"a": 0.1}), &["a"], Scalar::Real(0.2), false);
    check(json!({"a": i64::MIN}), &["a"], Scalar::Integer(i64::MIN), true);
    check(json!({"a": i64::MAX}), &["a"], Scalar::Integer(i64::MAX - 1), false);
    check(json!({"a": u64::MAX}), &["a"], Scalar::Integer(i64::MAX), false);
    check(json!({"a": true}), &["a"], Scalar::Bool(true), true);
    check(json!({"a": true}), &["a"], Scalar::Bool(false), false);
    check(json!({"a": false}), &["a"], Scalar::Bool(false), true);
}

#[test]
fn values_of_different_types_are_never_equal() {
    check(json!({"a": "1"}), &["a"], Scalar::Integer(1), false);
    check(json!({"a": 1}), &["a"], text("1"), false);
    check(json!({"a": true}), &["a"], Scalar::Integer(1), false);
    check(json!({"a": 1}), &["a"], Scalar::Bool(true), false);
    check(json!({"a": "true"}), &["a"], Scalar::Bool(true), false);
    check(json!({"a": null}), &["a"], text(""), false);
    check(json!({"a": null}), &["a"], Scalar::Bool(false), false);
    check(json!({"a": ["x"]}), &["a"], text("[\"x\"]"), false);
    check(json!({"a": {"b": 1}}), &["a"], text("{\"b\":1}"), false);
    check(json!({"a": 1}), &["a"], Scalar::Real(f64::NAN), false);
}

#[test]
fn a_metadata_path_traverses_only_objects() {
    check(json!({"a": {"b": {"c": 1}}}), &["a", "b", "c"], Scalar::Integer(1), true);
    check(json!({"a": {"b": 1}}), &["a", "c"], Scalar::Integer(1), false);
    check(json!({"a": "b"}), &["a", "b"], text("b"), false);
    check(json!({"a": [1]}), &["a", "0"], Scalar::Integer(1), false);
    check(json!({"a": [1]}), &["a", "[0]"], Scalar::Integer(1), false);
    check(json!({"a": [1]}), &["a[0]"], Scalar::Integer(1), false);
    check(json!({}), &["a"], Scalar::Integer(1), false);
}

#[test]
fn any_text_can_be_a_metadata_key() {
    let keys = [
        " ",
        ".",
        "$",
        "a.b",
        "a[0]",
        "\"",
        "'",
        "\\",
        "\\\"",
        "a\"b",
        "\n",
        "\u{1}",
        "\u{7f}",
        "\0",
        "a\0b",
        "?",
        "?1",
        "été",
        "日付",
        "ключ",
        "🙂",
        "\u{2028}",
        "\u{fffd}",
        "é",
        "') or true --",
    ];
    for key in keys {
        check(json!({key: 1}), &[key], Scalar::Integer(1), true);
        check(json!({"outer": {key: "x"}}), &["outer", key], text("x"), true);
        check(json!({key: {key: true}}), &[key, key], Scalar::Bool(true), true);
        for other in keys.iter().filter(|other| **other != key) {
            check(json!({*other: 1}), &[key], Scalar::Integer(1), false);
        }
    }
    check(json!({"a\0b": 1, "a\0c": 2}), &["a\0c"], Scalar::Integer(2), true);
    check(json!({"a": "no object", "a\0": 1}), &["a", "\0"], Scalar::Integer(1), false);
}

#[test]
fn any_language_may_match_but_every_condition_must() {
    let french = Language::parse("fr").unwrap();
    let german = Language::parse("de").unwrap();
    let metadata = json!({"year": 2020, "draft": false});
    let year = condition(&["year"], Scalar::Integer(2020));
    let draft = |value| condition(&["draft"], Scalar::Bool(value));
    let check = |languages: &[Language], all: &[Filter], expect| {
        let filter = SearchFilter { languages: languages.to_vec(), filter: Filter::And(all.to_vec()) };
        assert_eq!(matches(&metadata, &filter), expect, "{filter:?}");
    };
    check(&[french], &[], true);
    check(&[german, french], &[], true);
    check(&[german], &[], false);
    check(&[french], &[year.clone(), draft(false)], true);
    check(&[french], &[year.clone(), draft(true)], false);
    check(&[german], &[year], false);
}

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        "\\PC{0,3}".prop_map(Scalar::Text),
        any::<String>().prop_map(Scalar::Text),
        (-2i64..3).prop_map(Scalar::Integer),
        any::<i64>().prop_map(Scalar::Integer),
        (-2i32..3).prop_map(|half| Scalar::Real(f64::from(half) / 2.0)),
        any::<f64>().prop_filter("JSON has no NaN or infinity", |real| real.is_finite()).prop_map(Scalar::Real),
        any::<bool>().prop_map(Scalar::Bool),
    ]
}

fn to_json(scalar: &Scalar) -> Json {
    match scalar {
        Scalar::Text(text) => json!(text),
        Scalar::Integer(integer) => json!(integer),
        Scalar::Real(real) => json!(real),
        Scalar::Bool(bool) => json!(bool),
    }
}

proptest! {
    #[test]
    fn any_value_under_any_path_is_found(keys in prop::collection::vec(".+", 1..4), value in scalar()) {
        let metadata = keys.iter().rev().fold(to_json(&value), |inner, key| Json::Object(Map::from_iter([(key.clone(), inner)])));
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        prop_assert!(matches(&metadata, &equals(&keys, value)));
    }
}

#[test]
fn filters_on_a_declared_path_use_its_index() {
    let connection = connection();
    let declared = [path(&["year"]), path(&["author's", "name"])];
    for (number, path) in declared.iter().enumerate() {
        let expression = index_expression(path, "metadata").unwrap();
        connection.execute_batch(&format!("create index by_path_{number} on documents ({expression})")).unwrap();
    }
    let check = |keys: &[&str], test: Test, expect: bool| {
        let filter = Filter::Field(Field::Metadata(path(keys)), test);
        let condition = compile(&SearchFilter { languages: Vec::new(), filter: filter.clone() }, &declared);
        let sql = format!("explain query plan select 1 from documents d where {}", condition.sql);
        let mut statement = connection.prepare(&sql).unwrap();
        let steps =
            statement.query_map(rusqlite::params_from_iter(condition.values), |row| row.get::<_, String>("detail")).unwrap();
        let plan = steps.collect::<Result<Vec<_>, _>>().unwrap().join("\n");
        assert_eq!(plan.contains("USING INDEX by_path_"), expect, "{filter:?}\n{plan}");
    };
    check(&["year"], Test::Eq(Scalar::Integer(2020)), true);
    check(&["year"], Test::Eq(Scalar::Real(0.5)), true);
    check(&["year"], Test::In(vec![Scalar::Integer(1), text("x"), Scalar::Bool(true)]), true);
    check(&["year"], Test::Compare(Relation::Gte, Scalar::Integer(2020)), true);
    check(&["author's", "name"], Test::Prefix("A".to_owned()), true);
    check(&["author's", "name"], Test::Compare(Relation::Lt, text("x")), true);
    check(&["year"], Test::Any(vec![Scalar::Integer(1)]), false);
    check(&["other"], Test::Eq(Scalar::Integer(1)), false);
}

#[test]
fn a_path_that_sqlite_cannot_express_exactly_is_not_indexed() {
    for keys in [["a\"b", "c"], ["a\\b", "c"], ["c", "a\0b"], ["\n", "c"]] {
        assert_eq!(index_expression(&path(&keys), "metadata"), None, "{keys:?}");
    }
}
