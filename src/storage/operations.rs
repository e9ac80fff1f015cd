//! What the service asks of the engine that holds one collection.
//!
//! An engine keeps documents, their passages, and the embedding, terms and tokens of each passage. Whatever it is made of:
//!
//! - A write that was answered survives a crash of the server. One call stores all of its documents or none, in one transaction with
//!   what depends on it: a job's checkpoint, an idempotency record.
//! - Every change of a document gets a number of the collection's sequence, which only grows; it is the document's version. Keys of
//!   passages are never used twice, and a passage whose text changes gets another one.
//! - Passages wait for their embedding without a queue: `pending` reads which, `set_embeddings` stores them. What is gone meanwhile is
//!   left out. `nearest` looks among what is stored; only the embedded engine's index follows behind, and the service has it catch up.
//! - `nearest` is told the filter and never leaves out a match because others are nearer: fewer than wanted mean that there are no
//!   more. `SearchFilter::matches` says what a filter means.
//! - Reads see what was committed before they began. All of it blocks; callers run it off the asynchronous threads.

use std::sync::Arc;
use std::time::Instant;

use super::error::StorageError;
use super::nearest::{Nearest, NearestSearch};
use super::passage_set::PassageSet;
use super::scope::{Scope, WordPassages};
use crate::domain::{
    CollectionCounts, Document, DocumentHead, DocumentId, DocumentPage, DocumentPatch, Embedding, FacetRequest, Facets, JobId,
    Metadata, MetadataPath, MiningUnit, Page, PassageEmbedding, PassageId, Precondition, QueryTerms, RequestKey, ScrollPage,
    ScrollRequest, Sequence,
};
use crate::index::Neighbor;
use crate::store::{
    Deleted, DeletedSome, DocumentEmbeddings, DocumentKey, DocumentTraits, EmbeddedDocument, Expired, HitSizes, Idempotent,
    MovedDocument, PassageDocument, PassageRow, PassageText, PatchOutcome, Patched, PendingPassage, PreparedDocument, Recut,
    Revision, SearchFilter, StoreError, TextPatch, TokenChanges, UpdatedSome, Upserted, WholeDocument,
};

/// Makes the text that is stored together with a write from the write's outcomes.
pub type Answer<T> = Box<dyn FnOnce(&[T]) -> String + Send>;

/// The documents of one collection.
pub trait Storage: Send + Sync {
    /// Reads a document.
    fn get(&self, id: &DocumentId) -> Result<Option<Document>, StoreError>;

    /// Reads a page of documents in the order of their ids. It ends early if their texts and metadata exceed
    /// `bytes_max` bytes, but not before its first document.
    fn list(&self, page: &Page<DocumentId>, bytes_max: u64) -> Result<DocumentPage, StoreError>;

    /// Reads a page as `list` does, and the embeddings of documents that have one passage, all of one moment.
    fn list_embedded(
        &self,
        page: &Page<DocumentId>,
        bytes_max: u64,
    ) -> Result<(DocumentPage, Vec<Option<Embedding>>), StoreError>;

    /// Reads a page of the matching documents, in the requested order. It ends early as one of `list` does.
    fn scroll(&self, request: &ScrollRequest, bytes_max: u64) -> Result<ScrollPage, StoreError>;

    /// Counts the documents that match, stopping at `limit`.
    fn count_matching(&self, filter: &SearchFilter, limit: usize) -> Result<usize, StoreError>;

    /// Counts values among the documents that match, all in one state of the collection. As soon as the values have more than
    /// `bytes_max` bytes it ends, with the counts so far.
    fn facets(&self, filter: &SearchFilter, requests: &[FacetRequest], bytes_max: u64) -> Result<Facets, StoreError>;

    /// Counts what the collection holds.
    fn counts(&self) -> Result<CollectionCounts, StoreError>;

    /// The number of the last change.
    fn sequence(&self) -> Result<Sequence, StoreError>;

    /// The paths into metadata that have an index, in order.
    fn metadata_indexes(&self) -> Vec<MetadataPath>;

    /// Makes the indexes that are missing and drops those that are not in `paths`, all or none.
    fn set_metadata_indexes(&self, paths: Vec<MetadataPath>) -> Result<(), StoreError>;

