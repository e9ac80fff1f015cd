//! What the OpenAPI document says about requests, in the form that each request is checked against.

use serde_json::Value;

use super::access::Operations;
use super::nulls::Bodies;

/// The OpenAPI document, and what was extracted from it.
pub struct Description {
    /// The document as it is served.
    pub text: String,
    /// The operation behind each route.
    pub operations: Operations,
    /// The schemas of request bodies.
    pub bodies: Bodies,
}

impl Description {
    /// Reads the OpenAPI document.
    pub fn of(document: Value) -> Self {
        Self { text: document.to_string(), operations: Operations::documented(&document), bodies: Bodies::of(document) }
    }
}
