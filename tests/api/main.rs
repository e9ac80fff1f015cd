//! The API in process: no port, no model, no GPU. One file per resource, and `protocol` for what all share.

#![expect(clippy::panic, reason = "a test fails by panicking")]

#[path = "../support/schema.rs"]
mod schema;
#[path = "../support/server.rs"]
mod server;

mod collections;
mod documents;
mod embeddings;
mod health;
mod models;
mod protocol;
mod search;

use serde_json::Value;

/// Reads a file of `openapi/examples`.
fn example(name: &str) -> Value {
    let path = format!("{}/openapi/examples/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}
