//! The names of a collection's own partitions.

/// The partitioned tables, without their schema.
pub(super) const PARTITIONED: [&str; 4] = ["documents", "passages", "passage_tokens", "terms"];

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
}
