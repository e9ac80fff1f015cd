//! Making a snapshot: copies each collection's database as it is at one moment, one after the other, and packs it. One of the
//! whole server also gets the aliases and the classifiers that have learned, but no keys: an archive leaves the server. Writers
//! and searches go on meanwhile. A collection that is deleted meanwhile is left out of a snapshot of the whole server, whose job
//! names it. A restart begins anew; what was there of the archive is removed.

use std::path::PathBuf;
use std::sync::Arc;

use super::{JobContext, JobError};
use crate::domain::{Collection, CollectionName, Metadata, Page, SnapshotId, chain};
use crate::service::archive::{AliasEntry, CATALOG, ClassifierEntry, Entry, Manifest, Packer, file_name, invalid};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::runtime::OpenCollection;
use crate::service::snapshots::Description;
use crate::service::state::State;
use crate::store::system_clock as now_ms;
use crate::store::{Catalog, DatabaseKind, check_foreign};

/// A snapshot that is being made.
struct Making {
    state: Arc<State>,
    id: SnapshotId,
    /// Everything that is not whole.
    folder: PathBuf,
    packer: Packer,
    entries: Vec<Entry>,
    rows: Vec<Collection>,
    /// Whether it is of the whole server, with aliases and classifiers.
    whole: bool,
}

/// Makes the snapshot that the job's request names.
pub(super) async fn run(context: &JobContext) -> Result<(), JobError> {
    let (state, live) = (context.state()?, Arc::clone(&context.live));
    let broken = |problem| Error::JobState { id: context.live.id.clone(), problem };
    let text = |name: &str| live.request.get(name).and_then(|value| value.as_str());
    let id = text("snapshot").and_then(|id| SnapshotId::parse(id).ok()).ok_or_else(|| broken("it does not name a snapshot"))?;
    if state.describe(&id).is_ok() {
        // Made before the last restart, which came before that was noted.
        return Ok(());
    }
    let names = live.request.get("collections").and_then(|names| names.as_array()).cloned().unwrap_or_default();
    let names = names.iter().filter_map(|name| CollectionName::parse(name.as_str()?).ok()).collect::<Vec<_>>();
    let collections = state.wanted(&names)?;
    context.measure(0, collections.len() as u64);
    let folder = state.snapshot_partial(live.id.as_str());
    let (begun, whole) = (id.clone(), names.is_empty());
    let of = Arc::clone(&state);
    let mut making = blocking(move || Making::begin(of, begun, folder, whole)).await?;
    let mut details = Metadata::from_iter([("snapshot".to_owned(), id.as_str().into())]);
    let mut skipped: Vec<String> = Vec::new();
    for (done, collection) in collections.into_iter().enumerate() {
        context.check()?;
        context.progress(done as u64, details.clone()).await?;
        let name = collection.row.name.clone();
        let (with_it, added) = making.add_newest(context, &state, collection.latest()).await?;
        making = with_it;
        if !added && !whole {
            return Err(Error::CollectionNotFound { name }.into());
        }
        if !added {
            skipped.push(name.as_str().to_owned());
            details.insert("skipped".to_owned(), skipped.clone().into());
        }
        context.progress(done as u64 + 1, details.clone()).await?;
    }
    Ok(blocking(move || making.finish()).await?)
}

impl Making {
    fn begin(state: Arc<State>, id: SnapshotId, folder: PathBuf, whole: bool) -> Result<Self, Error> {
        let access = |source| Error::Folder { path: folder.clone(), source };
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(access)?;
        }
        std::fs::create_dir(&folder).map_err(access)?;
        let packer = Packer::create(&folder.join("archive"))?;
        Ok(Self { state, id, folder, packer, entries: Vec::new(), rows: Vec::new(), whole })
    }

    /// Adds a collection, or another one that has taken its place under its name; says whether there was one.
    async fn add_newest(
        mut self,
        context: &JobContext,
        state: &State,
        mut collection: Arc<OpenCollection>,
    ) -> Result<(Self, bool), JobError> {
        loop {
            let (watched, of) = (context.clone(), Arc::clone(&collection));
            let added = blocking(move || {
                let added = self.add(&of, move || watched.check().is_err())?;
                Ok((self, added))
            })
            .await;
            // A copy that was told to stop fails; that is no failure of the job.
            context.check()?;
            let (with_it, added) = added?;
            self = with_it;
            let name = &collection.row.name;
            match state.collection(name) {
                Ok(other) if !added && !other.is_deleted() && other.row.name == *name => collection = other,
                _ => return Ok((self, added)),
            }
        }
    }

    /// Adds a collection; says whether it was there until it was copied.
    fn add(&mut self, collection: &OpenCollection, stop: impl Fn() -> bool + Send + 'static) -> Result<bool, Error> {
        let copy = self.folder.join("copy.sqlite");
        // What an earlier one left that was deleted meanwhile.
        match std::fs::remove_file(&copy) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => return Err(Error::Folder { path: copy, source }),
            _ => (),
        }
        let copied = match collection.store.copy_to(&copy, stop) {
            Err(_) if collection.is_deleted() => return Ok(false),
            copied => copied.map_err(|error| collection.tell_damage(error.into()))?,
        };
        let row = collection.current();
        // Better now than when somebody needs it.
        check_foreign(DatabaseKind::Collection, &copy).map_err(|error| {
            invalid(format!("would contain collection {} and could not be restored: {}", row.name, chain(&error)))
        })?;
        let file = self.packer.add(&file_name(&row.id.0), &copy)?;
        std::fs::remove_file(&copy).map_err(|source| Error::Folder { path: copy, source })?;
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
        catalog.fill(&self.rows, self.whole.then_some(self.state.data_dir.as_path()))?;
        let aliases = catalog
            .aliases()?
            .into_iter()
            .map(|alias| AliasEntry { name: alias.name.as_str().to_owned(), collection: alias.collection.as_str().to_owned() });
        let (aliases, all) = (aliases.collect(), Page { limit: usize::MAX, after: None });
        let classifiers = catalog.classifiers(&all)?.into_iter().map(|row| ClassifierEntry {
            name: row.name.as_str().to_owned(),
            model: row.model,
            model_fingerprint: row.model_fingerprint,
        });
        let classifiers = classifiers.collect();
        // Closing it leaves one whole file.
        drop(catalog);
        let catalog = self.packer.add(CATALOG, &rows.join(CATALOG))?;
        let manifest = Manifest::new(now_ms(), self.entries, catalog).with(aliases, classifiers);
        let archive = self.packer.finish(&manifest)?;
        self.state.keep_snapshot(&self.id, &self.folder.join("archive"), &Description { archive, manifest })
    }
}
