//! Records, repairs and reports damage in a collection's database.
//!
//! A row that does not match its checksum is never returned. A request that reads it fails with `Error::Damaged`, which names
//! the row. The collection is marked as damaged until the damage is gone. Its other documents and other collections are served
//! as before. A damaged embedding is dropped and computed again from its text. To repair a damaged document, a caller replaces
//! or deletes it. To repair a damaged file, an operator restores a snapshot.

use std::sync::atomic::Ordering;

use super::OpenCollection;
use super::found_damage::DAMAGE_MAX;
use crate::domain::{CollectionCounts, CollectionView, Damage, DocumentId, IndexState, PassageId, chain, with_causes};
use crate::service::error::Error;
use crate::service::state::BrokenCollection;
use crate::storage::Storage;
use crate::store::StoreError;

/// After damage, how many rows are tried one by one before the steps get longer.
const SINGLE_STEPS: u64 = 64;

/// If as many rows cannot be read, nothing after them is tried.
const UNREADABLE_MAX: u64 = 1 << 40;

/// Size of the largest database that is verified at start-up, in bytes.
const CHECKED_BYTES_MAX: u64 = 256 << 20;

impl OpenCollection {
    /// If `error` is damage of the database, marks the collection as damaged and repairs what it can. Returns the error for the
    /// caller.
    pub(crate) fn report_damage(&self, error: Error) -> Error {
        match error {
            Error::Store(source) if source.is_damage() => {
                let damage = Box::new(self.record_damage(&source));
                Error::Damaged { collection: self.row.name.clone(), damage, source: Box::new(source) }
            }
            Error::Recovering { .. } => match self.unrecoverable.lock().clone() {
                // It was recorded when recovery failed.
                Some(source) => Error::Damaged {
                    collection: self.row.name.clone(),
                    damage: Box::new(Damage { document: None, problem: chain(&source) }),
                    source: Box::new(source),
                },
                None => error,
            },
            other => other,
        }
    }

    /// Uses the store, and reports damage. If the collection was deleted in the meantime, any failure becomes
    /// `CollectionNotFound`. For work that does not go through `run`, such as a job's. Blocks.
    pub(crate) fn with_store<T>(&self, work: impl FnOnce(&dyn Storage) -> Result<T, StoreError>) -> Result<T, Error> {
        work(&*self.store).map_err(|error| self.failure(error.into()))
    }

    /// Checks the whole database. Returns the error that names its first damage, if it finds any. Blocks.
    pub(crate) fn find_damage(&self) -> Result<Option<Error>, Error> {
        let Ok(embedded) = self.embedded() else { return Ok(None) };
        let found = embedded.store.check(1).map_err(|error| self.failure(error.into()))?;
        Ok(found.into_iter().next().map(|damage| self.report_damage(damage.into())))
    }

    /// Makes the error for failed work: if the collection was deleted in the meantime, says so. Otherwise reports damage.
    pub(crate) fn failure(&self, error: Error) -> Error {
        if self.failed_by_deletion(&error) {
            return self.not_found();
        }
        self.report_damage(error)
    }

    /// Records damage, logs it the first time, and drops a damaged embedding so that the worker computes it again.
    pub(crate) fn record_damage(&self, error: &StoreError) -> Damage {
        let (key, document) = match *error {
            StoreError::CorruptRow { table: "documents", row, .. } => {
                let id = self.embedded().ok().and_then(|embedded| embedded.store.id_of_row(row).ok().flatten());
                (("documents", row), id)
            }
            StoreError::CorruptRow { table, row, .. } => ((table, row), None),
            _ => (("", 0), None),
        };
        let damage = Damage { document, problem: chain(error) };
        if error.damaged_embedding().is_some_and(|passage| self.discard_embedding(passage)) {
            return damage;
        }
        if self.damage.add(key, &damage) {
            let (collection, document) = (&self.row.name, damage.document.as_ref().map(DocumentId::as_str));
            tracing::error!(%collection, document, problem = damage.problem, "the collection is damaged");
        }
        damage
    }

    /// Reads changes or embeddings for the index. If an embedding is damaged, drops it and reads again.
    pub(crate) fn read_with_repair<T>(&self, read: impl Fn() -> Result<T, StoreError>) -> Result<T, Error> {
        loop {
            match read() {
                Err(error) if error.damaged_embedding().is_some_and(|passage| self.discard_embedding(passage)) => (),
                result => return Ok(result?),
            }
        }
    }

