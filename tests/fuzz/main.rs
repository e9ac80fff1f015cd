//! A hunt for inputs that bring the server out of order: filters, imported files, cursors, archives of snapshots and what comes over
//! the wire. Inputs of `corpus/` are changed at random; one whose answer says something new is kept for the rest of the run and
//! changed on, so that the hunt gets past the first check that refuses everything.
//!
//! `make fuzz` hunts for ten minutes, `make test` for some seconds. `DRAGOMAN_FUZZ_S` sets the seconds of all targets together,
//! `DRAGOMAN_FUZZ_SEED` repeats a run, `DRAGOMAN_FUZZ_KEEP=1` writes inputs with new answers to `corpus/`. An input that shows a defect
//! is always written there: commit it with the mend, and every run from then on begins with it.

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
