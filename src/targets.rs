//! Targets of scheduled snapshots: a folder, or a prefix in a bucket of S3 or an S3-compatible store.
//!
//! A snapshot at a target is the archive `<id>.tar.zst` and its description `<id>.json`. The description is written last and
//! deleted first: an archive without it is not a snapshot. Each server must have its own folder or prefix to write to, but
//! several may read from one.

use std::fs::File;
use std::io::{self, Read as _, Write};
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt as _;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt as _, PutPayload, RetryConfig, WriteMultipart};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::disk::{create_folder, sync};
use crate::domain::timestamps::rfc3339;
use crate::domain::{SnapshotId, hex, with_causes};

const ARCHIVE: &str = ".tar.zst";
const DESCRIPTION: &str = ".json";
const S3: &str = "s3://";
/// Mode of a folder that the server creates: snapshots contain all users' texts.
const FOLDER_MODE: u32 = 0o700;
/// Name of the object that is written and deleted to check write access.
const PROBE: &str = "dragoman.probe";
/// Format version of descriptions.
const FORMAT: u32 = 1;
/// Minimum size of an upload part.
const PART_BYTES: u64 = 8 << 20;
/// S3's maximum number of parts per object.
const PARTS_MAX: u64 = 10_000;
/// Maximum number of parts to upload concurrently.
const CONCURRENT_PARTS: usize = 2;
/// Timeouts of a request to a bucket and of connecting, and the time after which a failed request is not retried. A schedule
/// tries again later.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const RETRY_TIMEOUT: Duration = Duration::from_secs(20);

/// An error of an operation on a target.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    #[error("{0}")]
    Invalid(String),
    #[error("cannot {operation} {target}")]
    Store { operation: &'static str, target: String, source: object_store::Error },
    /// A local file cannot be read or written.
    #[error("cannot {operation}")]
    File { operation: String, source: io::Error },
    #[error("{name} has {problem}")]
    Damaged { name: String, problem: String },
    #[error("there is no snapshot {id} in {target}")]
    NotFound { id: String, target: String },
}

/// The description of a snapshot at a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSnapshot {
    format: u32,
    pub snapshot: SnapshotId,
    /// Creation time, in milliseconds since the Unix epoch. At the target, it is later than that of all snapshots stored before.
    pub created_at_ms: i64,
    /// The version of the server that created it.
    pub server_version: String,
    pub collections: Vec<String>,
    pub archive_bytes: u64,
    /// SHA-256 of its archive, in hexadecimal.
    pub archive_sha256: String,
    /// A fingerprint of the content: equal for two server states with equal content.
    pub fingerprint: String,
}

impl StoredSnapshot {
    /// Describes a snapshot for upload.
    pub fn new(snapshot: &crate::domain::Snapshot, fingerprint: String) -> Self {
        Self {
            format: FORMAT,
            snapshot: snapshot.id.clone(),
            created_at_ms: snapshot.created_at_ms,
            server_version: snapshot.server_version.clone(),
            collections: snapshot.collections.iter().map(|collection| collection.name.as_str().to_owned()).collect(),
            archive_bytes: snapshot.archive_bytes,
            archive_sha256: snapshot.archive_sha256.clone(),
            fingerprint,
        }
    }

    /// Dates a snapshot after `newest`, the newest one at the target. Otherwise, once the clock was set back, pruning would
    /// remove each new snapshot. If it is the newest one itself, an earlier upload was complete, and its time stays.
    pub fn dated_after(mut self, newest: Option<&Self>) -> Self {
        let Some(newest) = newest.filter(|newest| newest.created_at_ms >= self.created_at_ms) else { return self };
        if newest.snapshot == self.snapshot {
            self.created_at_ms = newest.created_at_ms;
        } else {
            let newest_at = rfc3339(newest.created_at_ms);
            tracing::warn!(%newest_at, "the newest snapshot is not older than this one; dating this one later");
            self.created_at_ms = newest.created_at_ms.saturating_add(1);
        }
        self
    }
}

/// What a target has.
#[derive(Debug, Default)]
pub struct Listing {
    /// The complete snapshots, oldest first.
    pub snapshots: Vec<StoredSnapshot>,
    /// Why the descriptions of others cannot be used.
    pub damaged: Vec<TargetError>,
}

/// A folder, or a prefix of a bucket.
#[derive(Debug, Clone)]
pub struct Target {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
    name: String,
    /// Whether it is a local folder, from which reading is cheap.
    is_local: bool,
}