    /// Reads rows with numbers above `after` for the index, at most `limit` of them. Skips rows that cannot be read. Fails if the
    /// file is so damaged that reading fails after any number, even after the last row's. `read` must read the rows in the order
    /// of their numbers, and only as many as it returns.
    ///
    /// An index without the skipped rows is not saved, so that the next start finds the damage again.
    pub(crate) fn read_past_damage<T>(
        &self,
        after: u64,
        limit: usize,
        read: &impl Fn(u64, usize) -> Result<Vec<T>, StoreError>,
    ) -> Result<Vec<T>, Error> {
        let try_read = |after, limit| match self.read_with_repair(|| read(after, limit)) {
            Err(Error::Store(error @ (StoreError::CorruptRow { .. } | StoreError::Damaged { .. }))) => {
                self.record_damage(&error);
                self.incomplete.store(true, Ordering::Relaxed);
                Ok(Err(error))
            }
            result => result.map(Ok),
        };
        // First the rows before the damage.
        for limit in std::iter::successors(Some(limit), |limit| Some(limit / 2)).take_while(|limit| *limit > 0) {
            if let Ok(rows) = try_read(after, limit)? {
                return Ok(rows);
            }
        }
        // Reading after `failed` fails; reading after `readable` does not.
        let (mut failed, mut readable) = (after, after);
        loop {
            let skipped = failed - after;
            readable = readable.saturating_add(if skipped < SINGLE_STEPS { 1 } else { skipped });
            match try_read(readable, 1)? {
                Ok(_) => break,
                Err(error) if skipped > UNREADABLE_MAX => return Err(error.into()),
                Err(_) => failed = readable,
            }
        }
        while readable - failed > 1 {
            let middle = failed + (readable - failed) / 2;
            match try_read(middle, 1)? {
                Ok(_) => readable = middle,
                Err(_) => failed = middle,
            }
        }
        self.read_past_damage(readable, limit, read)
    }

    pub(crate) fn record_recovery(&self, failure: Option<&Error>) {
        *self.unrecoverable.lock() = match failure {
            Some(Error::Damaged { source, .. }) => Some((**source).clone()),
            _ => None,
        };
    }

    /// Whether the index has caught up with the database, or cannot because the database is damaged.
    pub(crate) fn index_state(&self) -> IndexState {
        match self.store.ready() {
            Ok(()) => IndexState::Ready,
            Err(_) if self.unrecoverable.lock().is_some() => IndexState::Damaged,
            Err(_) => IndexState::Recovering,
        }
    }

    /// Drops a damaged embedding. Returns whether it did. A caller's own vector stays, because it cannot be computed again.
    fn discard_embedding(&self, id: PassageId) -> bool {
        let Some(embedded) = self.embedded().ok().filter(|_| self.row.model.is_some()) else { return false };
        let discarded = embedded.store.discard_embedding(id);
        let (collection, passage) = (&self.row.name, id.0);
        match discarded {
            Ok(true) => {
                tracing::warn!(%collection, passage, "the embedding of a passage was damaged; embedding it again");
                self.wake.notify_one();
                true
            }
            Ok(false) => false,
            Err(error) => {
                tracing::error!(%collection, passage, error = with_causes(&error), "cannot discard a damaged embedding");
                false
            }
        }
    }
}

impl BrokenCollection {
    pub(crate) fn refusal(&self) -> Error {
        let (collection, damage) = (self.row.name.clone(), Box::new(self.damage()));
        Error::Damaged { collection, damage, source: Box::new(self.error.clone()) }
    }

    /// Returns its row in the catalog, and why it cannot be opened.
    pub(crate) fn view(&self) -> CollectionView {
        CollectionView {
            collection: self.row.clone(),
            counts: CollectionCounts::default(),
            index_state: IndexState::Damaged,
            metadata_indexes: Vec::new(),
            damage: vec![self.damage()],
        }
    }

    fn damage(&self) -> Damage {
        Damage { document: None, problem: chain(&self.error) }
    }
}

/// Verifies a database that was not closed properly, if it is small enough to read in a few seconds. If the power failed, a
/// disk that acknowledges writes too early may have damaged the file.
pub(crate) fn check_after_crash(collection: &OpenCollection) {
    let Ok(embedded) = collection.embedded() else { return };
    if collection.should_stop() || !embedded.store.recovered_log || embedded.store.bytes() > CHECKED_BYTES_MAX {
        return;
    }
    match embedded.store.check(DAMAGE_MAX) {
        Ok(found) => found.iter().for_each(|damage| drop(collection.record_damage(damage))),
        Err(StoreError::Closed | StoreError::Interrupted { .. }) => (),
        Err(error) => {
            tracing::warn!(collection = %collection.row.name, error = with_causes(&error), "cannot check the database");
        }
    }
}
