//! The operations of the server. This is the only layer that combines rows, index and embedder. Handlers call nothing below it.
//!
//! Each resource has a module with the same name as in `crate::http`: `classifiers`, `collections` (with aliases, projections
//! and re-embedding), `documents` (with import and export), `jobs`, `keys`, `mining`, `models`, `search` and `snapshots`. Each
//! job type is in the module of its resource, and `jobs` runs them all.
//!
//! `state` holds what all operations share. `lifecycle` opens it and shuts it down, `recovery` makes its collections ready
//! after a start, `catalog_sync` keeps it in sync with other servers, and `directory_watch` notices that the data directory is
//! gone. `open_collection` is a collection in use: its database and index, their repair and maintenance, and the background
//! worker. A request works on a collection through a `handle`. `limits` bounds what all requests use together, and
//! `thread_pool` the threads of searches and of writes. `moving` moves data while no server uses it.

mod blocking;
mod catalog_sync;
pub mod classifiers;
pub mod collections;
mod directory_watch;
pub mod documents;
mod embedding;
pub mod error;
mod folders;
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
mod recovery;
mod retries;
pub mod search;
pub mod snapshots;
pub mod state;
mod thread_pool;
mod upload_receiver;

pub use crate::storage::{PostgresOptions, ReplicaOptions, ReplicaState};
pub use error::Error;
pub use handle::CollectionHandle;
pub use state::{Parts, Service};
