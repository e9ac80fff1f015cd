//! How large a side of mining is, as far as its memory goes.

/// Bytes per passage of a side: its key, the number of its sentence, and where that sentence is first.
const SIDE_BYTES: u64 = 16;
/// Bytes of a node of an index besides its values: links, key, place.
const NODE_BYTES: u64 = 256;

/// Sentences of one side, as far as its memory goes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    /// Passages, or texts of a list.
    pub(crate) sentences: u64,
    /// Sentences that differ; as many, as long as that is not known.
    pub(crate) different: u64,
    /// Bytes of the texts, where they are held in memory.
    pub(crate) text_bytes: u64,
    /// Sentences of the index that is made for the job if one is needed; none where a collection's own is used.
    pub(crate) indexed: u64,
}

impl Size {
    /// Of its index.
    pub(crate) fn index_bytes(self, dimension: usize) -> u64 {
        let node = (dimension as u64).saturating_mul(2).saturating_add(NODE_BYTES);
        // An index doubles its room when that is used up.
        self.indexed.saturating_mul(node).saturating_mul(2)
    }

    /// Besides its index.
    pub(crate) fn bytes(self) -> u64 {
        self.sentences.saturating_mul(SIDE_BYTES).saturating_add(self.text_bytes)
    }
}
