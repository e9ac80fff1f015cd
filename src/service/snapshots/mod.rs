//! Lists, sends, receives and deletes snapshots. `create` and `restore` have the jobs, `archive` writes and reads the files,
//! and `schedule` makes snapshots at regular intervals.
//!
//! A snapshot is the file `<id>.tar.zst` with a description `<id>.json`. The description is written last and removed first.
//! Without it there is no snapshot. If a start finds an archive without one, it writes it again: an archive has its name only if
//! it is complete. Both files change only under `snapshots_lock`.

pub(super) mod archive;
pub(super) mod create;
pub(super) mod restore;
pub mod schedule;
mod schedule_meter;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::Stream;

use super::classifiers::ClassifierError;
use super::error::Error;
use super::folders::{
    AtPath, SNAPSHOTS_DIR, create_dir_durably, ignore_not_found, is_at_path, read_file, rename_durably, replace_durably,
    sync_dir, write_durably,
};
use super::state::{Service, State};
use super::upload_receiver::{UploadBounds, receive};
use crate::domain::{Alias, ClassifierName, CollectionName, FileEncoding, JobId, Page, Snapshot, SnapshotId, with_causes};
use crate::new_id::new_uuid;
use crate::service::open_collection::OpenCollection;
use crate::store::Catalog;
use archive::{ArchiveBounds, Description, invalid, open_archive, unpack};
pub use schedule_meter::ScheduleMeter;

const ARCHIVE: &str = ".tar.zst";
const DESCRIPTION: &str = ".json";
/// Number of collections in the listed snapshots after which a page ends early.
const COLLECTIONS_LISTED: usize = 10_000;
const PARTIAL: &str = ".partial";
const DESCRIPTION_PARTIAL: &str = ".description.partial";

impl Service {
    /// Lists snapshots, newest first. Also returns the last id on the page if there is a next page. A page ends early if its
    /// snapshots have many collections. Leaves out snapshots whose descriptions are damaged or cannot be read, and logs them;
    /// fails if no description can be read, because the disk is then failing.
    pub async fn list_snapshots(&self, page: Page<SnapshotId>) -> Result<(Vec<Snapshot>, Option<SnapshotId>), Error> {
        self.state
            .run(move |state| {
                let mut ids = state.snapshot_ids()?;
                ids.sort_unstable_by(|a, b| b.cmp(a));
                ids.retain(|id| page.after.as_ref().is_none_or(|after| id < after));
                let (mut left, mut next) = (ids.len(), None);
                let (mut found, mut collections, mut unreadable) = (Vec::new(), 0, None);
                let described = |id: &SnapshotId| snapshot_info(id.clone(), &state.describe(id)?);
                for id in ids.into_iter().take(page.limit) {
                    left -= 1;
                    match described(&id) {
                        Ok(snapshot) => {
                            collections += snapshot.collections.len();
                            found.push(snapshot);
                        }
                        // It was deleted in the meantime.
                        Err(Error::SnapshotNotFound { .. }) => (),
                        Err(error @ (Error::InvalidSnapshot { .. } | Error::File { .. })) => {
                            tracing::warn!(snapshot = %id, error = with_causes(&error), "a snapshot is left out of the list");
                            unreadable = Some(error).filter(|error| matches!(error, Error::File { .. })).or(unreadable);
                        }
                        Err(error) => return Err(error),
                    }
                    next = (left > 0).then_some(id);
                    if collections >= COLLECTIONS_LISTED {
                        break;
                    }
                }
                match unreadable {
                    Some(error) if found.is_empty() && next.is_none() && page.after.is_none() => Err(error),
                    _ => Ok((found, next)),
                }
            })
            .await
    }

    pub async fn get_snapshot(&self, id: &SnapshotId) -> Result<Snapshot, Error> {
        let id = id.clone();
        self.state
            .run(move |state| {
                let description = state.describe(&id)?;
                snapshot_info(id, &description)
            })
            .await
    }

    /// Opens a snapshot's archive for sending, and returns its length. It can be read to the end even if the snapshot is
    /// deleted in the meantime.
    pub async fn open_snapshot(&self, id: &SnapshotId) -> Result<(File, u64), Error> {
        let id = id.clone();
        self.state
            .run(move |state| {
                let _unchanged = state.snapshots_lock.lock();
                let description = state.describe(&id)?;
                Ok((open_archive(&state.snapshot_archive(&id))?, description.archive.bytes))
            })
            .await
    }

