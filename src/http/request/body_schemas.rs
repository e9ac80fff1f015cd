//! Validates a request's body against its schema in the OpenAPI document. Deserializing stops at the first violation; this
//! module finds all of them. Null is one where the document does not allow it: an optional member is left out, not null.

use serde_json::{Map, Value};

use crate::service::json::pointer_token;

pub(super) const VIOLATIONS_MAX: usize = 100;

/// The schema of a body or of a part of one.
#[derive(Clone, Copy)]
pub struct BodySchema<'a> {
    /// The OpenAPI document, where its references lead.
    pub document: &'a Value,
    pub schema: &'a Value,
}

#[derive(Debug, PartialEq)]
pub struct SchemaViolation {
    /// JSON pointer into the body.
    pub pointer: String,
    /// What was expected and what was given.
    pub detail: String,
    /// Whether the schema says more than the error of parsing: about a null, which could be left out, or the range of a number.
    pub is_precise: bool,
}

impl<'a> BodySchema<'a> {
    /// The schema with this name, for a part of a body.
    pub fn component(self, name: &str) -> Self {
        Self { schema: &self.document["components"]["schemas"][name], ..self }
    }

    /// A schema without references to others.
    pub fn without_references(schema: &'a Value) -> Self {
        Self { document: schema, schema }
    }

    /// All violations, in the order of the body.
    pub fn schema_violations(self, body: &Value) -> Vec<SchemaViolation> {
        schema_violations(self.document, self.schema, body, "")
    }
}

impl SchemaViolation {
    pub(super) fn null(pointer: &str) -> Self {
        Self { pointer: pointer.to_owned(), detail: "must not be null; leave it out instead".to_owned(), is_precise: true }
    }
}

fn schema_violations(document: &Value, schema: &Value, value: &Value, pointer: &str) -> Vec<SchemaViolation> {
    let mut walk = Walk { document, found: Vec::new() };
    walk.value(schema, value, pointer);
    walk.found
}

struct Walk<'a> {
    document: &'a Value,
    found: Vec<SchemaViolation>,
}

impl Walk<'_> {
    fn value(&mut self, schema: &Value, value: &Value, pointer: &str) {
        if self.found.len() >= VIOLATIONS_MAX {
            return;
        }
        let schema = resolve_reference(self.document, schema);
        if let Some(alternatives) = alternatives(schema) {
            return self.one_of(alternatives, value, pointer);
        }
        if !has_type(schema, value) {
            return self.add_wrong_type(schema, pointer, value);
        }
        match value {
            Value::Array(items) => {
                self.bounds(schema, items.len() as f64, ["minItems", "maxItems"], pointer, "items");
                let element = schema.get("items").unwrap_or(&Value::Null);
                for (index, item) in items.iter().enumerate() {
                    self.value(element, item, &format!("{pointer}/{index}"));
                }
            }
            Value::Object(members) => self.members(schema, members, pointer),
            Value::String(text) => {
                self.bounds(schema, text.chars().count() as f64, ["minLength", "maxLength"], pointer, "characters");
                self.variant(schema, text, pointer);
            }
            Value::Number(number) => {
                let got = number.as_f64().unwrap_or_default();
                self.bounds(schema, got, ["minimum", "maximum"], pointer, "");
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Checks that one of several schemas fits. If none does, the schema for the value's type gives the reason.
    fn one_of(&mut self, alternatives: &[Value], value: &Value, pointer: &str) {
        let all = || alternatives.iter().map(|alternative| schema_violations(self.document, alternative, value, pointer));
        if all().any(|found| found.is_empty()) {
            return;
        }
        let closest = alternatives.iter().find(|alternative| has_type(resolve_reference(self.document, alternative), value));
        match closest {
            Some(schema) => self.value(schema, value, pointer),
            None => {
                let expected: Vec<String> = alternatives
                    .iter()
                    .map(|alternative| describe_expected(resolve_reference(self.document, alternative)))
                    .collect();
                self.add_not_expected(pointer, value, &expected.join(" or "), false);
            }
        }
    }

    fn members(&mut self, schema: &Value, members: &Map<String, Value>, pointer: &str) {
        let properties = schema["properties"].as_object();
        for (name, member) in members {
            let pointer = format!("{pointer}/{}", pointer_token(name));
            let known = properties.and_then(|properties| properties.get(name));
            match known.or_else(|| schema.get("additionalProperties")) {
                Some(Value::Bool(false)) => {
                    let names = properties.into_iter().flat_map(Map::keys).map(String::as_str);
                    self.add(&pointer, format!("unknown field `{name}`, expected {}", list_choices(names)));
                }
                Some(schema) => self.value(schema, member, &pointer),
                None => {}
            }
        }
        for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if !members.contains_key(name) {
                self.add(&format!("{pointer}/{name}"), format!("missing field `{name}`"));
            }
        }
    }

    fn variant(&mut self, schema: &Value, text: &str, pointer: &str) {
        let Some(variants) = schema["enum"].as_array() else { return };
        if !variants.iter().any(|variant| variant == text) {
            let names = variants.iter().filter_map(Value::as_str);
            self.add(pointer, format!("unknown variant `{text}`, expected {}", list_choices(names)));
        }
    }

    fn bounds(&mut self, schema: &Value, got: f64, keywords: [&str; 2], pointer: &str, unit: &str) {
        let [minimum, maximum] = keywords.map(|keyword| schema[keyword].as_f64());
        let must = |bound: f64, which: &str| match unit {
            "" => format!("must be {which} {bound}, got {got}"),
            _ if bound == 1.0 => format!("must have {which} 1 {}, got {got}", unit.trim_end_matches('s')),
            _ => format!("must have {which} {bound} {unit}, got {got}"),
        };
        let (low, high) = (minimum.filter(|minimum| got < *minimum), maximum.filter(|maximum| got > *maximum));
        let details = [low.map(|minimum| must(minimum, "at least")), high.map(|maximum| must(maximum, "at most"))];
        let violation = |detail| SchemaViolation { pointer: pointer.to_owned(), detail, is_precise: unit.is_empty() };
        self.found.extend(details.into_iter().flatten().map(violation));
    }

    fn add(&mut self, pointer: &str, detail: String) {
        self.found.push(SchemaViolation { pointer: pointer.to_owned(), detail, is_precise: false });
    }

    fn add_wrong_type(&mut self, schema: &Value, pointer: &str, value: &Value) {
        let more = describe_range(schema) + &describe_required(schema);
        self.add_not_expected(pointer, value, &(describe_expected(schema) + &more), !more.is_empty());
    }

    fn add_not_expected(&mut self, pointer: &str, value: &Value, expected: &str, is_precise: bool) {
        self.found.push(match value {
            Value::Null => SchemaViolation::null(pointer),
            _ => SchemaViolation { pointer: pointer.to_owned(), detail: wrong_type(value, expected), is_precise },
        });
    }
}

pub fn resolve_reference<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema.get("$ref").and_then(|path| document.pointer(path.as_str()?.trim_start_matches('#')));
    target.unwrap_or(schema)
}

