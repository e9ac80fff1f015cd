//! Operations on metadata as a whole: its depth, its size, and merge patches.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Number, Value};
use utoipa::ToSchema;

use super::distinct_json::DistinctObject;

/// A caller's JSON object.
pub type Metadata = serde_json::Map<String, Value>;

/// A JSON object with any members: by default at most 64 KiB as JSON, and 8 levels deep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
#[schema(as = Metadata, value_type = std::collections::HashMap<String, Value>)]
pub struct MetadataObject(pub Metadata);

impl<'de> Deserialize<'de> for MetadataObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        DistinctObject::deserialize(deserializer).map(|DistinctObject(members)| Self(members))
    }
}

/// Applies a merge patch as in RFC 7396: a null removes the member, an object is merged with the existing one, everything else
/// replaces it. Nulls in a new object are dropped.
pub fn merge(target: &mut Metadata, patch: &Metadata) {
    // All at once, because removing a single key moves all later ones.
    target.retain(|key, _| !patch.get(key).is_some_and(Value::is_null));
    for (key, change) in patch {
        match change {
            Value::Null => {}
            Value::Object(changes) => {
                let member = target.entry(key).or_insert(Value::Null);
                if !member.is_object() {
                    *member = Value::Object(Metadata::new());
                }
                if let Value::Object(member) = member {
                    merge(member, changes);
                }
            }
            other => {
                target.insert(key.clone(), other.clone());
            }
        }
    }
}

/// Returns a whole number as an integer, 2020.0 as 2020, so that equal numbers are written alike.
pub fn plain_number(number: &Number) -> Number {
    /// 2 to the power of 64. From here on, integers are also read as `f64`, so equal numbers are written alike anyway.
    const INTEGERS_END: f64 = 18_446_744_073_709_551_616.0;
    let whole = number.as_f64().filter(|real| number.is_f64() && real.fract() == 0.0 && real.abs() < INTEGERS_END);
    whole.and_then(|real| Number::from_i128(real as i128)).unwrap_or_else(|| number.clone())
}

/// Returns a whole number as an integer of 64 bits.
pub(super) fn whole(number: f64) -> Option<i64> {
    const INTEGERS: std::ops::Range<f64> = -9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0;
    (number.fract() == 0.0 && INTEGERS.contains(&number)).then_some(number as i64)
}

/// Whether a merge patch loses a value because it puts an object in the place of one that is not an object.
pub fn loses_value(target: &Metadata, patch: &Metadata) -> bool {
    patch.iter().any(|(key, change)| match (target.get(key), change) {
        (Some(Value::Object(member)), Value::Object(changes)) => loses_value(member, changes),
        (None | Some(Value::Null), _) => false,
        (Some(_), change) => change.is_object(),
    })
}

/// Levels of metadata, including its own.
pub fn depth(metadata: &Metadata) -> usize {
    levels(metadata.values())
}

/// Whether any key contains the character U+0000, where the key would end for SQLite.
pub fn has_nul_in_key(metadata: &Metadata) -> bool {
    metadata.iter().any(|(key, value)| key.contains('\0') || value_has_nul_in_key(value))
}

fn value_has_nul_in_key(value: &Value) -> bool {
    match value {
        Value::Object(object) => has_nul_in_key(object),
        Value::Array(array) => array.iter().any(value_has_nul_in_key),
        _ => false,
    }
}

/// Bytes of metadata as JSON.
pub fn bytes(metadata: &Metadata) -> usize {
    serde_json::to_vec(metadata).map_or(usize::MAX, |json| json.len())
}

fn levels<'a>(members: impl Iterator<Item = &'a Value>) -> usize {
    let below = members.map(|value| match value {
        Value::Object(object) => levels(object.values()),
        Value::Array(array) => levels(array.iter()),
        _ => 0,
    });
    1 + below.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Metadata {
        value.as_object().unwrap().clone()
    }

    /// The examples of RFC 7396, appendix A, whose target and patch are objects.
    #[test]
    fn merge_patches_match_the_examples_of_rfc_7396() {
        let check = |target: Value, patch: Value, expect: Value| {
            let mut merged = object(target);
            merge(&mut merged, &object(patch.clone()));
            assert_eq!(Value::Object(merged), expect, "{patch}");
        };
        check(json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"}));
        check(json!({"a": "b"}), json!({"a": null}), json!({}));
        check(json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"}));
        check(json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"}));
        check(json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]}));
        check(json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}}));
        check(json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]}));
        check(json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1}));
        check(json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}}));
    }

    #[test]
    fn only_replacing_a_nonobject_value_with_an_object_loses_it() {
        let check = |target: Value, expect: bool| {
            assert_eq!(loses_value(&object(target.clone()), &object(json!({"a": {"b": 1}}))), expect, "{target}");
        };
        check(json!({"a": 5}), true);
        check(json!({"a": ["b"]}), true);
        check(json!({"a": {"b": {"c": 5}}}), false);
        check(json!({"a": null, "b": 5}), false);
        check(json!({}), false);
        assert!(loses_value(&object(json!({"x": {"a": 5}})), &object(json!({"x": {"a": {"b": null}}}))));
    }
}
