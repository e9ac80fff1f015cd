//! The file of a projection in its collection's folder: a line of JSON and its checksum, one file per center. It is written
//! under another name, synced and renamed, so that a crash leaves the old file intact. Because a projection can be computed
//! again, a damaged file or one of another database counts as missing, and snapshots do not include it.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::domain::ProjectionCenter;
use crate::service::error::Error;
use crate::service::folders::{AtPath, read_file, replace_durably};
use crate::service::open_collection::OpenCollection;

const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ProjectionFile {
    format: u32,
    #[serde(flatten)]
    pub(crate) origin: Origin,
    pub(crate) created_at_ms: i64,
    /// [documents]
    pub(crate) ids: Vec<String>,
    /// [documents]
    pub(crate) x: Vec<f32>,
    /// [documents]
    pub(crate) y: Vec<f32>,
}

/// Identifies a state of a collection's embeddings: equal marks mean equal embeddings. A new embedding gets a new number;
/// without one, passages can only disappear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EmbeddingsMark {
    /// Sequence number of the newest embedding.
    pub(crate) newest: u64,
    /// Number of passages with an embedding.
    pub(crate) passages: u64,
}

/// What a projection was computed from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Origin {
    /// The id of the database.
    #[serde(rename = "origin")]
    pub(crate) database: String,
    /// The database's last sequence number before it was read.
    pub(crate) sequence: u64,
    /// The embeddings that the database had before it was read; `None` in files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) embeddings: Option<EmbeddingsMark>,
    pub(crate) model: Option<String>,
    /// Number of documents that the collection had.
    pub(crate) collection_documents: u64,
    pub(crate) sampled: bool,
}

impl EmbeddingsMark {
    /// Reads the current mark. Blocks.
    pub(crate) fn of(collection: &OpenCollection) -> Result<Self, Error> {
        let newest = collection.store.last_embedded()?.0;
        let counts = collection.store.counts()?;
        Ok(Self { newest, passages: counts.passages.saturating_sub(counts.passages_pending) })
    }
}

impl ProjectionFile {
    pub(crate) fn new(origin: Origin, created_at_ms: i64, ids: Vec<String>, points: &[[f32; 2]]) -> Self {
        debug_assert_eq!(ids.len(), points.len(), "each document has a point");
        let axis = |axis: usize| points.iter().map(|point| rounded(point[axis])).collect();
        Self { format: FORMAT, origin, created_at_ms, ids, x: axis(0), y: axis(1) }
    }

    /// Writes the file durably, replacing an older one.
    pub(crate) fn write(&self, folder: &Path, center: ProjectionCenter) -> Result<(), Error> {
        let path = path(folder, center);
        let new = path.with_extension("json.new");
        let write = || {
            let mut text = serde_json::to_vec(self)?;
            let checksum = crc32fast::hash(&text);
            writeln!(text, "\n{checksum:08x}")?;
            replace_durably(&new, &path, &text)
        };
        // The partial file may be what filled the disk.
        write().inspect_err(|_: &io::Error| drop(std::fs::remove_file(&new))).at(&path)
    }

    /// Reads the projection of a database. Returns `None` if there is none, or only a damaged one.
    pub(crate) fn read(folder: &Path, center: ProjectionCenter, database: &str) -> Result<Option<Self>, Error> {
        let path = path(folder, center);
        let text = match read_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.at(&path)?,
        };
        let problem = match Self::parse(&text) {
            Ok(file) if file.origin.database == database => return Ok(Some(file)),
            Ok(_) => "it is of another database",
            Err(problem) => problem,
        };
        tracing::warn!(path = %path.display(), problem, "the file of a projection is left alone");
        Ok(None)
    }

    fn parse(text: &[u8]) -> Result<Self, &'static str> {
        let torn = "it is torn";
        let end = text.iter().position(|byte| *byte == b'\n').ok_or(torn)?;
        let (line, checksum) = (&text[..end], &text[end + 1..]);
        let checksum = checksum.strip_suffix(b"\n").and_then(|digits| std::str::from_utf8(digits).ok()).ok_or(torn)?;
        if u32::from_str_radix(checksum, 16) != Ok(crc32fast::hash(line)) {
            return Err("it does not fit its checksum");
        }
        let file: Self = serde_json::from_slice(line).map_err(|_| "it is of another format")?;
        match file.format == FORMAT && file.x.len() == file.ids.len() && file.y.len() == file.ids.len() {
            true => Ok(file),
            false => Err("it is of another format"),
        }
    }
}

/// Size of the file in bytes, or 0 if there is none.
pub(crate) fn bytes(folder: &Path, center: ProjectionCenter) -> u64 {
    path(folder, center).metadata().map_or(0, |metadata| metadata.len())
}

fn path(folder: &Path, center: ProjectionCenter) -> PathBuf {
    folder.join(format!("projection.{center}.json"))
}

/// Rounds to five digits, which is about a hundredth of a pixel.
fn rounded(value: f32) -> f32 {
    (value * 1e5).round() / 1e5
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> ProjectionFile {
        let origin = Origin {
            database: "cafe".to_owned(),
            sequence: 7,
            embeddings: Some(EmbeddingsMark { newest: 6, passages: 3 }),
            model: Some("ems".to_owned()),
            collection_documents: 3,
            sampled: true,
        };
        ProjectionFile::new(origin, 1_000, vec!["a".to_owned(), "b\n".to_owned()], &[[1.0, -0.123_456_7], [0.333_333_3, -1.0]])
    }

    #[test]
    fn a_projection_round_trips_and_a_new_one_replaces_it() {
        let folder = tempfile::tempdir().unwrap();
        let read = || ProjectionFile::read(folder.path(), ProjectionCenter::None, "cafe").unwrap();
        assert_eq!(read(), None);
        file().write(folder.path(), ProjectionCenter::None).unwrap();
        let newer = ProjectionFile { created_at_ms: 2_000, ..file() };
        newer.write(folder.path(), ProjectionCenter::None).unwrap();
        assert_eq!(read(), Some(newer.clone()));
        assert_eq!((&newer.x[..], &newer.y[..]), (&[1.0, 0.333_33][..], &[-0.123_46, -1.0][..]));
        assert_eq!(ProjectionFile::read(folder.path(), ProjectionCenter::Language, "cafe").unwrap(), None);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut earlier = file();
        earlier.origin.embeddings = None;
        earlier.write(folder.path(), ProjectionCenter::None).unwrap();
        assert_eq!(read(), Some(earlier), "a file of an earlier version");
        assert!(bytes(folder.path(), ProjectionCenter::None) > 100);
    }

    #[test]
    fn a_damaged_or_foreign_file_counts_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("projection.none.json");
        file().write(folder.path(), ProjectionCenter::None).unwrap();
        let intact = std::fs::read(&path).unwrap();
        let read = |origin: &str| ProjectionFile::read(folder.path(), ProjectionCenter::None, origin).unwrap();
        assert!(read("cafe").is_some() && read("beef").is_none());
        let mut flipped = intact.clone();
        flipped[40] ^= 1;
        for bad in [&b""[..], &intact[..intact.len() / 2], &intact[..intact.len() - 3], &flipped, b"{}\n00000000\n"] {
            std::fs::write(&path, bad).unwrap();
            assert_eq!(read("cafe"), None);
        }
    }
}
