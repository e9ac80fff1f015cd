//! Filters: a tree of JSON objects with one operator each, read into conditions on metadata.
//!
//! This version knows `and` and equality. What it does not know is refused with the path inside the filter, never skipped.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use utoipa::ToSchema;

use super::error::ApiError;
use super::extract::{Object, objects, pointer, readable};
use crate::domain::{Code, Equals, Scalar};

/// Nodes inside nodes at most.
const DEPTH_MAX: usize = 16;
/// Conditions in one filter at most.
const CONDITIONS_MAX: usize = 100;
/// Names that stand for the document itself, not for metadata; no operator of this version works on them.
const RESERVED: [&str; 4] = ["id", "language", "created_at", "updated_at"];

/// One node of a filter: either `and` with further nodes, or a `field` with one operator.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(no_recursion)]
pub struct FilterNode {
    /// All of these must hold; an empty list always holds. Excludes the other members.
    #[serde(default, deserialize_with = "nodes")]
    #[schema(nullable = false)]
    pub and: Option<Vec<FilterNode>>,
    /// The metadata value that the operator looks at: keys from the outermost to the innermost, joined by dots. A dot or a
    /// backslash within a key is written with a backslash before it. The prefix `metadata.` may be left out unless the path is
    /// `id`, `language`, `created_at` or `updated_at`, names that are reserved for the document's own values.
    #[serde(default)]
    #[schema(nullable = false, examples("year", "author.name", "metadata.language"))]
    pub field: Option<String>,
    /// The value must be equal to this string, number or boolean. Numbers are compared by value; values of different types
    /// are never equal.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Value, required = false, examples(2020, "Ada", true))]
    pub eq: Option<Value>,
}

/// Reads `filter`, the member of that name of a search.
pub fn parse(filter: Option<Value>) -> Result<Vec<Equals>, ApiError> {
    let mut conditions = Vec::new();
    if let Some(filter) = filter {
        let Object(node) = serde_path_to_error::deserialize(filter).map_err(|error| {
            let place = format!("/filter{}", pointer(error.path()));
            ApiError::at(Code::InvalidFilter, place, format!("{}; supported are and, eq", readable(error.inner())))
        })?;
        collect(node, "/filter", 1, &mut conditions)?;
    }
    Ok(conditions)
}

fn collect(node: FilterNode, place: &str, depth: usize, conditions: &mut Vec<Equals>) -> Result<(), ApiError> {
    let invalid = |detail: String| Err(ApiError::at(Code::InvalidFilter, place, detail));
    if depth > DEPTH_MAX {
        return invalid(format!("a filter may be at most {DEPTH_MAX} nodes deep"));
    }
    match (node.and, node.field, node.eq) {
        (Some(nodes), None, None) => {
            for (index, node) in nodes.into_iter().enumerate() {
                collect(node, &format!("{place}/and/{index}"), depth + 1, conditions)?;
            }
            Ok(())
        }
        (None, Some(field), Some(value)) => {
            if conditions.len() == CONDITIONS_MAX {
                return invalid(format!("a filter may have at most {CONDITIONS_MAX} conditions"));
            }
            let refuse = |member: &str, detail: String| ApiError::at(Code::InvalidFilter, format!("{place}/{member}"), detail);
            let path = parse_field(&field).map_err(|detail| refuse("field", detail))?;
            let value = parse_scalar(&value).ok_or_else(|| {
                let got = kind(&value);
                refuse("eq", format!("must be a string, a number or a boolean, got {got}"))
            })?;
            conditions.push(Equals { path, value });
            Ok(())
        }
        (None, Some(_), None) => invalid("a field needs an operator; supported is eq".to_owned()),
        (None, None, Some(_)) => invalid("an operator needs a field".to_owned()),
        (None, None, None) => invalid("a node needs either and, or field with an operator; it is empty".to_owned()),
        (Some(_), ..) => invalid("a node has either and, or field with an operator, not both".to_owned()),
    }
}

/// Cuts a path at its dots; a backslash makes a dot or backslash part of the key.
fn parse_field(field: &str) -> Result<Vec<String>, String> {
    if RESERVED.contains(&field) {
        return Err(format!("no operator works on the document's own {field} yet; metadata of that name is metadata.{field}"));
    }
    let mut path = vec![String::new()];
    let mut chars = field.chars();
    while let Some(c) = chars.next() {
        let key = match c {
            '.' => {
                path.push(String::new());
                continue;
            }
            '\\' => chars
                .next()
                .filter(|next| matches!(next, '.' | '\\'))
                .ok_or_else(|| format!("a backslash must be followed by a dot or a backslash, got {field:?}"))?,
            other => other,
        };
        if let Some(last) = path.last_mut() {
            last.push(key);
        }
    }
    if path.iter().any(String::is_empty) {
        return Err(format!("must be keys joined by single dots, got {field:?}"));
    }
    if path.len() > 1 && path[0] == "metadata" {
        path.remove(0);
    }
    Ok(path)
}

