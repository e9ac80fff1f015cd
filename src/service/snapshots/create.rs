//! Creates a snapshot: copies the collections' databases one after the other, each as of one moment, and compresses them. A
//! snapshot of the whole server also has the aliases and the trained classifiers. It has no keys, because archives leave the
//! server. Writes and searches continue in the meantime. If a collection is deleted in the meantime, a snapshot of the whole
//! server leaves it out, and the job's details name it. After a restart the job removes the partial archive and starts over.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::domain::{
    Collection, CollectionId, CollectionName, ErrorClass, Job, JobId, JobType, JobUnit, Page, Scope, SnapshotClassifier,
    SnapshotId, chain,
};
use crate::new_id::new_uuid;
use crate::service::blocking::blocking;
use crate::service::collections::changing;
use crate::service::error::Error;
use crate::service::folders::{AtPath, ignore_not_found};
use crate::service::jobs::{JobContext, JobError, JobKind, NewJob, new_job_id};
use crate::service::open_collection::OpenCollection;
use crate::service::snapshots::archive::{AliasEntry, ArchiveWriter, CATALOG, Description, Entry, Manifest, file_name, invalid};
use crate::service::state::{Service, State};
use crate::store::system_clock as now_ms;
use crate::store::{Catalog, DatabaseKind, check_foreign};

struct SnapshotBuilder {
    state: Arc<State>,
    id: SnapshotId,
    /// The folder of partial files.
    folder: PathBuf,
    packer: ArchiveWriter,
    entries: Vec<Entry>,
    rows: Vec<Collection>,
    /// Whether the snapshot is of the whole server, with aliases and classifiers.
    is_whole: bool,
    /// Whether it is of what has the names of its collections, rather than of certain collections.
    is_by_name: bool,
}

pub(crate) struct SnapshotJob;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotPlan {
    /// The snapshot's id, fixed before the job begins.
    snapshot: SnapshotId,
    /// Empty for the whole server.
    #[serde(default)]
    collections: Vec<CollectionName>,
    /// The ids of these collections. Empty in jobs of earlier versions, which find the collections by their names.
    #[serde(default)]
    collection_ids: Vec<CollectionId>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct SnapshotDetails {
    snapshot: SnapshotId,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    skipped: Vec<CollectionName>,
}

impl Service {
    /// Accepts a job that copies `collections`, or the whole server if none is named, into a new snapshot.
    pub async fn create_snapshot(&self, collections: Vec<CollectionName>) -> Result<Job, Error> {
        self.create_snapshot_as(new_job_id()?, SnapshotId::parse(&new_uuid().to_string())?, collections).await
    }

    pub(super) async fn create_snapshot_as(
        &self,
        id: JobId,
        snapshot: SnapshotId,
        collections: Vec<CollectionName>,
    ) -> Result<Job, Error> {
        self.check_running()?;
        self.state.check_snapshots()?;
        // Held so that no collection is replaced before the job that names its id is stored, and can be told the new one.
        let _naming = self.state.names_lock.lock().await;
        let (mut names, mut ids) = (Vec::with_capacity(collections.len()), Vec::with_capacity(collections.len()));
        for name in &collections {
            let row = &self.state.collection(name)?.row;
            if !ids.contains(&row.id) {
                names.push(row.name.clone());
                ids.push(row.id.clone());
            }
        }
        let permit = self.job_permit()?;
        let wanted = names.clone();
        let total = self
            .state
            .run(move |state| {
                let found = state.collections_to_snapshot(&wanted)?;
                let bytes = |collection: &Arc<OpenCollection>| Ok(collection.embedded()?.store.bytes());
                let bytes = found.iter().map(bytes).collect::<Result<Vec<u64>, Error>>()?;
                // Room for the archive, which may not compress at all, and for the copy of the largest database.
                let catalog = std::fs::metadata(state.data_dir.join(CATALOG)).map_or(0, |file| file.len());
                let largest = bytes.iter().copied().max().unwrap_or(0).max(catalog);
                let needed = bytes.iter().sum::<u64>().saturating_add(catalog).saturating_add(largest);
                state.check_disk_space(needed)?;
                Ok(found.len() as u64)
            })
            .await?;
        let collection = match &names[..] {
            [only] => Some(only.clone()),
            _ => None,
        };
        let details = SnapshotDetails { snapshot: snapshot.clone(), skipped: Vec::new() };
        let request = SnapshotPlan { snapshot, collections: names, collection_ids: ids };
        self.submit_job::<SnapshotJob>(permit, NewJob { id, collection, request, details, total, folder: None, follows: None })
            .await
    }
}

impl JobKind for SnapshotJob {
    const TYPE: JobType = JobType::Snapshot;
    const SCOPE: Scope = Scope::Admin;
    const UNIT: JobUnit = JobUnit::Collections;
    type Request = SnapshotPlan;
    type Details = SnapshotDetails;