    /// Deletes a snapshot, or what is left of one: an archive without a description would be listed again.
    pub async fn delete_snapshot(&self, id: &SnapshotId) -> Result<(), Error> {
        self.check_running()?;
        let id = id.clone();
        self.state
            .run(move |state| {
                let _changing = state.snapshots_lock.lock();
                state.check_directory()?;
                let mut found = false;
                for path in [state.snapshot_file(&id, DESCRIPTION), state.snapshot_archive(&id)] {
                    if ignore_not_found(std::fs::remove_file(&path)).at(&path)? {
                        state.sync_snapshots()?;
                        found = true;
                    }
                }
                if found { Ok(()) } else { Err(Error::SnapshotNotFound { id }) }
            })
            .await
    }

    /// Receives an archive from this or another server, and checks all of it. After an error, nothing of it remains.
    pub async fn receive_snapshot<B, E, S>(&self, id: &SnapshotId, announced: Option<u64>, body: S) -> Result<Snapshot, Error>
    where
        B: AsRef<[u8]> + Send + 'static,
        S: Stream<Item = Result<B, E>> + Unpin,
    {
        self.check_running()?;
        self.state.check_directory_seen()?;
        self.state.check_snapshots()?;
        let upload = self.state.uploads.begin()?;
        let limits = self.limits();
        let bounds = UploadBounds::new(limits);
        self.state.check_disk_space(announced.unwrap_or(0))?;
        self.state.check_snapshot_is_new(id)?;
        // Uses a unique name, because the same snapshot may be uploaded twice at once.
        let partial = self.state.snapshots_dir().join(format!("{}{PARTIAL}", new_uuid()));
        receive(body, FileEncoding::Identity, partial.clone(), (bounds, &upload)).await?;
        let id = id.clone();
        self.state
            .run(move |state| {
                let publish = || {
                    let (description, snapshot) = state.check_archive(&id, &open_archive(&partial)?)?;
                    state.check_directory()?;
                    state.publish_snapshot(&id, &partial, &description)?;
                    Ok(snapshot)
                };
                let published = publish();
                if published.is_err() {
                    let _ = std::fs::remove_file(&partial);
                }
                published
            })
            .await
    }

    /// Creates the folder of the snapshots and removes partial files. In the background, writes missing descriptions again.
    pub(crate) fn prepare_snapshots(&self) -> Result<(), Error> {
        let folder = self.state.snapshots_dir();
        create_dir_durably(&folder).at(&folder)?;
        let mut undescribed = Vec::new();
        for entry in std::fs::read_dir(&folder).at(&folder)? {
            let path = entry.at(&folder)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let id = |end: &str| name.strip_suffix(end).and_then(|id| SnapshotId::parse(id).ok());
            if id(PARTIAL).or_else(|| id(DESCRIPTION_PARTIAL)).is_some() {
                tracing::info!(path = %path.display(), "removing an incomplete snapshot");
                let removed = if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
                removed.at(&folder)?;
            }
            undescribed.extend(id(ARCHIVE).filter(|id| !self.state.snapshot_file(id, DESCRIPTION).exists()));
        }
        let state = Arc::clone(&self.state);
        self.state.runtime.spawn_blocking(move || undescribed.iter().for_each(|id| state.describe_again(id)));
        Ok(())
    }
}

impl State {
    /// Refuses snapshots if the documents are on a database server.
    pub(crate) fn check_snapshots(&self) -> Result<(), Error> {
        self.embedded_catalog().map(drop)
    }

    pub(crate) fn embedded_catalog(&self) -> Result<&Catalog, Error> {
        self.catalog.embedded().ok_or(Error::OnDatabaseServer {
            operation: "there are no snapshots",
            instead: "back up the database with its own tools, or export collections",
        })
    }

    /// Refuses aliases and classifiers of a snapshot if their names are taken or they exceed the limits. An alias never
    /// replaces a collection.
    pub(crate) fn check_names(&self, aliases: &[Alias], classifiers: &[ClassifierName], replace: bool) -> Result<(), Error> {
        {
            let existing = self.aliases.read();
            let collections = self.collections.read();
            for Alias { name, .. } in aliases {
                if collections.contains_key(name) {
                    return Err(Error::CollectionExists { name: name.clone() });
                }
                if let Some(collection) = existing.get(name).filter(|_| !replace) {
                    return Err(Error::AliasExists { name: name.clone(), collection: collection.clone() });
                }
            }
            let limit = self.limits.collections_max;
            let new = aliases.iter().filter(|alias| !existing.contains_key(&alias.name)).count();
            if new > 0 && existing.len() + new > limit {
                return Err(Error::TooManyAliases { limit });
            }
        }
        let mut new = 0;
        for name in classifiers {
            match self.catalog.classifier(name)? {
                Some(_) if !replace => return Err(classifier_exists(name.clone())),
                Some(_) => (),
                None => new += 1,
            }
        }
        if new > 0 { self.check_classifier_room(new) } else { Ok(()) }
    }

