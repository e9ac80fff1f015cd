//! Checks a JSON value against a schema of the OpenAPI document. Supports only the keywords that the document uses.

use serde_json::Value;

/// Keywords that do not constrain a value.
const ANNOTATIONS: [&str; 6] = ["description", "examples", "example", "default", "format", "title"];

/// The problems of `value`, each with its location; empty if it is valid.
///
/// An unknown keyword is also a problem, so that no part of a schema goes unchecked.
pub fn violations(document: &Value, schema: &Value, value: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    check(document, schema, value, "", &mut problems);
    problems
}

/// Resolves a reference within the document; returns anything else unchanged.
pub fn resolved<'a>(document: &'a Value, part: &'a Value) -> &'a Value {
    match part["$ref"].as_str() {
        Some(path) => document.pointer(path.trim_start_matches('#')).unwrap_or(&Value::Null),
        None => part,
    }
}

fn check(document: &Value, schema: &Value, value: &Value, place: &str, problems: &mut Vec<String>) {
    for (keyword, rule) in schema.as_object().into_iter().flatten() {
        let holds = match keyword.as_str() {
            "$ref" => {
                let target = rule.as_str().and_then(|path| document.pointer(path.trim_start_matches('#')));
                check(document, target.unwrap_or(&Value::Null), value, place, problems);
                target.is_some()
            }
            "type" => match rule {
                Value::Array(types) => types.iter().any(|one| has_type(one, value)),
                one => has_type(one, value),
            },
            "enum" => rule.as_array().is_some_and(|all| all.contains(value)),
            "oneOf" => {
                let fits = |one: &&Value| violations(document, one, value).is_empty();
                rule.as_array().is_some_and(|all| all.iter().filter(fits).count() == 1)
            }
            "required" => rule.as_array().is_some_and(|names| {
                names.iter().filter_map(Value::as_str).all(|name| value.get(name).is_some() || !value.is_object())
            }),
            "properties" => {
                for (name, property) in rule.as_object().into_iter().flatten() {
                    if let Some(member) = value.get(name) {
                        check(document, property, member, &format!("{place}/{name}"), problems);
                    }
                }
                true
            }
            "additionalProperties" => additional(document, schema, value, place, problems),
            "items" => {
                for (index, element) in value.as_array().into_iter().flatten().enumerate() {
                    check(document, rule, element, &format!("{place}/{index}"), problems);
                }
                true
            }
            "minimum" => value.as_f64().is_none_or(|got| rule.as_f64().is_some_and(|least| got >= least)),
            "maximum" => value.as_f64().is_none_or(|got| rule.as_f64().is_some_and(|most| got <= most)),
            "minItems" => value.as_array().is_none_or(|got| got.len() as u64 >= rule.as_u64().unwrap_or(u64::MAX)),
            "maxItems" => value.as_array().is_none_or(|got| got.len() as u64 <= rule.as_u64().unwrap_or(0)),
            "minLength" => value.as_str().is_none_or(|got| got.chars().count() as u64 >= rule.as_u64().unwrap_or(u64::MAX)),
            "maxLength" => value.as_str().is_none_or(|got| got.chars().count() as u64 <= rule.as_u64().unwrap_or(0)),
            "pattern" | "propertyNames" => true,
            annotation => ANNOTATIONS.contains(&annotation),
        };
        if !holds {
            problems.push(format!("{place}: {keyword} {rule} does not hold for {value}"));
        }
    }
}

fn additional(document: &Value, schema: &Value, value: &Value, place: &str, problems: &mut Vec<String>) -> bool {
    let rule = &schema["additionalProperties"];
    let others = value.as_object().into_iter().flatten().filter(|(name, _)| schema["properties"].get(name.as_str()).is_none());
    for (name, member) in others {
        if rule == false {
            problems.push(format!("{place}/{name} is not declared"));
        }
        check(document, rule, member, &format!("{place}/{name}"), problems);
    }
    true
}

fn has_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        _ => false,
    }
}
