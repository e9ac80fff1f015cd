//! Finds one value in a JSON text without reading the others.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer as _, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// Returns the value at a path of keys, from the outermost to the innermost. `None` if there is none. Fails if the text is not
/// valid JSON up to the end of the outermost object.
pub(super) fn find_in_json(json: &str, keys: &[String]) -> Result<Option<Value>, serde_json::Error> {
    let mut found = json;
    for (depth, key) in keys.iter().enumerate() {
        if !found.trim_start().starts_with('{') {
            return if depth == 0 { Err(serde_json::Error::custom("not an object")) } else { Ok(None) };
        }
        match serde_json::Deserializer::from_str(found).deserialize_map(Member(key))? {
            Some(value) => found = value.get(),
            None => return Ok(None),
        }
    }
    serde_json::from_str(found).map(Some)
}

/// Reads the member of an object with this key.
struct Member<'k>(&'k str);

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Key(key)) = members.next_key()? {
            match key == self.0 {
                true => found = Some(members.next_value()?),
                false => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// A key, copied only if it is escaped.
#[derive(Deserialize)]
struct Key<'j>(#[serde(borrow)] Cow<'j, str>);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(json: &str, keys: &[&str]) -> Option<Option<Value>> {
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        find_in_json(json, &keys).ok()
    }

    #[test]
    fn a_value_is_found_at_any_depth() {
        let json = r#"{"a": 1, "b": {"c": [true, {"d": 2}], "a": {"x": null}}, "é\u0000": "y"}"#;
        assert_eq!(find(json, &["a"]), Some(Some(json!(1))));
        assert_eq!(find(json, &["b", "c"]), Some(Some(json!([true, {"d": 2}]))));
        assert_eq!(find(json, &["b", "a", "x"]), Some(Some(Value::Null)));
        assert_eq!(find(json, &["é\0"]), Some(Some(json!("y"))));
    }

    #[test]
    fn a_path_that_does_not_exist_has_no_value() {
        let json = r#"{"a": 1, "b": {"c": [{"d": 2}]}}"#;
        for keys in [&["c"][..], &["a", "b"], &["b", "c", "d"], &["b", "d"]] {
            assert_eq!(find(json, keys), Some(None), "{keys:?}");
        }
    }

    #[test]
    fn damaged_metadata_is_an_error() {
        for json in ["", "[]", "{\"a\": 1", "{\"a\" 1}", "{\"b\": nothing, \"a\": 1}"] {
            assert_eq!(find(json, &["a"]), None, "{json}");
        }
    }
}
