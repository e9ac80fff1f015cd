//! The interface of an engine that holds one collection.
//!
//! An engine stores documents, their passages, and the embedding, terms and tokens of each passage. Every engine guarantees:
//!
//! - A write that was acknowledged survives a crash of the server. One call stores all of its documents or none. What depends
//!   on it, such as a job's checkpoint or an idempotency record, is stored in the same transaction.
//! - Every change of a document gets the next sequence number of the collection, which becomes the document's version. Keys of
//!   passages are never reused. A passage whose text changes gets another key.
//! - There is no queue of passages that wait for their embedding: `pending` reads them, and `set_embeddings` stores their
//!   embeddings, leaving out passages that were deleted in the meantime. `nearest` searches what is stored. Only the index
//!   of the embedded engine lags behind, and the service makes it catch up.
//! - `nearest` gets the filter, and never misses a match because other documents are nearer. If it returns fewer than
//!   requested, there are no more. `SearchFilter::matches` defines what a filter means.
//! - Reads see what was committed before they began. All calls block, so callers run them off the asynchronous threads.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;

use super::embedded::Embedded;
use super::error::StorageError;
use super::nearest::{Nearest, NearestSearch, Scope};
use super::postgres::Postgres;
use crate::domain::{
    CollectionCounts, Document, DocumentHead, DocumentId, DocumentPage, DocumentPatch, Embedding, FacetRequest, Facets, JobId,
    MetadataPath, MiningUnit, Page, PassageEmbedding, PassageId, Precondition, QueryTerms, RequestKey, ScrollPage, ScrollRequest,
    Sequence,
};
use crate::index::Neighbor;
use crate::store::{
    BatchChange, ChangedBatch, CopiedDocument, Deleted, DocumentAttributes, DocumentEmbeddings, DocumentKey, DocumentRecord,
    EmbeddedDocument, Expired, HitSizes, Idempotent, PassageDocument, PassageParts, PassageRow, PassageSet, PassageText,
    PatchOutcome, Patched, PendingPassage, PreparedDocument, RequiredPassages, ResplitText, Revision, SearchFilter, StoreError,
    TextPatch, TokenChanges, Upserted,
};

/// Makes the text that is stored together with a write from the write's outcomes.
pub type RecordFn<T> = Box<dyn FnOnce(&[T]) -> String + Send>;