impl Target {
    /// Opens the folder or bucket `name`. `endpoint` is the URL of an S3-compatible store. Sends no requests, but creates a
    /// missing folder. Takes credentials and region from the environment variables that begin with `AWS_`.
    pub fn open(name: &str, endpoint: Option<&str>) -> Result<Self, TargetError> {
        let Some((bucket, prefix)) = parse(name, endpoint)? else { return Self::folder(name) };
        // Fails if the process already has a provider, which is fine.
        let _ = tokio_rustls::rustls::crypto::ring::default_provider().install_default();
        let retry = RetryConfig { backoff: BackoffConfig::default(), max_retries: 3, retry_timeout: RETRY_TIMEOUT };
        let plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
        let options =
            ClientOptions::new().with_timeout(REQUEST_TIMEOUT).with_connect_timeout(CONNECT_TIMEOUT).with_allow_http(plain);
        let mut builder = AmazonS3Builder::from_env()
            .with_bucket_name(bucket)
            .with_checksum_algorithm(Checksum::SHA256)
            // Not all S3-compatible stores support it.
            .with_config(AmazonS3ConfigKey::DisableBulkDelete, "true")
            .with_client_options(options)
            .with_retry(retry);
        if let Some(endpoint) = endpoint {
            builder = builder.with_endpoint(endpoint.trim_end_matches('/'));
        }
        let store = builder.build().map_err(|source| failed("use", name)(source))?;
        Ok(Self { store: Arc::new(store), prefix, name: name.to_owned(), is_local: false })
    }

    /// Opens a folder or bucket to read from. A missing folder is an error.
    pub fn open_existing(name: &str, endpoint: Option<&str>) -> Result<Self, TargetError> {
        let is_folder = parse(name, endpoint)?.is_none();
        if is_folder && !std::path::Path::new(name).is_dir() {
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(TargetError::File { operation: format!("open the folder {name}"), source });
        }
        Self::open(name, endpoint)
    }

    fn folder(name: &str) -> Result<Self, TargetError> {
        create_folder(std::path::Path::new(name), FOLDER_MODE)
            .map_err(|(_, source)| TargetError::File { operation: format!("make the folder {name}"), source })?;
        let store = LocalFileSystem::new_with_prefix(name).map_err(failed("use", name))?.with_fsync(true);
        Ok(Self { store: Arc::new(store), prefix: Path::default(), name: name.to_owned(), is_local: true })
    }

    /// The folder, or the bucket with its prefix.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Checks write access by writing a small object and deleting it.
    pub async fn check_writable(&self) -> Result<(), TargetError> {
        let probe = self.path(PROBE);
        self.remove_unfinished(&probe);
        self.store.put(&probe, PutPayload::from_static(b"probe")).await.map_err(failed("write to", &self.name))?;
        self.store.delete(&probe).await.map_err(failed("remove what was written to", &self.name))
    }

    /// Lists the complete snapshots, oldest first. Ignores other files. Only logs damaged descriptions, so that they do not keep
    /// a server from storing new snapshots.
    pub async fn list(&self) -> Result<Vec<StoredSnapshot>, TargetError> {
        let Listing { snapshots, damaged } = self.list_with_damaged().await?;
        for error in damaged {
            tracing::warn!(target_name = self.name, error = with_causes(&error), "a snapshot at the target is ignored");
        }
        Ok(snapshots)
    }

    /// Like `list`, but returns what is wrong with damaged descriptions.
    pub async fn list_with_damaged(&self) -> Result<Listing, TargetError> {
        let prefix = Some(&self.prefix).filter(|prefix| !prefix.as_ref().is_empty());
        let listing = self.store.list_with_delimiter(prefix).await.map_err(failed("list", &self.name))?;
        let id = |path: &Path| SnapshotId::parse(path.filename()?.strip_suffix(DESCRIPTION)?).ok();
        let mut found = Listing::default();
        for id in listing.objects.iter().filter_map(|object| id(&object.location)) {
            match self.read_description(&id).await {
                Err(damaged @ TargetError::Damaged { .. }) => found.damaged.push(damaged),
                read => found.snapshots.extend(read?),
            }
        }
        found.snapshots.sort_by(|a, b| (a.created_at_ms, &a.snapshot).cmp(&(b.created_at_ms, &b.snapshot)));
        Ok(found)
    }

