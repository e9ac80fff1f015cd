//! What each request is checked against: its operation, and the schema of its body in the OpenAPI document.

use serde_json::Value;

use super::operations::Operations;
use crate::http::request::body_schemas::BodySchemas;
use crate::http::response::etags;

/// The OpenAPI document, the operations in it, and the bodies that it describes.
pub struct Description {
    /// The document as JSON, as it is served.
    pub text: String,
    pub etag: String,
    /// The operation behind each route.
    pub operations: Operations,
    pub bodies: BodySchemas,
}

impl Description {
    /// Describes `operations` by their document.
    pub fn new(document: Value, operations: Operations) -> Self {
        let text = document.to_string();
        let etag = etags::compute(text.as_bytes());
        Self { text, etag, operations, bodies: BodySchemas::new(document) }
    }
}