    pub(crate) fn snapshots_dir(&self) -> PathBuf {
        self.data_dir.join(SNAPSHOTS_DIR)
    }

    /// Returns the folder of the partial files of `id`.
    pub(crate) fn snapshot_partial(&self, id: &str) -> PathBuf {
        self.snapshots_dir().join(format!("{id}{PARTIAL}"))
    }

    pub(crate) fn snapshot_archive(&self, id: &SnapshotId) -> PathBuf {
        self.snapshot_file(id, ARCHIVE)
    }

    fn check_snapshot_is_new(&self, id: &SnapshotId) -> Result<(), Error> {
        match self.snapshot_file(id, DESCRIPTION).exists() {
            true => Err(Error::SnapshotExists { id: id.clone() }),
            false => Ok(()),
        }
    }

    fn snapshot_file(&self, id: &SnapshotId, end: &str) -> PathBuf {
        self.snapshots_dir().join(format!("{id}{end}"))
    }

    pub(crate) fn describe(&self, id: &SnapshotId) -> Result<Description, Error> {
        let path = self.snapshot_file(id, DESCRIPTION);
        match read_file(&path) {
            Ok(json) => {
                let damaged = |error| invalid(format!("{id} has a damaged description: {error}"));
                serde_json::from_slice(&json).map_err(damaged)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Error::SnapshotNotFound { id: id.clone() }),
            Err(source) => Err(Error::File { path, source }),
        }
    }

    /// Turns a durable archive into a snapshot by writing its description. Fails if there is a snapshot with this id. Blocks.
    pub(crate) fn publish_snapshot(&self, id: &SnapshotId, archive: &Path, description: &Description) -> Result<(), Error> {
        let _changing = self.snapshots_lock.lock();
        self.check_snapshot_is_new(id)?;
        let (path, new) = (self.snapshot_file(id, DESCRIPTION), archive.with_extension("description.partial"));
        let publish = || {
            write_durably(&new, &serde_json::to_vec_pretty(description)?)?;
            // Durable first: a power loss that keeps only the description would leave a snapshot without data.
            rename_durably(archive, &self.snapshot_archive(id))?;
            rename_durably(&new, &path)
        };
        publish().at(&path)
    }

    /// Reads an archive to its end, checks all of it, and returns its description. Blocks.
    fn check_archive(&self, id: &SnapshotId, archive: &File) -> Result<(Description, Snapshot), Error> {
        let bytes_max = UploadBounds::new(&self.limits).bytes_max;
        let bounds = ArchiveBounds { bytes_max, collections_max: self.limits.collections_max };
        let description = unpack(archive, bounds, |_| None, |_| self.check_running())?;
        let snapshot = snapshot_info(id.clone(), &description)?;
        Ok((description, snapshot))
    }

    /// Writes the description of an archive that has lost it, or that a crash left without one. Blocks.
    fn describe_again(&self, id: &SnapshotId) {
        let path = self.snapshot_archive(id);
        let written = || {
            // Stays open, so that no other file can have its identity.
            let archive = open_archive(&path)?;
            let (description, _) = self.check_archive(id, &archive)?;
            self.add_description(id, &archive, &description)
        };
        match written() {
            Ok(false) | Err(Error::Stopping) => (),
            Ok(true) => tracing::warn!(path = %path.display(), "the description of a snapshot was missing and is written again"),
            Err(error) => tracing::warn!(
                path = %path.display(),
                error = with_causes(&error),
                "a snapshot has no description, so it is not listed, and its archive cannot be described; the archive stays",
            ),
        }
    }

    /// Writes the description of an archive, unless the archive was deleted or replaced since it was opened. Returns whether it
    /// did.
    fn add_description(&self, id: &SnapshotId, archive: &File, description: &Description) -> Result<bool, Error> {
        let _changing = self.snapshots_lock.lock();
        let is_current = matches!(is_at_path(archive, &self.snapshot_archive(id)), Ok(true));
        if !is_current || self.check_snapshot_is_new(id).is_err() {
            return Ok(false);
        }
        // The process that named the archive may have been killed before the name was durable.
        self.sync_snapshots()?;
        let (new, described) = (self.snapshot_file(id, DESCRIPTION_PARTIAL), self.snapshot_file(id, DESCRIPTION));
        let json = serde_json::to_vec_pretty(description).map_err(std::io::Error::from);
        json.and_then(|json| replace_durably(&new, &described, &json)).at(&described)?;
        Ok(true)
    }

