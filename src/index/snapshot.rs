//! The index on disk: `index.usearch` has the graph, `index.copies` the near-duplicates, and `index.json` their checksums, the
//! parameters and the sequence number that they reach. Each file is written under another name, synced and renamed. So a crash
//! leaves the old files, or files whose checksums do not match. In the latter case `load` refuses them and the index is rebuilt
//! from the database.

use std::fs::{File, Metadata};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Index, IndexError, IndexParameters};
use crate::disk::free_bytes;
use crate::domain::Sequence;

/// The version of `index.json` and of what it describes.
const FORMAT: u32 = 2;
/// A disk with fewer free bytes is full: usearch writes less at a time.
const FREE_BYTES_MIN: u64 = 1 << 20;
const GRAPH: &str = "index.usearch";
const COPIES: &str = "index.copies";
const DESCRIPTION: &str = "index.json";
/// The files in the order in which they are renamed. The description is last.
const FILES: [&str; 3] = [GRAPH, COPIES, DESCRIPTION];

/// A graph of at least this many bytes stays in its file, mapped into memory, until its collection changes. So a collection
/// that is only searched starts sooner, and the system can reclaim unused memory.
const VIEW_BYTES_MIN: u64 = 64 << 20;

/// A saved index.
#[derive(Debug)]
pub struct Loaded {
    pub index: Index,
    /// The last change that it contains.
    pub sequence: Sequence,
}

/// Saves `index` as of `sequence` of the database `origin`. It must contain every change up to that, and may contain later
/// ones.
pub fn save(index: &Index, folder: &Path, sequence: Sequence, origin: &str) -> Result<(), IndexError> {
    let new = FILES.map(|name| temporary_path(folder, name));
    if let Err(error) = write_files(index, (sequence, origin), &new) {
        let error = recognize_full_disk(error, folder);
        // The partial files may be what filled the disk.
        for path in &new {
            let _ = std::fs::remove_file(path);
        }
        return Err(error);
    }
    for (new, name) in new.iter().zip(FILES) {
        let old = folder.join(name);
        std::fs::rename(new, &old).map_err(file_error(&old))?;
    }
    sync(folder)
}

/// usearch does not say why it cannot write a file. If the disk has hardly any room left, that is taken for the reason.
fn recognize_full_disk(error: IndexError, folder: &Path) -> IndexError {
    let free = free_bytes(folder).unwrap_or(u64::MAX);
    match error {
        IndexError::Engine { .. } | IndexError::Torn { .. } if free < FREE_BYTES_MIN => {
            IndexError::File { path: folder.to_owned(), source: std::io::ErrorKind::StorageFull.into() }
        }
        other => other,
    }
}

fn temporary_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.new"))
}

/// Returns the last change in the index saved in `folder`, if there is a readable one.
pub fn saved_sequence(folder: &Path) -> Option<Sequence> {
    Description::read(&folder.join(DESCRIPTION)).ok().map(|description| Sequence(description.sequence))
}

/// Whether any file of a saved index is in `folder`, readable or not.
pub fn is_saved(folder: &Path) -> bool {
    FILES.iter().any(|name| folder.join(name).symlink_metadata().is_ok())
}

/// Loads the index saved in `folder`. An error says why it must be rebuilt: it is missing or torn, has other parameters, or is
/// of another database than `origin`.
pub fn load(folder: &Path, parameters: &IndexParameters, origin: &str) -> Result<Loaded, IndexError> {
    load_or_view(folder, parameters, origin, VIEW_BYTES_MIN)
}

fn load_or_view(folder: &Path, parameters: &IndexParameters, origin: &str, view_bytes_min: u64) -> Result<Loaded, IndexError> {
    // Removes what a crash during a save leaves. They are never read, and may be large.
    for name in FILES {
        let _ = std::fs::remove_file(temporary_path(folder, name));
    }
    let description = Description::read(&folder.join(DESCRIPTION))?;
    description.check_parameters(parameters)?;
    if description.origin != origin {
        return Err(IndexError::Parameters { what: "origin", expected: origin.to_owned(), got: description.origin });
    }
    let (graph, copies) = (folder.join(GRAPH), folder.join(COPIES));
    description.graph.check(&graph)?;
    description.copies.check(&copies)?;
    let index =
        Index::read_from((&graph, &copies), parameters, description.key_bound, description.graph.bytes >= view_bytes_min)?;
    if index.len() != description.count {
        let (expected, got) = (description.count.to_string(), index.len().to_string());
        return Err(IndexError::Parameters { what: "count", expected, got });
    }
    if !description.checked {
        index.recheck_all();
    }
    Ok(Loaded { index, sequence: Sequence(description.sequence) })
}

/// `index.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description {
    format: u32,
    /// The identity of its database.
    origin: String,
    sequence: u64,
    count: usize,
    dimension: usize,
    metric: String,
    quantization: String,
    // The file has the names of the first format.
    #[serde(rename = "connectivity")]
    m: usize,
    #[serde(rename = "expansion_add")]
    ef_construction: usize,
    /// The sum of `index.usearch`.
    graph: FileSum,
    /// The sum of `index.copies`.
    copies: FileSum,
    /// Whether searches were known to find every node. An index saved before this field existed is checked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    checked: bool,
    /// All passages in the graph have lower keys. Unknown for an index saved before this field existed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_bound: Option<u64>,
    /// CRC-32 of this description with 0 in this field. Without it, a flipped digit of `sequence` would hide documents from
    /// searches.
    description_crc32: u32,
}

