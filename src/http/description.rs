//! What each request is checked against: its operation, and the schema of its body in the OpenAPI document.

use serde_json::Value;

use super::nulls::Bodies;
use super::operations::Operations;

/// The OpenAPI document, the operations in it, and the bodies that it describes.
pub struct Description {
    /// The document as it is served.
    pub text: String,
    /// The operation behind each route.
    pub operations: Operations,
    /// The schemas of request bodies.
    pub bodies: Bodies,
}

impl Description {
    /// Describes `operations` by their document.
    pub fn of(document: Value, operations: Operations) -> Self {
        Self { text: document.to_string(), operations, bodies: Bodies::of(document) }
    }
}
