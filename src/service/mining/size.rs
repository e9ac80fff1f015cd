//! The size of a corpus, for estimates of memory.

/// Bytes per passage: its key, the number of its sentence, and the position of that sentence.
const SIDE_BYTES: u64 = 16;
/// Bytes of a node of an index besides its values: links, key, slot.
const NODE_BYTES: u64 = 256;

/// The size of a corpus.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    /// Passages, or texts of a list.
    pub(crate) sentences: u64,
    /// Different sentences, or all while that is unknown.
    pub(crate) different: u64,
    /// Bytes of the texts, if they are in memory.
    pub(crate) text_bytes: u64,
    /// Sentences of the index to build, if one is needed; none if a collection's own is used.
    pub(crate) indexed: u64,
}

impl Size {
    /// Of its index.
    pub(crate) fn index_bytes(self, dimension: usize) -> u64 {
        let node = (dimension as u64).saturating_mul(2).saturating_add(NODE_BYTES);
        // An index doubles its capacity when it is full.
        self.indexed.saturating_mul(node).saturating_mul(2)
    }

    /// Besides its index.
    pub(crate) fn bytes(self) -> u64 {
        self.sentences.saturating_mul(SIDE_BYTES).saturating_add(self.text_bytes)
    }
}
