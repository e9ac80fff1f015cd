//! Members of request bodies that come from the command line.

use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use serde_json::{Map, Value};

/// Some of a collection's documents.
#[derive(Debug, Args, Serialize)]
pub struct DocumentSelectionArgs {
    /// Only documents in these languages, as BCP 47 tags: fr, pt-BR.
    #[arg(long, short, value_name = "TAG,…", value_delimiter = ',')]
    pub languages: Vec<String>,
    /// Only documents that match this filter, such as {"field": "topic", "eq": "food"}.
    #[arg(long, short, value_name = "JSON", value_parser = json_filter)]
    pub filter: Option<Map<String, Value>>,
}

/// Returns the request members that were set on the command line: all except null, false and empty lists.
pub fn request_members(args: &impl Serialize) -> Map<String, Value> {
    let is_given = |value: &Value| !matches!(value, Value::Null | Value::Bool(false)) && value.as_array() != Some(&Vec::new());
    match serde_json::to_value(args) {
        Ok(Value::Object(members)) => members.into_iter().filter(|(_, value)| is_given(value)).collect(),
        _ => Map::new(),
    }
}

/// Parses an argument that is a JSON object.
pub fn json_object(text: &str) -> Result<Map<String, Value>, String> {
    object_such_as(text, r#"{"name": "value"}"#)
}

/// Parses an argument that is a filter.
pub fn json_filter(text: &str) -> Result<Map<String, Value>, String> {
    object_such_as(text, r#"{"field": "topic", "eq": "art"}"#)
}

/// Parses a JSON object. Without quotes around it, a shell removes those inside, and may split it.
fn object_such_as(text: &str, example: &str) -> Result<Map<String, Value>, String> {
    let expected = format!("expected a JSON object in single quotes, such as '{example}'");
    if !text.trim_start().starts_with('{') {
        return Err(expected);
    }
    serde_json::from_str(text).map_err(|error| format!("{expected}: {error}"))
}

/// Parses an argument that is a finite number. JSON has no others.
pub fn finite_number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or_else(|| "expected a finite number".to_owned())
}

/// Parses an argument whose limits the server knows.
pub fn any_whole_number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| "expected a whole number, such as 10".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_must_be_a_json_object() {
        assert!(json_object(r#"{"a": 1}"#).is_ok());
        for text in ["[1]", "topic=art"] {
            assert_eq!(json_object(text).unwrap_err(), r#"expected a JSON object in single quotes, such as '{"name": "value"}'"#);
        }
        let filter =
            r#"expected a JSON object in single quotes, such as '{"field": "topic", "eq": "art"}': key must be a string"#;
        assert!(json_filter("{field: topic").unwrap_err().starts_with(filter));
    }
}
