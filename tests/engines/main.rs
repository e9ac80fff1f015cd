//! The contract of `Storage`, over each engine: what `src/storage/operations.rs` promises, whatever an engine is made of.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contract;
mod crash;
mod documents;
mod expiry;
mod facets;
mod filters;
mod jobs;
mod nearest;
#[path = "../support/postgres.rs"]
mod postgres_server;
mod scroll;
mod twins;
mod words;
mod writes;
