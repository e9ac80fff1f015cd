//! Every limit that a caller can hit, with its flag and its environment variable. Errors name the limit, what was expected and
//! what was given.

use clap::Args;

use super::{DocumentPatch, Metadata};

/// Default maximum of a setting that is a count or a size: more than any machine has, and sums of several do not overflow.
const SETTING_MAX: u64 = 1_000_000_000_000_000;

/// Defines the limits, each with its default, its environment variable, its unit and its maximum. The flag is the name with
/// hyphens. A limit without a variable has no flag either.
macro_rules! limits {
    (@parser $type:ident) => { at_least_one::<$type> };
    (@parser $type:ident $max:literal) => { whole_number::<$type, 1, { $max }> };
    ($(
        $(#[$($attribute:tt)*])*
        $name:ident: $type:ident = $default:expr $(, env = $env:tt, value_name = $unit:tt $(, max = $max:literal)?)?;
    )*) => {
        /// Limits on requests and queues. `Default` has the server's defaults.
        #[derive(Debug, Clone, PartialEq, Eq, Args)]
        #[command(next_help_heading = "Limits")]
        pub struct Limits {
            $(
                $(#[$($attribute)*])*
                $(#[arg(
                    long,
                    env = $env,
                    value_name = $unit,
                    default_value_t = Limits::default().$name,
                    value_parser = limits!(@parser $type $($max)?)
                )])?
                pub $name: $type,
            )*
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default),* }
            }
        }
    };
}

limits! {
    /// Maximum bytes of a request body; at most a quarter of the memory for requests.
    body_bytes_max: usize = 32 << 20, env = "DRAGOMAN_BODY_BYTES_MAX", value_name = "BYTES";
    /// Maximum documents per upsert request.
    batch_documents_max: usize = 1_000, env = "DRAGOMAN_BATCH_DOCUMENTS_MAX", value_name = "COUNT";
    /// Maximum bytes of a document's text, and of a query.
    text_bytes_max: usize = 1 << 20, env = "DRAGOMAN_TEXT_BYTES_MAX", value_name = "BYTES";
    /// Maximum bytes of a document's metadata as JSON.
    metadata_bytes_max: usize = 64 << 10, env = "DRAGOMAN_METADATA_BYTES_MAX", value_name = "BYTES";
    /// Maximum nesting depth of a document's metadata.
    metadata_depth_max: usize = 8, env = "DRAGOMAN_METADATA_DEPTH_MAX", value_name = "LEVELS";
    /// Maximum conditions per filter.
    filter_conditions_max: usize = 100, env = "DRAGOMAN_FILTER_CONDITIONS_MAX", value_name = "COUNT";
    /// Maximum nesting depth of a filter.
    filter_depth_max: usize = 16, env = "DRAGOMAN_FILTER_DEPTH_MAX", value_name = "LEVELS";
    /// Maximum hits per search, and rows per page of a list.
    page_max: usize = 1_000, env = "DRAGOMAN_PAGE_MAX", value_name = "COUNT";
    /// Maximum bytes of texts, metadata and vectors in the response to a search request.
    answer_bytes_max: usize = 64 << 20, env = "DRAGOMAN_ANSWER_BYTES_MAX", value_name = "BYTES";
    /// Maximum bytes of memory for the bodies and responses of all requests together. A caller never holds more than stays free
    /// for others, so a single caller gets at most half; more is refused. Small requests and responses do not count.
    in_flight_bytes_max: u64 = 512 << 20, env = "DRAGOMAN_IN_FLIGHT_BYTES_MAX", value_name = "BYTES";
    /// Maximum concurrent file uploads. A caller never runs more than stay free for others. When all slots are taken, an upload
    /// that is too slow loses its slot to the next one.
    uploads_max: usize = 16, env = "DRAGOMAN_UPLOADS_MAX", value_name = "COUNT";
    /// Maximum searches per batch.
    batch_searches_max: usize = 100, env = "DRAGOMAN_BATCH_SEARCHES_MAX", value_name = "COUNT";
    /// Maximum examples of each kind per recommendation.
    examples_max: usize = 100, env = "DRAGOMAN_EXAMPLES_MAX", value_name = "COUNT";
    /// Maximum texts per embeddings request.
    embedding_inputs_max: usize = 2_048, env = "DRAGOMAN_EMBEDDING_INPUTS_MAX", value_name = "COUNT";
    /// Maximum collections in the data directory.
    collections_max: usize = 10_000, env = "DRAGOMAN_COLLECTIONS_MAX", value_name = "COUNT";
    /// Maximum collection databases that are open at once; others are opened when they are used.
    #[arg(skip = Limits::default().databases_open_max)]
    databases_open_max: usize = 128;
    /// Maximum keys in the data directory, besides those that have expired.
    keys_max: usize = 1_000, env = "DRAGOMAN_KEYS_MAX", value_name = "COUNT";
    /// Maximum texts that wait for the encoder; more are refused with 503.
    embed_queue_texts_max: usize = 20_000, env = "DRAGOMAN_EMBED_QUEUE_TEXTS_MAX", value_name = "COUNT";
    /// Maximum write requests that wait for one collection; more are refused with 503.
    write_queue_max: usize = 1_024, env = "DRAGOMAN_WRITE_QUEUE_MAX", value_name = "COUNT", max = 65_536;
    /// Number of changes to a collection after which its index is saved while the server runs; for a large index, a fifth of
    /// its passages if that is more. After a crash, the next start has to repeat at most that many.
    index_save_changes: u64 = 10_000, env = "DRAGOMAN_INDEX_SAVE_CHANGES", value_name = "COUNT";
    /// Maximum jobs that run at once.
    jobs_running_max: usize = 4, env = "DRAGOMAN_JOBS_RUNNING_MAX", value_name = "COUNT";
    /// Maximum jobs that wait for their turn; more are refused with 503. A caller never has more unfinished jobs than are left to
    /// others, so a single caller gets at most half.
    jobs_queued_max: usize = 200, env = "DRAGOMAN_JOBS_QUEUED_MAX", value_name = "COUNT";
    /// Maximum finished jobs to keep.
    jobs_kept_max: usize = 1_000, env = "DRAGOMAN_JOBS_KEPT_MAX", value_name = "COUNT";
    /// Milliseconds for which a finished job is kept.
    #[arg(skip = Limits::default().jobs_kept_ms)]
    jobs_kept_ms: i64 = 7 * 24 * 3_600 * 1_000;
    /// Maximum bytes of an import, and of an uploaded snapshot, after decompression.
    import_bytes_max: u64 = 64 << 30, env = "DRAGOMAN_IMPORT_BYTES_MAX", value_name = "BYTES";
    /// Maximum bytes of one line of an import.
    import_line_bytes_max: usize = 8 << 20, env = "DRAGOMAN_IMPORT_LINE_BYTES_MAX", value_name = "BYTES";
    /// Maximum passages that wait for their embedding before an import pauses.
    import_backlog_max: u64 = 8_192, env = "DRAGOMAN_IMPORT_BACKLOG_MAX", value_name = "COUNT";
    /// Bytes of disk that imports and snapshots must leave free; otherwise they are refused with 503.
    disk_reserve_bytes: u64 = 1 << 30, env = "DRAGOMAN_DISK_RESERVE_BYTES", value_name = "BYTES";
    /// Maximum bytes of memory for a mining or duplicates job; larger jobs are refused.
    mining_memory_bytes_max: u64 = 4 << 30, env = "DRAGOMAN_MINING_MEMORY_BYTES_MAX", value_name = "BYTES";
}