fn parse_scalar(value: &Value) -> Option<Scalar> {
    match value {
        Value::String(text) => Some(Scalar::Text(text.clone())),
        Value::Bool(truth) => Some(Scalar::Bool(*truth)),
        Value::Number(number) => number.as_i64().map(Scalar::Integer).or_else(|| number.as_f64().map(Scalar::Real)),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Reads the nodes of `and`.
fn nodes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<FilterNode>>, D::Error> {
    objects(deserializer).map(Some)
}

/// Keeps a null that was sent apart from a member that was not.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(filter: Value, expect: &[(&[&str], Scalar)]) {
        let expect = expect
            .iter()
            .map(|(path, value)| Equals { path: path.iter().map(|&key| key.to_owned()).collect(), value: value.clone() });
        assert_eq!(parse(Some(filter.clone())), Ok(expect.collect()), "{filter}");
    }

    fn refuse(filter: Value, place: &str, words: &str) {
        let error = parse(Some(filter.clone())).expect_err("must be refused");
        assert_eq!(error.code, Code::InvalidFilter, "{filter}");
        assert_eq!(error.errors[0].pointer.as_deref(), Some(place), "{filter}");
        assert!(error.detail.contains(words), "{filter}: {}", error.detail);
    }

    #[test]
    fn equality_takes_every_scalar() {
        check(json!({"field": "year", "eq": 2020}), &[(&["year"], Scalar::Integer(2020))]);
        check(json!({"field": "price", "eq": 1.5}), &[(&["price"], Scalar::Real(1.5))]);
        check(json!({"field": "open", "eq": false}), &[(&["open"], Scalar::Bool(false))]);
        check(json!({"field": "author.name", "eq": "Ada"}), &[(&["author", "name"], Scalar::Text("Ada".to_owned()))]);
    }

    #[test]
    fn dots_within_keys_are_escaped() {
        check(json!({"field": r"a\.b.c\\d", "eq": 1}), &[(&["a.b", r"c\d"], Scalar::Integer(1))]);
        refuse(json!({"field": r"a\b", "eq": 1}), "/filter/field", "backslash");
        refuse(json!({"field": "a..b", "eq": 1}), "/filter/field", "single dots");
        refuse(json!({"field": "", "eq": 1}), "/filter/field", "single dots");
    }

    #[test]
    fn the_prefix_tells_metadata_from_the_document() {
        check(json!({"field": "metadata.language", "eq": "x"}), &[(&["language"], Scalar::Text("x".to_owned()))]);
        check(json!({"field": "metadata", "eq": 1}), &[(&["metadata"], Scalar::Integer(1))]);
        refuse(json!({"field": "language", "eq": "fr"}), "/filter/field", "metadata.language");
    }

    #[test]
    fn and_holds_when_all_hold() {
        let two = json!({"and": [{"field": "a", "eq": 1}, {"and": [{"field": "b", "eq": 2}]}]});
        check(two, &[(&["a"], Scalar::Integer(1)), (&["b"], Scalar::Integer(2))]);
        check(json!({"and": []}), &[]);
    }

    #[test]
    fn what_is_not_known_is_refused_with_its_path() {
        refuse(json!({"and": [{"field": "a", "eq": 1}, {"field": "b", "gte": 2}]}), "/filter/and/1/gte", "supported are and, eq");
        refuse(json!({"field": "a", "eq": [1]}), "/filter/eq", "got an array");
        refuse(json!({"field": "a", "eq": null}), "/filter/eq", "got null");
        refuse(json!({"field": "a"}), "/filter", "needs an operator");
        refuse(json!({"eq": 1}), "/filter", "needs a field");
        refuse(json!({}), "/filter", "empty");
        refuse(json!({"and": [], "field": "a"}), "/filter", "not both");
        refuse(json!([1]), "/filter", "expected an object");
        refuse(json!({"and": [["a"]]}), "/filter/and/0", "expected an object");
        refuse(json!({"and": 3}), "/filter/and", "expected an array");
    }

    #[test]
    fn depth_and_number_are_bounded() {
        let deep = (0..DEPTH_MAX).fold(json!({"field": "a", "eq": 1}), |inner, _| json!({"and": [inner]}));
        assert_eq!(parse(Some(deep)).map_err(|error| error.code), Err(Code::InvalidFilter));
        let many = json!({"and": vec![json!({"field": "a", "eq": 1}); CONDITIONS_MAX + 1]});
        assert_eq!(parse(Some(many)).map_err(|error| error.code), Err(Code::InvalidFilter));
    }
}
