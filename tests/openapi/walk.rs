//! Visits the schemas of the document.

use serde_json::Value;

/// Calls `visit` with every schema of the document, including nested ones, and its location.
pub fn each_schema(document: &Value, visit: &mut impl FnMut(&str, &Value)) {
    fn walk(place: &str, schema: &Value, visit: &mut impl FnMut(&str, &Value)) {
        visit(place, schema);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            walk(&format!("{place}/{name}"), property, visit);
        }
        for member in ["items", "additionalProperties"] {
            if schema[member].is_object() {
                walk(&format!("{place}/{member}"), &schema[member], visit);
            }
        }
        for member in ["oneOf", "anyOf", "allOf"] {
            for (index, one) in schema[member].as_array().into_iter().flatten().enumerate() {
                walk(&format!("{place}/{member}/{index}"), one, visit);
            }
        }
    }
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        walk(name, schema, visit);
    }
}
