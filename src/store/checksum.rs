//! Checksums of document rows and embeddings, which must not be served if the disk damaged them.
//!
//! SQLite has no checksums of its own, and would return a text with a flipped bit as if it had been sent that way. A row that
//! is older than the checksums has none and is served unchecked until it is written again.

use super::error::{EMBEDDING_PROBLEMS, StoreError};
use crate::domain::{Embedding, PassageId};

/// This byte and 4 bytes of CRC-32 follow the values of an embedding. Without them, the length is a multiple of 4 bytes.
const SEAL: u8 = 1;
const SEAL_BYTES: usize = 5;

/// A document's row without its key, as SQLite stores it.
pub(super) struct DocumentRow<'r> {
    pub(super) id: &'r str,
    pub(super) language: Option<&'r str>,
    pub(super) language_confidence: Option<f32>,
    pub(super) created_at_ms: i64,
    pub(super) updated_at_ms: i64,
    pub(super) sequence: i64,
    pub(super) metadata: &'r str,
    pub(super) text: &'r str,
    pub(super) title: Option<&'r str>,
    pub(super) expires_at_ms: Option<i64>,
}

impl DocumentRow<'_> {
    /// Computes the CRC-32 of all columns. Variable-length values are preceded by their length, so that no two rows have the
    /// same bytes.
    pub(super) fn checksum(&self) -> u32 {
        let mut hash = crc32fast::Hasher::new();
        for text in [Some(self.id), self.language, Some(self.metadata), Some(self.text)] {
            // No text has this length, so it stands for a missing text.
            hash.update(&text.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
            hash.update(text.unwrap_or_default().as_bytes());
        }
        // No confidence is NaN, so NaN stands for none.
        hash.update(&self.language_confidence.unwrap_or(f32::NAN).to_le_bytes());
        for number in [self.created_at_ms, self.updated_at_ms, self.sequence] {
            hash.update(&number.to_le_bytes());
        }
        hash_added_column(&mut hash, self.title);
        if let Some(expires_at_ms) = self.expires_at_ms {
            // No title has this length, so it marks the expiry.
            hash.update(&(u64::MAX - 1).to_le_bytes());
            hash.update(&expires_at_ms.to_le_bytes());
        }
        hash.finalize()
    }
}

/// Appends the CRC-32 of a passage's key and these bytes to a value that a separate table stores for the passage.
pub(super) fn seal_passage_value(passage: PassageId, mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.extend(keyed_checksum(passage.0, &bytes).to_le_bytes());
    bytes
}

/// Returns the bytes sealed by `seal_passage_value`, or `None` if they have changed.
pub(super) fn unseal_passage_value(passage: PassageId, sealed: &[u8]) -> Option<&[u8]> {
    let (bytes, sum) = sealed.split_last_chunk()?;
    (keyed_checksum(passage.0, bytes).to_le_bytes() == *sum).then_some(bytes)
}

/// Computes the CRC-32 of a passage's key and these bytes.
fn keyed_checksum(passage: u64, bytes: &[u8]) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(&passage.to_le_bytes());
    hash.update(bytes);
    hash.finalize()
}

/// Computes the CRC-32 of a passage's row without its embedding: id, document, ordinal, start and end, and the headings above
/// it.
pub(super) fn passage_checksum(row: [i64; 5], headings: Option<&str>) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    row.iter().for_each(|number| hash.update(&number.to_le_bytes()));
    hash_added_column(&mut hash, headings);
    hash.finalize()
}

