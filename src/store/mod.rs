//! SQLite, the truth: collections in `catalog.sqlite`, and per collection its documents, passages and embeddings in
//! `collections/<uuid>/documents.sqlite`. All SQL of the server lives in this module, and no SQLite type leaves it.

pub mod catalog;
pub mod documents;
pub mod error;

mod connection;
mod filter;
mod migrate;
mod mutations;
mod queries;
mod readers;
mod rows;
mod writer;

pub use catalog::Catalog;
pub use documents::{
    Change, Deleted, DocumentStore, PassageRow, PendingPassage, PreparedDocument, SearchFilter, StoreOptions, Upserted,
};
pub use error::StoreError;
