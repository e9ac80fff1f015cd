//! Snapshot archives that are unpacked, changed and repacked in ways that no server would, for tests of untrusted archives.

use std::io::Read as _;

use rusqlite::Connection;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

/// The entries of an archive, in order.
#[derive(Clone)]
pub struct Parts(pub Vec<Part>);

/// An entry.
#[derive(Clone)]
pub struct Part {
    pub name: String,
    pub kind: EntryType,
    pub bytes: Vec<u8>,
    /// The size in the header, if it differs from the number of bytes.
    pub declared: Option<u64>,
}

/// Unpacks an archive.
pub fn parts(archive: &[u8]) -> Parts {
    let mut tar = tar::Archive::new(zstd::stream::read::Decoder::new(archive).expect("zstd"));
    let part = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.expect("an entry");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("its bytes");
        Part::file(&entry.path().expect("a path").to_string_lossy(), bytes)
    };
    Parts(tar.entries().expect("entries").map(part).collect())
}

/// Opens a database from its bytes, runs `work` on it, and returns its new bytes.
pub fn sqlite(bytes: &[u8], work: impl FnOnce(&Connection)) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("database");
    std::fs::write(&path, bytes).expect("written");
    let connection = Connection::open(&path).expect("a database");
    work(&connection);
    connection.close().expect("closed");
    std::fs::read(&path).expect("read")
}

impl Part {
    pub fn file(name: &str, bytes: Vec<u8>) -> Self {
        Self { name: name.to_owned(), kind: EntryType::Regular, bytes, declared: None }
    }
}

impl Parts {
    pub fn bytes(&self, name: &str) -> &[u8] {
        &self.0.iter().find(|part| part.name == name).expect("an entry").bytes
    }

    /// The name of the first collection's database.
    pub fn database(&self) -> String {
        self.0.iter().find(|part| part.name.starts_with("collections/")).expect("a collection").name.clone()
    }

    pub fn manifest(&self) -> Value {
        serde_json::from_slice(self.bytes("manifest.json")).expect("JSON")
    }

    /// Replaces the bytes of an entry, and updates its checksum in the manifest.
    pub fn with(mut self, name: &str, bytes: Vec<u8>) -> Self {
        let sum = json!({"bytes": bytes.len(), "sha256": sha256(&bytes)});
        self.0.iter_mut().filter(|part| part.name == name).for_each(|part| part.bytes = bytes.clone());
        let name = name.to_owned();
        self.with_manifest(move |manifest| {
            if name == "catalog.sqlite" {
                manifest["catalog"] = sum;
                return;
            }
            for entry in manifest["collections"].as_array_mut().expect("collections") {
                if name == format!("collections/{}.sqlite", entry["id"].as_str().expect("an id")) {
                    entry["file"] = sum.clone();
                }
            }
        })
    }

    /// Runs statements in a database.
    pub fn with_sql(self, name: &str, sql: &str) -> Self {
        let changed = sqlite(self.bytes(name), |database| database.execute_batch(sql).expect(sql));
        self.with(name, changed)
    }

    /// Changes the manifest.
    pub fn with_manifest(mut self, change: impl FnOnce(&mut Value)) -> Self {
        let mut manifest = self.manifest();
        change(&mut manifest);
        let bytes = manifest.to_string().into_bytes();
        self.0.iter_mut().filter(|part| part.name == "manifest.json").for_each(|part| part.bytes = bytes.clone());
        self
    }

    /// Inserts an entry at the beginning.
    pub fn with_first(mut self, part: Part) -> Self {
        self.0.insert(0, part);
        self
    }

    /// Packs the archive, with extra bytes after the end of the tar file.
    pub fn pack(&self, behind: usize) -> Vec<u8> {
        let mut tar = Vec::new();
        for part in &self.0 {
            let mut header = Header::new_gnu();
            // Set directly, because `Header`'s methods reject the names that a test needs.
            let name = part.name.as_bytes();
            header.as_mut_bytes()[..name.len()].copy_from_slice(name);
            header.set_entry_type(part.kind);
            header.set_mode(0o644);
            header.set_size(part.declared.unwrap_or(part.bytes.len() as u64));
            if matches!(part.kind, EntryType::Symlink | EntryType::Link) {
                header.set_link_name("/etc/passwd").expect("a link");
            }
            header.set_cksum();
            tar.extend_from_slice(header.as_bytes());
            tar.extend_from_slice(&part.bytes);
            tar.resize(tar.len().next_multiple_of(512), 0);
        }
        tar.resize(tar.len() + 1_024 + behind, 0);
        zstd::encode_all(&tar[..], 1).expect("zstd")
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
