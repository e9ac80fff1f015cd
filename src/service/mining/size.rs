//! The size of a corpus, for memory estimates.

/// Bytes per passage: its key, the number of its sentence, and the position of that sentence's first occurrence.
const SIDE_BYTES: u64 = 16;
const HASH_BYTES: u64 = 8;
/// Bytes of an index node without its values: its links, key and slot.
const NODE_BYTES: u64 = 256;

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Size {
    /// Number of passages, or of texts in a list.
    pub(crate) sentences: u64,
    /// Number of different sentences, or of all sentences while that is unknown.
    pub(crate) different: u64,
    /// Whether the hashes of its texts are in memory, because identical texts may not be a pair.
    pub(crate) hashed: bool,
    /// Size of the texts in bytes, if they are in memory.
    pub(crate) text_bytes: u64,
    /// Number of sentences in the index that the job would have to build. 0 if it uses a collection's own index.
    pub(crate) indexed: u64,
}

impl Size {
    pub(crate) fn index_bytes(self, dimension: usize) -> u64 {
        let node = (dimension as u64).saturating_mul(2).saturating_add(NODE_BYTES);
        // An index doubles its capacity when it is full.
        self.indexed.saturating_mul(node).saturating_mul(2)
    }

    /// Returns its size without the index, in bytes.
    pub(crate) fn bytes(self) -> u64 {
        let hash = if self.hashed { HASH_BYTES } else { 0 };
        self.sentences.saturating_mul(SIDE_BYTES + hash).saturating_add(self.text_bytes)
    }
}
