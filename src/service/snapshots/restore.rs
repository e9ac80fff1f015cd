//! Restores a snapshot. Unpacks and checks everything next to the running collections, copies the rows into databases that our
//! own migrations created, and builds the indexes. Then swaps in all new collections in one transaction of the catalog. A crash
//! before that leaves the old state, and folders that the next start removes. A crash after it leaves the new state. A replaced
//! collection stays open for the requests and jobs that read it, and is removed once none does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::settings::{DIMENSION, EF, M};
use crate::domain::{
    Alias, ClassifierName, Collection, CollectionId, CollectionName, Job, JobId, JobType, JobUnit, ModelInfo, RestoreRequest,
    Scope, SnapshotId, chain, with_causes,
};
use crate::index::IndexError;
use crate::new_id::new_uuid;
use crate::service::blocking::blocking;
use crate::service::classifiers::check_restored;
use crate::service::error::Error;
use crate::service::folders::orphaned::{self, DATABASE};
use crate::service::folders::{AtPath, ignore_not_found, sync_dir};
use crate::service::jobs::{JobContext, JobError, JobKind, JobVisibility, NewJob, new_job_id};
use crate::service::open_collection::OpenCollection;
use crate::service::open_collection::repair::recover;
use crate::service::search;
use crate::service::snapshots::archive::{ArchiveBounds, CATALOG, Description, file_name, invalid, open_archive, unpack};
use crate::service::snapshots::classifier_exists;
use crate::service::state::{CollectionEntry, Service, State};
use crate::storage::CatalogPart;
use crate::store::{Catalog, DatabaseKind, Replacement, SnapshotMetadata, StoreError, SwapState, import_foreign};

/// Time between two checks for cancellation while an index is built.
const CHECK_PAUSE: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    /// The name in the snapshot.
    from: CollectionName,
    /// The name here.
    name: CollectionName,
    /// Its new id. It is fixed before the job begins, so that a job that runs again after a crash finds what it has already
    /// done.
    id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClassifierTarget {
    /// The name in the snapshot, and here.
    name: ClassifierName,
    /// Its new id, fixed before the job begins.
    id: String,
}

pub(crate) struct RestoreJob;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RestorePlan {
    snapshot: SnapshotId,
    /// Aliases, each with the name of its collection.
    #[serde(default)]
    aliases: Vec<(CollectionName, CollectionName)>,
    #[serde(default)]
    classifiers: Vec<ClassifierTarget>,
    targets: Vec<Target>,
    /// Whether it replaces what has these names when the job ends, even if that did not exist yet when the job was accepted.
    #[serde(default)]
    replace: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct RestoreDetails {
    snapshot: SnapshotId,
    collections: Vec<CollectionName>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    aliases: Vec<CollectionName>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classifiers: Vec<ClassifierName>,
}

#[derive(Clone)]
struct Restore {
    plan: RestorePlan,
    /// The plan's aliases. There are some only if the whole snapshot is restored.
    aliases: Vec<Alias>,
    /// The folder that the archive is unpacked into.
    folder: PathBuf,
}

impl Service {
    /// Accepts a job that restores a snapshot. Checks what can be checked now. The job checks again.
    pub async fn restore_snapshot(&self, id: &SnapshotId, request: RestoreRequest) -> Result<Job, Error> {
        self.check_running()?;
        self.state.check_snapshots()?;
        let permit = self.job_permit()?;
        let (service, id) = (self.clone(), id.clone());
        let requested = request.clone();
        let (targets, (aliases, classifiers), total, id) = blocking(move || {
            let description = service.state.describe(&id)?;
            drop(open_archive(&service.state.snapshot_archive(&id))?);
            let targets = service.targets(&id, &description, &requested)?;
            let rest = service.state.names_to_restore(&description, &requested)?;
            let total = description.manifest.unpacked_bytes();
            // Room for the archive's databases, for the new ones, and for indexes of about the same size.
            service.state.check_disk_space(total.saturating_mul(3))?;
            Ok((targets, rest, total, id))
        })
        .await?;
        let collection = match &targets[..] {
            [only] => Some(only.name.clone()),
            _ => None,
        };
        let details = RestoreDetails {
            snapshot: id.clone(),
            collections: targets.iter().map(|target| target.name.clone()).collect(),
            aliases: aliases.iter().map(|alias| alias.name.clone()).collect(),
            classifiers: classifiers.clone(),
        };
        let request = RestorePlan {
            snapshot: id,
            aliases: aliases.into_iter().map(|alias| (alias.name, alias.collection)).collect(),
            classifiers: classifiers.into_iter().map(|name| ClassifierTarget { name, id: new_uuid().to_string() }).collect(),
            targets,
            replace: request.replace,
        };
        let new = NewJob { id: new_job_id()?, collection, request, details, total, folder: None, follows: None };
        self.submit_job::<RestoreJob>(permit, new).await
    }

