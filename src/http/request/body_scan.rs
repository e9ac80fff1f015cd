//! Reads a JSON body before it is parsed, without keeping it: estimates the memory that it takes when it is parsed, and finds
//! null where its schema does not allow it.
//!
//! Without this, a small body could take any amount of memory: an empty object has two bytes as text and hundreds as a struct.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::body_schemas::{BodySchema, SchemaViolation, VIOLATIONS_MAX, allows, alternatives, resolve_reference, types};
use crate::service::json::pointer_token;

/// Approximate bytes of an object, which may be a struct, or of an array, with room for the first values inside. A value that
/// should not be here takes as much, because of its error.
const COMPOUND_BYTES: u64 = 512;
/// Approximate bytes of any other value, in addition to its text. Numbers in a list of numbers take little more than their text.
const VALUE_BYTES: u64 = 96;

/// What a scan found: in the whole body, or up to where it is not JSON or takes too much memory.
#[derive(Debug, Default, PartialEq)]
pub struct BodyScan {
    /// Bytes that the parsed body takes in addition to its texts.
    pub parsed_bytes: u64,
    /// The nulls that the schema does not allow.
    pub nulls: Vec<SchemaViolation>,
}

impl BodySchema<'_> {
    /// Scans a body until its values take more than `bytes_max`.
    pub fn scan(self, json: &[u8], bytes_max: u64) -> BodyScan {
        let mut progress = Progress { document: self.document, bytes_max, pointer: String::new(), scan: BodyScan::default() };
        let place = Place { progress: &mut progress, schema: self.schema };
        // The parser of the body reports why it is not JSON.
        let _ = place.deserialize(&mut serde_json::Deserializer::from_slice(json));
        progress.scan
    }
}

struct Progress<'a> {
    document: &'a Value,
    bytes_max: u64,
    /// JSON pointer to the current value.
    pointer: String,
    scan: BodyScan,
}

/// The schema of values that may be anything.
static ANYTHING: Value = Value::Null;

/// A place in the body, and the schema of the value there.
struct Place<'p, 'a> {
    progress: &'p mut Progress<'a>,
    schema: &'a Value,
}

impl<'a> Place<'_, 'a> {
    /// The schema of a value of this type, among the alternatives. `None` if such a value should not be here.
    fn schema_of(&self, type_name: &str) -> Option<&'a Value> {
        let resolve = |schema| resolve_reference(self.progress.document, schema);
        let schema = resolve(self.schema);
        let alternatives = alternatives(schema).map_or(std::slice::from_ref(schema), Vec::as_slice);
        alternatives.iter().map(resolve).find(|schema| allows(schema, type_name))
    }

    /// Scans a value inside this one, whose pointer ends with `token`.
    fn inner<T>(&mut self, token: &str, schema: &'a Value, scan: impl FnOnce(Place<'_, 'a>) -> T) -> T {
        let length = self.progress.pointer.len();
        self.progress.pointer.push('/');
        self.progress.pointer.push_str(token);
        let scanned = scan(Place { progress: self.progress, schema });
        self.progress.pointer.truncate(length);
        scanned
    }

    fn add<E: Error>(&mut self, bytes: u64) -> Result<(), E> {
        self.progress.scan.parsed_bytes += bytes;
        if self.progress.scan.parsed_bytes > self.progress.bytes_max { Err(E::custom("too much memory")) } else { Ok(()) }
    }

    fn add_leaf<E: Error>(mut self, type_names: &[&str]) -> Result<(), E> {
        let fits = type_names.iter().any(|name| self.schema_of(name).is_some());
        self.add(if fits { VALUE_BYTES } else { COMPOUND_BYTES })
    }
}

impl<'de> DeserializeSeed<'de> for Place<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Place<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        if self.schema_of("null").is_none() && self.progress.scan.nulls.len() < VIOLATIONS_MAX {
            let null = SchemaViolation::null(&self.progress.pointer);
            self.progress.scan.nulls.push(null);
        }
        self.add_leaf(&["null"])
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.add_leaf(&["boolean"])
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.add_leaf(&["integer", "number"])
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.add_leaf(&["integer", "number"])
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.add_leaf(&["number"])
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.add_leaf(&["string"])
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut elements: A) -> Result<(), A::Error> {
        self.add(COMPOUND_BYTES)?;
        let schema = self.schema_of("array").and_then(|schema| schema.get("items")).unwrap_or(&ANYTHING);
        if types(schema) == ["number"] {
            while elements.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(());
        }
        for index in 0_usize.. {
            if self.inner(&index.to_string(), schema, |place| elements.next_element_seed(place))?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        self.add(COMPOUND_BYTES)?;
        let schema = self.schema_of("object").unwrap_or(&ANYTHING);
        let (known, others) = (schema.get("properties"), schema.get("additionalProperties").unwrap_or(&ANYTHING));
        while let Some(name) = members.next_key::<String>()? {
            let schema = known.and_then(|known| known.get(&name)).unwrap_or(others);
            self.inner(&pointer_token(&name), schema, |place| members.next_value_seed(place))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(operation: &str, json: &str) -> BodyScan {
        let description = crate::http::description();
        description.body_schema(description.operations.get(operation).unwrap()).scan(json.as_bytes(), u64::MAX)
    }

    #[test]
    fn small_values_count_for_the_memory_that_they_take_when_parsed() {
        let check = |json: String, expect: u64| {
            let found = scan("upsert_documents", &json).parsed_bytes;
            assert!((expect..2 * expect).contains(&found), "{found} instead of {expect} for {} bytes", json.len());
        };
        let in_documents = |documents: String| format!(r#"{{"documents": [{documents}]}}"#);
        check(in_documents(r#"{"text": "Bonjour"}"#.to_owned()), 3 * COMPOUND_BYTES);
        check(in_documents(vec!["{}"; 1_000].join(",")), 1_000 * COMPOUND_BYTES);
        check(in_documents(vec!["1"; 1_000].join(",")), 1_000 * COMPOUND_BYTES);
        let metadata = |value: String| in_documents(format!(r#"{{"metadata": {{"a": {value}}}}}"#));
        let size = size_of::<Value>() as u64;
        check(metadata(format!("[{}]", vec!["0"; 1_000].join(","))), 1_000 * size);
        check(metadata(format!("{}{}", "[".repeat(100), "]".repeat(100))), 100 * 4 * size);
        let vector = |numbers: usize| in_documents(format!(r#"{{"vector": [{}]}}"#, vec!["0.123456789"; numbers].join(",")));
        assert_eq!(scan("upsert_documents", &vector(1_000)), scan("upsert_documents", &vector(1)));
    }

    #[test]
    fn a_scan_counts_up_to_where_the_body_ends() {
        let torn = format!(r#"{{"documents": [{}"#, "{},".repeat(1_000));
        assert!(scan("upsert_documents", &torn).parsed_bytes > 1_000 * COMPOUND_BYTES);
        assert_eq!(scan("upsert_documents", ""), BodyScan::default());
    }

    #[test]
    fn a_scan_ends_when_the_values_take_too_much_memory() {
        let json = format!("[{}]", vec!["0"; 1_000_000].join(","));
        let scan = BodySchema::without_references(&Value::Null).scan(json.as_bytes(), 10_000);
        assert!((10_001..20_000).contains(&scan.parsed_bytes), "{}", scan.parsed_bytes);
    }
}