/// The expected length and checksum of a file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileSum {
    bytes: u64,
    crc32: u32,
}

impl FileSum {
    fn of(path: &Path) -> Result<Self, IndexError> {
        Ok(Self { bytes: length(path)?, crc32: crc32_file(path)? })
    }

    fn check(&self, path: &Path) -> Result<(), IndexError> {
        let (expected, got) = (self.bytes, length(path)?);
        if got != expected {
            return Err(IndexError::Torn { path: path.to_owned(), expected, got });
        }
        let (expected, got) = (self.crc32, crc32_file(path)?);
        if got != expected {
            return Err(IndexError::Checksum { path: path.to_owned(), expected, got });
        }
        Ok(())
    }
}

impl Description {
    fn read(path: &Path) -> Result<Self, IndexError> {
        regular_file(path)?;
        let bytes = std::fs::read(path).map_err(file_error(path))?;
        let description: Self = serde_json::from_slice(&bytes).map_err(json_error(path))?;
        let (expected, got) = (description.description_crc32, description.own_crc32(path)?);
        if got == expected { Ok(description) } else { Err(IndexError::Checksum { path: path.to_owned(), expected, got }) }
    }

    fn write(mut self, path: &Path) -> Result<(), IndexError> {
        self.description_crc32 = self.own_crc32(path)?;
        let mut bytes = serde_json::to_vec_pretty(&self).map_err(json_error(path))?;
        bytes.push(b'\n');
        File::create(path).and_then(|mut file| file.write_all(&bytes)).map_err(file_error(path))
    }

    fn own_crc32(&self, path: &Path) -> Result<u32, IndexError> {
        let bytes = serde_json::to_vec(&Self { description_crc32: 0, ..self.clone() }).map_err(json_error(path))?;
        Ok(crc32fast::hash(&bytes))
    }

    /// Refuses other parameters that shaped the graph. The search width may differ, because it only matters for searches.
    fn check_parameters(&self, parameters: &IndexParameters) -> Result<(), IndexError> {
        let wanted = [
            ("format", FORMAT.to_string(), self.format.to_string()),
            ("dimension", parameters.dimension.to_string(), self.dimension.to_string()),
            ("metric", parameters.metric.name().to_owned(), self.metric.clone()),
            ("quantization", parameters.quantization.name().to_owned(), self.quantization.clone()),
            ("m", parameters.hnsw.m.to_string(), self.m.to_string()),
            ("ef_construction", parameters.hnsw.ef_construction.to_string(), self.ef_construction.to_string()),
        ];
        match wanted.into_iter().find(|(_, expected, got)| expected != got) {
            Some((what, expected, got)) => Err(IndexError::Parameters { what, expected, got }),
            None => Ok(()),
        }
    }
}

fn write_files(index: &Index, (sequence, origin): (Sequence, &str), paths: &[PathBuf; 3]) -> Result<(), IndexError> {
    let [graph, copies, description] = paths;
    // Asked before writing: nodes that are added after this may not be found, and may or may not be part of the save.
    let checked = index.is_checked();
    let (count, key_bound) = index.write_to(graph, copies)?;
    sync(graph)?;
    sync(copies)?;
    let parameters = index.parameters();
    let described = Description {
        format: FORMAT,
        origin: origin.to_owned(),
        sequence: sequence.0,
        count,
        dimension: parameters.dimension,
        metric: parameters.metric.name().to_owned(),
        quantization: parameters.quantization.name().to_owned(),
        m: parameters.hnsw.m,
        ef_construction: parameters.hnsw.ef_construction,
        graph: FileSum::of(graph)?,
        copies: FileSum::of(copies)?,
        checked,
        key_bound,
        description_crc32: 0,
    };
    described.write(description)?;
    sync(description)
}

fn length(path: &Path) -> Result<u64, IndexError> {
    Ok(regular_file(path)?.len())
}

/// Refuses anything but a regular file or a link to one, because opening a FIFO can wait forever.
fn regular_file(path: &Path) -> Result<Metadata, IndexError> {
    let metadata = std::fs::metadata(path).map_err(file_error(path))?;
    if metadata.is_file() { Ok(metadata) } else { Err(IndexError::NotRegular { path: path.to_owned() }) }
}

fn crc32_file(path: &Path) -> Result<u32, IndexError> {
    let mut file = File::open(path).map_err(file_error(path))?;
    let mut hash = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(file_error(path))? {
            0 => return Ok(hash.finalize()),
            n => hash.update(&buffer[..n]),
        }
    }
}

/// Makes a file's content, or a folder's entries, survive a power loss.
fn sync(path: &Path) -> Result<(), IndexError> {
    crate::disk::sync(path).map_err(file_error(path))
}

fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> IndexError {
    let path = path.to_owned();
    move |source| match source.kind() {
        std::io::ErrorKind::NotFound => IndexError::Missing { path },
        _ => IndexError::File { path, source },
    }
}

fn json_error(path: &Path) -> impl FnOnce(serde_json::Error) -> IndexError {
    let path = path.to_owned();
    move |source| IndexError::Description { path, source }
}

#[cfg(test)]
mod tests;
