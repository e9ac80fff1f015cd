//! Damage in a collection's database: what was met of it, what can be mended, and what a caller is told.
//!
//! What does not match its checksum is never served; a request that meets it fails with `Error::Damaged`, which names it. The
//! collection is marked until the damage is gone, and all that is not damaged goes on: its other documents, other collections.
//! A damaged embedding mends itself, because the text that it was made of is there: it is thrown away and made anew. A damaged
//! document is mended by its owner, who replaces or deletes it; a damaged file by restoring a copy.

use super::OpenCollection;
use super::found_damage::PLACES_MAX;
use crate::domain::{CollectionCounts, CollectionView, Damage, DocumentId, IndexState, PassageId, chain};
use crate::service::error::Error;
use crate::service::state::BrokenCollection;
use crate::store::{DocumentStore, StoreError};

/// A larger database is not read through at start-up.
const CHECKED_BYTES_MAX: u64 = 256 << 20;

impl OpenCollection {
    /// Marks the collection when `error` says that its database is damaged, and gives what the caller is told. Mends what can
    /// be mended.
    pub(crate) fn tell_damage(&self, error: Error) -> Error {
        match error {
            Error::Store(source) if source.is_damage() => {
                let damage = Box::new(self.note_damage(&source));
                Error::Damaged { collection: self.row.name.clone(), damage, source: Box::new(source) }
            }
            other => other,
        }
    }

    /// Remembers damage, logs it the first time, and throws a damaged embedding away, so that the worker makes it anew.
    pub(crate) fn note_damage(&self, error: &StoreError) -> Damage {
        let (place, document) = match *error {
            StoreError::CorruptRow { table: "documents", row, .. } => {
                (("documents", row), self.embedded.store.id_of_row(row).ok().flatten())
            }
            StoreError::CorruptRow { table, row, .. } => ((table, row), None),
            _ => (("", 0), None),
        };
        let damage = Damage { document, problem: chain(error) };
        if error.damaged_embedding().is_some_and(|passage| self.discard_embedding(passage)) {
            return damage;
        }
        if self.damage.add(place, &damage) {
            let (collection, document) = (&self.row.name, damage.document.as_ref().map(DocumentId::as_str));
            tracing::error!(%collection, document, problem = damage.problem, "the collection is damaged");
        }
        damage
    }

    /// Reads changes or embeddings for the index. A damaged embedding is thrown away, and the read is done again.
    pub(crate) fn read_mending<T>(&self, read: impl Fn(&DocumentStore) -> Result<T, StoreError>) -> Result<T, Error> {
        loop {
            match read(&self.embedded.store) {
                Err(error) if error.damaged_embedding().is_some_and(|passage| self.discard_embedding(passage)) => (),
                result => return Ok(result?),
            }
        }
    }

    /// Says whether there was one and it is gone. A vector of the caller's own stays, damaged as it is: nothing can make it anew.
    fn discard_embedding(&self, id: PassageId) -> bool {
        if self.row.model.is_none() {
            return false;
        }
        let discarded = self.embedded.store.discard_embedding(id);
        let (collection, passage) = (&self.row.name, id.0);
        match discarded {
            Ok(true) => {
                tracing::warn!(%collection, passage, "the embedding of a passage was damaged; embedding it again");
                self.wake.notify_one();
                true
            }
            Ok(false) => false,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::error!(%collection, passage, error, "cannot discard a damaged embedding");
                false
            }
        }
    }
}

impl BrokenCollection {
    /// What a request on it is told.
    pub(crate) fn refusal(&self) -> Error {
        let (collection, damage) = (self.row.name.clone(), Box::new(self.damage()));
        Error::Damaged { collection, damage, source: Box::new(self.error.clone()) }
    }

    /// What is known of it: its row in the catalog, and why it is closed.
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

/// Reads through a database that was not closed in order, when it is small enough to be read in some seconds. Power that
/// fails is when a disk that does not keep its promises damages a file.
pub(crate) fn check_after_crash(collection: &OpenCollection) {
    if collection.should_stop()
        || !collection.embedded.store.recovered_log()
        || collection.embedded.store.bytes() > CHECKED_BYTES_MAX
    {
        return;
    }
    match collection.embedded.store.check(PLACES_MAX) {
        Ok(found) => found.iter().for_each(|damage| drop(collection.note_damage(damage))),
        Err(StoreError::Closed | StoreError::Interrupted { .. }) => (),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(collection = %collection.row.name, error, "cannot check the database");
        }
    }
}
