//! The names of a collection's partitions.

/// The names of the partitioned tables, without their schema.
pub(super) const PARTITIONED: [&str; 4] = ["documents", "passages", "passage_tokens", "terms"];

/// Returns an expression of a time in milliseconds since the Unix epoch.
pub(super) fn time_literal(ms: i64) -> String {
    format!("'{ms}'::bigint")
}

pub(super) struct PartitionNames {
    pub(super) documents: String,
    pub(super) passages: String,
    pub(super) tokens: String,
    pub(super) terms: String,
}

impl PartitionNames {
    /// Returns the names for the collection with this key.
    pub(super) fn for_collection(key: i64) -> Self {
        let [documents, passages, tokens, terms] = PARTITIONED.map(|table| format!("dragoman.{table}_{key}"));
        Self { documents, passages, tokens, terms }
    }

    /// Returns a table expression of the documents that have not expired by `now`, which is an expression.
    pub(super) fn live(&self, now: &str) -> String {
        format!("(select * from {} where expires_at_ms is null or expires_at_ms > {now})", self.documents)
    }
}
