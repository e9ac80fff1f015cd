//! A collection on a database server: other servers write to it, replace it or delete it, and may die while they work on it.

use std::sync::atomic::Ordering;

use super::{Engine, OpenCollection};
use crate::domain::{JobId, MetadataPath};
use crate::service::error::Error;
use crate::storage::{Adoption, HeldWrites};
use crate::store::StoreError;

impl OpenCollection {
    /// Whether it is on a database server, where other servers may write into it and replace it.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.engine, Engine::Server(_))
    }

    /// Whether work failed because the collection was deleted. On a database server, its rows disappear shortly before this
    /// server learns of the deletion.
    pub(crate) fn is_gone(&self, error: &Error) -> bool {
        let rows_gone = matches!(error, Error::Store(StoreError::Closed)) && self.is_shared();
        self.is_deleted() || (rows_gone && !self.should_stop())
    }

    /// Tells the database server which job builds this collection as a replacement. Blocks.
    pub(crate) fn mark_replacement(&self, job: &JobId) -> Result<(), Error> {
        if let Engine::Server(server) = &self.engine {
            server.mark_replacement(job)?;
        }
        Ok(())
    }

    /// Makes the writes of other servers wait until the result is dropped. The caller locks `writes` for this server. Blocks.
    pub(crate) fn hold_writes(&self) -> Result<Option<HeldWrites>, Error> {
        match &self.engine {
            Engine::Embedded(_) => Ok(None),
            Engine::Server(server) => Ok(Some(server.hold_writes()?)),
        }
    }

    /// Keeps the rows of this replaced collection on the database server until `remove_replaced`. Blocks.
    pub(crate) fn keep_replaced(&self) {
        if let Engine::Server(server) = &self.engine {
            server.keep_replaced();
        }
    }

    /// Removes the rows of this replaced collection from the database server, unless another server still reads them. Returns
    /// whether they are gone. Blocks.
    pub(crate) fn remove_replaced(&self) -> Result<bool, Error> {
        match &self.engine {
            Engine::Embedded(_) => Ok(true),
            Engine::Server(server) => Ok(server.remove_replaced()?),
        }
    }

    /// Records metadata indexes that another server has created or removed.
    pub(crate) fn refresh_metadata_indexes(&self, paths: Vec<MetadataPath>) {
        if let Engine::Server(server) = &self.engine {
            server.refresh_metadata_indexes(paths);
        }
    }

    /// Makes this server finish the work that a dead server left in this collection: removing expired documents, and embedding
    /// passages.
    pub(crate) fn take_over_pending_work(&self) {
        if let Engine::Server(server) = &self.engine {
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
        let Engine::Server(server) = &self.engine else { return Ok(false) };
        self.orphans_expected.store(false, Ordering::Release);
        let adoption = server.adopt_orphans().inspect_err(|_| self.orphans_expected.store(true, Ordering::Release))?;
        self.orphans_expected.store(adoption != Adoption::Nobody, Ordering::Release);
        Ok(adoption == Adoption::OtherServer)
    }

    /// Releases adopted passages that are not embedded yet, so that other servers can adopt them. Blocks.
    pub(crate) fn end_adoption(&self) {
        if let Engine::Server(server) = &self.engine {
            server.release_orphans();
        }
    }
}
