//! What a condition of a filter can be about: the operators that work on a field, and the values to compare it with.

use serde_json::Value;

use crate::domain::json::kind;
use crate::domain::{Field, Language, LanguageTagError, Scalar, timestamps};

/// How to find the documents that a filter for the tag `und` would mean.
const NO_LANGUAGE: &str = r#"documents without a language match {"field": "language", "exists": false}"#;

/// Operators by their names, in the order in which errors list them.
pub const OPERATORS: [&str; 10] = ["eq", "ne", "in", "any", "gt", "gte", "lt", "lte", "exists", "prefix"];

/// The operators that work on a field.
pub fn operators_of(field: &Field) -> &'static [&'static str] {
    match field {
        Field::Metadata(_) => &OPERATORS,
        Field::Language => &["eq", "ne", "in", "exists"],
        Field::Id => &["eq", "ne", "in", "gt", "gte", "lt", "lte", "prefix"],
        Field::CreatedAt | Field::UpdatedAt => &["eq", "ne", "in", "gt", "gte", "lt", "lte"],
    }
}

/// Parses a value to compare with `field`.
pub fn scalar(field: &Field, value: &Value) -> Result<Scalar, String> {
    let text = || value.as_str().ok_or_else(|| format!("must be a string, got {}", kind(value)));
    match field {
        Field::Id => Ok(Scalar::Text(text()?.to_owned())),
        Field::Language => {
            let language = Language::from_tag(text()?).map_err(|error| match &error {
                LanguageTagError::Undetermined { .. } => format!("{error}; {NO_LANGUAGE}"),
                _ => error.to_string(),
            })?;
            Ok(Scalar::Text(language.code().to_owned()))
        }
        Field::CreatedAt | Field::UpdatedAt => timestamps::parse_rfc3339(text()?).map(Scalar::Integer),
        Field::Metadata(_) => match value {
            Value::String(text) => Ok(Scalar::Text(text.clone())),
            Value::Bool(truth) => Ok(Scalar::Bool(*truth)),
            Value::Number(number) => {
                let integer = number.as_i64().map(Scalar::Integer);
                integer
                    .or_else(|| number.as_f64().map(Scalar::Real))
                    .ok_or_else(|| format!("must be a number that can be compared, got {number}"))
            }
            other => Err(format!("must be a string, a number or a boolean, got {}", kind(other))),
        },
    }
}
