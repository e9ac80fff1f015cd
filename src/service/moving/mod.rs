//! Moves a whole server's data between a data directory and a database server, while no server uses either.
//!
//! The source is only read. Documents are copied first and then compared in both locations. No server sees them before the
//! catalog names their collections, which happens last and in one transaction. So a move can be interrupted at any time and
//! continued later. Jobs, idempotency records, snapshots and maps are not moved. The first start of a server on a data directory
//! builds its index.

mod comparing;
mod copying;
mod error;
mod location;
mod progress;

use crate::domain::{CollectionName, Page};
use crate::store::{CatalogContents, StoreError, StoredClassifier, system_clock as now_ms};
use copying::CollectionPair;
use location::OpenLocation;

pub use error::MoveError;
pub use location::DataLocation;
pub use progress::{MoveSummary, MovedCollection, Phase, Progress, Step};

/// What a location holds besides documents.
struct LocationContents {
    catalog: CatalogContents,
    classifiers: Vec<StoredClassifier>,
    jobs: usize,
}

/// Moves everything. If the source has unfinished jobs, refuses to move, or with `leave_jobs` leaves them behind. Blocks.
pub fn move_all(
    from: &DataLocation,
    to: &DataLocation,
    leave_jobs: bool,
    progress: Progress<'_>,
) -> Result<MoveSummary, MoveError> {
    let source = OpenLocation::open_for_reading("source", from)?;
    let jobs = source.catalog.unfinished_jobs().map_err(|error| source.catalog_failed(error))?;
    if let Some(first) = jobs.first().filter(|_| !leave_jobs) {
        return Err(MoveError::UnfinishedJobs { count: jobs.len(), kind: first.kind, id: first.id.clone() });
    }
    let contents = LocationContents::read(&source)?;
    let target = OpenLocation::open_for_writing(to)?;
    check_names(&contents, &target)?;
    let (locations, now_ms) = ((&source, &target), now_ms());
    let mut collections = Vec::new();
    for row in &contents.catalog.collections {
        let pair = copying::copy(locations, row, now_ms, &mut *progress)?;
        let compared = comparing::compare(locations, row, &pair, now_ms, &mut *progress);
        if matches!(compared, Err(MoveError::DocumentDiffers { .. } | MoveError::CollectionDiffers { .. })) {
            copying::discard(&target, row, &*pair.target)?;
        }
        collections.push(compared?);
        pair.target.close().map_err(target.failed(row))?;
    }
    for row in &contents.classifiers {
        move_classifier(locations, row)?;
    }
    target.catalog.import_contents(&contents.catalog).map_err(|error| target.catalog_failed(error))?;
    contents.catalog.collections.iter().try_for_each(|row| copying::delete_checkpoints(&target, row))?;
    compare_names(&contents, locations)?;
    Ok(contents.into_summary(collections))
}

/// Compares both locations without changing either. Ignores what only the target has. Blocks.
pub fn compare_all(from: &DataLocation, to: &DataLocation, progress: Progress<'_>) -> Result<MoveSummary, MoveError> {
    let source = OpenLocation::open_for_reading("source", from)?;
    let target = OpenLocation::open_for_reading("target", to)?;
    let (locations, now_ms, contents) = ((&source, &target), now_ms(), LocationContents::read(&source)?);
    compare_names(&contents, locations)?;
    let mut collections = Vec::new();
    for row in &contents.catalog.collections {
        let pair = CollectionPair { source: source.collection(row)?, target: target.collection(row)? };
        collections.push(comparing::compare(locations, row, &pair, now_ms, &mut *progress)?);
    }
    Ok(contents.into_summary(collections))
}

impl LocationContents {
    fn read(location: &OpenLocation) -> Result<Self, MoveError> {
        let failed = |error| location.catalog_failed(error);
        let catalog = &*location.catalog;
        let collections = location.collections()?;
        let (aliases, keys) = (catalog.aliases().map_err(failed)?, catalog.keys().map_err(failed)?);
        let classifiers = catalog.classifiers(&Page { limit: usize::MAX, after: None }).map_err(failed)?;
        let jobs = catalog.unfinished_jobs().map_err(failed)?.len();
        Ok(Self { catalog: CatalogContents { collections, aliases, keys }, classifiers, jobs })
    }