    /// Reads the description of a snapshot, or of the newest one if `id` is `latest`. Fails for `latest` while a description is
    /// damaged, because that may be the newest one.
    pub async fn find(&self, id: &str) -> Result<StoredSnapshot, TargetError> {
        let found = match id {
            "latest" => {
                let Listing { mut snapshots, mut damaged } = self.list_with_damaged().await?;
                damaged.pop().map_or_else(|| Ok(snapshots.pop()), Err)?
            }
            id => match SnapshotId::parse(id) {
                Ok(id) => self.read_description(&id).await?,
                Err(error) => return Err(TargetError::Invalid(error.to_string())),
            },
        };
        found.ok_or_else(|| TargetError::NotFound { id: id.to_owned(), target: self.name.clone() })
    }

    /// Uploads an archive. It becomes a snapshot once it is complete and verified. The remains of a crash are replaced by the
    /// next upload of this snapshot.
    pub async fn put(&self, about: &StoredSnapshot, archive: File) -> Result<(), TargetError> {
        let (to, description) = (self.archive(&about.snapshot), self.description(&about.snapshot));
        self.remove_unfinished(&to);
        self.remove_unfinished(&description);
        let upload = self.store.put_multipart(&to).await.map_err(failed("write to", &self.name))?;
        let part = PART_BYTES.max(about.archive_bytes.div_ceil(PARTS_MAX - 1));
        let mut upload = WriteMultipart::new_with_chunk_size(upload, usize::try_from(part).unwrap_or(usize::MAX));
        match self.send(about, archive, &mut upload).await {
            Ok(()) => drop(upload.finish().await.map_err(failed("write to", &self.name))?),
            Err(error) => {
                let _ = upload.abort().await;
                return Err(error);
            }
        }
        if let Err(error) = self.verify(about).await {
            let _ = self.delete(&to).await;
            return Err(error);
        }
        let json = serde_json::to_vec_pretty(about).map_err(|error| TargetError::Invalid(error.to_string()))?;
        let described = self.store.put(&description, json.into()).await;
        described.map(drop).map_err(failed("write to", &self.name))
    }

    /// Downloads the archive of a snapshot to `to` and verifies it. Calls `copied` with the number of bytes so far.
    pub async fn fetch(
        &self,
        about: &StoredSnapshot,
        to: &mut impl Write,
        mut copied: impl FnMut(u64),
    ) -> Result<(), TargetError> {
        let from = self.archive(&about.snapshot);
        let got = self.store.get(&from).await.map_err(failed("read", from.as_ref()))?;
        let mut content = got.into_stream();
        let (mut hash, mut bytes) = (Sha256::new(), 0);
        while let Some(piece) = content.try_next().await.map_err(failed("read", from.as_ref()))? {
            to.write_all(&piece).map_err(|source| TargetError::File { operation: "write the archive".to_owned(), source })?;
            hash.update(&piece);
            bytes += piece.len() as u64;
            copied(bytes);
        }
        check_archive(from.as_ref(), about, bytes, &hex(&hash.finalize()))
    }

    /// Keeps the newest `keep` snapshots, at least one, and deletes the others. Deletes nothing if the newest archive is
    /// missing or has the wrong size.
    pub async fn prune(&self, keep: usize) -> Result<(), TargetError> {
        let mut stored = self.list().await?;
        let Some(newest) = stored.last() else { return Ok(()) };
        self.verify_size(newest).await?;
        stored.truncate(stored.len().saturating_sub(keep.max(1)));
        for old in &stored {
            self.delete(&self.description(&old.snapshot)).await?;
            self.delete(&self.archive(&old.snapshot)).await?;
        }
        Ok(())
    }

    /// Removes what a killed server left in a folder of its writes to `path`: files with this name, `#` and a number.
    fn remove_unfinished(&self, path: &Path) {
        let files = if self.is_local { std::fs::read_dir(&self.name).ok() } else { None };
        let unfinished = format!("{}#", path.filename().unwrap_or_default());
        for file in files.into_iter().flatten().flatten() {
            if file.file_name().to_str().is_some_and(|name| name.starts_with(&unfinished)) {
                let _ = std::fs::remove_file(file.path());
            }
        }
    }

    /// Reads the description of a snapshot; `None` if it does not exist.
    async fn read_description(&self, id: &SnapshotId) -> Result<Option<StoredSnapshot>, TargetError> {
        let path = self.description(id);
        let json = match self.store.get(&path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            got => got.map_err(failed("read", path.as_ref()))?.bytes().await.map_err(failed("read", path.as_ref()))?,
        };
        let damaged = |problem: String| TargetError::Damaged { name: path.to_string(), problem };
        let about: StoredSnapshot = serde_json::from_slice(&json).map_err(|error| damaged(format!("invalid JSON: {error}")))?;
        match about.format {
            FORMAT if about.snapshot == *id => Ok(Some(about)),
            FORMAT => Err(damaged(format!("the id {}", about.snapshot))),
            format => Err(damaged(format!("format {format}, but this program knows {FORMAT}"))),
        }
    }

