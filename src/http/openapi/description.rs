//! What each request is checked against: its operation, and the schema of its body in the OpenAPI document.

use serde_json::Value;

use super::operations::{Operation, Operations};
use crate::http::request::body_schemas::BodySchema;
use crate::http::response::etags;

pub struct Description {
    /// The document as JSON, as it is served.
    pub text: String,
    pub etag: String,
    /// The operation behind each route.
    pub operations: Operations,
    pub document: Value,
}

impl Description {
    pub fn new(document: Value, operations: Operations) -> Self {
        let text = document.to_string();
        let etag = etags::compute(text.as_bytes());
        Self { text, etag, operations, document }
    }

    /// What the document says about an operation; null if it says nothing.
    pub fn of_operation(&self, operation: &Operation) -> &Value {
        &self.document["paths"][&operation.path][operation.method.as_str().to_ascii_lowercase()]
    }

    /// The schema of an operation's JSON body; if it has none, one that everything fits.
    pub fn body_schema(&self, operation: &Operation) -> BodySchema<'_> {
        let schema = &self.of_operation(operation)["requestBody"]["content"]["application/json"]["schema"];
        BodySchema { document: &self.document, schema }
    }
}
