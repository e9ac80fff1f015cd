//! The API in process: no port, no model, no GPU. One file per resource, and `protocol` for what all resources share.

#![expect(clippy::panic, reason = "a test fails by panicking")]

#[path = "../support/schema.rs"]
mod schema;
#[path = "../support/server.rs"]
mod server;

mod aliases;
mod archives;
mod bodies;
mod bounds;
mod browsers;
mod by_filter;
mod classifiers;
mod collections;
mod comparison;
mod console;
mod documents;
mod duplicates;
mod embeddings;
mod encodings;
mod expiry;
mod facet_ranges;
mod filters;
mod health;
mod hidden;
mod hostile_archives;
mod hostile_requests;
mod hosts;
mod idempotency;
mod import_export;
mod jobs;
mod keys;
mod languages;
mod mcp;
mod mcp_access;
mod metrics;
mod mining;
mod mining_identical;
mod mining_known;
mod mining_sentences;
mod models;
mod nulls;
mod pending;
mod projections;
mod protocol;
mod put_collection;
mod put_patch;
mod query_parameters;
mod recommend;
mod reembedding;
mod search;
mod search_batch;
mod search_boosts;
mod search_facets;
mod search_forms;
mod search_full;
mod search_lean;
mod search_lexical;
mod search_operators;
mod search_options;
mod search_preferences;
mod snapshots;
mod snapshots_whole;
mod stored_jobs;
mod titles;
mod traffic;
mod vectors;

use serde_json::Value;
use server::Server;

/// Reads a file of `openapi/examples`.
fn example(name: &str) -> Value {
    let path = format!("{}/openapi/examples/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// An object with the members of another one added.
fn merged(mut object: Value, more: &Value) -> Value {
    object.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    object
}

impl Server {
    async fn create(&self, collection: Value) {
        let response = self.post("/v1/collections", &collection).await;
        assert_eq!(response.status, 201, "{}", response.text);
    }
}
