//! A collection on a database server: other servers write to it, replace it or delete it, and may die while they work on it.

use std::sync::atomic::Ordering;

use super::{Engine, OpenCollection};
use crate::domain::JobId;
use crate::service::error::Error;
use crate::storage::{Adoption, Postgres};
use crate::store::StoreError;

impl OpenCollection {
    /// Whether it is on a database server, where other servers may write into it and replace it.
    pub(crate) fn is_shared(&self) -> bool {
        self.server().is_some()
    }

    /// Returns its engine if it is on a database server. The methods of the engine block.
    pub(crate) fn server(&self) -> Option<&Postgres> {
        match &self.engine {
            Engine::Embedded(_) => None,
            Engine::Server(server) => Some(server),
        }
    }

    /// Fails with `StoreError::WentBack` if the database has lost the last batch of a job. Blocks.
    pub(crate) fn check_last_checkpoint(&self, job: &JobId) -> Result<(), Error> {
        match self.server() {
            // A replaced collection has passed its checkpoints on.
            Some(server) if self.replacement.get().is_none() => Ok(server.check_last_checkpoint(job)?),
            _ => Ok(()),
        }
    }

    /// Whether work failed because the collection was deleted. On a database server, its rows disappear shortly before this
    /// server learns of the deletion.
    pub(crate) fn failed_by_deletion(&self, error: &Error) -> bool {
        let rows_deleted = matches!(error, Error::Store(StoreError::Closed)) && self.is_shared();
        self.is_deleted() || (rows_deleted && !self.should_stop())
    }

    /// Makes the error for work on it after its deletion.
    pub(crate) fn not_found(&self) -> Error {
        Error::CollectionNotFound { name: self.row.name.clone() }
    }

    /// Makes this server finish the work that a dead server left in this collection: removing expired documents, and embedding
    /// passages.
    pub(crate) fn take_over_pending_work(&self) {
        if let Some(server) = self.server() {
            server.expect_expired();
            self.orphans_expected.store(true, Ordering::Release);
            self.wake.notify_one();
        }
    }

    /// Whether a dead server may have left passages without an embedding.
    pub(crate) fn expects_orphans(&self) -> bool {
        self.orphans_expected.load(Ordering::Acquire)
    }

    /// Adopts passages that a dead server left without an embedding. Returns whether another server may have adopted some of
    /// them. Blocks.
    pub(crate) fn adopt(&self) -> Result<bool, Error> {
        let Some(server) = self.server() else { return Ok(false) };
        self.orphans_expected.store(false, Ordering::Release);
        let adoption = server.adopt_orphans().inspect_err(|_| self.orphans_expected.store(true, Ordering::Release))?;
        self.orphans_expected.store(adoption != Adoption::Nobody, Ordering::Release);
        Ok(adoption == Adoption::OtherServer)
    }
}
