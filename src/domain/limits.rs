//! Every bound that a caller can meet. Errors name the limit, what was expected and what came.

/// Bounds on requests and queues. `Default` is what the server starts with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one request body.
    pub body_bytes_max: usize,
    /// Documents in one upsert request.
    pub batch_documents_max: usize,
    /// Bytes of one document's text, and of one query.
    pub text_bytes_max: usize,
    /// Bytes of one document's metadata as JSON.
    pub metadata_bytes_max: usize,
    /// Nesting depth of metadata.
    pub metadata_depth_max: usize,
    /// Conditions in one filter.
    pub filter_conditions_max: usize,
    /// Nesting depth of a filter.
    pub filter_depth_max: usize,
    /// Hits that one search may ask for; also rows on one page of a list.
    pub page_max: usize,
    /// Bytes of text, metadata, passages and vectors in the answer to one search request.
    pub answer_bytes_max: usize,
    /// Bytes of memory that the bodies and answers of all requests may hold together; more are refused.
    pub in_flight_bytes_max: u64,
    /// Files that are received at once, over all callers.
    pub uploads_max: usize,
    /// Searches in one batch.
    pub batch_searches_max: usize,
    /// Examples of each kind in one recommendation.
    pub examples_max: usize,
    /// Texts in one embeddings request.
    pub embedding_inputs_max: usize,
    /// Collections in one data directory.
    pub collections_max: usize,
    /// Databases of collections that are open at once; others are opened when they are used.
    pub databases_open_max: usize,
    /// Keys in one data directory.
    pub keys_max: usize,
    /// Texts that may wait for the encoder; more are refused with 503.
    pub embed_queue_texts_max: usize,
    /// Write requests that may wait for one collection's writer; more are refused with 503.
    pub write_queue_max: usize,
    /// Changes of a collection after which its index is saved again, at least.
    pub index_save_changes: u64,
    /// Jobs that run at once.
    pub jobs_running_max: usize,
    /// Jobs that may wait for their turn; more are refused with 503.
    pub jobs_queued_max: usize,
    /// Finished jobs that are remembered; the oldest are forgotten first.
    pub jobs_kept_max: usize,
    /// Milliseconds for which a finished job is remembered.
    pub jobs_kept_ms: i64,
    /// Bytes of one import or of one snapshot that is sent, unpacked.
    pub import_bytes_max: u64,
    /// Bytes of one line of an import.
    pub import_line_bytes_max: usize,
    /// Passages that may wait for their embedding before an import pauses.
    pub import_backlog_max: u64,
    /// Bytes of the disk that jobs leave free.
    pub disk_reserve_bytes: u64,
    /// Bytes of memory that one job of mining or of duplicates may need.
    pub mining_memory_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 32 << 20,
            batch_documents_max: 1_000,
            text_bytes_max: 1 << 20,
            metadata_bytes_max: 64 << 10,
            metadata_depth_max: 8,
            filter_conditions_max: 100,
            filter_depth_max: 16,
            page_max: 1_000,
            answer_bytes_max: 64 << 20,
            in_flight_bytes_max: 512 << 20,
            uploads_max: 16,
            batch_searches_max: 100,
            examples_max: 100,
            embedding_inputs_max: 2_048,
            collections_max: 10_000,
            databases_open_max: 128,
            keys_max: 1_000,
            embed_queue_texts_max: 20_000,
            write_queue_max: 1_024,
            index_save_changes: 10_000,
            jobs_running_max: 4,
            jobs_queued_max: 100,
            jobs_kept_max: 1_000,
            jobs_kept_ms: 7 * 24 * 3_600 * 1_000,
            import_bytes_max: 64 << 30,
            import_line_bytes_max: 8 << 20,
            import_backlog_max: 8_192,
            disk_reserve_bytes: 1 << 30,
            mining_memory_bytes_max: 4 << 30,
        }
    }
}