/// Declares the operations of `Storage`, which the engines implement under the same names. For the operations before `own`, the
/// embedded engine calls its database.
macro_rules! storage {
    (
        $($(#[doc = $doc:literal])+ fn $name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?;)+
        own: $($(#[doc = $own_doc:literal])+ fn $own:ident($($own_argument:ident: $own_type:ty),*) -> $own_answer:ty;)+
    ) => {
        /// The documents of one collection.
        pub trait Storage: Send + Sync {
            $($(#[doc = $doc])+ fn $name(&self, $($argument: $type),*) $(-> $answer)?;)+
            $($(#[doc = $own_doc])+ fn $own(&self, $($own_argument: $own_type),*) -> $own_answer;)+

            /// Reads passages with the requested parts of their documents, in the order of `ids`, leaving out deleted ones.
            fn passages(&self, ids: &[PassageId], parts: PassageParts) -> Result<Vec<PassageRow>, StoreError> {
                Ok(self.passages_while(ids, parts, &mut |_| true)?.unwrap_or_default())
            }
        }

        impl Storage for Embedded {
            $(fn $name(&self, $($argument: $type),*) $(-> $answer)? { self.store.$name($($argument),*) })+
            $(fn $own(&self, $($own_argument: $own_type),*) -> $own_answer { Self::$own(self, $($own_argument),*) })+
        }

        impl Storage for Postgres {
            $(fn $name(&self, $($argument: $type),*) $(-> $answer)? { Self::$name(self, $($argument),*) })+
            $(fn $own(&self, $($own_argument: $own_type),*) -> $own_answer { Self::$own(self, $($own_argument),*) })+
        }
    };
}

storage! {
    /// Reads a document.
    fn get(id: &DocumentId) -> Result<Option<Document>, StoreError>;

    /// Reads a page of documents in the order of their ids. The page ends early if texts and metadata exceed `bytes_max` bytes,
    /// but has at least one document.
    fn list(page: &Page<DocumentId>, bytes_max: u64) -> Result<DocumentPage, StoreError>;

    /// Reads a page like `list`, and the embeddings of its documents that have a single passage, all as of one moment.
    fn list_embedded(page: &Page<DocumentId>, bytes_max: u64) -> Result<(DocumentPage, Vec<Option<Embedding>>), StoreError>;

    /// Reads a page of the matching documents, in the requested order. The page may end early, like one of `list`.
    fn scroll(request: &ScrollRequest, bytes_max: u64) -> Result<ScrollPage, StoreError>;

    /// Counts the documents that match, stopping at `limit`.
    fn count_matching(filter: &SearchFilter, limit: usize) -> Result<usize, StoreError>;

    /// Counts values among the matching documents, all in a single state of the collection. Ends as soon as the values exceed
    /// `bytes_max` bytes, and returns the counts so far.
    fn facets(filter: &SearchFilter, requests: &[FacetRequest], bytes_max: u64) -> Result<Facets, StoreError>;

    /// Counts the collection's contents.
    fn counts() -> Result<CollectionCounts, StoreError>;

    /// Returns the sequence number of the last change.
    fn sequence() -> Result<Sequence, StoreError>;

    /// Returns the sequence number of the newest embedding that is stored, 0 if there is none.
    fn last_embedded() -> Result<Sequence, StoreError>;

    /// Returns the indexed metadata paths, in order.
    fn metadata_indexes() -> Vec<MetadataPath>;

    /// Creates missing indexes and drops those that are not in `paths`, all or none.
    fn set_metadata_indexes(paths: Vec<MetadataPath>) -> Result<(), StoreError>;

    /// Stores documents, replacing those with the same ids, if the precondition holds for the document stored under each id.
    /// Otherwise fails with `StoreError::PreconditionFailed` and stores nothing.
    fn upsert_if(documents: Vec<PreparedDocument>, precondition: Precondition) -> Result<Vec<Upserted>, StoreError>;

    /// Stores documents, unless a request with this key was executed before. Records what `answer` makes from the outcomes.
    /// Fails with `StoreError::KeyReused` if the same key was used for another request.
    fn upsert_once(documents: Vec<PreparedDocument>, request: RequestKey, answer: RecordFn<Upserted>)
        -> Result<Idempotent<Vec<Upserted>>, StoreError>;

    /// Stores documents together with the checkpoint of the job that sends them: after a crash there are both or neither. Waits
    /// while too many writes are waiting.
    fn upsert_for_job(job: &JobId, documents: Vec<PreparedDocument>, checkpoint: RecordFn<Upserted>)
        -> Result<Vec<Upserted>, StoreError>;

    /// Changes title, metadata, language and expiry if the precondition holds, and returns the changed document. If the title
    /// changes, the passages of `resplit` replace the old ones; otherwise passages and embeddings stay. A patch that changes
    /// nothing keeps the version.
    fn patch(id: &DocumentId, patch: DocumentPatch, resplit: Option<ResplitText>, precondition: Precondition)
        -> Result<PatchOutcome, StoreError>;

    /// Changes the metadata of documents whose text is still the same, unless the change puts an object in the place of another
    /// value. Stores the checkpoint of the job that does so: after a crash there are both or neither.
    fn patch_for_job(job: &JobId, patches: Vec<TextPatch>, checkpoint: RecordFn<Patched>) -> Result<Vec<Patched>, StoreError>;

    /// Removes a document if the precondition holds. Returns `None` if there is no such document.
    fn delete_if(id: &DocumentId, precondition: Precondition) -> Result<Option<Deleted>, StoreError>;

    /// Changes or deletes some of the matching documents that were not changed after `until`, starting after the position
    /// `after`, which is 0 at first. The transaction is short, so that other writes can run between two calls. If one of the
    /// documents would become too large, the whole transaction fails.
    fn change_batch(change: &BatchChange, filter: &SearchFilter, until: Sequence, after: i64) -> Result<ChangedBatch, StoreError>;

    /// Whether there may be an expired document that is not removed yet. Reads nothing.
    fn expiry_due() -> bool;

    /// Removes some of the documents that have expired, in a short transaction. No read finds an expired document, whether it
    /// is removed or not.
    fn delete_expired() -> Result<Expired, StoreError>;

    /// Returns the stored response of a request. Fails with `StoreError::KeyReused` if the same key was used for another request.
    fn idempotency_record(request: &RequestKey) -> Result<Option<String>, StoreError>;

    /// Stores the response of a request whose work is already done, unless there is an earlier record.
    fn record_answer(request: &RequestKey, answer: String) -> Result<(), StoreError>;

    /// Returns the last checkpoint of a job, or `None` before its first one.
    fn job_checkpoint(job: &JobId) -> Result<Option<String>, StoreError>;

    /// Deletes the checkpoint of a job that has ended.
    fn delete_job_checkpoint(job: &JobId) -> Result<(), StoreError>;

    /// Deletes the checkpoints of all jobs except `running`, because the others have ended.
    fn delete_job_checkpoints(running: &[JobId]) -> Result<(), StoreError>;

    /// Reads at most `limit` documents with keys above `after`, with everything stored about them, in the order of their keys.
    /// Includes documents that have expired but are not removed yet. Ends early once they have `bytes_max` bytes, but returns
    /// at least one if there are any.
    fn document_records(after: Option<DocumentKey>, limit: usize, bytes_max: u64) -> Result<Vec<DocumentRecord>, StoreError>;

    /// Stores documents of another engine unchanged, with their keys, versions, times and embeddings, together with the
    /// checkpoint of the job that moves them. Their ids and keys must not exist here. The next change gets a number after
    /// `sequence`, the last one there.
    fn insert_records(job: &JobId, documents: Vec<DocumentRecord>, sequence: Sequence, checkpoint: String)
        -> Result<(), StoreError>;

    /// Records that some texts may have been split by older rules, as they were in the source.
    fn mark_cut_by_older_rules() -> Result<(), StoreError>;

    /// Counts the documents that `revisions` reads, including those that have expired and are not removed yet. Never reads an
    /// older state.
    fn document_count() -> Result<u64, StoreError>;

    /// Reads at most `limit` revisions of documents after `after`, in order, including those that have expired and are not
    /// removed yet.
    fn revisions(after: Revision, limit: usize) -> Result<Vec<Revision>, StoreError>;

    /// Reads documents by their keys, in order, with `None` for a deleted one. Stops once the texts exceed `bytes_max` bytes
    /// together, but always reads the first one.
    fn documents_by_key(keys: &[DocumentKey], bytes_max: usize) -> Result<Vec<Option<Document>>, StoreError>;

    /// Reads at most `limit` passages without an embedding, with keys above `after`, in the order of their keys.
    fn pending(after: PassageId, limit: usize) -> Result<Vec<PendingPassage>, StoreError>;

    /// Returns the number of passages without an embedding, with keys up to `last`, that are not among `others`.
    fn pending_count_excluding(last: PassageId, others: &[PassageId]) -> Result<u64, StoreError>;

    /// Stores embeddings of passages. Skips passages that were deleted in the meantime, and returns the embeddings that were
    /// stored.
    fn set_embeddings(embeddings: Vec<(PassageId, PassageEmbedding)>) -> Result<Vec<(PassageId, Embedding)>, StoreError>;

    /// Reads the documents of passages, in the order of `ids`, leaving out deleted ones. Reads no text.
    fn documents_of(ids: &[PassageId]) -> Result<Vec<PassageDocument>, StoreError>;

    /// Reads the documents of passages without their texts, in the order of `ids`, leaving out deleted ones.
    fn heads_of(ids: &[PassageId]) -> Result<Vec<(PassageId, DocumentHead)>, StoreError>;

    /// Reads the embeddings of passages, in the order of `ids`, leaving out deleted passages and those without an embedding.
    fn embeddings_of(ids: &[PassageId]) -> Result<Vec<(PassageId, Embedding)>, StoreError>;

    /// Reads the sizes of everything that a hit may include for each passage, without reading the contents.
    fn sizes_of(ids: &[PassageId]) -> Result<Vec<HitSizes>, StoreError>;

    /// Reads passages like `passages`, unless `charge` refuses one of them. `charge` gets the sizes of each before it is copied.
    /// Of a text that was not requested, never holds more than one in memory.
    fn passages_while(ids: &[PassageId], parts: PassageParts, charge: &mut dyn FnMut(HitSizes) -> bool)
        -> Result<Option<Vec<PassageRow>>, StoreError>;

    /// Keeps those of `ids` whose document matches, in order. A deleted passage has no document.
    fn keep_matching(filter: &SearchFilter, ids: &[PassageId]) -> Result<Vec<PassageId>, StoreError>;

    /// Reads the embeddings of a document's passages, without passages that wait for theirs. Returns `None` if there is no such
    /// document.
    fn passage_embeddings(id: &DocumentId) -> Result<Option<Vec<Embedding>>, StoreError>;

    /// Reads a page of matching documents with their embeddings, in the order of their ids, and the last id if there are more.
    /// The page ends early when the texts and metadata exceed `bytes_max`, but has at least one document.
    fn embedded_documents(filter: &SearchFilter, page: &Page<DocumentId>, bytes_max: u64)
        -> Result<(Vec<EmbeddedDocument>, Option<DocumentId>), StoreError>;

    /// Reads documents with their embeddings in the order of `ids`. Returns `None` for one that does not exist.
    fn embedded_by_id(ids: &[DocumentId]) -> Result<Vec<Option<EmbeddedDocument>>, StoreError>;

    /// Reads the values at `path` in the metadata of at most `limit` matching documents, in the order of their ids.
    fn matching_values(filter: &SearchFilter, path: &MetadataPath, limit: usize)
        -> Result<Vec<(DocumentId, Option<Value>)>, StoreError>;

    /// Reads passages in the order of `ids`, each with its own text or its document's. Leaves out deleted passages and those
    /// without an embedding.
    fn passage_texts(ids: &[PassageId], unit: MiningUnit) -> Result<Vec<PassageText>, StoreError>;

    /// Returns those of `ids` that are the first passage of their document, in order.
    fn first_passages(ids: &[PassageId]) -> Result<Vec<PassageId>, StoreError>;

    /// Returns the first passages of documents, in the order of `ids`. Returns `None` for a document that does not exist, or
    /// that has several passages if passages are the unit.
    fn known_passages(ids: &[DocumentId], unit: MiningUnit) -> Result<Vec<Option<PassageId>>, StoreError>;

    /// Reads the embeddings of all passages of documents, without passages that wait for theirs. `ids` are the first passages
    /// of the documents. Leaves out deleted documents.
    fn document_embeddings_of(ids: &[PassageId]) -> Result<Vec<(PassageId, Vec<Embedding>)>, StoreError>;

    /// Finds up to `limit` passages that have any of the terms and everything required, and whose document matches, best first,
    /// with their BM25 scores. Fails with `StoreError::LexicalIncomplete` while passages lack their terms, even if it has none to
    /// search for.
    fn lexical(terms: &QueryTerms, filter: &SearchFilter, limit: usize) -> Result<Vec<(PassageId, f32)>, StoreError>;

    /// Returns the first passages of documents whose titles begin with these terms (`PassageTerms::words`) and have a number of
    /// bytes in this range, at most `limit`, oldest first. Takes about as long as reading the passages with the rarest term.
    fn titled(title: &[String], bytes: RangeInclusive<u64>, limit: usize) -> Result<Vec<PassageId>, StoreError>;

    /// Reads the tokens of passages. With `after`, only reads what changed after that sequence number, if the tombstones since
    /// then still exist. With `words`, also reads their words.
    fn token_changes(after: Option<Sequence>, words: bool) -> Result<TokenChanges, StoreError>;

    /// Reads the keys and ids of at most `limit` documents with an embedded passage and a key above `after`, in the order of
    /// their keys.
    fn embedded_keys(after: Option<DocumentKey>, limit: usize) -> Result<Vec<(DocumentKey, DocumentId)>, StoreError>;

    /// Reads the embeddings of documents, in the order of `keys`. Leaves out documents that are gone. A new document may have
    /// reused the key of a deleted one.
    fn embeddings_by_document(keys: &[DocumentKey]) -> Result<Vec<DocumentEmbeddings>, StoreError>;

    /// Reads the languages of documents, and their values at `path` if given, in the order of `ids`. Returns `None` for a
    /// document that does not exist.
    fn attributes_of(ids: &[DocumentId], path: Option<&MetadataPath>) -> Result<Vec<Option<DocumentAttributes>>, StoreError>;

    /// Copies documents of another collection with their keys and ids, replacing what is stored under them. Used by the job
    /// that builds this collection as a replacement of the other. Fails with `StoreError::JobTakenOver` if another server has
    /// taken over the job.
    fn write_copies(job: &JobId, documents: Vec<CopiedDocument>) -> Result<(), StoreError>;

    /// Removes documents by their keys, for the same job.
    fn delete_by_key(job: &JobId, keys: Vec<DocumentKey>) -> Result<(), StoreError>;

    /// Finds the passages that have what the terms require. Returns `None` if they require nothing. Has the same errors as
    /// `lexical`.
    fn required_matches(terms: &QueryTerms) -> Result<Option<RequiredPassages>, StoreError>;

    /// After `time`, ends statements that run for more than a moment.
    fn interrupt_after(time: Instant);

    /// Closes the collection. Every later call fails.
    fn close() -> Result<(), StoreError>;

    own:

    /// Returns the passages in a scope, embedded or not.
    fn passages_in(scope: Scope<'_>) -> Result<Arc<PassageSet>, StoreError>;

    /// Finds the nearest passages or documents in a scope.
    fn nearest(search: &NearestSearch<'_>) -> Result<Nearest, StorageError>;

    /// Compares a query with passages one by one, and returns them nearest first. All scores come from the same kind of values.
    fn compare(query: &Embedding, passages: &PassageSet) -> Result<Vec<Neighbor>, StorageError>;

    /// Returns how many passages `nearest` searches. Fails while it cannot search at all.
    fn searchable() -> Result<usize, StorageError>;

    /// Whether `nearest` searches all passages.
    fn is_complete() -> Result<bool, StorageError>;

    /// Fails until `nearest` searches all passages.
    fn ready() -> Result<(), StorageError>;
}
