//! A `SearchFilter` as an SQL condition with bound parameters. Nothing of a caller's becomes SQL text.

use rusqlite::types::Value;

use super::SearchFilter;
use crate::domain::{Equals, Scalar};

/// A condition on `documents d` with the values of its `?` parameters, in order.
#[derive(Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) sql: String,
    pub(super) values: Vec<Value>,
}

/// Compiles a filter. An empty one is true of every document.
pub(super) fn compile(filter: &SearchFilter) -> Condition {
    let mut condition = Condition { sql: "true".to_owned(), values: Vec::new() };
    if !filter.languages.is_empty() {
        let places = vec!["?"; filter.languages.len()].join(", ");
        condition.sql.push_str(&format!(" and d.language in ({places})"));
        condition.values.extend(filter.languages.iter().map(|language| Value::Text(language.code().to_owned())));
    }
    for equals in &filter.equals {
        condition.sql.push_str(" and ");
        condition.push_equals(equals);
    }
    condition
}

impl Condition {
    /// Walks the keys one by one. SQLite's JSON paths would be a third faster, but they take two keys for one that differ only
    /// behind a zero character.
    fn push_equals(&mut self, equals: &Equals) {
        let last = equals.path.len().saturating_sub(1);
        self.sql.push_str("exists (select 1 from json_each(d.metadata) k0");
        for depth in 1..=last {
            let outer = depth - 1;
            self.sql.push_str(&format!(", json_each(case when k{outer}.type = 'object' then k{outer}.value end) k{depth}"));
        }
        self.sql.push_str(" where true");
        for (depth, key) in equals.path.iter().enumerate() {
            self.sql.push_str(&format!(" and k{depth}.key = ?"));
            self.values.push(Value::Text(key.clone()));
        }
        self.sql.push_str(&format!(" and k{last}.type "));
        self.push_types(&equals.value);
        if !matches!(equals.value, Scalar::Bool(_)) {
            self.sql.push_str(&format!(" and k{last}.atom = "));
            self.push_value(&equals.value);
        }
        self.sql.push(')');
    }

    fn push_types(&mut self, value: &Scalar) {
        self.sql.push_str(match value {
            Scalar::Text(_) => "= 'text'",
            Scalar::Integer(_) | Scalar::Real(_) => "in ('integer', 'real')",
            Scalar::Bool(true) => "= 'true'",
            Scalar::Bool(false) => "= 'false'",
        });
    }

    fn push_value(&mut self, value: &Scalar) {
        let (sql, value) = match value {
            Scalar::Text(text) => ("?", Value::Text(text.clone())),
            Scalar::Integer(integer) => ("?", Value::Integer(*integer)),
            // Read by SQLite from the same digits as in the metadata, so that both are rounded alike.
            Scalar::Real(real) if real.is_finite() => {
                ("json_extract(?, '$')", Value::Text(serde_json::Value::from(*real).to_string()))
            }
            // JSON has no such number, so nothing equals it.
            Scalar::Real(_) => ("?", Value::Null),
            // Its type says it all.
            Scalar::Bool(_) => ("?", Value::Null),
        };
        self.sql.push_str(sql);
        self.values.push(value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::Connection;
    use serde_json::{Map, Value as Json, json};

    use super::*;
    use crate::domain::Language;

    /// Whether a document with this metadata matches.
    fn matches(metadata: &Json, filter: &SearchFilter) -> bool {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("create table documents (language text, metadata text)").unwrap();
        connection.execute("insert into documents values ('fr', ?1)", [metadata.to_string()]).unwrap();
        let condition = compile(filter);
        let sql = format!("select count(*) from documents d where {}", condition.sql);
        connection.query_row(&sql, rusqlite::params_from_iter(condition.values), |row| row.get::<_, i64>(0)).unwrap() == 1
    }

    fn equals(path: &[&str], value: Scalar) -> SearchFilter {
        let path = path.iter().map(|&key| key.to_owned()).collect();
        SearchFilter { languages: Vec::new(), equals: vec![Equals { path, value }] }
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
    fn a_path_leads_through_objects_only() {
        check(json!({"a": {"b": {"c": 1}}}), &["a", "b", "c"], Scalar::Integer(1), true);
        check(json!({"a": {"b": 1}}), &["a", "c"], Scalar::Integer(1), false);
        check(json!({"a": "b"}), &["a", "b"], text("b"), false);
        check(json!({"a": [1]}), &["a", "0"], Scalar::Integer(1), false);
        check(json!({"a": [1]}), &["a", "[0]"], Scalar::Integer(1), false);
        check(json!({"a": [1]}), &["a[0]"], Scalar::Integer(1), false);
        check(json!({}), &["a"], Scalar::Integer(1), false);
    }

    #[test]
    fn any_text_is_a_key() {
        let keys = [
            "",
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
    fn languages_are_alternatives_and_conditions_hold_together() {
        let french = Language::parse("fr").unwrap();
        let german = Language::parse("de").unwrap();
        let metadata = json!({"year": 2020, "draft": false});
        let year = Equals { path: vec!["year".to_owned()], value: Scalar::Integer(2020) };
        let draft = |value| Equals { path: vec!["draft".to_owned()], value: Scalar::Bool(value) };
        let check = |languages: &[Language], equals: &[Equals], expect| {
            let filter = SearchFilter { languages: languages.to_vec(), equals: equals.to_vec() };
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

    /// What `Equals` promises, without SQL.
    fn equal(a: &Scalar, b: &Scalar) -> bool {
        match (a, b) {
            (Scalar::Integer(integer), Scalar::Real(real)) | (Scalar::Real(real), Scalar::Integer(integer)) => {
                real.fract() == 0.0 && *real as i128 == i128::from(*integer)
            }
            _ => a == b,
        }
    }

    proptest! {
        #[test]
        fn any_value_under_any_path_is_found(path in prop::collection::vec(any::<String>(), 1..4), value in scalar()) {
            let metadata = path.iter().rev().fold(to_json(&value), |inner, key| Json::Object(Map::from_iter([(key.clone(), inner)])));
            let path: Vec<&str> = path.iter().map(String::as_str).collect();
            prop_assert!(matches(&metadata, &equals(&path, value)));
        }

        #[test]
        fn equality_is_that_of_the_domain(stored in scalar(), asked in scalar()) {
            prop_assert_eq!(matches(&json!({"key": to_json(&stored)}), &equals(&["key"], asked.clone())), equal(&stored, &asked));
        }
    }
}
