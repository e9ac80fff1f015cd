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
    /// Hits that one search may ask for; also rows on one page of a list.
    pub page_max: usize,
    /// Texts in one embeddings request.
    pub embedding_inputs_max: usize,
    /// Collections in one data directory.
    pub collections_max: usize,
    /// Texts that may wait for the encoder; more are refused with 503.
    pub embed_queue_texts_max: usize,
    /// Write requests that may wait for one collection's writer; more are refused with 503.
    pub write_queue_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes_max: 32 << 20,
            batch_documents_max: 1_000,
            text_bytes_max: 1 << 20,
            metadata_bytes_max: 64 << 10,
            metadata_depth_max: 8,
            page_max: 1_000,
            embedding_inputs_max: 2_048,
            collections_max: 10_000,
            embed_queue_texts_max: 20_000,
            write_queue_max: 1_024,
        }
    }
}
