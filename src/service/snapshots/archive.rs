//! Writes and reads the archives of snapshots: tar files compressed with Zstandard. An archive has `catalog.sqlite` with the
//! rows of the collections, and with aliases and classifiers if it is of the whole server. It has each collection's database as
//! `collections/<id>.sqlite`. Its last entry is `manifest.json`, with the length and SHA-256 of each file.
//!
//! An archive is read once, front to back. Its content is only trusted after the end has been reached and everything matches
//! the manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::compression::bounded_decoder;
use crate::domain::{Alias, CollectionName, FileEncoding, SnapshotClassifier, SnapshotCollection, chain, hex};
use crate::service::error::{Error, is_disk_failure};
use crate::service::folders::{AtPath, open_file, open_with_length, sync_dir};
use crate::store::{DatabaseKind, check_head};

/// The format version of an archive with collections only, which all servers can restore.
const FORMAT_COLLECTIONS: u32 = 1;
/// The format version of an archive that also has aliases or classifiers.
const FORMAT_WHOLE: u32 = 2;
const MANIFEST: &str = "manifest.json";
/// The catalog's rows, in an archive.
pub(crate) use crate::service::folders::CATALOG;
/// Maximum bytes of a manifest per collection: about four times what a collection and an alias take.
const MANIFEST_BYTES_EACH: u64 = 2 << 10;
/// Maximum bytes of a manifest with few collections, because it may have 1,000 classifiers, too.
const MANIFEST_BYTES_MIN: u64 = 2 << 20;
/// Zstandard's default level: fast, and for texts and vectors nearly as dense as slower ones.
const COMPRESSION: i32 = 3;
const COPY_BYTES: usize = 256 << 10;
/// Maximum padding after the end of a tar file. Tar files are padded to whole blocks, usually of 10 KiB.
const FILLING_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    format: u32,
    pub(crate) created_at_ms: i64,
    pub(crate) server_version: String,
    pub(crate) collections: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) aliases: Vec<AliasEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) classifiers: Vec<SnapshotClassifier>,
    catalog: FileDigest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AliasEntry {
    pub(crate) name: String,
    pub(crate) collection: String,
}

/// An archive. Also the content of `<id>.json`, which describes a snapshot.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Description {
    /// The length and SHA-256 of the archive itself.
    pub(crate) archive: FileDigest,
    pub(crate) manifest: Manifest,
}

/// A collection of an archive.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) name: String,
    /// The model and its fingerprint. Both are missing if callers send their own vectors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) model_fingerprint: Option<String>,
    pub(crate) documents: u64,
    pub(crate) sequence: u64,
    pub(crate) file: FileDigest,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileDigest {
    pub(crate) bytes: u64,
    pub(crate) sha256: String,
}

impl Manifest {
    pub(crate) fn new(
        created_at_ms: i64,
        collections: Vec<Entry>,
        (aliases, classifiers): (Vec<AliasEntry>, Vec<SnapshotClassifier>),
        catalog: FileDigest,
    ) -> Self {
        let alone = aliases.is_empty() && classifiers.is_empty();
        let format = if alone { FORMAT_COLLECTIONS } else { FORMAT_WHOLE };
        let server_version = env!("CARGO_PKG_VERSION").to_owned();
        Self { format, created_at_ms, server_version, collections, aliases, classifiers, catalog }
    }

    /// Returns the size of all files except the manifest, in bytes.
    pub(crate) fn unpacked_bytes(&self) -> u64 {
        self.collections.iter().fold(self.catalog.bytes, |sum, entry| sum.saturating_add(entry.file.bytes))
    }

    /// Validates a manifest that may come from another server, without looking at the files.
    fn check(&self) -> Result<(), Error> {
        let mut ids = BTreeSet::new();
        let mut names = BTreeSet::new();
        for entry in &self.collections {
            let fits = Uuid::try_parse(&entry.id).is_ok_and(|id| id.to_string() == entry.id);
            if !fits || !ids.insert(entry.id.as_str()) {
                return Err(invalid(format!("has a collection with id {:?}, expected a UUID, each only once", entry.id)));
            }
            if !names.insert(entry.name.as_str()) {
                return Err(invalid(format!("has two collections named {:?}", entry.name)));
            }
        }
        self.parse_collections()?;
        for alias in self.parse_aliases()? {
            let (is_included, is_free) = (names.contains(alias.collection.as_str()), !names.contains(alias.name.as_str()));
            if !is_included || !is_free {
                let (name, collection) = (&alias.name, &alias.collection);
                return Err(invalid(format!(
                    "has an alias {name} of {collection}, expected a free name and one of its collections"
                )));
            }
        }
        let aliases: BTreeSet<_> = self.aliases.iter().map(|alias| &alias.name).collect();
        let classifiers: BTreeSet<_> = self.classifiers.iter().map(|classifier| &classifier.name).collect();
        if aliases.len() < self.aliases.len() || classifiers.len() < self.classifiers.len() {
            return Err(invalid("has two aliases or two classifiers with the same name"));
        }
        Ok(())
    }