    async fn send(&self, about: &StoredSnapshot, archive: File, upload: &mut WriteMultipart) -> Result<(), TargetError> {
        let read = |source| TargetError::File { operation: "read the archive".to_owned(), source };
        let (mut archive, mut hash, mut bytes) = (archive, Sha256::new(), 0);
        loop {
            let piece = tokio::task::spawn_blocking(move || {
                let mut piece = Vec::new();
                (&mut archive).take(PART_BYTES).read_to_end(&mut piece)?;
                Ok((piece, archive))
            });
            let (piece, rest) = piece.await.map_err(|error| read(io::Error::other(error)))?.map_err(read)?;
            archive = rest;
            if piece.is_empty() {
                return check_archive("the archive to copy", about, bytes, &hex(&hash.finalize()));
            }
            hash.update(&piece);
            bytes += piece.len() as u64;
            upload.wait_for_capacity(CONCURRENT_PARTS).await.map_err(failed("write to", &self.name))?;
            upload.put(piece.into());
        }
    }

    /// Verifies an upload. In a folder, reads all of it back. A bucket has already verified the SHA-256 of each part, so only
    /// the size is checked.
    async fn verify(&self, about: &StoredSnapshot) -> Result<(), TargetError> {
        self.verify_size(about).await?;
        if self.is_local { self.fetch(about, &mut io::sink(), |_| ()).await } else { Ok(()) }
    }

    async fn verify_size(&self, about: &StoredSnapshot) -> Result<(), TargetError> {
        let path = self.archive(&about.snapshot);
        let bytes = self.store.head(&path).await.map_err(failed("look at", path.as_ref()))?.size;
        check_archive(path.as_ref(), about, bytes, &about.archive_sha256)
    }

    async fn delete(&self, path: &Path) -> Result<(), TargetError> {
        match self.store.delete(path).await {
            Err(object_store::Error::NotFound { .. }) => return Ok(()),
            deleted => deleted.map_err(failed("remove", path.as_ref()))?,
        }
        // Unlike writing, deleting from a folder syncs nothing. A power loss must not undo the first of two deletions only.
        let synced = if self.is_local { sync(std::path::Path::new(&self.name)) } else { Ok(()) };
        synced.map_err(|source| TargetError::File { operation: format!("sync the folder {}", self.name), source })
    }

    fn archive(&self, id: &SnapshotId) -> Path {
        self.path(&format!("{id}{ARCHIVE}"))
    }

    fn description(&self, id: &SnapshotId) -> Path {
        self.path(&format!("{id}{DESCRIPTION}"))
    }

    fn path(&self, name: &str) -> Path {
        self.prefix.clone().join(name)
    }
}

/// Parses a bucket and prefix; `None` if `name` is a folder.
pub fn parse<'n>(name: &'n str, endpoint: Option<&str>) -> Result<Option<(&'n str, Path)>, TargetError> {
    let invalid = |problem: String| Err(TargetError::Invalid(problem));
    let Some(location) = name.strip_prefix(S3) else {
        return match endpoint {
            _ if name.is_empty() || name.contains("://") => {
                invalid(format!("must be a folder or s3://BUCKET/PREFIX, got {name:?}"))
            }
            Some(_) => invalid(format!("is a folder, {name:?}, which has no endpoint")),
            None => Ok(None),
        };
    };
    let (bucket, prefix) = location.split_once('/').unwrap_or((location, ""));
    match Path::parse(prefix.trim_end_matches('/')) {
        _ if bucket.is_empty() => invalid(format!("must name a bucket, as s3://BUCKET/PREFIX, got {name:?}")),
        Err(error) => invalid(format!("has an invalid prefix: {error}")),
        Ok(prefix) => Ok(Some((bucket, prefix))),
    }
}

fn failed(operation: &'static str, target: &str) -> impl FnOnce(object_store::Error) -> TargetError {
    let target = target.to_owned();
    move |source| TargetError::Store { operation, target, source }
}

fn check_archive(name: &str, about: &StoredSnapshot, bytes: u64, sha256: &str) -> Result<(), TargetError> {
    let (expected, hash) = (about.archive_bytes, about.archive_sha256.as_str());
    if (bytes, sha256) == (expected, hash) {
        return Ok(());
    }
    let problem = format!("{bytes} bytes with SHA-256 {sha256}, expected {expected} bytes with {hash}");
    Err(TargetError::Damaged { name: name.to_owned(), problem })
}

#[cfg(test)]
mod tests;
