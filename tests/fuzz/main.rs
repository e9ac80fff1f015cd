//! Fuzzing for server failures: filters, imported files, cursors, snapshot archives, and raw bytes on the wire. Inputs of
//! `corpus/` are mutated at random. An input with a new kind of answer is kept for the rest of the run and mutated further, so
//! that the fuzzer gets past the first check that refuses everything.
//!
//! `make fuzz` runs for ten minutes, `make test` for a few seconds. `DRAGOMAN_FUZZ_S` sets the seconds of all targets together,
//! `DRAGOMAN_FUZZ_SEED` repeats a run, `DRAGOMAN_FUZZ_KEEP=1` writes inputs with new answers to `corpus/`. An input that
//! exposes a bug is always written there: commit it with the fix, and every later run starts with it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "the tests of the API use the rest")]
#[path = "../api/archives.rs"]
mod archives;
mod corpus;
mod hunt;
#[path = "../support/schema.rs"]
mod schema;
#[allow(dead_code, reason = "the tests of the API use the rest")]
#[path = "../support/server.rs"]
mod server;
mod targets;

use hunt::hunt;
use targets::{Archives, Cursors, Filters, Imports, Wire};

#[tokio::test(flavor = "multi_thread")]
async fn filters() {
    hunt("filters", Filters::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn imports() {
    hunt("imports", Imports::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors() {
    hunt("cursors", Cursors::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn archives() {
    hunt("archives", Archives::start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wire() {
    hunt("wire", Wire::start().await).await;
}
