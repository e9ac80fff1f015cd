//! JSON from callers that is kept as it is: filters and metadata.

use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// serde_json reads an object that begins with this key as the JSON in its value, so something else would be stored.
const RESERVED_KEY: &str = "$serde_json::private::RawValue";

/// JSON without duplicate members, of which only the last would count, and without the key that serde_json reserves.
#[derive(Debug, Clone, Serialize)]
pub struct DistinctJson(pub Value);

/// An object of such JSON.
pub(super) struct DistinctObject(pub Map<String, Value>);

impl<'de> Deserialize<'de> for DistinctJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyValue).map(Self)
    }
}

impl<'de> Deserialize<'de> for DistinctObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members).map(Self)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Map<String, Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if name == RESERVED_KEY {
                return Err(A::Error::custom(format_args!("the key {name:?} is reserved")));
            }
            if object.contains_key(&name) {
                return Err(A::Error::custom(format_args!("duplicate field `{name}`")));
            }
            let DistinctJson(value) = members.next_value()?;
            object.insert(name, value);
        }
        Ok(object)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(DistinctJson(element)) = elements.next_element()? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Value, A::Error> {
        Members.visit_map(members).map(Value::Object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Value, String> {
        serde_json::from_str::<DistinctJson>(json).map(|DistinctJson(value)| value).map_err(|error| error.to_string())
    }

    #[test]
    fn json_is_read_as_it_is() {
        let json = r#"{"b":[null,true,-1,18446744073709551615,0.5,"é\u0000"],"a":{"a":{}},"":[]}"#;
        assert_eq!(read(json).unwrap().to_string(), json);
    }

    #[test]
    fn repeated_members_are_refused_at_any_depth() {
        for json in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#] {
            assert!(read(json).unwrap_err().starts_with("duplicate field `a`"), "{json}");
        }
    }

    #[test]
    fn a_key_that_would_change_its_object_is_refused_at_any_depth() {
        for json in [r#"{"$serde_json::private::RawValue":"1"}"#, r#"{"a":[{"\u0024serde_json::private::RawValue":"no JSON"}]}"#]
        {
            assert!(read(json).unwrap_err().contains("is reserved"), "{json}");
        }
    }
}
