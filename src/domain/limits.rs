//! Every limit that a caller can run into. Errors name the limit, what was expected and what was given.

/// Limits on requests and queues. `Default` has the server's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum bytes of a request body.
    pub body_bytes_max: usize,
    /// Maximum documents per upsert request.
    pub batch_documents_max: usize,
    /// Maximum bytes of a document's text, and of a query.
    pub text_bytes_max: usize,
    /// Maximum bytes of a document's metadata as JSON.
    pub metadata_bytes_max: usize,
    /// Maximum nesting depth of metadata.
    pub metadata_depth_max: usize,
    /// Maximum conditions per filter.
    pub filter_conditions_max: usize,
    /// Maximum nesting depth of a filter.
    pub filter_depth_max: usize,
    /// Maximum hits per search, and rows per page of a list.
    pub page_max: usize,
    /// Maximum bytes of text, metadata, passages and vectors in the response to a search request.
    pub answer_bytes_max: usize,
    /// Maximum bytes of memory that the bodies and responses of all requests together may hold; more is refused.
    pub in_flight_bytes_max: u64,
    /// Maximum files that are received at once, over all callers.
    pub uploads_max: usize,
    /// Maximum searches per batch.
    pub batch_searches_max: usize,
    /// Maximum examples of each kind per recommendation.
    pub examples_max: usize,
    /// Maximum texts per embeddings request.
    pub embedding_inputs_max: usize,
    /// Maximum collections per data directory.
    pub collections_max: usize,
    /// Maximum databases of collections that are open at once; others are opened when they are used.
    pub databases_open_max: usize,
    /// Maximum keys per data directory.
    pub keys_max: usize,
    /// Maximum texts that wait for the encoder; more are refused with 503.
    pub embed_queue_texts_max: usize,
    /// Maximum write requests that wait for one collection's writer; more are refused with 503.
    pub write_queue_max: usize,
    /// Minimum changes of a collection before its index is saved again.
    pub index_save_changes: u64,
    /// Maximum jobs that run at once.
    pub jobs_running_max: usize,
    /// Maximum jobs that wait for their turn; more are refused with 503.
    pub jobs_queued_max: usize,
    /// Maximum finished jobs to remember; the oldest are forgotten first.
    pub jobs_kept_max: usize,
    /// Milliseconds for which a finished job is remembered.
    pub jobs_kept_ms: i64,
    /// Maximum bytes of an import or of an uploaded snapshot, after decompression.
    pub import_bytes_max: u64,
    /// Maximum bytes of one line of an import.
    pub import_line_bytes_max: usize,
    /// Maximum passages that wait for their embedding before an import pauses.
    pub import_backlog_max: u64,
    /// Bytes of disk that jobs must leave free.
    pub disk_reserve_bytes: u64,
    /// Maximum bytes of memory for a mining or duplicates job.
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
