//! The names of a collection's own partitions.

/// The partitioned tables, without their schema.
pub(super) const PARTITIONED: [&str; 4] = ["documents", "passages", "passage_tokens", "terms"];

/// A time in milliseconds since the Unix epoch, as an expression.
pub(super) fn at_ms(ms: i64) -> String {
    format!("'{ms}'::bigint")
}

/// The names of one collection's partitions.
pub(super) struct Names {
    pub(super) documents: String,
    pub(super) passages: String,
    pub(super) tokens: String,
    pub(super) terms: String,
}

impl Names {
    /// Of the collection with this key.
    pub(super) fn of(key: i64) -> Self {
        let [documents, passages, tokens, terms] = PARTITIONED.map(|table| format!("dragoman.{table}_{key}"));
        Self { documents, passages, tokens, terms }
    }

    /// The documents that have not expired by `now`, an expression, as a table.
    pub(super) fn live(&self, now: &str) -> String {
        format!("(select * from {} where expires_at_ms is null or expires_at_ms > {now})", self.documents)
    }
}
