//! Refuses null where the document does not allow it: optional members are left out instead.

use std::collections::HashMap;

use serde_json::Value;

use super::error::ApiError;
use crate::domain::Code;

/// The schemas of request bodies.
pub struct Bodies {
    document: Value,
    /// Where in the document the schema of each operation's body stands, by the operation's id.
    schemas: HashMap<String, String>,
}

impl Bodies {
    /// Finds the bodies in the OpenAPI document.
    pub fn of(document: Value) -> Self {
        let mut schemas = HashMap::new();
        for (path, item) in document["paths"].as_object().into_iter().flatten() {
            for (method, operation) in item.as_object().into_iter().flatten() {
                let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
                let path = path.replace('~', "~0").replace('/', "~1");
                schemas.insert(id, format!("/paths/{path}/{method}/requestBody/content/application~1json/schema"));
            }
        }
        Self { document, schemas }
    }

    /// Checks a body that was read already.
    pub fn check(&self, operation: &str, json: &[u8]) -> Result<(), ApiError> {
        if !json.windows(4).any(|word| word == b"null") {
            return Ok(());
        }
        let schema = self.schemas.get(operation).and_then(|pointer| self.document.pointer(pointer));
        let (Some(schema), Ok(value)) = (schema, serde_json::from_slice::<Value>(json)) else { return Ok(()) };
        match refused(&self.document, schema, &value, "") {
            Some(pointer) => Err(ApiError::at(Code::InvalidRequest, pointer, "must not be null; leave it out instead")),
            None => Ok(()),
        }
    }
}

/// The place of the first null in `value` that `schema` does not allow.
fn refused(document: &Value, schema: &Value, value: &Value, place: &str) -> Option<String> {
    let schema = resolved(document, schema);
    if let Some(kinds) = kinds(schema) {
        let all: Vec<Option<String>> = kinds.iter().map(|kind| refused(document, kind, value, place)).collect();
        return if all.iter().any(Option::is_none) { None } else { all.into_iter().flatten().next() };
    }
    match value {
        Value::Null => (!allows_null(schema)).then(|| place.to_owned()),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(at, item)| refused(document, schema.get("items")?, item, &format!("{place}/{at}"))),
        Value::Object(members) => members.iter().find_map(|(name, member)| {
            let known = schema.get("properties").and_then(|properties| properties.get(name));
            let schema = known.or_else(|| schema.get("additionalProperties"))?;
            refused(document, schema, member, &format!("{place}/{}", name.replace('~', "~0").replace('/', "~1")))
        }),
        _ => None,
    }
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema.get("$ref").and_then(|path| document.pointer(path.as_str()?.trim_start_matches('#')));
    target.unwrap_or(schema)
}

/// The schemas of which one must fit.
fn kinds(schema: &Value) -> Option<&Vec<Value>> {
    ["oneOf", "anyOf"].iter().find_map(|name| schema.get(name)?.as_array())
}

/// A schema without a type allows everything.
fn allows_null(schema: &Value) -> bool {
    match schema.get("type") {
        None => true,
        Some(Value::Array(types)) => types.iter().any(|one| one == "null"),
        Some(one) => one == "null",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(operation: &str, json: &str) -> Option<String> {
        let error = crate::http::description().bodies.check(operation, json.as_bytes()).err()?;
        assert_eq!(error.code, Code::InvalidRequest);
        error.errors.first()?.pointer.clone()
    }

    #[test]
    fn null_is_refused_where_the_document_has_none() {
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
            ("not_in_the_document", r#"{"a": null}"#, None),
        ] {
            assert_eq!(place(operation, json).as_deref(), expect, "{operation} {json}");
        }
    }
}