    async fn run(context: &JobContext, plan: SnapshotPlan) -> Result<(), JobError> {
        let (state, live) = (context.state()?, Arc::clone(&context.job));
        if state.describe(&plan.snapshot).is_ok() {
            return Ok(());
        }
        let collections = plan.collections(&state)?;
        context.measure(0, collections.len() as u64);
        let folder = state.snapshot_partial(live.id.as_str());
        let (id, is_whole, builder_state) = (plan.snapshot.clone(), plan.collections.is_empty(), Arc::clone(&state));
        let mut making = blocking(move || SnapshotBuilder::begin(builder_state, &plan, folder)).await?;
        let mut details = SnapshotDetails { snapshot: id, skipped: Vec::new() };
        for (done, collection) in collections.into_iter().enumerate() {
            context.check()?;
            context.progress(done as u64, &details).await?;
            let name = collection.row.name.clone();
            let (with_it, added) = making.add_current(context, &state, collection.reembedded()).await?;
            making = with_it;
            if !added && !is_whole {
                return Err(state.missing_error(&name).into());
            }
            if !added {
                details.skipped.push(name);
            }
            context.progress(done as u64 + 1, &details).await?;
        }
        Ok(blocking(move || making.finish()).await?)
    }

    fn is_done(state: &State, _: &JobId, plan: &SnapshotPlan) -> Result<bool, Error> {
        Ok(state.describe(&plan.snapshot).is_ok())
    }

    fn free_space(state: &State, id: &JobId, _: &SnapshotPlan) {
        state.clean_up_snapshot(id);
    }
}

impl SnapshotPlan {
    /// Returns the collections that the job was accepted for, even if others have their names now.
    fn collections(&self, state: &State) -> Result<Vec<Arc<OpenCollection>>, Error> {
        if self.collection_ids.is_empty() {
            return state.collections_to_snapshot(&self.collections);
        }
        let planned = self.collections.iter().zip(&self.collection_ids);
        planned.map(|(name, id)| state.find_by_id(&id.0).ok_or_else(|| state.missing_error(name))?.usable()).collect()
    }
}

impl SnapshotBuilder {
    fn begin(state: Arc<State>, plan: &SnapshotPlan, folder: PathBuf) -> Result<Self, Error> {
        ignore_not_found(std::fs::remove_dir_all(&folder)).at(&folder)?;
        std::fs::create_dir(&folder).at(&folder)?;
        let packer = ArchiveWriter::create(&folder.join("archive"))?;
        let (is_whole, is_by_name) = (plan.collections.is_empty(), plan.collection_ids.is_empty());
        let (id, entries, rows) = (plan.snapshot.clone(), Vec::new(), Vec::new());
        Ok(Self { state, id, folder, packer, entries, rows, is_whole, is_by_name })
    }

    /// Adds a collection, or what has its name now if the snapshot is by name. Returns `false` if there is none anymore. If a
    /// restore has replaced a certain collection, the job's stored request names the replacement, and the job runs again.
    async fn add_current(
        mut self,
        context: &JobContext,
        state: &State,
        mut collection: Arc<OpenCollection>,
    ) -> Result<(Self, bool), JobError> {
        loop {
            let (watched, source) = (context.clone(), Arc::clone(&collection));
            let added = blocking(move || {
                let added = self.add(&source, move || watched.check().is_err())?;
                Ok((self, added))
            })
            .await;
            // Canceling makes the copy fail. Report such a job as canceled, not as failed.
            context.check()?;
            let (with_it, added) = added?;
            self = with_it;
            let name = &collection.row.name;
            match state.collection(name) {
                Ok(other) if !added && self.is_by_name && !other.is_deleted() && other.row.name == *name => collection = other,
                _ => return Ok((self, added)),
            }
        }
    }

    /// Adds a collection. Returns `false` if it was deleted, or if a restore replaced it, before it was copied.
    fn add(&mut self, collection: &OpenCollection, stop: impl Fn() -> bool + Send + 'static) -> Result<bool, Error> {
        if collection.is_restored_over() {
            return Ok(false);
        }
        let copy = self.folder.join("copy.sqlite");
        // The copy of an earlier collection may be left, if that collection was deleted or replaced while it was copied.
        ignore_not_found(std::fs::remove_file(&copy)).at(&copy)?;
        let store = &collection.embedded()?.store;
        // A change of both the settings and the metadata indexes is in the snapshot as a whole or not at all.
        let changing = collection.changing.blocking_lock();
        let copied = store.copy_to(&copy, stop).and_then(|copied| Ok((copied, changing::complete(collection.current(), store)?)));
        drop(changing);
        if collection.is_restored_over() {
            return Ok(false);
        }
        let (copied, row) = match copied {
            Err(_) if collection.is_deleted() => return Ok(false),
            copied => copied.map_err(|error| {
                let error = collection.report_damage(error.into());
                // A job shows other failures with their reason, such as a full disk.
                let is_server_failure = error.code().class() == ErrorClass::Server;
                match error {
                    Error::Store(source) if is_server_failure => {
                        Error::NotCopied { collection: collection.row.name.clone(), source: Box::new(source) }
                    }
                    other => other,
                }
            })?,
        };
        // Checks now that the copy can be restored, rather than finding out at a restore.
        check_foreign(DatabaseKind::Collection, &copy).map_err(|error| {
            invalid(format!("would contain collection {} and could not be restored: {}", row.name, chain(&error)))
        })?;
        let file = self.packer.add(&file_name(&row.id.0), &copy)?;
        std::fs::remove_file(&copy).at(&copy)?;
        self.entries.push(Entry {
            id: row.id.0.clone(),
            name: row.name.as_str().to_owned(),
            model: row.model.as_ref().map(|model| model.name.clone()),
            model_fingerprint: row.model.as_ref().map(|model| model.fingerprint.clone()),
            documents: copied.documents,
            sequence: copied.sequence.0,
            file,
        });
        self.rows.push(row);
        Ok(true)
    }

