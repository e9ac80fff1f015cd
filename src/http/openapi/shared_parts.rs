//! Parts of the OpenAPI document that operations repeat: each is moved to the components once, under its own name.

use serde_json::{Map, Value, json};

/// Finds parts of one kind in an operation, each with its name.
type Find = fn(&mut Value) -> Vec<(String, &mut Value)>;

/// Moves parameters and headers that several operations have to the components. Where parts of one name differ, the most
/// frequent moves.
pub fn share(document: &mut Value) {
    share_kind(document, "parameters", parameters);
    share_kind(document, "headers", headers);
}

fn share_kind(document: &mut Value, kind: &str, find: Find) {
    let mut counted: Vec<(String, Value, usize)> = Vec::new();
    for operation in operations(document) {
        for (name, part) in find(operation) {
            match counted.iter_mut().find(|(known, value, _)| *known == name && value == part) {
                Some((_, _, count)) => *count += 1,
                None => counted.push((name, part.clone(), 1)),
            }
        }
    }
    counted.retain(|(_, _, count)| *count > 1);
    counted.sort_by_key(|(_, _, count)| std::cmp::Reverse(*count));
    let mut shared = Map::new();
    for (name, part, _) in counted {
        shared.entry(name).or_insert(part);
    }
    for operation in operations(document) {
        for (name, part) in find(operation) {
            if shared.get(&name).is_some_and(|known| known == part) {
                *part = json!({ "$ref": format!("#/components/{kind}/{name}") });
            }
        }
    }
    for (name, part) in shared {
        document["components"][kind][name] = part;
    }
}

pub fn operations(document: &mut Value) -> impl Iterator<Item = &mut Value> {
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut);
    paths.filter_map(Value::as_object_mut).flat_map(Map::values_mut)
}

fn parameters(operation: &mut Value) -> Vec<(String, &mut Value)> {
    let parameters = operation.get_mut("parameters").and_then(Value::as_array_mut).into_iter().flatten();
    parameters.map(|part| (part["name"].as_str().unwrap_or_default().to_owned(), part)).collect()
}

/// The headers that are not references yet.
fn headers(operation: &mut Value) -> Vec<(String, &mut Value)> {
    let responses = operation.get_mut("responses").and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut);
    let headers = responses.filter_map(|response| response.get_mut("headers")?.as_object_mut()).flatten();
    headers.filter(|(_, part)| part.get("$ref").is_none()).map(|(name, part)| (name.clone(), part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_used_by_several_operations_are_shared() {
        let limit = |max: u32| json!({"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": max}});
        let operation = |parameters: Value| json!({"parameters": parameters});
        let mut document = json!({"components": {}, "paths": {
            "/a": {"get": operation(json!([limit(10)])), "post": operation(json!([limit(20)]))},
            "/b": {"get": operation(json!([limit(20), {"name": "only", "in": "query"}])), "post": {}},
        }});
        share(&mut document);
        let shared = json!({"$ref": "#/components/parameters/limit"});
        assert_eq!(document["components"]["parameters"], json!({"limit": limit(20)}));
        assert_eq!(document["paths"]["/a"], json!({"get": operation(json!([limit(10)])), "post": operation(json!([shared]))}));
        let only = json!({"name": "only", "in": "query"});
        assert_eq!(document["paths"]["/b"], json!({"get": operation(json!([shared, only])), "post": {}}));
    }
}
