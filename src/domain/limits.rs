//! Every limit that a caller can hit, with its flag and its environment variable. Errors name the limit, what was expected and
//! what was given.

use std::str::FromStr;

use clap::Args;

/// Limits on requests and queues. `Default` has the server's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Limits")]
pub struct Limits {
    /// Maximum bytes of a request body.
    #[arg(long, env = "DRAGOMAN_BODY_BYTES_MAX", value_name = "BYTES", default_value_t = Limits::default().body_bytes_max, value_parser = at_least_one::<usize>)]
    pub body_bytes_max: usize,

    /// Maximum documents per upsert request.
    #[arg(long, env = "DRAGOMAN_BATCH_DOCUMENTS_MAX", value_name = "COUNT", default_value_t = Limits::default().batch_documents_max, value_parser = at_least_one::<usize>)]
    pub batch_documents_max: usize,

    /// Maximum bytes of a document's text, and of a query.
    #[arg(long, env = "DRAGOMAN_TEXT_BYTES_MAX", value_name = "BYTES", default_value_t = Limits::default().text_bytes_max, value_parser = at_least_one::<usize>)]
    pub text_bytes_max: usize,

    /// Maximum bytes of a document's metadata as JSON.
    #[arg(long, env = "DRAGOMAN_METADATA_BYTES_MAX", value_name = "BYTES", default_value_t = Limits::default().metadata_bytes_max, value_parser = at_least_one::<usize>)]
    pub metadata_bytes_max: usize,

    /// Maximum nesting depth of a document's metadata.
    #[arg(long, env = "DRAGOMAN_METADATA_DEPTH_MAX", value_name = "LEVELS", default_value_t = Limits::default().metadata_depth_max, value_parser = at_least_one::<usize>)]
    pub metadata_depth_max: usize,

    /// Maximum conditions per filter.
    #[arg(long, env = "DRAGOMAN_FILTER_CONDITIONS_MAX", value_name = "COUNT", default_value_t = Limits::default().filter_conditions_max, value_parser = at_least_one::<usize>)]
    pub filter_conditions_max: usize,

    /// Maximum nesting depth of a filter.
    #[arg(long, env = "DRAGOMAN_FILTER_DEPTH_MAX", value_name = "LEVELS", default_value_t = Limits::default().filter_depth_max, value_parser = at_least_one::<usize>)]
    pub filter_depth_max: usize,

    /// Maximum hits per search, and rows per page of a list.
    #[arg(long, env = "DRAGOMAN_PAGE_MAX", value_name = "COUNT", default_value_t = Limits::default().page_max, value_parser = at_least_one::<usize>)]
    pub page_max: usize,

    /// Maximum bytes of texts, metadata and vectors in the response to a search request.
    #[arg(long, env = "DRAGOMAN_ANSWER_BYTES_MAX", value_name = "BYTES", default_value_t = Limits::default().answer_bytes_max, value_parser = at_least_one::<usize>)]
    pub answer_bytes_max: usize,

    /// Maximum bytes of memory for the bodies and responses of all requests together. One caller may hold at most as much as it
    /// leaves free for others; more is refused. Small requests and responses are not counted.
    #[arg(long, env = "DRAGOMAN_IN_FLIGHT_BYTES_MAX", value_name = "BYTES", default_value_t = Limits::default().in_flight_bytes_max, value_parser = at_least_one::<u64>)]
    pub in_flight_bytes_max: u64,

    /// Maximum concurrent file uploads. One caller may run at most as many as it leaves free for others. When all slots are
    /// taken, an upload that is too slow loses its slot to the next one.
    #[arg(long, env = "DRAGOMAN_UPLOADS_MAX", value_name = "COUNT", default_value_t = Limits::default().uploads_max, value_parser = at_least_one::<usize>)]
    pub uploads_max: usize,

    /// Maximum searches per batch.
    #[arg(long, env = "DRAGOMAN_BATCH_SEARCHES_MAX", value_name = "COUNT", default_value_t = Limits::default().batch_searches_max, value_parser = at_least_one::<usize>)]
    pub batch_searches_max: usize,

    /// Maximum examples of each kind per recommendation.
    #[arg(long, env = "DRAGOMAN_EXAMPLES_MAX", value_name = "COUNT", default_value_t = Limits::default().examples_max, value_parser = at_least_one::<usize>)]
    pub examples_max: usize,

    /// Maximum texts per embeddings request.
    #[arg(long, env = "DRAGOMAN_EMBEDDING_INPUTS_MAX", value_name = "COUNT", default_value_t = Limits::default().embedding_inputs_max, value_parser = at_least_one::<usize>)]
    pub embedding_inputs_max: usize,

    /// Maximum collections in the data directory.
    #[arg(long, env = "DRAGOMAN_COLLECTIONS_MAX", value_name = "COUNT", default_value_t = Limits::default().collections_max, value_parser = at_least_one::<usize>)]
    pub collections_max: usize,

