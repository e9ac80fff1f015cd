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
mod read_routing;
mod reading;
mod replacing;
mod replica;
mod rows;
mod scroll;
mod server;
mod session;
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
    CollectionCounts, Document, DocumentHead, DocumentId, DocumentPage, DocumentPatch, Embedding, FacetRequest, Facets, JobId,
    Metadata, MetadataPath, MiningUnit, Page, PassageEmbedding, PassageId, Precondition, QueryTerms, RequestKey, ScrollPage,
    ScrollRequest, Sequence,
};
use crate::index::Neighbor;
use crate::store::{
    CopiedDocument, Deleted, DeletedBatch, DocumentAttributes, DocumentEmbeddings, DocumentKey, DocumentRecord, EmbeddedDocument,
    Expired, HitSizes, Idempotent, PassageDocument, PassageRow, PassageText, PatchOutcome, Patched, PendingPassage,
    PreparedDocument, ResplitText, Revision, SearchFilter, StoreError, TextPatch, TokenChanges, UpdatedBatch, Upserted,
};
pub use catalog::{CatalogNames, CatalogPart, CatalogVersions, JobOwnership, PostgresCatalog, TakenOverJobs};
pub use orphans::Adoption;
pub use partition::Postgres;
pub use replacing::BlockedWrites;
pub use replica::{ReplicaLag, ReplicaOptions, ReplicaState};
pub use server::{PostgresOptions, PostgresServer};

impl Storage for Postgres {
    delegate_to!(Self);

    fn write_copies(&self, job: &JobId, documents: Vec<CopiedDocument>) -> Result<(), StoreError> {
        Self::write_copies(self, job, documents)
    }

    fn delete_by_key(&self, job: &JobId, keys: Vec<DocumentKey>) -> Result<(), StoreError> {
        Self::delete_by_key(self, job, keys)
    }

    fn required_matches(&self, terms: &QueryTerms) -> Result<Option<RequiredPassages>, StoreError> {
        Ok(RequiredPassages::from_matches(Self::required_matches(self, terms)?))
    }

    fn passages_in(&self, scope: Scope<'_>) -> Result<Arc<PassageSet>, StoreError> {
        Ok(Arc::new(Self::passages_in(self, scope)?))
    }

    fn nearest(&self, search: &NearestSearch<'_>) -> Result<Nearest, StorageError> {
        Self::nearest(self, search)
    }

    fn compare(&self, query: &Embedding, passages: &PassageSet) -> Result<Vec<Neighbor>, StorageError> {
        Ok(Self::compare(self, query, passages)?)
    }

    fn searchable(&self) -> Result<(usize, bool), StorageError> {
        Ok((self.embedded_count()?, true))
    }

    fn is_complete(&self) -> Result<bool, StorageError> {
        Ok(true)
    }

    fn ready(&self) -> Result<(), StorageError> {
        Ok(())
    }
}
