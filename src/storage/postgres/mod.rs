//! The engine on a database server: PostgreSQL with pgvector stores the documents and finds the nearest of them, for any number
//! of servers at once. Whatever this engine caches in memory is checked against the collection's sequence at each use, or does
//! not affect answers.

mod batch;
mod catalog;
mod changes;
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
mod lexical;
mod member;
mod membership;
mod names;
mod nearest;
mod orphans;
mod partition;
mod patch;
mod reading;
mod replacing;
mod replica;
mod rows;
mod scroll;
mod server;
mod session;
mod spread;
mod terms;
mod tls;
mod upsert;
mod writing;

use std::sync::Arc;
use std::time::Instant;

use super::delegate::delegate_to;
use super::error::StorageError;
use super::nearest::{Nearest, NearestSearch};
use super::operations::{RecordFn, Storage};
use super::passage_set::PassageSet;
use super::scope::{RequiredPassages, Scope};
use crate::domain::{
    Collection, CollectionCounts, CollectionId, Document, DocumentHead, DocumentId, DocumentPage, DocumentPatch, Embedding,
    FacetRequest, Facets, JobId, Metadata, MetadataPath, MiningUnit, Page, PassageEmbedding, PassageId, Precondition, QueryTerms,
    RequestKey, ScrollPage, ScrollRequest, Sequence,
};
use crate::index::Neighbor;
use crate::store::{
    Clock, CopiedDocument, Deleted, DeletedBatch, DocumentAttributes, DocumentEmbeddings, DocumentKey, DocumentRecord,
    EmbeddedDocument, Expired, HitSizes, Idempotent, PassageDocument, PassageRow, PassageText, PatchOutcome, Patched,
    PendingPassage, PreparedDocument, ResplitText, Revision, SearchFilter, StoreError, TermsOf, TextPatch, TokenChanges,
    UpdatedBatch, Upserted,
};
pub use catalog::{CatalogNames, CatalogPart, CatalogVersions, ClaimedJobs, JobOwnership, PostgresCatalog};
pub use orphans::Adoption;
use partition::Partition;
pub use replacing::HeldWrites;
pub use replica::{ReplicaLag, ReplicaOptions, ReplicaState};
pub use server::{PostgresOptions, PostgresServer};

/// The documents of one collection on a database server.
pub struct Postgres {
    rows: Partition,
}

impl Postgres {
    /// Opens a collection, or creates it if the database does not have it. At most `writes_max` writes of callers may wait.
    pub fn open(
        server: &Arc<PostgresServer>,
        row: &Collection,
        terms_of: TermsOf,
        writes_max: usize,
    ) -> Result<Self, StoreError> {
        Ok(Self { rows: Partition::open(server, row, terms_of, writes_max, None)? })
    }

    /// Like `open`, but never creates the collection. Fails with `StoreError::Closed` if it was dropped.
    pub fn open_existing(
        server: &Arc<PostgresServer>,
        row: &Collection,
        terms_of: TermsOf,
        writes_max: usize,
    ) -> Result<Self, StoreError> {
        Ok(Self { rows: Partition::open_existing(server, row, terms_of, writes_max)? })
    }

    /// Like `open`, but with another clock than the database server's.
    pub fn open_with_clock(
        server: &Arc<PostgresServer>,
        row: &Collection,
        terms_of: TermsOf,
        writes_max: usize,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        Ok(Self { rows: Partition::open(server, row, terms_of, writes_max, Some(clock))? })
    }

    /// Updates the collection's metadata indexes, which another server may have changed.
    pub fn refresh_metadata_indexes(&self, paths: Vec<MetadataPath>) {
        self.rows.refresh_metadata_indexes(paths);
    }

    /// Checks whether a dead server left passages without an embedding. If so, and if no other server embeds them, `pending`
    /// includes them from now on until `release_orphans`.
    pub fn adopt_orphans(&self) -> Result<Adoption, StoreError> {
        self.rows.adopt_orphans()
    }

    /// Leaves the remaining passages of dead servers to others.
    pub fn release_orphans(&self) {
        self.rows.release_orphans();
    }

    /// Makes this server look for expired documents, because a server that wrote some is gone.
    pub fn expect_expired(&self) {
        self.rows.next_expiry.note(i64::MIN);
    }

    /// Marks the collection as a replacement that `job` is building. It is removed with the job unless the catalog names it.
    pub fn mark_replacement(&self, job: &JobId) -> Result<(), StoreError> {
        self.rows.mark_replacement(job)
    }

    /// Makes all writes to the collection wait, on every server. Fails with `StoreError::Replaced` if it has already been
    /// replaced.
    pub fn hold_writes(&self) -> Result<HeldWrites, StoreError> {
        self.rows.hold_writes()
    }

    /// Keeps the rows of a replaced collection, which this server still reads, until `remove_replaced`.
    pub fn keep_replaced(&self) {
        self.rows.keep_replaced();
    }

    /// Removes the rows of a replaced collection once no server reads them. Returns whether they are gone.
    pub fn remove_replaced(&self) -> Result<bool, StoreError> {
        self.rows.remove_replaced()
    }

    /// Drops all rows of a collection that is not open, unless the catalog names it.
    pub fn remove_unnamed(server: &PostgresServer, id: &CollectionId) -> Result<(), StoreError> {
        partition::drop_unnamed(server, id)
    }

    /// Drops all rows of the collection, unless the catalog names it. Every later call fails.
    pub fn remove(&self) -> Result<(), StoreError> {
        self.rows.drop_rows()
    }
}

impl Storage for Postgres {
    delegate_to!(rows);

    fn write_copies(&self, job: &JobId, documents: Vec<CopiedDocument>) -> Result<(), StoreError> {
        self.rows.write_copies(job, documents)
    }

    fn delete_by_key(&self, job: &JobId, keys: Vec<DocumentKey>) -> Result<(), StoreError> {
        self.rows.delete_by_key(job, keys)
    }

    fn required_matches(&self, terms: &QueryTerms) -> Result<Option<RequiredPassages>, StoreError> {
        Ok(RequiredPassages::from_matches(self.rows.required_matches(terms)?))
    }

    fn passages_in(&self, scope: Scope<'_>) -> Result<Arc<PassageSet>, StoreError> {
        Ok(Arc::new(self.rows.passages_in(scope)?))
    }

    fn nearest(&self, search: &NearestSearch<'_>) -> Result<Nearest, StorageError> {
        self.rows.nearest(search)
    }

    fn compare(&self, query: &Embedding, passages: &PassageSet) -> Result<Vec<Neighbor>, StorageError> {
        Ok(self.rows.compare(query, passages)?)
    }

    fn searchable(&self) -> Result<(usize, bool), StorageError> {
        Ok((self.rows.embedded_count()?, true))
    }

    fn is_complete(&self) -> Result<bool, StorageError> {
        Ok(true)
    }

    fn ready(&self) -> Result<(), StorageError> {
        Ok(())
    }
}
