//! Converts a record of another database to a document in the format of the API.

use std::io;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::domain::DocumentId;
use crate::domain::json::kind;

/// Maximum characters of an invalid id to show.
const ID_CHARACTERS_SHOWN: usize = 80;

#[derive(Debug, Default)]
pub struct Record {
    pub id: Value,
    /// Its fields: Qdrant's payload, Weaviate's properties, Chroma's metadata, Meilisearch's document, Elasticsearch's source.
    pub fields: Map<String, Value>,
    /// Its text if that is separate from the fields; otherwise null.
    pub document: Value,
    /// Its vector, or its vectors by name until one is chosen; null if there are none.
    pub vector: Value,
}

impl Record {
    /// Creates a record. `fields` must be an object or null.
    pub fn new(id: Value, fields: Value) -> Result<Self, String> {
        let fields = match fields {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            other => return Err(format!("its fields must be an object, got {}", kind(&other))),
        };
        Ok(Self { id, fields, ..Self::default() })
    }
}

pub trait Records {
    /// Returns the next record, or why it is invalid; `None` after the last one.
    fn next(&mut self) -> io::Result<Option<Result<Record, String>>>;
}

/// Maps fields of a record to members of a document. Dots lead into nested objects.
#[derive(Debug, Clone, Default, Args)]
pub struct Fields {
    /// Field with the text; use dots for nested fields. Defaults to `text`, or for Chroma to its documents.
    #[arg(long = "text-field", value_name = "FIELD", requires = "from")]
    pub text: Option<String>,
    /// Field with the title.
    #[arg(long = "title-field", value_name = "FIELD", requires = "from")]
    pub title: Option<String>,
    /// Field with the language.
    #[arg(long = "language-field", value_name = "FIELD", requires = "from")]
    pub language: Option<String>,
    /// Field with an object to use as metadata; by default all other fields become metadata.
    #[arg(long = "metadata-field", value_name = "FIELD", requires = "from")]
    pub metadata: Option<String>,
}

/// A record that cannot be converted to a document.
#[derive(Debug, PartialEq, Eq)]
pub struct InvalidRecord {
    /// Its id, truncated for display.
    pub id: Option<String>,
    /// JSON pointer to the invalid member of the document.
    pub pointer: &'static str,
    pub detail: String,
}

impl Fields {
    pub fn document(&self, mut record: Record) -> Result<Value, InvalidRecord> {
        let mut document = Map::new();
        document.insert("id".to_owned(), id(record.id)?.into());
        let members = [("title", &self.title), ("text", &self.text), ("language", &self.language)];
        for (member, field) in members {
            let value = field.as_ref().and_then(|field| take_field(&mut record.fields, field));
            document.extend(value.map(|value| (member.to_owned(), value)));
        }
        if !record.document.is_null() {
            match self.text {
                None => document.insert("text".to_owned(), record.document),
                Some(_) => record.fields.insert("document".to_owned(), record.document),
            };
        }
        if !record.vector.is_null() {
            document.insert("vector".to_owned(), record.vector);
        }
        let metadata = match &self.metadata {
            None => Value::Object(record.fields),
            Some(field) => take_field(&mut record.fields, field).unwrap_or(json!({})),
        };
        if metadata != json!({}) {
            document.insert("metadata".to_owned(), metadata);
        }
        Ok(document.into())
    }
}

/// Converts an id to text. Qdrant and Meilisearch also use numbers.
fn id(id: Value) -> Result<String, InvalidRecord> {
    let misfit = |id, detail| InvalidRecord { id, pointer: "/id", detail };
    let id = match id {
        Value::String(id) => id,
        Value::Number(number) => number.to_string(),
        Value::Null => return Err(misfit(None, "must be given, got none".to_owned())),
        other => return Err(misfit(None, format!("must be a string or a number, got {}", kind(&other)))),
    };
    match DocumentId::parse_new(&id) {
        Ok(_) => Ok(id),
        Err(error) => Err(misfit(Some(id.chars().take(ID_CHARACTERS_SHOWN).collect()), error.to_string())),
    }
}