    fn into_summary(self, collections: Vec<MovedCollection>) -> MoveSummary {
        let Self { catalog: CatalogContents { aliases, keys, .. }, classifiers, jobs } = self;
        MoveSummary { collections, aliases: aliases.len(), classifiers: classifiers.len(), keys: keys.len(), jobs_left: jobs }
    }
}

/// Refuses a target that uses a name of the source for something else.
fn check_names(contents: &LocationContents, target: &OpenLocation) -> Result<(), MoveError> {
    let in_target = LocationContents::read(target)?;
    let name_taken = |what, name: &str| MoveError::NameTaken { what, name: name.to_owned() };
    let collection = |name: &CollectionName| in_target.catalog.collections.iter().find(|row| row.name == *name);
    let alias = |name: &CollectionName| in_target.catalog.aliases.iter().find(|alias| alias.name == *name);
    for row in &contents.catalog.collections {
        let same_id = in_target.catalog.collections.iter().find(|other| other.id == row.id);
        if let Some(other) = collection(&row.name).or(same_id) {
            return Err(name_taken("a collection", other.name.as_str()));
        }
        if alias(&row.name).is_some() {
            return Err(name_taken("an alias", row.name.as_str()));
        }
    }
    for name in contents.catalog.aliases.iter().map(|alias| &alias.name) {
        match (collection(name), alias(name)) {
            (Some(_), _) => return Err(name_taken("a collection", name.as_str())),
            (_, Some(_)) => return Err(name_taken("an alias", name.as_str())),
            (None, None) => (),
        }
    }
    // A classifier with the same id may be left from an interrupted move. It is compared later.
    let classifier = |row: &&StoredClassifier| {
        in_target.classifiers.iter().any(|other| other.record.name == row.record.name && other.id != row.id)
    };
    match contents.classifiers.iter().find(classifier) {
        Some(row) => Err(name_taken("a classifier", row.record.name.as_str())),
        None => Ok(()),
    }
}

/// Moves a classifier unless the target already has it.
fn move_classifier((source, target): (&OpenLocation, &OpenLocation), row: &StoredClassifier) -> Result<(), MoveError> {
    let failed = |error: StoreError| target.catalog_failed(error);
    let contents = source.catalog.classifier_contents(&row.id).map_err(|error| source.catalog_failed(error))?;
    let in_target = target.catalog.classifier_contents(&row.id).map_err(failed)?;
    let Some(contents) = contents.filter(|contents| in_target.as_ref() != Some(contents)) else { return Ok(()) };
    if in_target.is_some() || !target.catalog.import_classifier(&contents).map_err(failed)? {
        return Err(MoveError::NameTaken { what: "a classifier", name: row.record.name.as_str().to_owned() });
    }
    Ok(())
}

/// Compares the collections, aliases, keys and classifiers in both catalogs.
fn compare_names(contents: &LocationContents, (source, target): (&OpenLocation, &OpenLocation)) -> Result<(), MoveError> {
    let in_target = LocationContents::read(target)?.catalog;
    let differs = |what, name: &str| MoveError::CatalogDiffers { what, name: name.to_owned() };
    let CatalogContents { collections, aliases, keys } = &contents.catalog;
    if let Some(row) = collections.iter().find(|row| !in_target.collections.contains(row)) {
        return Err(differs("collection", row.name.as_str()));
    }
    if let Some(alias) = aliases.iter().find(|alias| !in_target.aliases.contains(alias)) {
        return Err(differs("alias", alias.name.as_str()));
    }
    if let Some(stored) = keys.iter().find(|stored| !in_target.keys.contains(stored)) {
        return Err(differs("key", stored.key.id.as_str()));
    }
    for row in &contents.classifiers {
        let contents_of = |location: &OpenLocation| {
            location.catalog.classifier_contents(&row.id).map_err(|error| location.catalog_failed(error))
        };
        if contents_of(source)? != contents_of(target)? {
            return Err(differs("classifier", row.record.name.as_str()));
        }
    }
    Ok(())
}