    /// Stores documents, replacing those of the same ids, if the precondition holds for what is stored under the id of each; else
    /// `StoreError::PreconditionFailed`, and nothing is stored.
    fn upsert_if(&self, documents: Vec<PreparedDocument>, precondition: Precondition) -> Result<Vec<Upserted>, StoreError>;

    /// Stores documents unless a request of this key was done before, and keeps what `answer` makes of the outcome. With another
    /// request of the same key: `StoreError::KeyReused`.
    fn upsert_once(
        &self,
        documents: Vec<PreparedDocument>,
        request: RequestKey,
        answer: Answer<Upserted>,
    ) -> Result<Idempotent<Vec<Upserted>>, StoreError>;

    /// Stores documents together with the checkpoint of the job that sends them. Waits while too many writes do.
    fn upsert_for_job(
        &self,
        job: &JobId,
        documents: Vec<PreparedDocument>,
        checkpoint: Answer<Upserted>,
    ) -> Result<Vec<Upserted>, StoreError>;

    /// Changes title, metadata, language and expiry if the precondition holds, and gives the document as it is then. Passages and embeddings
    /// stay unless the title changes: then they are those of `recut`. A patch that changes nothing leaves the version as it is.
    fn patch(
        &self,
        id: &DocumentId,
        patch: DocumentPatch,
        recut: Option<Recut>,
        precondition: Precondition,
    ) -> Result<PatchOutcome, StoreError>;

    /// Changes metadata of documents whose text is still the same, together with the checkpoint of the job that does so.
    fn patch_for_job(
        &self,
        job: &JobId,
        patches: Vec<TextPatch>,
        checkpoint: Answer<Patched>,
    ) -> Result<Vec<Patched>, StoreError>;

    /// Removes a document if the precondition holds; `None` if there is no such document.
    fn delete_if(&self, id: &DocumentId, precondition: Precondition) -> Result<Option<Deleted>, StoreError>;

    /// Deletes some of the documents that match and were not changed after `until`, beginning after the place `after`, 0 for the
    /// first. Each transaction is short, so other writes go on in between.
    fn delete_some(&self, filter: &SearchFilter, until: Sequence, after: i64) -> Result<DeletedSome, StoreError>;

    /// Changes metadata and expiry of some of the documents that match, chosen as `delete_some` chooses. One that would become too
    /// large fails its whole transaction.
    fn update_some(
        &self,
        filter: &SearchFilter,
        until: Sequence,
        after: i64,
        patch: DocumentPatch,
    ) -> Result<UpdatedSome, StoreError>;

    /// Whether there may be an expired document that is not removed yet. Reads nothing.
    fn expiry_due(&self) -> bool;

    /// Removes some of the documents that have expired, in a short transaction. No read finds an expired document, whether it
    /// is removed or not.
    fn delete_expired(&self) -> Result<Expired, StoreError>;

    /// The stored answer of a request. If the same key was used for another request: `StoreError::KeyReused`.
    fn idempotency_record(&self, request: &RequestKey) -> Result<Option<String>, StoreError>;

    /// Stores the answer of a request whose work is already done. An earlier record stays.
    fn record_answer(&self, request: &RequestKey, answer: String) -> Result<(), StoreError>;

    /// The last checkpoint of a job; `None` before its first.
    fn job_checkpoint(&self, job: &JobId) -> Result<Option<String>, StoreError>;

    /// Deletes the checkpoints of all jobs except `kept`: of jobs that have ended.
    fn forget_job_checkpoints(&self, kept: &[JobId]) -> Result<(), StoreError>;

    /// Reads documents with keys above `after` with everything that is kept of them, in the order of keys, at most `limit`: also
    /// those that have expired and are not removed yet. Ends early once they have `bytes_max` bytes, but not before the first.
    fn whole_documents(&self, after: Option<DocumentKey>, limit: usize, bytes_max: u64)
    -> Result<Vec<WholeDocument>, StoreError>;

    /// Stores whole documents of another engine as they are there, with their keys, versions, times and embeddings, together with the
    /// checkpoint of the job that moves them. Nothing has their ids and keys here. The next change gets a number after `sequence`, the
    /// last one there.
    fn take_in(
        &self,
        job: &JobId,
        documents: Vec<WholeDocument>,
        sequence: Sequence,
        checkpoint: String,
    ) -> Result<(), StoreError>;

