//! The contracts of `Storage` and `CatalogStorage`, tested on each engine: what `src/storage/operations.rs` and
//! `src/store/catalog_storage.rs` promise, however an engine is built.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod catalog;
mod catalog_classifiers;
mod catalog_jobs;
mod catalog_server;
mod catalogs;
mod contract;
mod copying;
mod crash;
mod documents;
mod expiry;
mod facets;
mod filters;
mod hanging;
mod jobs;
mod moving;
mod nearest;
#[path = "../support/postgres.rs"]
mod postgres_server;
#[path = "../support/proxy.rs"]
mod proxy;
mod replacing;
mod replica;
mod scroll;
#[path = "../support/stored.rs"]
mod stored;
mod twins;
mod words;
mod writes;