    /// Parses the aliases into the form that the API shows.
    pub(crate) fn parse_aliases(&self) -> Result<Vec<Alias>, Error> {
        let bad = |error| invalid(format!("has an invalid name: {error}"));
        let alias = |entry: &AliasEntry| {
            let name = CollectionName::parse(&entry.name).map_err(bad)?;
            Ok(Alias { name, collection: CollectionName::parse(&entry.collection).map_err(bad)? })
        };
        self.aliases.iter().map(alias).collect()
    }

    /// Parses the collections into the form that the API shows.
    pub(crate) fn parse_collections(&self) -> Result<Vec<SnapshotCollection>, Error> {
        let collection = |entry: &Entry| {
            let name = CollectionName::parse(&entry.name).map_err(|error| invalid(format!("has an invalid name: {error}")))?;
            let (model, model_fingerprint) = entry.model.clone().zip(entry.model_fingerprint.clone()).unzip();
            Ok(SnapshotCollection {
                name,
                model,
                model_fingerprint,
                documents: entry.documents,
                sequence: entry.sequence,
                bytes: entry.file.bytes,
                sha256: entry.file.sha256.clone(),
            })
        };
        self.collections.iter().map(collection).collect()
    }
}

/// Makes the error for an archive that cannot be used.
pub(crate) fn invalid(problem: impl Into<String>) -> Error {
    Error::InvalidSnapshot { problem: problem.into() }
}

/// Returns the name of a collection's database in an archive.
pub(crate) fn file_name(id: &str) -> String {
    format!("collections/{id}.sqlite")
}

pub(crate) struct ArchiveWriter {
    path: PathBuf,
    tar: tar::Builder<zstd::stream::write::Encoder<'static, Hashing<BufWriter<File>>>>,
}

impl ArchiveWriter {
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        let open = || {
            let file = Hashing::new(BufWriter::new(File::create(path)?));
            let mut packed = zstd::stream::write::Encoder::new(file, COMPRESSION)?;
            packed.include_checksum(true)?;
            Ok(tar::Builder::new(packed))
        };
        let tar = open().at(path)?;
        Ok(Self { path: path.to_owned(), tar })
    }

    pub(crate) fn add(&mut self, name: &str, file: &Path) -> Result<FileDigest, Error> {
        let mut add = || {
            let (source, bytes) = open_with_length(file)?;
            let mut source = Hashing::new(BufReader::with_capacity(COPY_BYTES, source));
            self.tar.append_data(&mut header(bytes), name, &mut source)?;
            Ok(FileDigest { bytes, sha256: source.sha256() })
        };
        add().at(&self.path)
    }

    /// Writes the manifest and makes the archive durable. Returns the archive's own length and SHA-256.
    pub(crate) fn finish(mut self, manifest: &Manifest) -> Result<FileDigest, Error> {
        let path = self.path.clone();
        let finish = || {
            let json = serde_json::to_vec_pretty(manifest)?;
            self.tar.append_data(&mut header(json.len() as u64), MANIFEST, &json[..])?;
            let written = self.tar.into_inner()?.finish()?;
            let (bytes, sha256) = (written.bytes, written.sha256());
            let file = written.inner.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
            path.parent().map_or(Ok(()), sync_dir)?;
            Ok(FileDigest { bytes, sha256 })
        };
        finish().at(&self.path)
    }
}

/// Opens an archive, which may have been removed by hand.
pub(crate) fn open_archive(path: &Path) -> Result<File, Error> {
    open_file(path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => invalid("is missing; delete the snapshot, and upload a copy of the archive if there is one"),
        _ => Error::File { path: path.to_owned(), source },
    })
}

fn header(bytes: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o644);
    header
}

/// Limits for reading an archive. File names are held in memory, so their number is limited, too.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ArchiveBounds {
    /// Maximum size of all decompressed files, in bytes.
    pub(crate) bytes_max: u64,
    pub(crate) collections_max: usize,
}

