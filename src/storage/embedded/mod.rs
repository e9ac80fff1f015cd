//! The engine in this process: SQLite stores the documents, and usearch finds the nearest of them. A filter becomes a set of
//! passages that restricts the search.

mod comparing;
mod filter_sets;
mod nearest;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::error::StorageError;
use super::nearest::{Nearest, NearestSearch, Scope, Unit};
use crate::domain::{Collection, CollectionName, Embedding, Metric, Quantization};
use crate::index::{Index, Neighbor};
use crate::store::{DocumentStore, PassageSet, RequiredPassages, SearchFilter, StoreError};
use filter_sets::FilterSets;

/// Minimum number of passages to rescore with their stored values. With fewer, the coarse values could easily miss the nearest
/// one.
pub const RESCORED_MIN: usize = 16;

/// The database and the index of one collection.
pub struct Embedded {
    pub store: DocumentStore,
    name: CollectionName,
    metric: Metric,
    quantization: Quantization,
    /// The passages that match the filters of recent searches.
    filter_sets: FilterSets,
    /// Empty until the saved index is loaded or rebuilt.
    index: OnceLock<Index>,
    /// Whether the index has applied all changes since then.
    caught_up: AtomicBool,
    recovered: AtomicU64,
    recover_total: AtomicU64,
}

impl Embedded {
    /// Wraps a database whose index must still be recovered.
    pub fn new(row: &Collection, store: DocumentStore) -> Self {
        Self {
            store,
            name: row.name.clone(),
            metric: row.metric,
            quantization: row.quantization,
            filter_sets: FilterSets::default(),
            index: OnceLock::new(),
            caught_up: AtomicBool::new(false),
            recovered: AtomicU64::new(0),
            recover_total: AtomicU64::new(0),
        }
    }

    /// Returns the index once it can answer at all, and whether its results are complete.
    pub fn index(&self) -> Result<(&Index, bool), StorageError> {
        let caught_up = self.caught_up.load(Ordering::Acquire);
        Ok((self.index.get().ok_or_else(|| self.recovering())?, caught_up))
    }

    /// Makes the error for callers that need the index before it is recovered.
    fn recovering(&self) -> StorageError {
        let (done, total) = self.progress();
        StorageError::Recovering { collection: self.name.clone(), done, total }
    }

    /// Installs the index. Searches work from now on, but may miss changes.
    pub fn install(&self, index: Index) {
        let installed = self.index.set(index);
        debug_assert!(installed.is_ok(), "an index is installed once");
    }

    /// Records that the index is complete.
    pub fn end_recovery(&self) {
        self.caught_up.store(true, Ordering::Release);
    }

    /// Returns the number of passages recovered, and of passages to recover in total.
    pub fn progress(&self) -> (u64, u64) {
        let done = self.recovered.load(Ordering::Relaxed);
        (done, self.recover_total.load(Ordering::Relaxed).max(done))
    }

    pub fn set_progress(&self, done: u64, total: u64) {
        self.recovered.store(done, Ordering::Relaxed);
        self.recover_total.store(total, Ordering::Relaxed);
    }
}

/// The operations of `Storage` that are not simply those of the database.
impl Embedded {
    pub(super) fn passages_in(&self, scope: Scope<'_>) -> Result<Arc<PassageSet>, StoreError> {
        let set = match scope.words {
            Some(RequiredPassages::Only(words)) if *scope.filter == SearchFilter::default() => return Ok(Arc::clone(words)),
            _ => self.filter_sets.passages(&self.store, scope.filter)?,
        };
        Ok(match scope.words {
            None => set,
            Some(RequiredPassages::Only(words)) => Arc::new(PassageSet(&set.0 & &words.0)),
            Some(RequiredPassages::AllBut(words)) => Arc::new(PassageSet(&set.0 - &words.0)),
        })
    }

    pub(super) fn nearest(&self, search: &NearestSearch<'_>) -> Result<Nearest, StorageError> {
        match search.unit {
            Unit::Passage => self.nearest_passages(search),
            Unit::Document => self.nearest_documents(search),
        }
    }

    pub(super) fn compare(&self, query: &Embedding, passages: &PassageSet) -> Result<Vec<Neighbor>, StorageError> {
        Ok(self.compare_set(query, passages)?.neighbors)
    }

    pub(super) fn ready(&self) -> Result<(), StorageError> {
        if self.is_complete()? { Ok(()) } else { Err(self.recovering()) }
    }

    pub(super) fn searchable(&self) -> Result<usize, StorageError> {
        Ok(self.index()?.0.len())
    }

    pub(super) fn is_complete(&self) -> Result<bool, StorageError> {
        Ok(self.index()?.1)
    }
}