    /// Records that some texts may have been split by older rules, as where they come from.
    fn mark_cut_by_older_rules(&self) -> Result<(), StoreError>;

    /// Counts the documents with those that have expired and are not removed yet, as `revisions` reads them, and never from an older
    /// state.
    fn document_count(&self) -> Result<u64, StoreError>;

    /// Reads the revisions of all documents after `after`, in order, at most `limit`: also of those that have expired and are not
    /// removed yet.
    fn revisions(&self, after: Revision, limit: usize) -> Result<Vec<Revision>, StoreError>;

    /// Reads documents by their keys, in order; `None` for a deleted one. Stops once the texts exceed `bytes_max` bytes together, but
    /// always reads the first one.
    fn documents_by_key(&self, keys: &[DocumentKey], bytes_max: usize) -> Result<Vec<Option<Document>>, StoreError>;

    /// Writes documents of another collection as they are there, over what is stored under their keys and ids, for the job that builds
    /// this one to take the other's place. `StoreError::JobElsewhere` if another server has taken the job over.
    fn take_documents(&self, job: &JobId, documents: Vec<MovedDocument>) -> Result<(), StoreError>;

    /// Removes documents by their keys, for the same job.
    fn drop_documents(&self, job: &JobId, keys: Vec<DocumentKey>) -> Result<(), StoreError>;

    /// Reads passages without embedding with keys above `after`, in the order of keys, at most `limit`.
    fn pending(&self, after: PassageId, limit: usize) -> Result<Vec<PendingPassage>, StoreError>;

    /// The number of passages without embedding that are not among `others`.
    fn pending_count_besides(&self, others: &[PassageId]) -> Result<u64, StoreError>;

    /// Stores embeddings of passages. Gives those that were stored; passages that are gone meanwhile are left out.
    fn set_embeddings(&self, embeddings: Vec<(PassageId, PassageEmbedding)>) -> Result<Vec<(PassageId, Embedding)>, StoreError>;

    /// Reads the documents of passages, in the order of `ids`; deleted ones are left out. Reads no text.
    fn documents_of(&self, ids: &[PassageId]) -> Result<Vec<PassageDocument>, StoreError>;

    /// Says whose passages these are as `documents_of` does, with all but the texts of their documents.
    fn heads_of(&self, ids: &[PassageId]) -> Result<Vec<(PassageId, DocumentHead)>, StoreError>;

    /// Reads the embeddings of passages, in the order of `ids`; deleted ones and those without embedding are left out.
    fn embeddings_of(&self, ids: &[PassageId]) -> Result<Vec<(PassageId, Embedding)>, StoreError>;

    /// The sizes of what a hit may include of each passage, without reading it.
    fn sizes_of(&self, ids: &[PassageId]) -> Result<Vec<HitSizes>, StoreError>;

    /// Reads passages with their documents, in the order of `ids`; deleted ones are left out.
    fn passages(&self, ids: &[PassageId]) -> Result<Vec<PassageRow>, StoreError> {
        Ok(self.passages_while(ids, &mut |_| true)?.unwrap_or_default())
    }

    /// Reads passages as `passages` does, unless `spend` refuses one of them: it is told the sizes of each before it is copied.
    fn passages_while(
        &self,
        ids: &[PassageId],
        spend: &mut dyn FnMut(HitSizes) -> bool,
    ) -> Result<Option<Vec<PassageRow>>, StoreError>;

    /// Keeps those of `ids` whose document matches, in order. A deleted passage has no document.
    fn keep_matching(&self, filter: &SearchFilter, ids: &[PassageId]) -> Result<Vec<PassageId>, StoreError>;

    /// Reads the embeddings of a document's passages, without those that wait for theirs; `None` if there is no such document.
    fn passage_embeddings(&self, id: &DocumentId) -> Result<Option<Vec<Embedding>>, StoreError>;

