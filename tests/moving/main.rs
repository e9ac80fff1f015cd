//! `dragoman move`: the real program moves a real server's data from a data directory to a database and back.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fixture;
mod interrupted;
mod refused;
mod there_and_back;

#[path = "../support/postgres.rs"]
mod postgres_server;
#[path = "../support/program.rs"]
mod program;