impl Limits {
    /// Returns a patch that changes only metadata, within these limits.
    pub fn metadata_patch(&self, metadata: Metadata) -> DocumentPatch {
        DocumentPatch {
            title: None,
            metadata,
            language: None,
            expires_at_ms: None,
            metadata_bytes_max: self.metadata_bytes_max,
            metadata_depth_max: self.metadata_depth_max,
        }
    }
}

/// Parses a count that must not be zero.
pub fn at_least_one<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    whole_number::<T, 1, SETTING_MAX>(text)
}

/// Parses a whole number from `MIN` to `MAX`.
pub fn whole_number<T: TryFrom<u64>, const MIN: u64, const MAX: u64>(text: &str) -> Result<T, String> {
    let number = text.parse::<u64>().ok().filter(|number| (MIN..=MAX).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| format!("expected a whole number of at least {MIN} and at most {MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_must_be_whole_numbers_of_at_least_one() {
        assert_eq!(at_least_one::<usize>("1"), Ok(1));
        assert_eq!(at_least_one::<u64>("1000000000000000"), Ok(SETTING_MAX));
        for bad in ["0", "-1", "many", "", "1000000000000001", "18446744073709551615"] {
            assert!(at_least_one::<usize>(bad).is_err() && at_least_one::<u64>(bad).is_err(), "{bad:?}");
        }
        assert_eq!(whole_number::<usize, 0, 8>("0"), Ok(0));
        assert_eq!(whole_number::<usize, 1, 8>("8"), Ok(8));
        assert_eq!(whole_number::<usize, 1, 8>("9"), Err("expected a whole number of at least 1 and at most 8".to_owned()));
    }
}
