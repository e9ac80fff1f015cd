//! The real program as processes: it starts, works, is stopped or killed, and starts again. The tests are in one binary, so that
//! those that wait share the cores with those that compute.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod database_server;
mod end_to_end;
mod failover;
mod import;
mod killed_jobs;
mod logs;
mod lost_network;
mod many_collections;
#[path = "../support/postgres.rs"]
mod postgres_server;
#[path = "../support/program.rs"]
mod program;
#[path = "../support/proxy.rs"]
mod proxy;
mod reembedding;
#[path = "../support/s3.rs"]
mod s3;
mod schedule;
mod start_up;
mod stopping;
mod system_limits;
mod warm_up;