    /// Returns the collections to restore, each with a new id.
    fn targets(&self, id: &SnapshotId, description: &Description, request: &RestoreRequest) -> Result<Vec<Target>, Error> {
        let mut targets = Vec::new();
        for entry in description.manifest.parse_collections()? {
            if request.collection.as_ref().is_some_and(|wanted| *wanted != entry.name) {
                continue;
            }
            let name = request.rename_to.clone().unwrap_or_else(|| entry.name.clone());
            if let Some(collection) = self.state.resolve_alias(&name) {
                return Err(Error::AliasExists { name, collection });
            }
            if !request.replace && !matches!(self.collection(&name), Err(Error::CollectionNotFound { .. })) {
                return Err(Error::CollectionExists { name });
            }
            targets.push(Target { from: entry.name, name, id: new_uuid().to_string() });
        }
        match &request.collection {
            Some(name) if targets.is_empty() => Err(Error::NotInSnapshot { id: id.clone(), name: name.clone() }),
            _ => Ok(targets),
        }
    }
}

impl JobKind for RestoreJob {
    const TYPE: JobType = JobType::Restore;
    const SCOPE: Scope = Scope::Admin;
    const UNIT: JobUnit = JobUnit::Bytes;
    type Request = RestorePlan;
    type Details = RestoreDetails;

    fn visibility(plan: &RestorePlan, collection: Option<&CollectionName>) -> JobVisibility {
        // The details name them.
        let restores_more = !plan.aliases.is_empty() || !plan.classifiers.is_empty();
        if restores_more { JobVisibility::Everything } else { JobVisibility::for_collection(collection) }
    }

    async fn run(context: &JobContext, plan: RestorePlan) -> Result<(), JobError> {
        let state = context.state()?;
        if plan.is_done(&state) {
            return Ok(());
        }
        let restore = Restore::new(context, &state, plan);
        let (unpacking, canceled_by) = (restore.clone(), context.clone());
        let unpack_state = Arc::clone(&state);
        let unpacked = blocking(move || unpacking.unpack(&unpack_state, &canceled_by)).await;
        context.check()?;
        let ended = install_all(context, &state, &restore, unpacked?).await;
        let folder = restore.folder.clone();
        let _ = std::fs::remove_dir_all(folder);
        if ended.is_err() && !restore.plan.is_done(&state) {
            restore.remove_folders(&state);
        }
        ended
    }

    fn is_done(state: &State, _: &JobId, plan: &RestorePlan) -> Result<bool, Error> {
        Ok(plan.is_done(state))
    }

