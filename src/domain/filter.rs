//! Filters: trees of conditions on a document's metadata and its own fields, and their evaluation.
//!
//! Every condition is true or false, never unknown. A missing value or one of another type does not match. `ne` and `not` are
//! exact negations, so both hold for a missing value.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::names::names;
use super::scalar::{Scalar, ScalarList, ValueKey};
use super::{DocumentHead, Language, Metadata, timestamps};

/// A tree of conditions. The default matches every document.
#[derive(Debug, Clone, PartialEq)]
pub enum Filter {
    /// All of these hold; true if there are none.
    And(Vec<Filter>),
    /// At least one of these holds; false if there are none.
    Or(Vec<Filter>),
    /// This does not hold.
    Not(Box<Filter>),
    /// The field's value passes the test.
    Field(Field, Test),
}

/// The field that a condition tests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Field {
    /// The document's id, a string.
    Id,
    /// The code of the document's language, a string; missing if none was recognized.
    Language,
    /// When the document was first stored: an integer, milliseconds since the Unix epoch.
    CreatedAt,
    /// When it was last stored: an integer, milliseconds since the Unix epoch.
    UpdatedAt,
    /// A value of its metadata.
    Metadata(MetadataPath),
}

/// A test of a value.
#[derive(Debug, Clone, PartialEq)]
pub enum Test {
    /// It equals this. A number equals a number of the same value; values of different types are never equal.
    Eq(Scalar),
    /// It does not equal this, or is missing.
    Ne(Scalar),
    /// It equals one of these.
    In(ScalarList),
    /// It is an array with an element that equals one of these.
    Any(ScalarList),
    /// It compares in this way with a number or a string. Strings are ordered by code points.
    Compare(Relation, Scalar),
    /// Whether the value exists. Null counts as missing.
    Exists(bool),
    /// It is a string that begins with this.
    Prefix(String),
}

/// An order relation between two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Greater.
    Gt,
    /// Greater or equal.
    Gte,
    /// Less.
    Lt,
    /// Less or equal.
    Lte,
}

names!(Relation { Gt = "gt", Gte = "gte", Lt = "lt", Lte = "lte" });

impl Relation {
    /// Its sign in SQL.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Gt => ">",
            Self::Gte => ">=",
            Self::Lt => "<",
            Self::Lte => "<=",
        }
    }
}

/// The path of a metadata value: keys from the outermost to the innermost, at least one and none empty. The catalog stores it
/// as an array of these, the API writes it as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct MetadataPath(Vec<String>);

/// Selects the documents in some languages that match a filter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SearchFilter {
    /// The languages; empty means all.
    pub languages: Vec<Language>,
    /// The filter.
    pub filter: Filter,
}

impl From<Filter> for SearchFilter {
    fn from(filter: Filter) -> Self {
        Self { languages: Vec::new(), filter }
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self::And(Vec::new())
    }
}

impl Filter {
    pub(super) fn holds(&self, document: &DocumentHead) -> bool {
        match self {
            Self::And(filters) => filters.iter().all(|filter| filter.holds(document)),
            Self::Or(filters) => filters.iter().any(|filter| filter.holds(document)),
            Self::Not(filter) => !filter.holds(document),
            Self::Field(field, test) => test.passes(&field.value_in(document)),
        }
    }
}

impl SearchFilter {
    /// Whether a document matches. The store's SQL gives the same result.
    pub fn matches(&self, document: &DocumentHead) -> bool {
        let has_language = |languages: &[Language]| document.language.is_some_and(|language| languages.contains(&language));
        (self.languages.is_empty() || has_language(&self.languages)) && self.filter.holds(document)
    }
}