/// The schemas of which one must fit.
pub(super) fn alternatives(schema: &Value) -> Option<&Vec<Value>> {
    ["oneOf", "anyOf"].iter().find_map(|name| schema.get(name)?.as_array())
}

/// The names of the types that a schema allows; empty if it allows all.
pub(super) fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).collect(),
        Some(kind) => kind.as_str().into_iter().collect(),
        None => Vec::new(),
    }
}

/// Whether a schema allows values of this type.
pub(super) fn allows(schema: &Value, type_name: &str) -> bool {
    let types = types(schema);
    types.is_empty() || types.contains(&type_name)
}

fn has_type(schema: &Value, value: &Value) -> bool {
    let types = types(schema);
    let fits = |name: &&str| match *name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => true,
    };
    types.is_empty() || types.iter().any(fits)
}

fn describe_expected(schema: &Value) -> String {
    let words = types(schema).into_iter().filter(|name| *name != "null").map(|name| match name {
        "array" | "object" | "integer" => format!("an {name}"),
        name => format!("a {name}"),
    });
    words.collect::<Vec<_>>().join(" or ")
}

/// The range of a number, to continue what is expected; empty if the schema has none.
fn describe_range(schema: &Value) -> String {
    match (schema["minimum"].as_f64(), schema["maximum"].as_f64()) {
        (Some(minimum), Some(maximum)) => format!(" from {minimum} to {maximum}"),
        (Some(minimum), None) => format!(" of at least {minimum}"),
        (None, Some(maximum)) => format!(" of at most {maximum}"),
        (None, None) => String::new(),
    }
}

/// The required members of an object, to continue what is expected; empty if it has none.
fn describe_required(schema: &Value) -> String {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).map(|name| format!("`{name}`"));
    let names = names.collect::<Vec<_>>().join(" and ");
    if names.is_empty() { names } else { format!(" with {names}") }
}

