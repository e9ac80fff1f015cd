//! The interface of the catalog: names of collections, keys, jobs, classifiers, and which request created what.
//!
//! `collections`, `aliases`, `keys`, `jobs`, `classifiers` and `catalog_import` have its operations, as methods of
//! `dyn CatalogStorage`. Each database implements `CatalogStorage`, which is what the operations need of it.

use std::any::Any;
use std::time::Instant;

use super::StoreError;
use super::catalog_session::CatalogSession;
use crate::domain::{Collection, CollectionName};

/// The catalog of a server.
///
/// Calls block. Every change is atomic, and durable when its call returns. If several servers share a catalog, a change fails
/// with `StoreError::CatalogChanged` if this server does not know the catalog's current state. A change of a job fails with
/// `StoreError::JobTakenOver` if the job belongs to another server.
pub trait CatalogStorage: Any + Send + Sync {
    /// Runs `work` once on a connection, and keeps what it changed unless it fails. Errors name the operation.
    fn run_work(&self, operation: &'static str, within: Within, work: &mut CatalogWork<'_>) -> Result<(), StoreError>;

    /// Returns the number of this server, if several may share the catalog.
    fn server_number(&self) -> Option<i64>;

    /// Removes a collection, with its aliases, and returns it. A database server drops its documents immediately; a folder
    /// stays for the caller to delete.
    fn delete(&self, name: &CollectionName) -> Result<Option<Collection>, StoreError>;

    /// After `time`, ends statements that run for more than a moment.
    fn interrupt_after(&self, time: Instant);
}

/// What `CatalogStorage::run_work` runs.
pub type CatalogWork<'w> = dyn FnMut(&mut dyn CatalogSession) -> Result<(), StoreError> + 'w;

/// The transaction that statements run in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// None: each statement is a transaction of its own.
    Statements,
    /// One that reads a single state.
    Snapshot,
    Transaction,
    /// One that changes a part, and fails with `StoreError::CatalogChanged` if this server does not know its current state.
    ChangeOf(CatalogPart),
}

/// A part of the catalog that servers keep in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogPart {
    /// Collections with their settings and metadata indexes, and aliases.
    Names,
    Keys,
    /// Which classifiers exist. Their contents are read when needed.
    Classifiers,
}

impl CatalogPart {
    pub const ALL: [Self; 3] = [Self::Names, Self::Keys, Self::Classifiers];
}

impl dyn CatalogStorage {
    /// Like `run_work`, but returns what `work` returns.
    pub(super) fn run_in<T>(
        &self,
        within: Within,
        operation: &'static str,
        mut work: impl FnMut(&mut dyn CatalogSession) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut done = None;
        self.run_work(operation, within, &mut |session| {
            done = Some(work(session)?);
            Ok(())
        })?;
        Ok(done.expect("run_work runs the work unless it fails"))
    }
}
