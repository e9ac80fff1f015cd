//! Delegates operations to a field of an engine, or to its own methods, which have the same names.

/// Defines methods that call the method of the same name of the field `$part`, or with `Self` the type's own method.
macro_rules! delegated {
    (Self: $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {
        $(fn $name(&self, $($argument: $type),*) $(-> $answer)? {
            Self::$name(self, $($argument),*)
        })*
    };
    ($part:ident: $(fn $name:ident($($argument:ident: $type:ty),*) $(-> $answer:ty)?;)*) => {
        $(fn $name(&self, $($argument: $type),*) $(-> $answer)? {
            self.$part.$name($($argument),*)
        })*
    };
}

/// Used inside an `impl Storage`: delegates operations to the field `part`, or with `Self` to the type's own methods.
macro_rules! delegate_to {
    ($part:ident) => {
        $crate::storage::delegate::delegated! { $part:
            fn get(id: &DocumentId) -> Result<Option<Document>, StoreError>;
            fn list(page: &Page<DocumentId>, bytes_max: u64) -> Result<DocumentPage, StoreError>;
            fn list_embedded(page: &Page<DocumentId>, bytes_max: u64) -> Result<(DocumentPage, Vec<Option<Embedding>>), StoreError>;
            fn scroll(request: &ScrollRequest, bytes_max: u64) -> Result<ScrollPage, StoreError>;
            fn count_matching(filter: &SearchFilter, limit: usize) -> Result<usize, StoreError>;
            fn facets(filter: &SearchFilter, requests: &[FacetRequest], bytes_max: u64) -> Result<Facets, StoreError>;
            fn counts() -> Result<CollectionCounts, StoreError>;
            fn embedded_keys(after: Option<DocumentKey>, limit: usize) -> Result<Vec<(DocumentKey, DocumentId)>, StoreError>;
            fn embeddings_by_document(keys: &[DocumentKey]) -> Result<Vec<DocumentEmbeddings>, StoreError>;
            fn attributes_of(ids: &[DocumentId], path: Option<&MetadataPath>) -> Result<Vec<Option<DocumentAttributes>>, StoreError>;
            fn sequence() -> Result<Sequence, StoreError>;
            fn metadata_indexes() -> Vec<MetadataPath>;
            fn set_metadata_indexes(paths: Vec<MetadataPath>) -> Result<(), StoreError>;
            fn upsert_if(documents: Vec<PreparedDocument>, precondition: Precondition) -> Result<Vec<Upserted>, StoreError>;
            fn upsert_once(documents: Vec<PreparedDocument>, request: RequestKey, answer: RecordFn<Upserted>)
                -> Result<Idempotent<Vec<Upserted>>, StoreError>;
            fn upsert_for_job(job: &JobId, documents: Vec<PreparedDocument>, checkpoint: RecordFn<Upserted>)
                -> Result<Vec<Upserted>, StoreError>;
            fn patch(id: &DocumentId, patch: DocumentPatch, resplit: Option<ResplitText>, precondition: Precondition)
                -> Result<PatchOutcome, StoreError>;
            fn patch_for_job(job: &JobId, patches: Vec<TextPatch>, checkpoint: RecordFn<Patched>)
                -> Result<Vec<Patched>, StoreError>;
            fn delete_if(id: &DocumentId, precondition: Precondition) -> Result<Option<Deleted>, StoreError>;
            fn delete_batch(filter: &SearchFilter, until: Sequence, after: i64) -> Result<DeletedBatch, StoreError>;
            fn update_batch(filter: &SearchFilter, until: Sequence, after: i64, patch: DocumentPatch)
                -> Result<UpdatedBatch, StoreError>;
            fn expiry_due() -> bool;
            fn delete_expired() -> Result<Expired, StoreError>;
            fn idempotency_record(request: &RequestKey) -> Result<Option<String>, StoreError>;
            fn record_answer(request: &RequestKey, answer: String) -> Result<(), StoreError>;
            fn job_checkpoint(job: &JobId) -> Result<Option<String>, StoreError>;
            fn document_records(after: Option<DocumentKey>, limit: usize, bytes_max: u64) -> Result<Vec<DocumentRecord>, StoreError>;
            fn insert_records(job: &JobId, documents: Vec<DocumentRecord>, sequence: Sequence, checkpoint: String) -> Result<(), StoreError>;
            fn mark_cut_by_older_rules() -> Result<(), StoreError>;
            fn delete_job_checkpoints(kept: &[JobId]) -> Result<(), StoreError>;
            fn document_count() -> Result<u64, StoreError>;
            fn revisions(after: Revision, limit: usize) -> Result<Vec<Revision>, StoreError>;
            fn documents_by_key(keys: &[DocumentKey], bytes_max: usize) -> Result<Vec<Option<Document>>, StoreError>;
            fn pending(after: PassageId, limit: usize) -> Result<Vec<PendingPassage>, StoreError>;
            fn pending_count_excluding(others: &[PassageId]) -> Result<u64, StoreError>;
            fn set_embeddings(embeddings: Vec<(PassageId, PassageEmbedding)>) -> Result<Vec<(PassageId, Embedding)>, StoreError>;
            fn documents_of(ids: &[PassageId]) -> Result<Vec<PassageDocument>, StoreError>;
            fn heads_of(ids: &[PassageId]) -> Result<Vec<(PassageId, DocumentHead)>, StoreError>;
            fn embeddings_of(ids: &[PassageId]) -> Result<Vec<(PassageId, Embedding)>, StoreError>;
            fn sizes_of(ids: &[PassageId]) -> Result<Vec<HitSizes>, StoreError>;
            fn passages_while(ids: &[PassageId], charge: &mut dyn FnMut(HitSizes) -> bool)
                -> Result<Option<Vec<PassageRow>>, StoreError>;
            fn keep_matching(filter: &SearchFilter, ids: &[PassageId]) -> Result<Vec<PassageId>, StoreError>;
            fn passage_embeddings(id: &DocumentId) -> Result<Option<Vec<Embedding>>, StoreError>;
            fn embedded_documents(filter: &SearchFilter, after: Option<&DocumentId>, limit: usize)
                -> Result<Vec<EmbeddedDocument>, StoreError>;
            fn embedded_by_id(ids: &[DocumentId]) -> Result<Vec<Option<EmbeddedDocument>>, StoreError>;
            fn matching_metadata(filter: &SearchFilter, limit: usize) -> Result<Vec<(DocumentId, Metadata)>, StoreError>;
            fn passage_texts(ids: &[PassageId], unit: MiningUnit) -> Result<Vec<PassageText>, StoreError>;
            fn first_passages(ids: &[PassageId]) -> Result<Vec<PassageId>, StoreError>;
            fn known_passages(ids: &[DocumentId], unit: MiningUnit) -> Result<Vec<Option<PassageId>>, StoreError>;
            fn document_embeddings_of(ids: &[PassageId]) -> Result<Vec<(PassageId, Vec<Embedding>)>, StoreError>;
            fn lexical(terms: &QueryTerms, filter: &SearchFilter, limit: usize) -> Result<Vec<(PassageId, f32)>, StoreError>;
            fn check_lexical() -> Result<(), StoreError>;
            fn token_changes(after: Option<Sequence>, words: bool) -> Result<TokenChanges, StoreError>;
            fn interrupt_after(time: Instant);
            fn close() -> Result<(), StoreError>;
        }
    };
}

pub(super) use {delegate_to, delegated};
