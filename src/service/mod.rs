//! Use cases: the only place where rows, index and embedder meet. Handlers call these and nothing below.
//!
//! `state` is what all use cases share; `lifecycle` opens and shuts down, `repair` brings an index up to date, `runtime` holds what
//! an open collection consists of, `handle` what a request holds of one, `worker` embeds in the background, `damage` is what becomes of a damaged database, `leftovers`
//! of folders that nobody needs; `expiry` removes documents that have expired; `aliases`, `classifiers`, `collections`, `documents`, `ingest`, `search`, `comparison`, `export`,
//! `jobs`, `projections`, `snapshots` and `schedule`, which makes them, are the use cases. `document_input` reads and checks documents, with `json`. `spool` receives files, `archive` packs and unpacks snapshots.

pub mod aliases;
mod archive;
mod blocking;
pub mod budget;
pub mod classifiers;
pub mod collections;
pub mod comparison;
mod damage;
pub mod document_input;
pub mod documents;
mod embedding;
pub mod error;
mod expiry;
pub mod export;
mod facets;
mod folders;
mod found_damage;
pub mod gauges;
mod handle;
mod idempotency;
pub mod ingest;
pub mod jobs;
pub mod json;
mod keyring;
pub mod keys;
pub mod lifecycle;
mod orphaned_folders;
pub mod projections;
pub mod repair;
mod reservation;
mod reserved;
mod runtime;
pub mod schedule;
mod schedule_meter;
pub mod search;
pub mod shares;
pub mod snapshots;
pub mod state;
mod upkeep;
mod upload_receiver;
mod worker;

pub use error::Error;
pub use handle::CollectionHandle;
pub use schedule_meter::ScheduleMeter;
pub use state::{Parts, Readiness, Service};
