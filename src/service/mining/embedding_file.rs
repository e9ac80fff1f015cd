//! A file in the job's folder with the embeddings of a list of texts: one row per sentence, in order. After a restart, the job
//! continues after the last complete row.

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

pub(crate) struct EmbeddingFile {
    path: PathBuf,
    file: File,
    dimension: usize,
}

impl EmbeddingFile {
    pub(crate) fn row_bytes(dimension: usize) -> usize {
        FLAG_BYTES + VALUE_BYTES * dimension
    }

    /// Opens or creates the file. Cuts off a partial last row that a crash left.
    pub(crate) fn open(path: PathBuf, dimension: usize) -> Result<Self, Error> {
        let file = open_regular(&path, File::options().read(true).write(true).create(true).truncate(false)).at(&path)?;
        let row = Self::row_bytes(dimension) as u64;
        file.set_len(file.metadata().at(&path)?.len() / row * row).at(&path)?;
        Ok(Self { path, file, dimension })
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
    pub(crate) fn append(&self, embedded: &[Embedded]) -> Result<(), Error> {
        let mut bytes = Vec::with_capacity(embedded.len() * Self::row_bytes(self.dimension));
        for one in embedded {
            bytes.push(u8::from(one.truncated));
            bytes.extend_from_slice(&one.embedding.to_bytes());
        }
        let end = (self.rows()? * Self::row_bytes(self.dimension)) as u64;
        self.file.write_all_at(&bytes, end).at(&self.path)
    }

    pub(crate) fn read(&self, rows: Range<usize>) -> Result<Vec<Embedding>, Error> {
        let embedding = |row: &[u8]| {
            let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a row is not an embedding");
            Embedding::from_bytes(&row[FLAG_BYTES..]).ok_or_else(damaged).at(&self.path)
        };
        self.bytes(rows)?.chunks_exact(Self::row_bytes(self.dimension)).map(embedding).collect()
    }

    /// Counts the texts that were longer than what the model reads.
    pub(crate) fn truncated(&self) -> Result<u64, Error> {
        const ROWS_PER_READ: usize = 1_024;
        let rows = self.rows()?;
        let mut truncated = 0;
        for begin in (0..rows).step_by(ROWS_PER_READ) {
            let bytes = self.bytes(begin..rows.min(begin + ROWS_PER_READ))?;
            truncated += bytes.chunks_exact(Self::row_bytes(self.dimension)).filter(|row| row[0] == 1).count() as u64;
        }
        Ok(truncated)
    }

    fn bytes(&self, rows: Range<usize>) -> Result<Vec<u8>, Error> {
        let row = Self::row_bytes(self.dimension);
        let mut bytes = vec![0; rows.len() * row];
        self.file.read_exact_at(&mut bytes, (rows.start * row) as u64).at(&self.path)?;
        Ok(bytes)
    }
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
    fn a_row_that_is_not_an_embedding_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("embeddings");
        std::fs::write(&path, [7; 9]).unwrap();
        let file = EmbeddingFile::open(path, 2).unwrap();
        assert!(matches!(file.read(0..1), Err(Error::File { .. })));
    }
}