    /// Maximum collection databases that are open at once; others are opened when they are used.
    #[arg(skip = Limits::default().databases_open_max)]
    pub databases_open_max: usize,

    /// Maximum keys in the data directory.
    #[arg(long, env = "DRAGOMAN_KEYS_MAX", value_name = "COUNT", default_value_t = Limits::default().keys_max, value_parser = at_least_one::<usize>)]
    pub keys_max: usize,

    /// Maximum texts that wait for the encoder; more are refused with 503.
    #[arg(long, env = "DRAGOMAN_EMBED_QUEUE_TEXTS_MAX", value_name = "COUNT", default_value_t = Limits::default().embed_queue_texts_max, value_parser = at_least_one::<usize>)]
    pub embed_queue_texts_max: usize,

    /// Maximum write requests that wait for one collection; more are refused with 503.
    #[arg(long, env = "DRAGOMAN_WRITE_QUEUE_MAX", value_name = "COUNT", default_value_t = Limits::default().write_queue_max, value_parser = at_least_one::<usize>)]
    pub write_queue_max: usize,

    /// Minimum changes of a collection before its index is saved while the server runs; after a crash, the next start has to
    /// catch up with at most that many. For a large index, also a fifth of its passages must have changed.
    #[arg(long, env = "DRAGOMAN_INDEX_SAVE_CHANGES", value_name = "COUNT", default_value_t = Limits::default().index_save_changes, value_parser = at_least_one::<u64>)]
    pub index_save_changes: u64,

    /// Maximum jobs that run at once.
    #[arg(long, env = "DRAGOMAN_JOBS_RUNNING_MAX", value_name = "COUNT", default_value_t = Limits::default().jobs_running_max, value_parser = at_least_one::<usize>)]
    pub jobs_running_max: usize,

    /// Maximum jobs that wait for their turn; more are refused with 503.
    #[arg(long, env = "DRAGOMAN_JOBS_QUEUED_MAX", value_name = "COUNT", default_value_t = Limits::default().jobs_queued_max, value_parser = at_least_one::<usize>)]
    pub jobs_queued_max: usize,

    /// Maximum finished jobs to keep.
    #[arg(long, env = "DRAGOMAN_JOBS_KEPT_MAX", value_name = "COUNT", default_value_t = Limits::default().jobs_kept_max, value_parser = at_least_one::<usize>)]
    pub jobs_kept_max: usize,

    /// Milliseconds for which a finished job is kept.
    #[arg(skip = Limits::default().jobs_kept_ms)]
    pub jobs_kept_ms: i64,

    /// Maximum bytes of an import, and of an uploaded snapshot, after decompression.
    #[arg(long, env = "DRAGOMAN_IMPORT_BYTES_MAX", value_name = "BYTES", default_value_t = Limits::default().import_bytes_max, value_parser = at_least_one::<u64>)]
    pub import_bytes_max: u64,

    /// Maximum bytes of one line of an import.
    #[arg(long, env = "DRAGOMAN_IMPORT_LINE_BYTES_MAX", value_name = "BYTES", default_value_t = Limits::default().import_line_bytes_max, value_parser = at_least_one::<usize>)]
    pub import_line_bytes_max: usize,

    /// Maximum passages that wait for their embedding before an import pauses.
    #[arg(long, env = "DRAGOMAN_IMPORT_BACKLOG_MAX", value_name = "COUNT", default_value_t = Limits::default().import_backlog_max, value_parser = at_least_one::<u64>)]
    pub import_backlog_max: u64,

    /// Bytes of disk that imports and snapshots must leave free; otherwise they are refused with 503.
    #[arg(long, env = "DRAGOMAN_DISK_RESERVE_BYTES", value_name = "BYTES", default_value_t = Limits::default().disk_reserve_bytes, value_parser = at_least_one::<u64>)]
    pub disk_reserve_bytes: u64,

    /// Maximum bytes of memory for a mining or duplicates job; larger jobs are refused.
    #[arg(long, env = "DRAGOMAN_MINING_MEMORY_BYTES_MAX", value_name = "BYTES", default_value_t = Limits::default().mining_memory_bytes_max, value_parser = at_least_one::<u64>)]
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

/// Parses a count that must not be zero.
pub fn at_least_one<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    text.parse().ok().filter(|count| *count >= T::from(1)).ok_or_else(|| "expected a whole number of at least 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_must_be_whole_numbers_of_at_least_one() {
        assert_eq!(at_least_one::<usize>("1"), Ok(1));
        for bad in ["0", "-1", "many", ""] {
            assert!(at_least_one::<usize>(bad).is_err() && at_least_one::<u64>(bad).is_err(), "{bad:?}");
        }
    }
}