    /// Reads documents that match with their embeddings, in the order of their ids, at most `limit`, after the one that `after` names.
    fn embedded_documents(
        &self,
        filter: &SearchFilter,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<EmbeddedDocument>, StoreError>;

    /// Reads documents with their embeddings in the order of `ids`; `None` for one that is not there.
    fn embedded_by_id(&self, ids: &[DocumentId]) -> Result<Vec<Option<EmbeddedDocument>>, StoreError>;

    /// Reads the metadata of matching documents in the order of their ids, at most `limit`.
    fn matching_metadata(&self, filter: &SearchFilter, limit: usize) -> Result<Vec<(DocumentId, Metadata)>, StoreError>;

    /// Reads passages in the order of `ids`, each with its own text or its document's; those that are gone or wait for their embedding
    /// are left out.
    fn passage_texts(&self, ids: &[PassageId], unit: MiningUnit) -> Result<Vec<PassageText>, StoreError>;

    /// Those of `ids` that are the first of their document, in their order.
    fn first_passages(&self, ids: &[PassageId]) -> Result<Vec<PassageId>, StoreError>;

    /// The first passages of documents, in the order of `ids`; `None` for a document that does not exist, or, if passages are the
    /// sentences, that has several.
    fn known_passages(&self, ids: &[DocumentId], unit: MiningUnit) -> Result<Vec<Option<PassageId>>, StoreError>;

    /// For each of `ids`, the first passages of documents, the embeddings of all passages of its document, without those that wait for
    /// theirs. Documents that are gone are left out.
    fn document_embeddings_of(&self, ids: &[PassageId]) -> Result<Vec<(PassageId, Vec<Embedding>)>, StoreError>;

    /// Finds up to `limit` passages that have any of the terms and all that these demand, and whose document matches, best first, with
    /// their BM25 score. `StoreError::LexicalIncomplete` while passages lack their terms.
    fn lexical(&self, terms: &QueryTerms, filter: &SearchFilter, limit: usize) -> Result<Vec<(PassageId, f32)>, StoreError>;

    /// `StoreError::LexicalIncomplete` while passages lack their terms.
    fn check_lexical(&self) -> Result<(), StoreError>;

    /// Finds the passages that have what terms demand; `None` when all have. Errors as `lexical`.
    fn demanded(&self, terms: &QueryTerms) -> Result<Option<WordPassages>, StoreError>;

    /// Reads the tokens of passages; with `after`, only what changed after that number of the sequence, as far as that is still known.
    /// With `words`, their words, too.
    fn token_changes(&self, after: Option<Sequence>, words: bool) -> Result<TokenChanges, StoreError>;

    /// Reads the keys and ids of documents of which a passage is embedded, with a key above `after`, in the order of keys, at most
    /// `limit`.
    fn embedded_keys(&self, after: Option<DocumentKey>, limit: usize) -> Result<Vec<(DocumentKey, DocumentId)>, StoreError>;

    /// Reads the embeddings of documents, in the order of `keys`. A document that is gone is left out; another one may have its key
    /// by now.
    fn embeddings_by_document(&self, keys: &[DocumentKey]) -> Result<Vec<DocumentEmbeddings>, StoreError>;

    /// Reads languages, and values at `path` if there is one, in the order of `ids`; `None` for a document that is not there.
    fn traits_of(&self, ids: &[DocumentId], path: Option<&MetadataPath>) -> Result<Vec<Option<DocumentTraits>>, StoreError>;

    /// The passages in a scope now, embedded or not.
    fn passages_in(&self, scope: Scope<'_>) -> Result<Arc<PassageSet>, StoreError>;

    /// Finds the nearest passages or documents in a scope.
    fn nearest(&self, search: &NearestSearch<'_>) -> Result<Nearest, StorageError>;

    /// Compares a query with passages, one by one, all by the same values; nearest first.
    fn compare(&self, query: &Embedding, passages: &PassageSet) -> Result<Vec<Neighbor>, StorageError>;

    /// How many passages `nearest` looks among, and whether these are all: not while the engine recovers after its start. An error
    /// while it cannot look at all.
    fn searchable(&self) -> Result<(usize, bool), StorageError>;

    /// Whether `nearest` looks among all passages, as by `searchable`.
    fn is_complete(&self) -> Result<bool, StorageError> {
        Ok(self.searchable()?.1)
    }

    /// Fails until `nearest` looks among all passages.
    fn ready(&self) -> Result<(), StorageError>;

    /// Ends statements that run beyond `time`.
    fn end_by(&self, time: Instant);

    /// Ends all work; nothing answers afterwards.
    fn close(&self) -> Result<(), StoreError>;
}