/// The wording of serde for the same error.
fn wrong_type(value: &Value, expected: &str) -> String {
    let got = match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("boolean `{value}`"),
        Value::Number(number) if number.is_f64() => format!("floating point `{number}`"),
        Value::Number(number) => format!("integer `{number}`"),
        Value::String(text) => format!("string {text:?}"),
        Value::Array(_) => "array".to_owned(),
        Value::Object(_) => "object".to_owned(),
    };
    format!("invalid type: {got}, expected {expected}")
}

/// The wording of serde for the same list.
pub fn list_choices<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    match names.as_slice() {
        [first, second] => format!("{first} or {second}"),
        [name] => name.clone(),
        [] => "no field".to_owned(),
        several => format!("one of {}", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(operation: &str) -> BodySchema<'static> {
        let description = crate::http::description();
        description.body_schema(description.operations.get(operation).unwrap())
    }

    fn found(operation: &str, json: &str) -> Vec<SchemaViolation> {
        schema(operation).schema_violations(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn null_is_refused_where_the_schema_does_not_allow_it() {
        for (operation, json, expect) in [
            ("search_documents", r#"{"query": "null", "limit": 3}"#, None),
            ("search_documents", r#"{"query": "a", "limit": null}"#, Some("/limit")),
            ("search_documents", r#"{"query": "a", "filter": null}"#, Some("/filter")),
            ("search_documents", r#"{"query": "a", "filter": {"and": [{"not": null}]}}"#, Some("/filter/and/0/not")),
            (
                "search_batch",
                r#"{"searches": [{"query": "a"}, {"query": "b", "languages": [null]}]}"#,
                Some("/searches/1/languages/0"),
            ),
            ("upsert_documents", r#"{"documents": [{"text": "a", "metadata": {"b": null, "c": [null]}}]}"#, None),
            ("upsert_documents", r#"{"documents": [{"text": "a", "language": null}]}"#, Some("/documents/0/language")),
            ("patch_document", r#"{"metadata": {"topic": null}}"#, None),
            ("patch_document", r#"{"title": null}"#, None),
            ("put_document", r#"{"text": "a", "title": null}"#, Some("/title")),
            ("create_embeddings", r#"{"input": ["a", "b"], "model": null}"#, Some("/model")),
            ("train_classifier", r#"{"a": null}"#, None),
        ] {
            let all = found(operation, json);
            let null = all.iter().find(|violation| violation.is_precise).map(|violation| violation.pointer.as_str());
            assert_eq!(null, expect, "{operation} {json}");
            assert_eq!(schema(operation).scan(json.as_bytes(), u64::MAX).nulls, all, "{operation} {json}");
        }
    }

    #[test]
    fn every_schema_violation_is_reported_up_to_a_maximum() {
        let check = |operation: &str, json: &str, expect: &[(&str, &str)]| {
            let all = found(operation, json);
            let all: Vec<(&str, &str)> =
                all.iter().map(|violation| (violation.pointer.as_str(), violation.detail.as_str())).collect();
            assert_eq!(all, expect, "{operation} {json}");
        };
        check(
            "search_documents",
            r#"{"query": 3, "limit": "ten", "offset": -1, "mode": "fast", "explain": null}"#,
            &[
                ("/query", "invalid type: integer `3`, expected a string"),
                ("/limit", "invalid type: string \"ten\", expected an integer of at least 1"),
                ("/offset", "must be at least 0, got -1"),
                ("/mode", "unknown variant `fast`, expected one of `full`, `dense`, `lexical`, `hybrid`"),
                ("/explain", "must not be null; leave it out instead"),
            ],
        );
        check(
            "put_alias",
            r#"{"colection": "news"}"#,
            &[("/colection", "unknown field `colection`, expected `collection`"), ("/collection", "missing field `collection`")],
        );
        check(
            "compare_pairs",
            r#"{"pairs": [{"first": "a"}, ["a", "b"], {"first": "", "second": "b"}]}"#,
            &[
                ("/pairs/0/second", "missing field `second`"),
                ("/pairs/1", "invalid type: array, expected an object with `first` and `second`"),
                ("/pairs/2/first", "must have at least 1 character, got 0"),
            ],
        );
        check("create_embeddings", r#"{"input": 3}"#, &[("/input", "invalid type: integer `3`, expected a string or an array")]);
        check("create_embeddings", r#"{"input": ["a", 3]}"#, &[("/input/1", "invalid type: integer `3`, expected a string")]);
        check("create_embeddings", r#"[]"#, &[("", "invalid type: array, expected an object with `input`")]);
        check("search_documents", r#"[]"#, &[("", "invalid type: array, expected an object")]);
        let many = format!(r#"{{"texts": [{}1]}}"#, "1, ".repeat(500));
        assert_eq!(found("detect_languages", &many).len(), VIOLATIONS_MAX);
    }
}
