//! The engine on a database server: PostgreSQL with pgvector stores the documents and finds the nearest of them, for any number
//! of servers at once. Whatever this engine caches in memory is checked against the collection's sequence at each use, or does
//! not affect answers.

mod batch;
mod catalog;
mod changes;
mod checkpoints;
mod client;
mod connector;
mod copying;
mod corpus;
mod document_records;
mod escape;
mod expiry;
mod facets;
mod fault;
mod filter;
mod hits;
mod hosts;
mod lexical;
mod member;
mod membership;
mod names;
mod nearest;
mod orphans;
mod partition;
mod patch;
mod read_routing;
mod reading;
mod replacing;
mod replica;
mod rows;
mod scroll;
mod server;
mod session;
mod terms;
mod tls;
mod upsert;
mod writing;

pub use catalog::{CatalogNames, JobOwnership, PostgresCatalog, TakenOverJobs};
pub use orphans::Adoption;
pub use partition::Postgres;
pub use replacing::BlockedWrites;
pub use replica::{ReplicaOptions, ReplicaState};
pub use server::{PostgresOptions, PostgresServer};