/// Includes a column that was added later. A row without a value keeps the checksum that it had before.
fn hash_added_column(hash: &mut crc32fast::Hasher, text: Option<&str>) {
    if let Some(text) = text {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
}

/// Returns the bytes that SQLite stores for a passage's embedding.
pub(super) fn seal_embedding(passage: PassageId, embedding: &Embedding) -> Vec<u8> {
    let mut bytes = embedding.to_bytes();
    let checksum = keyed_checksum(passage.0, &bytes);
    bytes.push(SEAL);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// Reads the output of `seal_embedding`, or values without a checksum.
pub(super) fn unseal_embedding(passage: i64, bytes: &[u8]) -> Result<Embedding, StoreError> {
    let corrupt = |problem| StoreError::CorruptRow { table: "passages", row: passage, problem };
    // Without a checksum, these are only values. Only embeddings of unit length were stored that way.
    let values = match bytes.len().checked_sub(SEAL_BYTES) {
        Some(length) if !bytes.len().is_multiple_of(size_of::<f32>()) => {
            let (values, seal) = bytes.split_at(length);
            let expected = keyed_checksum(passage as u64, values).to_le_bytes();
            if seal[0] != SEAL || seal[1..] != expected {
                return Err(corrupt(EMBEDDING_PROBLEMS[0]));
            }
            values
        }
        _ => bytes,
    };
    Embedding::from_bytes(values).ok_or_else(|| corrupt(EMBEDDING_PROBLEMS[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> DocumentRow<'static> {
        DocumentRow {
            id: "a",
            language: Some("pl"),
            language_confidence: Some(0.5),
            created_at_ms: 1,
            updated_at_ms: 2,
            sequence: 3,
            metadata: "{}",
            text: "Pociąg się spóźnia.",
            title: None,
            expires_at_ms: None,
        }
    }

    #[test]
    fn the_checksum_covers_every_document_column() {
        let others = [
            DocumentRow { id: "b", ..row() },
            DocumentRow { language: None, ..row() },
            DocumentRow { language: Some(""), ..row() },
            DocumentRow { language_confidence: None, ..row() },
            DocumentRow { language_confidence: Some(0.25), ..row() },
            DocumentRow { created_at_ms: 2, ..row() },
            DocumentRow { updated_at_ms: 1, ..row() },
            DocumentRow { sequence: 4, ..row() },
            DocumentRow { metadata: "{ }", ..row() },
            DocumentRow { text: "Pociąg sie spóźnia.", ..row() },
            DocumentRow { metadata: "{}P", text: "ociąg się spóźnia.", ..row() },
            DocumentRow { title: Some(""), ..row() },
            DocumentRow { title: Some("Rozkład"), ..row() },
            DocumentRow { expires_at_ms: Some(0), ..row() },
            DocumentRow { expires_at_ms: Some(7), ..row() },
        ];
        let checksums = others.iter().map(DocumentRow::checksum);
        assert!(checksums.into_iter().all(|checksum| checksum != row().checksum()));
    }

    #[test]
    fn checksums_without_title_or_headings_match_earlier_versions() {
        assert_eq!(row().checksum(), 0xdbe0_377c);
        assert_eq!(passage_checksum([1, 2, 3, 4, 5], None), 0xbaa2_4928);
        assert_ne!(passage_checksum([1, 2, 3, 4, 5], Some("")), passage_checksum([1, 2, 3, 4, 5], None));
    }

    #[test]
    fn an_embedding_is_read_with_and_without_its_checksum() {
        let embedding = Embedding::normalized(vec![1.0, -2.0, 3.0]).unwrap();
        let sealed = seal_embedding(PassageId(7), &embedding);
        assert_eq!(unseal_embedding(7, &sealed).unwrap(), embedding);
        assert_eq!(unseal_embedding(7, &embedding.to_bytes()).unwrap(), embedding);
        let long = Embedding::unscaled(vec![1.0, -2.0, 0.5]).unwrap();
        assert_eq!(unseal_embedding(7, &seal_embedding(PassageId(7), &long)).unwrap(), long);
    }

    #[test]
    fn flipped_bits_and_swapped_embeddings_are_detected() {
        let sealed = seal_embedding(PassageId(7), &Embedding::normalized(vec![1.0, -2.0, 3.0]).unwrap());
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(unseal_embedding(7, &damaged).is_err(), "bit {bit}");
        }
        assert!(unseal_embedding(8, &sealed).is_err());
    }
}