impl ArchiveBounds {
    /// Refuses more files than the catalog, the manifest and the databases of collections.
    fn check_entries(&self, entries: usize) -> Result<(), Error> {
        let Self { collections_max, .. } = *self;
        if entries > collections_max.saturating_add(2) {
            return Err(invalid(format!("has more files than {collections_max} collections need, the maximum of this server")));
        }
        Ok(())
    }

    fn manifest_bytes_max(&self) -> u64 {
        MANIFEST_BYTES_EACH.saturating_mul(self.collections_max as u64).max(MANIFEST_BYTES_MIN)
    }
}

/// Makes the error for an archive that cannot be read to its end. A failing disk does not mean that the archive is damaged.
fn broken(source: io::Error) -> Error {
    if is_disk_failure(&source) {
        return Error::File { path: "the archive of a snapshot".into(), source };
    }
    invalid(format!("is damaged: {source}"))
}

/// Reads an archive to its end and checks everything. `path_of` returns the path to write a file of this name to, or `None` to
/// skip it. Written files are durable, but must not be trusted before this has succeeded. `on_progress` receives the number of
/// bytes read so far from time to time; an error from it ends the reading.
pub(crate) fn unpack(
    archive: &File,
    bounds: ArchiveBounds,
    path_of: impl Fn(&str) -> Option<PathBuf>,
    mut on_progress: impl FnMut(u64) -> Result<(), Error>,
) -> Result<Description, Error> {
    let mut packed = Hashing::new(BufReader::with_capacity(COPY_BYTES, archive));
    let mut sums: BTreeMap<String, FileDigest> = BTreeMap::new();
    let mut manifest: Option<Manifest> = None;
    {
        let unpacked = bounded_decoder(FileEncoding::Zstd, &mut packed).map_err(broken)?;
        let mut tar = tar::Archive::new(unpacked);
        let (mut read, mut done) = (0_u64, 0_u64);
        // Reads raw entries. Otherwise extended names and attributes of any length would be read into memory.
        for (before, entry) in tar.entries().map_err(broken)?.raw(true).enumerate() {
            let mut entry = entry.map_err(broken)?;
            bounds.check_entries(before + 1)?;
            let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
            if !entry.header().entry_type().is_file() {
                return Err(invalid(format!("contains {name:?}, which is not a regular file")));
            }
            let bytes = entry.size();
            read = read.saturating_add(bytes);
            if read > bounds.bytes_max {
                return Err(Error::FileTooLarge { limit: bounds.bytes_max });
            }
            if name == MANIFEST {
                if manifest.replace(read_manifest(&mut entry, bytes, bounds.manifest_bytes_max())?).is_some() {
                    return Err(invalid(format!("contains {MANIFEST} twice")));
                }
                continue;
            }
            let kind =
                kind_of(&name).ok_or_else(|| invalid(format!("contains {name:?}, which does not belong in a snapshot")))?;
            let path = path_of(&name);
            let sum = copy_database(&mut entry, (kind, &name), path.as_deref(), |copied| on_progress(done + copied))?;
            done += sum.bytes;
            if sums.insert(name.clone(), sum).is_some() {
                return Err(invalid(format!("contains {name} twice")));
            }
        }
        // The compressed stream ends with its checksum.
        let filling = io::copy(&mut tar.into_inner().take(FILLING_BYTES_MAX + 1), &mut io::sink()).map_err(broken)?;
        if filling > FILLING_BYTES_MAX {
            return Err(invalid("continues after its end"));
        }
    }
    io::copy(&mut packed, &mut io::sink()).map_err(broken)?;
    let manifest = manifest.ok_or_else(|| invalid("has no manifest, so it is incomplete"))?;
    manifest.check()?;
    check_sums(&manifest, &sums)?;
    Ok(Description { archive: FileDigest { bytes: packed.bytes, sha256: packed.sha256() }, manifest })
}

fn read_manifest(entry: &mut impl Read, bytes: u64, bytes_max: u64) -> Result<Manifest, Error> {
    /// Only the version, so that nothing else is parsed before it is known.
    #[derive(Deserialize)]
    struct Version {
        format: u64,
    }
    if bytes > bytes_max {
        return Err(invalid(format!("has a manifest of {bytes} bytes, but at most {bytes_max} are allowed")));
    }
    let mut json = Vec::new();
    entry.read_to_end(&mut json).map_err(broken)?;
    match serde_json::from_slice::<Version>(&json).map(|version| version.format) {
        Ok(version) if (u64::from(FORMAT_COLLECTIONS)..=u64::from(FORMAT_WHOLE)).contains(&version) => {
            serde_json::from_slice(&json).map_err(|error| invalid(format!("has a damaged manifest: {error}")))
        }
        Ok(version) => Err(invalid(format!("has version {version}, but this server knows versions up to {FORMAT_WHOLE}"))),
        Err(_) => Err(invalid("has a manifest without a version")),
    }
}