    fn free_space(state: &State, id: &JobId, _: &RestorePlan) {
        state.clean_up_snapshot(id);
    }
}

impl State {
    /// Returns the aliases and classifiers to restore. There are none if only one collection is restored.
    fn names_to_restore(
        &self,
        description: &Description,
        request: &RestoreRequest,
    ) -> Result<(Vec<Alias>, Vec<ClassifierName>), Error> {
        if request.collection.is_some() {
            return Ok((Vec::new(), Vec::new()));
        }
        let aliases = description.manifest.parse_aliases()?;
        let classifiers: Vec<_> = description.manifest.classifiers.iter().map(|classifier| classifier.name.clone()).collect();
        self.check_names(&aliases, &classifiers, request.replace)?;
        Ok((aliases, classifiers))
    }
}

/// A collection whose database is ready.
struct Prepared {
    row: Collection,
    damage: Vec<StoreError>,
}

async fn install_all(context: &JobContext, state: &Arc<State>, restore: &Restore, all: Vec<Prepared>) -> Result<(), JobError> {
    let mut opened = Vec::with_capacity(all.len());
    for prepared in all {
        let (opening, open_state) = (restore.clone(), Arc::clone(state));
        let collection = blocking(move || opening.open(&open_state, prepared)).await;
        let recovered = match collection {
            Ok(collection) => {
                opened.push(Arc::clone(&collection));
                build_index(context, collection).await.map_err(|error| match error {
                    JobError::Failed(error) => JobError::Failed(to_archive_error(error)),
                    other => other,
                })
            }
            Err(error) => Err(error.into()),
        };
        if let Err(error) = recovered {
            close(&opened);
            return Err(error);
        }
    }
    let names: Vec<CollectionName> = opened.iter().map(|new| new.row.name.clone()).collect();
    let (restore, (entries, locks)) = (restore.clone(), state.lock_named_for_replacement(&names).await);
    let replaced = state.run(move |state| {
        let replaced = state.check_running().and_then(|()| swap_in(state, &opened, &entries, &restore));
        drop(locks);
        match replaced {
            Ok(()) => entries.into_iter().for_each(|old| state.remove_replaced(old)),
            Err(_) => close(&opened),
        }
        replaced
    });
    Ok(replaced.await?)
}

/// Builds the index of a collection that is not in use yet.
pub(crate) async fn build_index(context: &JobContext, collection: Arc<OpenCollection>) -> Result<(), JobError> {
    let (building, embedder) = (Arc::clone(&collection), context.state()?.embedder.clone());
    let build = move || Ok(recover(&building)? && search::fill(&building, &embedder)?);
    let mut built = tokio::spawn(blocking(build));
    loop {
        tokio::select! {
            done = &mut built => {
                let complete = done??;
                return if complete { Ok(()) } else { context.check() };
            }
            () = tokio::time::sleep(CHECK_PAUSE) => {
                if context.check().is_err() {
                    collection.stop();
                }
            }
        }
    }
}

/// Swaps in the new collections with their aliases and classifiers, in place of the collections that had their names, even
/// damaged ones. Writes to those wait, and continue with what is restored. Blocks.
fn swap_in(state: &State, opened: &[Arc<OpenCollection>], entries: &[CollectionEntry], restore: &Restore) -> Result<(), Error> {
    let limit = state.limits.collections_max;
    if state.collections.read().len() + opened.len() - entries.len() > limit {
        return Err(Error::TooManyCollections { limit });
    }
    let old: Vec<_> = entries.iter().filter_map(CollectionEntry::open).collect();
    let replaced: Vec<Collection> = entries.iter().map(|collection| collection.row().clone()).collect();
    if let Some(replaced) = replaced.first().filter(|_| !restore.plan.replace) {
        return Err(Error::CollectionExists { name: replaced.name.clone() });
    }
    raise_sequences(&old, opened)?;
    let new: Vec<Collection> = opened.iter().map(|collection| collection.row.clone()).collect();
    let folders: Vec<PathBuf> = replaced.iter().map(|row| state.collections_dir().join(&row.id.0)).collect();
    state.change_catalog(CatalogPart::Names, || {
        orphaned::with_garbage_marks(&folders, || restore.change(state, replaced.clone(), new.clone()))?;
        state.aliases.write().extend(restore.aliases.iter().map(|alias| (alias.name.clone(), alias.collection.clone())));
        state.collections.write().extend(opened.iter().map(|new| (new.row.name.clone(), CollectionEntry::Open(Arc::clone(new)))));
        // Before another change of the catalog, which must find the row of the new collection.
        old.iter().for_each(|old| old.mark_restored_over());
        Ok(())
    })?;
    opened.iter().for_each(|new| orphaned::unmark(&new.folder));
    for new in opened {
        tracing::info!(collection = %new.row.name, id = %new.row.id, "collection restored");
        state.start_worker(new);
    }
    Ok(())
}

/// Makes sure that no version of a document in a replaced collection, which takes no more writes, occurs again in the restored
/// one, because clients may still know it as an entity tag.
fn raise_sequences(old: &[&Arc<OpenCollection>], restored: &[Arc<OpenCollection>]) -> Result<(), Error> {
    for old in old {
        let new = restored.iter().find(|new| new.row.name == old.row.name).map(|new| new.embedded()).transpose()?;
        // A damaged database may not tell.
        if let (Some(new), Ok(sequence)) = (new, old.store.sequence()) {
            new.store.swap_in(SwapState::from(sequence))?;
        }
    }
    Ok(())
}

fn close(opened: &[Arc<OpenCollection>]) {
    for collection in opened {
        collection.stop();
        if let Err(error) = collection.store.close() {
            tracing::warn!(collection = %collection.row.name, error = with_causes(&error), "cannot close a database");
        }
    }
}

/// Converts errors of a database in the archive: they are the archive's fault, not this server's.
fn to_archive_error(error: Error) -> Error {
    match error {
        Error::Store(
            error @ (StoreError::NewerDatabase { .. } | StoreError::ForeignDatabase { .. } | StoreError::SchemaMismatch { .. }),
        ) => invalid(format!("contains a database that this server cannot use: {error}")),
        Error::Index(error @ IndexError::Dimension { .. }) => {
            invalid(format!("contains a collection whose dimension is not the one in its catalog: {error}"))
        }
        Error::Store(error) if error.is_damage() => invalid(format!("contains a damaged database: {}", chain(&error))),
        other => other,
    }
}

impl RestorePlan {
    /// Whether the job succeeded without its end being recorded. All targets are created in one transaction, so one of them is
    /// proof enough.
    fn is_done(&self, state: &State) -> bool {
        self.targets.iter().any(|target| state.collection_by_id(&target.id).is_some())
            || self.classifiers.iter().any(|classifier| matches!(state.catalog.classifier_by_id(&classifier.id), Ok(Some(_))))
    }
}

impl Restore {
    fn new(context: &JobContext, state: &State, plan: RestorePlan) -> Self {
        let alias =
            |(name, collection): &(CollectionName, CollectionName)| Alias { name: name.clone(), collection: collection.clone() };
        let aliases = plan.aliases.iter().map(alias).collect();
        Self { plan, aliases, folder: state.snapshot_partial(context.job.id.as_str()) }
    }