/// The value of a field in a document.
enum FieldValue<'d> {
    Nothing,
    Text(&'d str),
    Integer(i64),
    Json(&'d Value),
}

impl Field {
    /// Parses a field: `id`, `language`, `created_at` and `updated_at` are the document's own, everything else is a metadata
    /// path.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "id" => Self::Id,
            "language" => Self::Language,
            "created_at" => Self::CreatedAt,
            "updated_at" => Self::UpdatedAt,
            path => Self::Metadata(MetadataPath::parse(path)?),
        })
    }

    /// The value as a number, if it is one.
    pub(super) fn number(&self, document: &DocumentHead) -> Option<f64> {
        match self.value_in(document) {
            FieldValue::Json(Value::Number(number)) => number.as_f64(),
            _ => None,
        }
    }

    /// The value as milliseconds since the Unix epoch, if it is an RFC 3339 time or date.
    pub(super) fn time(&self, document: &DocumentHead) -> Option<i64> {
        match self.value_in(document) {
            FieldValue::Integer(milliseconds) => Some(milliseconds),
            FieldValue::Json(Value::String(text)) => timestamps::parse(text),
            _ => None,
        }
    }

    fn value_in<'d>(&self, document: &'d DocumentHead) -> FieldValue<'d> {
        match self {
            Self::Id => FieldValue::Text(document.id.as_str()),
            Self::Language => document.language.map_or(FieldValue::Nothing, |language| FieldValue::Text(language.code())),
            Self::CreatedAt => FieldValue::Integer(document.created_at_ms),
            Self::UpdatedAt => FieldValue::Integer(document.updated_at_ms),
            Self::Metadata(path) => path.find(&document.metadata).map_or(FieldValue::Nothing, FieldValue::Json),
        }
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id => f.write_str("id"),
            Self::Language => f.write_str("language"),
            Self::CreatedAt => f.write_str("created_at"),
            Self::UpdatedAt => f.write_str("updated_at"),
            Self::Metadata(path) => path.fmt(f),
        }
    }
}

impl Test {
    fn passes(&self, found: &FieldValue<'_>) -> bool {
        let equals = |scalar: &Scalar| found.compare(scalar) == Some(Ordering::Equal);
        match self {
            Self::Eq(scalar) => equals(scalar),
            Self::Ne(scalar) => !equals(scalar),
            Self::In(scalars) => found.key().is_some_and(|key| scalars.has(&key)),
            Self::Any(scalars) => match found {
                FieldValue::Json(Value::Array(elements)) => {
                    elements.iter().filter_map(ValueKey::of_json).any(|key| scalars.has(&key))
                }
                _ => false,
            },
            Self::Compare(relation, scalar) => found.compare(scalar).is_some_and(|ordering| relation.holds(ordering)),
            Self::Exists(expected) => matches!(found, FieldValue::Nothing | FieldValue::Json(Value::Null)) != *expected,
            Self::Prefix(prefix) => match found {
                FieldValue::Text(text) => text.starts_with(prefix.as_str()),
                FieldValue::Json(Value::String(text)) => text.starts_with(prefix.as_str()),
                _ => false,
            },
        }
    }
}

impl FieldValue<'_> {
    /// The key to look the value up with; `None` for a value that equals no scalar.
    fn key(&self) -> Option<ValueKey<'_>> {
        match self {
            Self::Text(text) => Some(ValueKey::Text(text)),
            Self::Integer(integer) => Some(ValueKey::Integer(*integer)),
            Self::Json(value) => ValueKey::of_json(value),
            Self::Nothing => None,
        }
    }

    /// How the value compares with `scalar`; `None` if they have different types.
    fn compare(&self, scalar: &Scalar) -> Option<Ordering> {
        match (self, scalar) {
            (Self::Text(text), Scalar::Text(other)) => Some((*text).cmp(other)),
            (Self::Json(Value::String(text)), Scalar::Text(other)) => Some(text.cmp(other)),
            (Self::Json(Value::Bool(truth)), Scalar::Bool(other)) => Some(truth.cmp(other)),
            (Self::Integer(integer), other) => compare_numbers(&Scalar::Integer(*integer), other),
            (Self::Json(Value::Number(number)), other) => {
                let number = number.as_i64().map(Scalar::Integer).or_else(|| number.as_f64().map(Scalar::Real));
                compare_numbers(&number?, other)
            }
            _ => None,
        }
    }
}

/// Compares two numbers by value, without rounding either.
fn compare_numbers(number: &Scalar, other: &Scalar) -> Option<Ordering> {
    match (number, other) {
        (Scalar::Integer(a), Scalar::Integer(b)) => Some(a.cmp(b)),
        (Scalar::Integer(a), Scalar::Real(b)) => integer_with_real(*a, *b),
        (Scalar::Real(a), Scalar::Integer(b)) => integer_with_real(*b, *a).map(Ordering::reverse),
        (Scalar::Real(a), Scalar::Real(b)) => a.partial_cmp(b),
        _ => None,
    }
}

