//! The engine on a database server: PostgreSQL with pgvector keeps the documents and finds the nearest of them, for any number of
//! servers at once. It has no cache of its own that could be out of date, so nothing has to catch up.

mod batch;
mod catalog;
mod changes;
mod corpus;
mod escape;
mod expiry;
mod facets;
mod fault;
mod filter;
mod hits;
mod lexical;
mod names;
mod nearest;
mod partition;
mod patch;
mod reading;
mod rows;
mod scroll;
mod server;
mod session;
mod terms;
mod tls;
mod upsert;
mod whole;
mod writing;

use std::sync::Arc;
use std::time::Instant;

use super::delegate::delegate_to;
use super::error::StorageError;
use super::nearest::{Nearest, NearestSearch};
use super::operations::{Answer, Storage};
use super::passage_set::PassageSet;
use super::scope::{Scope, WordPassages};
use crate::domain::{
    Collection, CollectionCounts, Document, DocumentHead, DocumentId, DocumentPage, DocumentPatch, Embedding, FacetRequest,
    Facets, JobId, Metadata, MetadataPath, MiningUnit, Page, PassageEmbedding, PassageId, Precondition, QueryTerms, RequestKey,
    ScrollPage, ScrollRequest, Sequence,
};
use crate::index::Neighbor;
use crate::store::{
    Clock, Deleted, DeletedSome, DocumentEmbeddings, DocumentKey, DocumentTraits, EmbeddedDocument, Expired, HitSizes,
    Idempotent, PassageDocument, PassageRow, PassageText, PatchOutcome, Patched, PendingPassage, PreparedDocument, Recut,
    SearchFilter, StoreError, TermsOf, TextPatch, TokenChanges, UpdatedSome, Upserted, WholeDocument,
};
pub use catalog::PostgresCatalog;
use partition::Partition;
pub use server::{PostgresOptions, PostgresServer};

/// The documents of one collection on a database server.
pub struct Postgres {
    rows: Partition,
}

impl Postgres {
    /// Opens a collection, which is created if the server does not have it. At most `writes_max` writes of callers wait.
    pub fn open(
        server: &Arc<PostgresServer>,
        row: &Collection,
        terms_of: TermsOf,
        writes_max: usize,
    ) -> Result<Self, StoreError> {
        Ok(Self { rows: Partition::open(server, row, terms_of, writes_max, None)? })
    }

    /// As `open`, with another clock than the database server's.
    pub fn open_with_clock(
        server: &Arc<PostgresServer>,
        row: &Collection,
        terms_of: TermsOf,
        writes_max: usize,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        Ok(Self { rows: Partition::open(server, row, terms_of, writes_max, Some(clock))? })
    }

    /// Drops everything that the server has of the collection. Nothing answers afterwards.
    pub fn remove(&self) -> Result<(), StoreError> {
        self.rows.drop_rows()
    }
}

impl Storage for Postgres {
    delegate_to!(rows);

    fn demanded(&self, terms: &QueryTerms) -> Result<Option<WordPassages>, StoreError> {
        Ok(WordPassages::of(self.rows.demanded(terms)?))
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
