//! Use cases: the only place where rows, index and embedder meet. Handlers call these and nothing below.
//!
//! One room for each resource, with the name that it has in `crate::http`: `classifiers`, `collections` (with aliases,
//! projections and re-embedding), `documents` (with import and export), `jobs`, `keys`, `mining`, `models`, `search` and
//! `snapshots`. A type of job is in the room of its resource; `jobs` runs them all.
//!
//! `state` is what all use cases share, `lifecycle` opens and shuts it down, `following` keeps it up with other servers. `open_collection` is a collection in use: its
//! database and index, their repair and upkeep, and the background worker. `handle` is what a request holds of one.
//! `limits` bounds what all requests take together. `moving` works while no server does.

mod blocking;
pub mod classifiers;
pub mod collections;
pub mod documents;
mod embedding;
pub mod error;
mod folders;
mod followed;
mod following;
pub mod gauges;
mod handle;
pub mod jobs;
pub mod json;
pub mod keys;
pub mod lifecycle;
pub mod limits;
pub mod mining;
pub mod models;
pub mod moving;
mod open_collection;
pub mod search;
pub mod snapshots;
pub mod state;
mod upload_receiver;

pub use crate::storage::{PostgresOptions, ReplicaLag, ReplicaOptions, ReplicaState};
pub use error::Error;
pub use handle::CollectionHandle;
pub use state::{Parts, Readiness, Service};
