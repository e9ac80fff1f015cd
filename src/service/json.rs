//! Reads JSON objects from request bodies and lines of imports, and reports where and why one does not fit.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_path_to_error::Segment;

/// Maximum number of levels of objects and arrays around a member that names a variant.
const VARIANT_DEPTH_MAX: usize = 16;

/// Maximum number of levels of objects and arrays that serde_json reads.
const DEPTH_MAX: usize = 127;

/// Why bytes cannot be read as the JSON object that is expected.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonError {
    /// They are not JSON. The text continues a sentence about what was read.
    Malformed(String),
    /// They are JSON, but not of the expected form.
    Invalid {
        /// JSON pointer to the value that does not fit.
        pointer: String,
        /// What was expected and what was given.
        problem: String,
    },
}

/// A value that can only be parsed from a JSON object. A derived struct by itself would also accept an array of its members.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Members<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(members))
            }
        }

        deserializer.deserialize_map(Members(PhantomData)).map(Self)
    }
}

pub fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(value)| value)
}

pub fn objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let objects = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(objects.into_iter().map(|Object(value)| value).collect())
}

/// Parses an object that may be missing or null.
pub fn some_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(value)| value))
}

/// Parses an array of objects that may be missing or null.
pub fn some_objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<T>>, D::Error> {
    let objects = Option::<Vec<Object<T>>>::deserialize(deserializer)?;
    Ok(objects.map(|objects| objects.into_iter().map(|Object(value)| value).collect()))
}

/// Reads a JSON object, or reports where and why it does not fit.
pub fn parse_object<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, JsonError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| JsonError::Malformed(format!("is not valid UTF-8 after byte {}", error.valid_up_to())))?;
    if text.trim_ascii().is_empty() {
        return Err(JsonError::Malformed("is empty, expected JSON".to_owned()));
    }
    // For a body of vectors, tracking the path takes longer than everything else, so it is only done after an error.
    if let Ok(Object(value)) = serde_json::from_str(text) {
        return Ok(value);
    }
    let mut json = serde_json::Deserializer::from_str(text);
    let Object(value) = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        match error.inner() {
            inner if inner.is_data() => invalid(pointer(error.path()), describe_json_error(inner)),
            // serde_json reports a syntax error if it expects the name of a variant and finds something else. No variant is
            // nested deeply.
            _ if error.path().iter().count() < VARIANT_DEPTH_MAX && serde_json::from_str::<IgnoredAny>(text).is_ok() => {
                let problem = describe_json_error(error.inner());
                let is_variant = problem.starts_with("expected value");
                invalid(pointer(error.path()), if is_variant { "expected a string".to_owned() } else { problem })
            }
            inner => malformed(inner),
        }
    })?;
    json.end().map_err(|error| malformed(&error))?;
    Ok(value)
}

/// Makes the error for JSON that does not fit. A missing member is reported at its own pointer.
fn invalid(mut pointer: String, problem: String) -> JsonError {
    if let Some(name) = problem.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        pointer.push_str(&format!("/{name}"));
    }
    JsonError::Invalid { pointer, problem }
}

fn malformed(error: &serde_json::Error) -> JsonError {
    if error.to_string().starts_with("recursion limit exceeded") {
        let position = format!("line {} column {}", error.line(), error.column());
        return JsonError::Malformed(format!(
            "may have at most {DEPTH_MAX} levels of objects and arrays, got more at {position}"
        ));
    }
    let text = error.to_string().replace("expected ident", "expected true, false or null");
    JsonError::Malformed(format!("is not well-formed JSON: {text}"))
}

/// Escapes a member's name for a JSON pointer (RFC 6901, section 3).
pub fn pointer_token(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

pub fn pointer(path: &serde_path_to_error::Path) -> String {
    let mut pointer = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } => pointer.push_str(&format!("/{}", pointer_token(key))),
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    pointer
}

/// What to do instead, to continue the problem of an unknown field of a document; empty for other problems.
pub fn unknown_field_remedy(problem: &str) -> &'static str {
    let parts = problem.strip_prefix("unknown field `").and_then(|rest| rest.split_once("`, expected "));
    match parts {
        Some((field, expected)) if expected.contains("`metadata`") => match field {
            "text" | "vector" => "; PUT changes it",
            "title" | "language" => "; PATCH of one document changes it",
            _ => "; other fields belong in `metadata`",
        },
        _ => "",
    }
}

/// Formats an error of serde in terms of JSON, and without its position, because the pointer replaces that.
pub fn describe_json_error(error: &serde_json::Error) -> String {
    const WORDS: [(&str, &str); 12] = [
        ("invalid type: map", "invalid type: object"),
        ("invalid type: sequence", "invalid type: array"),
        ("expected a sequence", "expected an array"),
        ("expected a map", "expected an object"),
        ("expected usize", "expected a non-negative integer"),
        ("expected u32", "expected a non-negative integer"),
        ("expected u64", "expected a non-negative integer"),
        ("expected i64", "expected an integer"),
        ("expected f32", "expected a number"),
        ("expected f64", "expected a number"),
        ("unexpected end of hex escape", "has half of a surrogate pair in an escape"),
        ("lone leading surrogate in hex escape", "has half of a surrogate pair in an escape"),
    ];
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&position).unwrap_or(&text);
    WORDS.iter().fold(text.to_owned(), |text, (rust, json)| text.replace(rust, json))
}

/// Shortens a text that may quote the request, because a wrong value can be as long as the body.
pub fn shorten(mut text: String) -> String {
    const BYTES_MAX: usize = 600;
    if text.len() > BYTES_MAX {
        let end = (0..=BYTES_MAX).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}
