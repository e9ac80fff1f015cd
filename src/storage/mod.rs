//! The storage interface: what the service asks of an engine that holds a collection's documents and finds the nearest of them.
//!
//! `operations` is the interface of a collection, and `CatalogStorage` that of the catalog. There are two engines: `Embedded`
//! uses SQLite and usearch in this process, and `Postgres` uses a database server.

mod catalog;
mod embedded;
mod error;
mod first_passages;
mod nearest;
mod operations;
mod postgres;

pub use crate::index::{Neighbor, search_exact};
pub use crate::store::{CatalogPart, CatalogStorage, PassageSet, RequiredPassages};
pub use embedded::{Embedded, RESCORED_MIN};
pub use error::StorageError;
pub use first_passages::FirstPassages;
pub use nearest::{EMBEDDINGS_PER_READ, Nearest, NearestSearch, Scope, Unit};
pub use operations::{RecordFn, Storage};
pub use postgres::{
    Adoption, BlockedWrites, CatalogNames, JobOwnership, Postgres, PostgresCatalog, PostgresOptions, PostgresServer,
    ReplicaOptions, ReplicaState, TakenOverJobs,
};
