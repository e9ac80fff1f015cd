//! Shards: tokenized corpora in memory-mapped files, so that a large corpus needs no more memory than a small one.
//!
//! Layout, little-endian: the magic, the header's length as u64, the header as JSON, then per language an array of
//! segments + 1 offsets (u64, counted in ids) and the ids (u16). An empty range is a missing segment.

use std::fs::File;
use std::io::{BufWriter, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use dragoman::domain::Language;
use memmap2::Mmap;
use serde::{Deserialize, Serialize};

use crate::error::Error;

const MAGIC: &[u8; 8] = b"DRGSHRD1";

/// File ending of shards.
pub const ENDING: &str = "shard";

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    name: String,
    key: String,
    languages: Vec<String>,
    segments: usize,
    ids: Vec<usize>,
}

/// A tokenized corpus on disk.
pub struct Shard {
    map: Mmap,
    /// The corpus's name; the configuration assigns weights by this name.
    pub name: String,
    /// Unique among the shards of a folder.
    pub key: String,
    /// The columns' languages.
    pub languages: Vec<Language>,
    /// Number of rows.
    pub segments: usize,
    /// Per column: the byte offsets of its offset array and of its ids.
    columns: Vec<(usize, usize)>,
}

/// Writes a corpus: one column of token ids per language, all of the same length.
pub fn write(path: &Path, name: &str, key: &str, languages: &[Language], columns: &[Vec<Vec<u16>>]) -> Result<(), Error> {
    let mut writer = ShardWriter::create(path, name, key, languages)?;
    writer.append(columns)?;
    writer.finish()
}

/// Writes a shard block by block: each column's offsets and ids go to temporary files, which `finish` joins.
pub struct ShardWriter {
    path: PathBuf,
    header: Header,
    columns: Vec<ColumnWriter>,
}

struct ColumnWriter {
    offsets: BufWriter<File>,
    ids: BufWriter<File>,
}

impl ShardWriter {
    /// Starts writing the shard `path`; the file appears only when `finish` is called.
    pub fn create(path: &Path, name: &str, key: &str, languages: &[Language]) -> Result<Self, Error> {
        let file = |source| Error::file(path, source);
        let folder = path.parent().unwrap_or(Path::new("."));
        let mut columns = Vec::new();
        for _ in languages {
            // Unlinked at once, so that no temporary file is left behind on any exit.
            let spool = || tempfile::tempfile_in(folder).map(BufWriter::new).map_err(file);
            let mut column = ColumnWriter { offsets: spool()?, ids: spool()? };
            column.offsets.write_all(&0u64.to_le_bytes()).map_err(file)?;
            columns.push(column);
        }
        let header = Header {
            name: name.to_owned(),
            key: key.to_owned(),
            languages: languages.iter().map(|language| language.code().to_owned()).collect(),
            segments: 0,
            ids: vec![0; languages.len()],
        };
        Ok(Self { path: path.to_owned(), header, columns })
    }

    /// Adds rows: one column of token ids per language, all of the same length.
    pub fn append(&mut self, columns: &[Vec<Vec<u16>>]) -> Result<(), Error> {
        let file = |source| Error::file(&self.path, source);
        for ((writer, column), total) in self.columns.iter_mut().zip(columns).zip(&mut self.header.ids) {
            for ids in column {
                *total += ids.len();
                writer.offsets.write_all(&(*total as u64).to_le_bytes()).map_err(file)?;
                for id in ids {
                    writer.ids.write_all(&id.to_le_bytes()).map_err(file)?;
                }
            }
        }
        self.header.segments += columns.first().map_or(0, Vec::len);
        Ok(())
    }

    /// Joins the columns, syncs the file to disk and moves it to its path.
    pub fn finish(self) -> Result<(), Error> {
        let path = self.path;
        let file = |source| Error::file(&path, source);
        let json = serde_json::to_vec(&self.header).map_err(|source| file(source.into()))?;
        let partial = path.with_extension("partial");
        let mut out = BufWriter::with_capacity(1 << 20, File::create(&partial).map_err(file)?);
        let mut put = |bytes: &[u8]| out.write_all(bytes).map_err(file);
        put(MAGIC)?;
        put(&(json.len() as u64).to_le_bytes())?;
        put(&json)?;
        for part in self.columns.into_iter().flat_map(|column| [column.offsets, column.ids]) {
            let mut part = part.into_inner().map_err(|error| file(error.into_error()))?;
            part.rewind().map_err(file)?;
            std::io::copy(&mut part, &mut out).map_err(file)?;
        }
        out.into_inner().map_err(|error| file(error.into_error()))?.sync_all().map_err(file)?;
        std::fs::rename(&partial, &path).map_err(file)
    }
}

