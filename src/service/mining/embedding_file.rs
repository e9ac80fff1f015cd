//! A file in the job's folder with the embeddings of a list of texts: one row per sentence, in order. After a restart, the job
//! continues after the last complete row. Rows are not synced: each has a checksum, so that a row that a power loss left in part
//! is recognized and computed again.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use crate::domain::{Embedded, Embedding};
use crate::service::error::Error;
use crate::service::folders::{AtPath, open_regular};

/// Each row begins with one byte, which is 1 if the text was longer than what the model reads.
const FLAG_BYTES: usize = 1;
const VALUE_BYTES: usize = 4;
/// Each row ends with the CRC-32 of its other bytes.
const CHECKSUM_BYTES: usize = 4;
const ROWS_PER_READ: usize = 1_024;

pub(crate) struct EmbeddingFile {
    path: PathBuf,
    file: File,
    dimension: usize,
}

impl EmbeddingFile {
    pub(crate) fn row_bytes(dimension: usize) -> usize {
        FLAG_BYTES + VALUE_BYTES * dimension + CHECKSUM_BYTES
    }

    /// Opens or creates the file. Cuts off the first row that does not match its checksum, and all rows after it.
    pub(crate) fn open(path: PathBuf, dimension: usize) -> Result<Self, Error> {
        let file = open_regular(&path, File::options().read(true).write(true).create(true).truncate(false)).at(&path)?;
        let opened = Self { path, file, dimension };
        let intact = opened.intact_rows()?;
        opened.file.set_len((intact * Self::row_bytes(dimension)) as u64).at(&opened.path)?;
        Ok(opened)
    }

    pub(crate) fn dimension(&self) -> usize {
        self.dimension
    }

    /// Returns the number of complete rows.
    pub(crate) fn rows(&self) -> Result<usize, Error> {
        let bytes = self.file.metadata().at(&self.path)?.len();
        Ok(usize::try_from(bytes).unwrap_or(usize::MAX) / Self::row_bytes(self.dimension))
    }

    /// Appends rows. Only one caller at a time may do so.
    pub(crate) fn append(&self, texts: &[Embedded]) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(texts.len() * Self::row_bytes(self.dimension));
        for embedded in texts {
            let begin = bytes.len();
            bytes.push(u8::from(embedded.truncated));
            bytes.extend_from_slice(&embedded.embedding.to_bytes());
            bytes.extend_from_slice(&crc32fast::hash(&bytes[begin..]).to_le_bytes());
        }
        let end = (self.rows()? * Self::row_bytes(self.dimension)) as u64;
        self.file.write_all_at(&bytes, end).at(&self.path)
    }

    pub(crate) fn read(&self, rows: Range<usize>) -> Result<Vec<Embedding>, Error> {
        let embedding = |row: &[u8]| {
            let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a row is not an embedding");
            let values = content(row).map(|content| &content[FLAG_BYTES..]);
            values.and_then(Embedding::from_bytes).ok_or_else(damaged).at(&self.path)
        };
        self.bytes(rows)?.chunks_exact(Self::row_bytes(self.dimension)).map(embedding).collect()
    }

    /// Counts the texts that were longer than what the model reads.
    pub(crate) fn truncated(&self) -> Result<u64, Error> {
        let rows = self.rows()?;
        let mut truncated = 0;
        for begin in (0..rows).step_by(ROWS_PER_READ) {
            let bytes = self.bytes(begin..rows.min(begin + ROWS_PER_READ))?;
            truncated += bytes.chunks_exact(Self::row_bytes(self.dimension)).filter(|row| row[0] == 1).count() as u64;
        }
        Ok(truncated)
    }

    /// Counts the rows before the first one that does not match its checksum.
    fn intact_rows(&self) -> Result<usize, Error> {
        let rows = self.rows()?;
        for begin in (0..rows).step_by(ROWS_PER_READ) {
            let bytes = self.bytes(begin..rows.min(begin + ROWS_PER_READ))?;
            let mut read = bytes.chunks_exact(Self::row_bytes(self.dimension));
            if let Some(damaged) = read.position(|row| content(row).is_none()) {
                return Ok(begin + damaged);
            }
        }
        Ok(rows)
    }

    fn bytes(&self, rows: Range<usize>) -> Result<Vec<u8>, Error> {
        let row = Self::row_bytes(self.dimension);
        let mut bytes = vec![0; rows.len() * row];
        self.file.read_exact_at(&mut bytes, (rows.start * row) as u64).at(&self.path)?;
        Ok(bytes)
    }
}

/// Returns a row without its checksum, or `None` if it does not match.
fn content(row: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = row.split_last_chunk()?;
    (crc32fast::hash(content) == u32::from_le_bytes(*checksum)).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embedded(x: f32, truncated: bool) -> Embedded {
        Embedded { embedding: Embedding::normalized(vec![x, 1.0]).unwrap(), tokens: vec![1], truncated }
    }

    #[test]
    fn reopening_the_file_drops_a_partial_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("embeddings");
        let file = EmbeddingFile::open(path.clone(), 2).unwrap();
        file.append(&[embedded(1.0, false), embedded(2.0, true)]).unwrap();
        drop(file);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
        let file = EmbeddingFile::open(path, 2).unwrap();
        assert_eq!((file.rows().unwrap(), file.truncated().unwrap()), (1, 0));
        file.append(&[embedded(3.0, true)]).unwrap();
        assert_eq!(file.read(1..2).unwrap(), [embedded(3.0, true).embedding]);
        assert_eq!(file.truncated().unwrap(), 1);
    }

    #[test]
    fn reopening_the_file_drops_what_a_power_loss_left_in_part() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("embeddings");
        let row = EmbeddingFile::row_bytes(2);
        // Zeros are what a file system leaves of data that it has not written; the other byte is the last one of a value.
        for lost in [row..2 * row, row..row + 1, 2 * row - CHECKSUM_BYTES - 1..2 * row - CHECKSUM_BYTES] {
            let file = EmbeddingFile::open(path.clone(), 2).unwrap();
            file.append(&[embedded(1.0, false), embedded(2.0, true), embedded(3.0, false)]).unwrap();
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[lost.clone()].fill(0);
            std::fs::write(&path, bytes).unwrap();
            let file = EmbeddingFile::open(path.clone(), 2).unwrap();
            assert_eq!(file.rows().unwrap(), 1, "{lost:?}");
            assert_eq!(file.read(0..1).unwrap(), [embedded(1.0, false).embedding]);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_row_that_is_not_an_embedding_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("embeddings");
        let file = EmbeddingFile::open(path.clone(), 2).unwrap();
        std::fs::write(&path, vec![7; EmbeddingFile::row_bytes(2)]).unwrap();
        assert!(matches!(file.read(0..1), Err(Error::File { .. })));
    }
}