/// Removes and returns a field, by its literal name or its path. Null counts as missing.
fn take_field(fields: &mut Map<String, Value>, name: &str) -> Option<Value> {
    if let Some(value) = fields.shift_remove(name) {
        return Some(value).filter(|value| !value.is_null());
    }
    let (first, rest) = name.split_once('.')?;
    take_field(fields.get_mut(first)?.as_object_mut()?, rest)
}

/// Returns a field like `take_field`, but leaves it.
pub fn find_field<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = fields.get(name) {
        return Some(value).filter(|value| !value.is_null());
    }
    let (first, rest) = name.split_once('.')?;
    find_field(fields.get(first)?.as_object()?, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(id: Value, fields: Value) -> Record {
        Record::new(id, fields).unwrap()
    }

    fn fields(text: &str) -> Fields {
        Fields { text: Some(text.to_owned()), ..Fields::default() }
    }

    #[test]
    fn named_fields_become_members_and_the_rest_becomes_metadata() {
        let fields = Fields { title: Some("head".to_owned()), language: Some("lang".to_owned()), ..fields("page.body") };
        let given = json!({"head": "T", "lang": null, "page": {"body": "x", "n": 1}, "year": 2026});
        let expect = json!({"id": "7", "title": "T", "text": "x", "metadata": {"page": {"n": 1}, "year": 2026}});
        assert_eq!(fields.document(record(json!(7), given)).unwrap(), expect);
        let lifted = Fields { metadata: Some("metadata".to_owned()), ..super::tests::fields("page_content") };
        let given = json!({"page_content": "x", "metadata": {"source": "a.txt"}});
        let expect = json!({"id": "a", "text": "x", "metadata": {"source": "a.txt"}});
        assert_eq!(lifted.document(record(json!("a"), given)).unwrap(), expect);
    }

    #[test]
    fn the_records_document_is_the_text_unless_a_text_field_is_named() {
        let given = || Record { document: json!("own"), ..record(json!("a"), json!({"body": "field"})) };
        assert_eq!(Fields::default().document(given()).unwrap()["text"], "own");
        let expect = json!({"id": "a", "text": "field", "metadata": {"document": "own"}});
        assert_eq!(fields("body").document(given()).unwrap(), expect);
    }

    #[test]
    fn errors_name_the_invalid_id() {
        let long = "x".repeat(600);
        for (given, named, detail) in [
            (json!(long), Some("x".repeat(80)), "must have 1 to 512 bytes, got 600"),
            (json!("a\nb"), Some("a\nb".to_owned()), "control characters"),
            (json!(".."), Some("..".to_owned()), "must not be"),
            (json!([1]), None, "must be a string or a number, got an array"),
            (json!(null), None, "must be given"),
        ] {
            let misfit = fields("text").document(record(given, json!(null))).unwrap_err();
            assert_eq!((&misfit.id, misfit.pointer), (&named, "/id"));
            assert!(misfit.detail.contains(detail), "{misfit:?}");
        }
    }

    #[test]
    fn the_chosen_vector_becomes_the_documents_vector() {
        let given = Record { vector: json!([1.0]), ..record(json!("a"), json!({"text": "x"})) };
        let expect = json!({"id": "a", "text": "x", "vector": [1.0]});
        assert_eq!(fields("text").document(given).unwrap(), expect);
    }

    #[test]
    fn a_field_is_found_by_its_name_or_its_path() {
        let fields = json!({"a.b": 1, "a": {"c": {"d": 2}, "n": null}});
        let find = |name| find_field(fields.as_object().unwrap(), name).cloned();
        assert_eq!((find("a.b"), find("a.c.d"), find("a.n"), find("c")), (Some(json!(1)), Some(json!(2)), None, None));
    }
}
