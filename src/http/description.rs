//! What the OpenAPI document says about requests, in the form in which each request is checked against it.

use serde_json::Value;

use super::access::Operations;
use super::body_schemas::Bodies;
use super::etags;

/// The OpenAPI document, and what was read out of it.
pub struct Description {
    /// The document as it is served.
    pub text: String,
    /// Its entity tag.
    pub etag: String,
    /// The operation behind each route.
    pub operations: Operations,
    /// The schemas of request bodies.
    pub bodies: Bodies,
}

impl Description {
    /// Reads the OpenAPI document.
    pub fn of(document: Value) -> Self {
        let text = document.to_string();
        let etag = etags::of(text.as_bytes());
        Self { text, etag, operations: Operations::documented(&document), bodies: Bodies::of(document) }
    }
}