    /// Changes the catalog in one transaction. Blocks.
    fn change(&self, state: &State, replaced: Vec<Collection>, new: Vec<Collection>) -> Result<(), Error> {
        let names = self.classifier_names();
        state.check_names(&self.aliases, &names, self.plan.replace)?;
        for row in &new {
            if let Some(collection) = state.resolve_alias(&row.name) {
                return Err(Error::AliasExists { name: row.name.clone(), collection });
            }
        }
        let id = |name: &CollectionName| new.iter().find(|row| row.name == *name).map(|row| row.id.clone());
        let alias = |alias: &Alias| Some((alias.name.clone(), id(&alias.collection)?));
        let metadata = SnapshotMetadata {
            origin: Some(self.folder.join("catalog")),
            aliases: self.aliases.iter().filter_map(alias).collect(),
            classifiers: names.into_iter().zip(self.plan.classifiers.iter().map(|target| target.id.clone())).collect(),
            replace: self.plan.replace,
        };
        state.embedded_catalog()?.replace(&Replacement { replaced, new, metadata }).map_err(|error| match error {
            StoreError::CollectionExists { name } => Error::CollectionExists { name },
            StoreError::ClassifierExists { name } => classifier_exists(name),
            other => other.into(),
        })
    }

    fn classifier_names(&self) -> Vec<ClassifierName> {
        self.plan.classifiers.iter().map(|target| target.name.clone()).collect()
    }

    fn remove_folders(&self, state: &State) {
        for target in &self.plan.targets {
            // If this fails, the next start removes it.
            let _ = orphaned::remove(&state.collections_dir().join(&target.id));
        }
    }

