//! The operations of the server. This is the only layer where rows, index and embedder meet. Handlers call it and nothing below
//! it.
//!
//! Each resource has a module with the same name as in `crate::http`: `classifiers`, `collections` (with aliases, projections
//! and re-embedding), `documents` (with import and export), `jobs`, `keys`, `mining`, `models`, `search` and `snapshots`. Each
//! job type is in the module of its resource, and `jobs` runs them all.
//!
//! `state` has what all operations share. `lifecycle` opens it and shuts it down, and `following` brings it up to date with
//! other servers. `open_collection` is a collection in use: its database and index, their repair and upkeep, and the background
//! worker. A request works on a collection through a `handle`. `limits` bounds what all requests take together. `moving` moves
//! data while no server uses it.

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
