//! The index, which finds the nearest neighbors of an embedding with usearch. It is a cache: everything in it can be rebuilt
//! from the store. No usearch type leaves this module.

mod engine;
mod near_duplicates;
mod nearest;
mod parameters;
mod permits;
mod scan;

pub mod error;
pub mod exact;
pub mod hnsw;
pub mod snapshot;

pub use error::IndexError;
pub use exact::search_exact;
pub use hnsw::{Compared, Index};
pub use nearest::{Neighbor, nearer_first};
pub use parameters::IndexParameters;
pub use scan::Among;
pub use snapshot::{is_saved, load, save, saved_sequence};
