//! The patterns of names, ids and cursors in the OpenAPI document, and the members of schemas that have them.

use serde_json::{Map, Value, json};

pub const NAME: &str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";
pub const DOCUMENT_ID: &str = r"^[^\u0000-\u001f\u007f-\u009f]{1,512}$";
pub const KEY_ID: &str = "^[0-9a-f]{32}$";
pub const UUID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
pub const CURSOR: &str = "^[A-Za-z0-9_-]+$";

/// Patterns of members that mean the same in every schema.
const EVERYWHERE: &[(&str, &str)] =
    &[("alias", NAME), ("collection", NAME), ("collections", NAME), ("cursor", CURSOR), ("next_cursor", CURSOR), ("job", UUID)];

/// Patterns of the members of single schemas.
const MEMBERS: &[(&str, &str, &str)] = &[
    ("CreateCollectionRequest", "name", NAME),
    ("CollectionInfo", "name", NAME),
    ("CreateClassifierRequest", "name", NAME),
    ("ClassifierInfo", "name", NAME),
    ("DocumentInput", "id", DOCUMENT_ID),
    ("StoredDocument", "id", DOCUMENT_ID),
    ("SearchHit", "id", DOCUMENT_ID),
    ("SearchDocumentsRequest", "like", DOCUMENT_ID),
    ("JobInfo", "id", UUID),
    ("SnapshotInfo", "id", UUID),
    ("KeyInfo", "id", KEY_ID),
];

pub fn add_schema_patterns(schemas: &mut Map<String, Value>) {
    for (schema, content) in schemas {
        let members = content.get_mut("properties").and_then(Value::as_object_mut);
        for (name, member) in members.into_iter().flatten() {
            let everywhere = EVERYWHERE.iter().find(|(known, _)| known == name).map(|(_, pattern)| *pattern);
            let here = MEMBERS.iter().find(|(of, known, _)| of == schema && known == name).map(|(_, _, pattern)| *pattern);
            everywhere.or(here).into_iter().for_each(|pattern| add(member, pattern));
        }
    }
}

/// Adds a pattern to a string, or to each string of an array.
pub fn add(schema: &mut Value, pattern: &str) {
    let is = |schema: &Value, kind: &str| match &schema["type"] {
        Value::Array(types) => types.iter().any(|name| name == kind),
        name => name == kind,
    };
    if is(schema, "array") && is(&schema["items"], "string") {
        schema["items"]["pattern"] = json!(pattern);
    } else if is(schema, "string") {
        schema["pattern"] = json!(pattern);
    }
}