    /// Unpacks and checks the archive and adopts its databases. Returns the new collections. Blocks.
    fn unpack(&self, state: &State, context: &JobContext) -> Result<Vec<Prepared>, Error> {
        ignore_not_found(std::fs::remove_dir_all(&self.folder)).at(&self.folder)?;
        for target in &self.plan.targets {
            let folder = state.collections_dir().join(&target.id);
            let problem = "it was restored before, but this older catalog.sqlite does not know that; its folder stays as it is";
            if !orphaned::clear(&folder).at(&folder)? {
                return Err(Error::JobState { id: context.job.id.clone(), problem });
            }
        }
        let (rows, foreign) = (self.folder.join("catalog"), self.folder.join("foreign"));
        [&rows, &foreign].into_iter().try_for_each(std::fs::create_dir_all).at(&self.folder)?;
        let description = state.describe(&self.plan.snapshot)?;
        let path_of = |name: &str| foreign.join(name.replace('/', "-"));
        let mut databases = vec![(DatabaseKind::Catalog, CATALOG.to_owned(), rows.join(CATALOG))];
        for target in &self.plan.targets {
            let entry = description.manifest.collections.iter().find(|entry| entry.name == target.from.as_str());
            let entry = entry.ok_or_else(|| invalid(format!("does not contain {}", target.from)))?;
            let folder = self.folder.join(&target.id);
            std::fs::create_dir(&folder).at(&self.folder)?;
            databases.push((DatabaseKind::Collection, file_name(&entry.id), folder.join(DATABASE)));
        }
        let wanted = |name: &str| databases.iter().any(|(_, file, _)| file == name).then(|| path_of(name));
        let collections_max = description.manifest.collections.len().max(state.limits.collections_max);
        let bounds = ArchiveBounds { bytes_max: u64::MAX, collections_max };
        let archive = open_archive(&state.snapshot_archive(&self.plan.snapshot))?;
        let unpacked = unpack(&archive, bounds, wanted, |read| {
            context.set_done(read);
            context.check_not_stopped()
        })?;
        if unpacked.archive != description.archive {
            return Err(invalid("does not match its description: its SHA-256 differs"));
        }
        let mut damage = Vec::with_capacity(databases.len());
        for (kind, name, to) in &databases {
            let (from, watched) = (path_of(name), context.clone());
            let found = import_foreign(*kind, &from, to, &state.terms_of(), move || watched.check().is_err());
            damage.push(found.map_err(|error| to_archive_error(error.into()))?);
            std::fs::remove_file(&from).at(&self.folder)?;
        }
        let catalog = Catalog::open(&rows).map_err(|error| to_archive_error(error.into()))?;
        self.check_rest(state, &catalog).map_err(to_archive_error)?;
        let prepared = |(target, damage)| {
            Ok(Prepared { row: restored_row(&catalog, target, state.embedder.model()).map_err(to_archive_error)?, damage })
        };
        self.plan.targets.iter().zip(damage.into_iter().skip(1)).map(prepared).collect()
    }

    /// Checks that the archive's catalog has the aliases and the usable classifiers that its manifest names.
    fn check_rest(&self, state: &State, catalog: &Catalog) -> Result<(), Error> {
        let found = if self.aliases.is_empty() { Vec::new() } else { catalog.aliases()? };
        if let Some(alias) = self.aliases.iter().find(|alias| !found.contains(alias)) {
            return Err(invalid(format!("has no alias {} of {}, which its manifest names", alias.name, alias.collection)));
        }
        let loaded = state.embedder.model();
        self.classifier_names().iter().try_for_each(|name| check_restored(catalog, name, loaded))
    }

    /// Moves a checked database to its folder and opens it. Blocks.
    fn open(&self, state: &State, prepared: Prepared) -> Result<Arc<OpenCollection>, Error> {
        let Prepared { row, damage } = prepared;
        let folder = state.collections_dir().join(&row.id.0);
        let unpacked = self.folder.join(&row.id.0);
        orphaned::mark(&unpacked);
        std::fs::rename(unpacked, &folder).at(&folder)?;
        sync_dir(&folder).and_then(|()| sync_dir(&state.collections_dir())).at(&folder)?;
        let collection = state.open_collection(row, &folder).map_err(to_archive_error)?;
        damage.iter().for_each(|error| drop(collection.record_damage(error)));
        Ok(Arc::new(collection))
    }
}

/// Makes the row of a new collection: the row in the archive with the new id and name. If the collection's model is not
/// `loaded`, its dimension is not checked.
fn restored_row(catalog: &Catalog, target: &Target, loaded: &ModelInfo) -> Result<Collection, Error> {
    let from = &target.from;
    let row = catalog.get(from)?.ok_or_else(|| invalid(format!("has no row for {from}")))?;
    let row = Collection { id: CollectionId(target.id.clone()), name: target.name.clone(), ..row };
    let hnsw = &row.hnsw;
    let of_loaded = row.model.as_ref().is_some_and(|model| model.fingerprint == loaded.fingerprint);
    let fits = DIMENSION.contains(&row.dimension)
        && (!of_loaded || row.dimension == loaded.dimension)
        && M.contains(&hnsw.m)
        && EF.contains(&hnsw.ef_construction)
        && EF.contains(&hnsw.ef_search);
    if fits { Ok(row) } else { Err(invalid(format!("has invalid settings for {from}"))) }
}