impl Shard {
    /// Maps a shard and checks that its size matches its header.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let broken = |problem: &str| Error::Content { path: path.to_owned(), problem: problem.to_owned() };
        let file = File::open(path).map_err(|source| Error::file(path, source))?;
        #[expect(
            unsafe_code,
            reason = "mapping is unsafe only because another process may truncate the file; shards are written once"
        )]
        let map = unsafe { Mmap::map(&file) }.map_err(|source| Error::file(path, source))?;
        if map.len() < 16 || &map[..8] != MAGIC {
            return Err(broken("no shard"));
        }
        let header_end = 16usize.saturating_add(read_u64(&map, 8) as usize);
        let json = map.get(16..header_end).ok_or_else(|| broken("it is cut off in the header"))?;
        let header: Header = serde_json::from_slice(json).map_err(|error| broken(&error.to_string()))?;
        let languages = header.languages.iter().map(|code| Language::parse(code).ok_or_else(|| broken("unknown language")));
        let languages = languages.collect::<Result<Vec<_>, _>>()?;
        let mut columns = Vec::new();
        let mut offset = header_end;
        for ids in &header.ids {
            let ids_at = offset + 8 * (header.segments + 1);
            columns.push((offset, ids_at));
            offset = ids_at + 2 * ids;
        }
        if offset != map.len() || columns.len() != languages.len() {
            return Err(broken("its size differs from its header"));
        }
        Ok(Self { map, name: header.name, key: header.key, languages, segments: header.segments, columns })
    }

    /// Whether `row` has a segment in `column`.
    pub fn has(&self, column: usize, row: usize) -> bool {
        self.len(column, row) > 0
    }

    /// How many tokens `row` has in `column`; 0 when missing.
    pub fn len(&self, column: usize, row: usize) -> usize {
        let (start, end) = self.range(column, row);
        end - start
    }

    /// The token ids of `row` in `column`, at most `tokens_max` of them; empty when missing.
    pub fn ids(&self, column: usize, row: usize, tokens_max: usize) -> Vec<u16> {
        let (start, end) = self.range(column, row);
        let end = end.min(start.saturating_add(tokens_max));
        let offset = self.columns[column].1;
        self.map[offset + 2 * start..offset + 2 * end].chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect()
    }

    fn range(&self, column: usize, row: usize) -> (usize, usize) {
        let offset = self.columns[column].0 + 8 * row;
        (read_u64(&self.map, offset) as usize, read_u64(&self.map, offset + 8) as usize)
    }
}

fn read_u64(bytes: &[u8], offset: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(eight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn languages(codes: &[&str]) -> Vec<Language> {
        codes.iter().map(|code| Language::parse(code).unwrap()).collect()
    }

    #[test]
    fn a_written_shard_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.shard");
        let columns = [vec![vec![1, 2, 3], vec![]], vec![vec![9], vec![65_535, 4]]];
        write(&path, "a", "a.de-en", &languages(&["de", "en"]), &columns).unwrap();
        let shard = Shard::open(&path).unwrap();
        assert_eq!((shard.name.as_str(), shard.key.as_str(), shard.segments), ("a", "a.de-en", 2));
        assert_eq!(shard.ids(0, 0, 120), [1, 2, 3]);
        assert_eq!(shard.ids(0, 0, 2), [1, 2]);
        assert_eq!(shard.ids(1, 1, 120), [65_535, 4]);
        assert!(!shard.has(0, 1) && shard.has(1, 0));
    }

    #[test]
    fn a_truncated_shard_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.shard");
        write(&path, "a", "a", &languages(&["de", "en"]), &[vec![vec![1; 50]], vec![vec![2; 50]]]).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        for length in [0, 10, 40, bytes.len() - 1] {
            std::fs::write(&path, &bytes[..length]).unwrap();
            assert!(matches!(Shard::open(&path), Err(Error::Content { .. } | Error::File { .. })), "{length} bytes");
        }
    }
}