fn integer_with_real(integer: i64, real: f64) -> Option<Ordering> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if real.is_nan() {
        None
    } else if real >= BEYOND {
        Some(Ordering::Less)
    } else if real < -BEYOND {
        Some(Ordering::Greater)
    } else {
        let rest = 0.0_f64.partial_cmp(&real.fract())?;
        Some(integer.cmp(&(real.trunc() as i64)).then(rest))
    }
}

impl Relation {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Gt => ordering.is_gt(),
            Self::Gte => ordering.is_ge(),
            Self::Lt => ordering.is_lt(),
            Self::Lte => ordering.is_le(),
        }
    }
}

impl MetadataPath {
    /// Maximum keys of a path. A path is resolved key by key; in SQLite, by a join of as many tables.
    pub const KEYS_MAX: usize = 32;

    /// A path of these keys, unescaped; `None` if there are none or more than `KEYS_MAX`, or if one is empty.
    pub fn new(keys: Vec<String>) -> Option<Self> {
        ((1..=Self::KEYS_MAX).contains(&keys.len()) && keys.iter().all(|key| !key.is_empty())).then_some(Self(keys))
    }

    /// Splits a path at its dots; a backslash escapes a dot or a backslash. Drops the prefix `metadata.`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut keys = vec![String::new()];
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            let part = match c {
                '.' => {
                    keys.push(String::new());
                    continue;
                }
                '\\' => chars
                    .next()
                    .filter(|next| matches!(next, '.' | '\\'))
                    .ok_or_else(|| format!("a backslash must be followed by a dot or a backslash, got {text:?}"))?,
                other => other,
            };
            if let Some(last) = keys.last_mut() {
                last.push(part);
            }
        }
        if keys.len() > 1 && keys[0] == "metadata" {
            keys.remove(0);
        }
        if keys.len() > Self::KEYS_MAX {
            return Err(format!("must be at most {} keys joined by dots, got {}", Self::KEYS_MAX, keys.len()));
        }
        Self::new(keys).ok_or_else(|| format!("must be keys joined by single dots, got {text:?}"))
    }

    /// Whether it can be indexed: its keys become part of an SQL statement.
    pub fn is_indexable(&self) -> bool {
        self.0.iter().all(|key| !key.contains(['"', '\\']) && !key.contains(char::is_control))
    }

    /// The keys.
    pub fn keys(&self) -> &[String] {
        &self.0
    }

    /// The value at this path, reached through objects only.
    pub fn find<'m>(&self, metadata: &'m Metadata) -> Option<&'m Value> {
        let (first, rest) = self.0.split_first()?;
        rest.iter().try_fold(metadata.get(first)?, |value, key| value.as_object()?.get(key))
    }
}

impl TryFrom<Vec<String>> for MetadataPath {
    type Error = &'static str;

    fn try_from(keys: Vec<String>) -> Result<Self, Self::Error> {
        Self::new(keys).ok_or("no path")
    }
}

impl fmt::Display for MetadataPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_document_field =
            self.0.len() == 1 && matches!(self.0[0].as_str(), "id" | "language" | "created_at" | "updated_at");
        if is_document_field || (self.0.len() > 1 && self.0[0] == "metadata") {
            f.write_str("metadata.")?;
        }
        for (index, key) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str(".")?;
            }
            f.write_str(&key.replace('\\', r"\\").replace('.', r"\."))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_without_rounding() {
        for (integer, real, expect) in [
            (i64::MAX, 9_223_372_036_854_775_808.0, Ordering::Less),
            (i64::MIN, -9_223_372_036_854_775_808.0, Ordering::Equal),
            (9_007_199_254_740_993, 9_007_199_254_740_992.0, Ordering::Greater),
            (-1, -1.5, Ordering::Greater),
            (1, 1.5, Ordering::Less),
            (0, f64::NEG_INFINITY, Ordering::Greater),
        ] {
            assert_eq!(integer_with_real(integer, real), Some(expect), "{integer} {real}");
        }
    }

    #[test]
    fn metadata_paths_print_as_parsed_without_a_redundant_prefix() {
        for path in ["year", "author.name", r"a\.b.c\\d", "metadata.language", "metadata.metadata.x", "metadata"] {
            assert_eq!(MetadataPath::parse(path).unwrap().to_string(), path);
        }
        assert_eq!(MetadataPath::parse("metadata.year").unwrap().to_string(), "year");
    }
}