    /// Returns the collections for a snapshot: the named ones, or all. Fails if one of them cannot be opened, even for all
    /// collections, because a snapshot must not seem complete without its data.
    pub(crate) fn collections_to_snapshot(&self, names: &[CollectionName]) -> Result<Vec<Arc<OpenCollection>>, Error> {
        if !names.is_empty() {
            return names.iter().map(|name| self.collection(name)).collect();
        }
        self.collections.read().values().map(|entry| entry.clone().usable()).collect()
    }

    pub(crate) fn clean_up_snapshot(&self, job: &JobId) {
        let partial = self.snapshot_partial(job.as_str());
        let _ = std::fs::remove_dir_all(partial);
    }

    fn snapshot_ids(&self) -> Result<Vec<SnapshotId>, Error> {
        let folder = self.snapshots_dir();
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&folder).at(&folder)? {
            let name = entry.at(&folder)?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(DESCRIPTION));
            ids.extend(id.and_then(|id| SnapshotId::parse(id).ok()));
        }
        Ok(ids)
    }

    /// Makes changes of the folder's entries durable.
    fn sync_snapshots(&self) -> Result<(), Error> {
        let folder = self.snapshots_dir();
        sync_dir(&folder).at(&folder)
    }
}

pub(crate) fn classifier_exists(name: ClassifierName) -> Error {
    ClassifierError::Exists { name }.into()
}

fn snapshot_info(id: SnapshotId, description: &Description) -> Result<Snapshot, Error> {
    let Description { archive, manifest } = description;
    Ok(Snapshot {
        id,
        created_at_ms: manifest.created_at_ms,
        server_version: manifest.server_version.clone(),
        collections: manifest.parse_collections()?,
        aliases: manifest.parse_aliases()?,
        classifiers: manifest.classifiers.clone(),
        archive_bytes: archive.bytes,
        archive_sha256: archive.sha256.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Limits;
    use crate::embed::Embedder;
    use crate::service::state::Parts;
    use archive::{FileDigest, Manifest};

    fn service() -> (tempfile::TempDir, Service, SnapshotId) {
        let folder = tempfile::tempdir().unwrap();
        let (data_dir, embedder) = (folder.path().to_owned(), Embedder::fake(8));
        let service = Service::open(Parts { data_dir, embedder, limits: Limits::default(), power_safe: false }).unwrap();
        (folder, service, SnapshotId::parse(&new_uuid().to_string()).unwrap())
    }

    /// Describes an archive with this content, without looking at it.
    fn description_of(content: &str) -> Description {
        let digest = FileDigest { bytes: content.len() as u64, sha256: content.to_owned() };
        let manifest = Manifest::new(0, Vec::new(), (Vec::new(), Vec::new()), digest.clone());
        Description { archive: digest, manifest }
    }

    #[tokio::test]
    async fn of_two_uploads_with_one_id_the_second_is_refused_as_a_whole() {
        let (_folder, service, id) = service();
        let publish = |content: &str| {
            let partial = service.state.snapshot_partial(content);
            std::fs::write(&partial, content).unwrap();
            service.state.publish_snapshot(&id, &partial, &description_of(content))
        };
        publish("first").unwrap();
        assert!(matches!(publish("second"), Err(Error::SnapshotExists { .. })));
        let archive = std::fs::read_to_string(service.state.snapshot_archive(&id)).unwrap();
        assert_eq!((archive.as_str(), service.state.describe(&id).unwrap().archive.sha256.as_str()), ("first", "first"));
    }

    #[tokio::test]
    async fn an_archive_that_is_deleted_or_replaced_while_it_is_read_gets_no_description() {
        let (_folder, service, id) = service();
        let path = service.state.snapshot_archive(&id);
        std::fs::write(&path, "read").unwrap();
        let (read, description) = (open_archive(&path).unwrap(), description_of("read"));
        let describe = || service.state.add_description(&id, &read, &description).unwrap();
        service.delete_snapshot(&id).await.unwrap();
        assert!(!describe(), "it is deleted");
        std::fs::write(&path, "uploaded").unwrap();
        assert!(!describe(), "it is replaced");
        assert!(matches!(service.state.describe(&id), Err(Error::SnapshotNotFound { .. })));
    }
}
