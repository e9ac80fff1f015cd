//! Making a snapshot: copies each collection's database as it is at one moment, one after the other, and packs it. One of the
//! whole server also gets the aliases and the classifiers that have learned, but no keys: an archive leaves the server. Writers
//! and searches go on meanwhile. A restart begins anew; what was there of the archive is removed.

use std::path::PathBuf;
use std::sync::Arc;

use super::super::archive::{AliasEntry, CATALOG, ClassifierEntry, Entry, Manifest, Packer, file_name};
use super::super::collections::now_ms;
use super::super::runtime::OpenCollection;
use super::super::snapshots::Description;
use super::super::{Error, State, blocking};
use super::{Halt, JobContext};
use crate::domain::{Collection, CollectionName, Metadata, Page, SnapshotId};
use crate::store::Catalog;

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
pub(super) async fn run(context: &JobContext) -> Result<(), Halt> {
    let (state, live) = (context.state()?, Arc::clone(&context.live));
    let broken = |problem| Error::JobState { id: context.live.id.clone(), problem };
    let text = |name: &str| live.request.get(name).and_then(|value| value.as_str());
    let id = text("snapshot").and_then(|id| SnapshotId::parse(id).ok()).ok_or_else(|| broken("it names no snapshot"))?;
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
    let mut making = blocking(move || Making::begin(state, begun, folder, whole)).await?;
    let details = Metadata::from_iter([("snapshot".to_owned(), id.as_str().into())]);
    for (done, collection) in collections.into_iter().enumerate() {
        context.check()?;
        context.progress(done as u64, details.clone()).await?;
        let watched = context.clone();
        let collection = collection.latest();
        let of = Arc::clone(&collection);
        let added = blocking(move || {
            making.add(&of, move || watched.check().is_err())?;
            Ok(making)
        })
        .await;
        // A copy that was told to stop fails; that is no failure of the job.
        context.check()?;
        making = match added {
            Err(_) if collection.is_deleted() => {
                return Err(Error::CollectionNotFound { name: collection.row.name.clone() }.into());
            }
            added => added?,
        };
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

    fn add(&mut self, collection: &OpenCollection, stop: impl Fn() -> bool + Send + 'static) -> Result<(), Error> {
        let copy = self.folder.join("copy.sqlite");
        let copied = collection.store.copy_to(&copy, stop).map_err(|error| collection.tell_damage(error.into()))?;
        let row = collection.current();
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
        Ok(())
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