fn kind_of(name: &str) -> Option<DatabaseKind> {
    let id = name.strip_prefix("collections/").and_then(|rest| rest.strip_suffix(".sqlite"));
    match id {
        Some(id) => Uuid::try_parse(id).ok().map(|_| DatabaseKind::Collection),
        None => (name == CATALOG).then_some(DatabaseKind::Catalog),
    }
}

/// Reads a database of an archive to its end, into a new file at `path` if it is wanted.
fn copy_database(
    entry: &mut impl Read,
    (kind, name): (DatabaseKind, &str),
    path: Option<&Path>,
    mut on_progress: impl FnMut(u64) -> Result<(), Error>,
) -> Result<FileDigest, Error> {
    let mut file = path.map(|path| File::create_new(path).at(path)).transpose()?;
    let path = path.unwrap_or(Path::new(""));
    let mut entry = Hashing::new(entry);
    let mut piece = Vec::with_capacity(COPY_BYTES);
    read_piece(&mut entry, &mut piece)?;
    check_head(kind, &piece)
        .map_err(|error| invalid(format!("contains {name}, which this server cannot use: {}", chain(&error))))?;
    while !piece.is_empty() {
        on_progress(entry.bytes)?;
        if let Some(file) = &mut file {
            file.write_all(&piece).at(path)?;
        }
        read_piece(&mut entry, &mut piece)?;
    }
    if let Some(file) = file {
        file.sync_all().at(path)?;
    }
    Ok(FileDigest { bytes: entry.bytes, sha256: entry.sha256() })
}

/// Reads the next piece of an entry, which is empty at the end. Only the last one is shorter than the others.
fn read_piece(entry: &mut impl Read, piece: &mut Vec<u8>) -> Result<(), Error> {
    piece.clear();
    let read = entry.take(COPY_BYTES as u64).read_to_end(piece);
    read.map(drop).map_err(broken)
}

fn check_sums(manifest: &Manifest, sums: &BTreeMap<String, FileDigest>) -> Result<(), Error> {
    let files = manifest.collections.iter().map(|entry| (file_name(&entry.id), &entry.file));
    let expected: BTreeMap<String, &FileDigest> = files.chain([(CATALOG.to_owned(), &manifest.catalog)]).collect();
    for (name, expected) in &expected {
        match sums.get(name) {
            None => return Err(invalid(format!("lacks {name}"))),
            Some(got) if got != *expected => {
                let (expected, got) = (&expected.sha256, &got.sha256);
                return Err(invalid(format!("is damaged: {name} should have SHA-256 {expected}, but has {got}")));
            }
            Some(_) => (),
        }
    }
    match sums.keys().find(|name| !expected.contains_key(*name)) {
        Some(name) => Err(invalid(format!("contains {name}, which its manifest does not name"))),
        None => Ok(()),
    }
}

/// Counts and hashes the bytes that pass through.
struct Hashing<T> {
    inner: T,
    bytes: u64,
    hash: Sha256,
}

impl<T> Hashing<T> {
    fn new(inner: T) -> Self {
        Self { inner, bytes: 0, hash: Sha256::new() }
    }

    fn sha256(&self) -> String {
        hex(&self.hash.clone().finalize())
    }
}

impl<T: Read> Read for Hashing<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.hash.update(&buffer[..read]);
        self.bytes += read as u64;
        Ok(read)
    }
}

impl<T: Write> Write for Hashing<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(buffer)?;
        self.hash.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Code;

    #[test]
    fn an_archive_on_a_failing_disk_is_not_called_damaged() {
        // Nothing is mapped at the address 0 of a process, so reading it fails as a disk does.
        let archive = File::open("/proc/self/mem").unwrap();
        let bounds = ArchiveBounds { bytes_max: 1 << 20, collections_max: 1 };
        let error = unpack(&archive, bounds, |_| None, |_| Ok(())).unwrap_err();
        assert_eq!(error.code(), Code::StorageUnavailable, "{error:?}");
    }
}