    fn finish(mut self) -> Result<(), Error> {
        let rows = self.folder.join("catalog");
        let catalog = Catalog::open(&rows)?;
        catalog.fill(&self.rows, self.is_whole.then_some(self.state.data_dir.as_path()))?;
        let aliases = catalog
            .aliases()?
            .into_iter()
            .map(|alias| AliasEntry { name: alias.name.as_str().to_owned(), collection: alias.collection.as_str().to_owned() });
        let (aliases, all) = (aliases.collect(), Page { limit: usize::MAX, after: None });
        let classifiers = catalog.classifiers(&all)?.into_iter().map(|row| SnapshotClassifier {
            name: row.record.name,
            model: row.record.model,
            model_fingerprint: row.record.model_fingerprint,
        });
        let classifiers = classifiers.collect();
        // Closing the catalog leaves a single file.
        drop(catalog);
        let catalog = self.packer.add(CATALOG, &rows.join(CATALOG))?;
        let manifest = Manifest::new(now_ms(), self.entries, (aliases, classifiers), catalog);
        let archive = self.packer.finish(&manifest)?;
        match self.state.publish_snapshot(&self.id, &self.folder.join("archive"), &Description { archive, manifest }) {
            // A run before a crash had made it, and the start has described it in the meantime.
            Err(Error::SnapshotExists { .. }) => Ok(()),
            published => published,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{CollectionChange, JobStatus, Limits, MetadataPath, NewCollection, RestoreRequest};
    use crate::embed::Embedder;
    use crate::service::state::Parts;

    fn name(name: &str) -> CollectionName {
        CollectionName::parse(name).unwrap()
    }

    async fn with_collection() -> (tempfile::TempDir, Service, Arc<OpenCollection>) {
        let folder = tempfile::tempdir().unwrap();
        let (data_dir, embedder) = (folder.path().to_owned(), Embedder::fake(64));
        let service = Service::open(Parts { data_dir, embedder, limits: Limits::default(), power_safe: false }).unwrap();
        service.create_collection(NewCollection::new(name("news")), None).await.unwrap();
        let collection = service.state.collection(&name("news")).unwrap();
        (folder, service, collection)
    }

    async fn succeeded(service: &Service, job: Job) {
        let (mut watch, mut last) = (service.watch_job(&job.id).await.unwrap(), job);
        while let Some(job) = watch.next().await.unwrap() {
            last = job;
        }
        assert_eq!(last.status, JobStatus::Succeeded, "{last:?}");
    }

    /// Takes a snapshot, restores it as `copy`, and checks that it has all of a change.
    async fn check_whole(service: &Service, snapshot: Job) {
        let id = SnapshotId::parse(snapshot.details["snapshot"].as_str().unwrap()).unwrap();
        succeeded(service, snapshot).await;
        let request = RestoreRequest { collection: Some(name("news")), rename_to: Some(name("copy")), replace: false };
        succeeded(service, service.restore_snapshot(&id, request).await.unwrap()).await;
        let copy = service.get_collection(&name("copy")).await.unwrap();
        assert_eq!((copy.collection.description, copy.metadata_indexes), (Some("new".to_owned()), paths()));
    }

    fn paths() -> Vec<MetadataPath> {
        vec![MetadataPath::parse("year").unwrap()]
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_snapshot_has_all_of_a_change_that_was_interrupted() {
        let (_folder, service, collection) = with_collection().await;
        let change = CollectionChange { description: Some("new".to_owned()), ..CollectionChange::default() };
        let rest = Some(serde_json::to_string(&change).unwrap());
        collection.embedded().unwrap().store.set_metadata_indexes_of_change(paths(), rest).unwrap();
        check_whole(&service, service.create_snapshot(vec![name("news")]).await.unwrap()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_snapshot_waits_for_a_change() {
        let (folder, service, collection) = with_collection().await;
        let changing = collection.changing.lock().await;
        let snapshot = service.create_snapshot(vec![name("news")]).await.unwrap();
        let partial = service.state.snapshot_partial(snapshot.id.as_str());
        while !partial.join("archive").exists() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        collection.store.set_metadata_indexes(paths()).unwrap();
        assert!(!partial.join("copy.sqlite").exists(), "it copies nothing yet");
        let mut row = collection.current();
        row.description = Some("new".to_owned());
        collection.set_current(row);
        drop(changing);
        check_whole(&service, snapshot).await;
        drop(folder);
    }
}
