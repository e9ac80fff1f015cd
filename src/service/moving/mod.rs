//! Moves a whole server's data between a data directory and a database server, while no server uses either.
//!
//! The source is only read. Documents are copied first and then compared in both places. No server sees them before the catalog
//! names their collections, which happens last and in one transaction. So a move can be interrupted at any time and continued
//! later. Jobs, idempotency records, snapshots and maps are not moved. The first start of a server on a data directory builds
//! its index.

mod comparing;
mod copying;
mod error;
mod progress;
mod side;

use crate::domain::{CollectionName, Page};
use crate::service::lifecycle::all_rows;
use crate::store::{CatalogContents, StoreError, StoredClassifier, system_clock as now_ms};
use copying::CollectionPair;
use side::OpenLocation;

pub use error::MoveError;
pub use progress::{Moved, MovedCollection, Phase, Progress, Step};
pub use side::DataLocation;

/// What a place has besides documents.
struct LocationContents {
    catalog: CatalogContents,
    classifiers: Vec<StoredClassifier>,
    jobs: usize,
}

/// Moves everything. If the source has unfinished jobs, refuses to move, or with `leave_jobs` leaves them behind. Blocks.
pub fn move_all(from: &DataLocation, to: &DataLocation, leave_jobs: bool, progress: Progress<'_>) -> Result<Moved, MoveError> {
    let source = OpenLocation::open_for_reading("source", from)?;
    let jobs = source.catalog.unfinished_jobs().map_err(|error| source.catalog_failed(error))?;
    if let Some(first) = jobs.first().filter(|_| !leave_jobs) {
        return Err(MoveError::UnfinishedJobs { count: jobs.len(), kind: first.kind, id: first.id.clone() });
    }
    let named = LocationContents::of(&source)?;
    let target = OpenLocation::open_for_writing(to)?;
    check_names(&named, &target)?;
    let (sides, now_ms) = ((&source, &target), now_ms());
    let mut collections = Vec::new();
    for row in &named.catalog.collections {
        let both = copying::copy(sides, row, now_ms, &mut *progress)?;
        let compared = comparing::compare(sides, row, &both, now_ms, &mut *progress);
        if matches!(compared, Err(MoveError::Document { .. } | MoveError::Differs { .. })) {
            copying::discard(&target, row, &*both.target)?;
        }
        collections.push(compared?);
        both.target.close().map_err(target.failed(row))?;
    }
    for row in &named.classifiers {
        move_classifier(sides, row)?;
    }
    target.catalog.import_contents(&named.catalog).map_err(|error| target.catalog_failed(error))?;
    named.catalog.collections.iter().try_for_each(|row| copying::forget(&target, row))?;
    compare_names(&named, sides)?;
    Ok(named.moved(collections))
}

/// Compares both places without changing either. Ignores what only the target has. Blocks.
pub fn compare_all(from: &DataLocation, to: &DataLocation, progress: Progress<'_>) -> Result<Moved, MoveError> {
    let source = OpenLocation::open_for_reading("source", from)?;
    let target = OpenLocation::open_for_reading("target", to)?;
    let (sides, now_ms, named) = ((&source, &target), now_ms(), LocationContents::of(&source)?);
    compare_names(&named, sides)?;
    let mut collections = Vec::new();
    for row in &named.catalog.collections {
        let both = CollectionPair { source: source.collection(row)?, target: target.collection(row)? };
        collections.push(comparing::compare(sides, row, &both, now_ms, &mut *progress)?);
    }
    Ok(named.moved(collections))
}

impl LocationContents {
    fn of(side: &OpenLocation) -> Result<Self, MoveError> {
        let failed = |error| side.catalog_failed(error);
        let catalog = &*side.catalog;
        let collections = all_rows(catalog).map_err(failed)?;
        let (aliases, keys) = (catalog.aliases().map_err(failed)?, catalog.keys().map_err(failed)?);
        let classifiers = catalog.classifiers(&Page { limit: usize::MAX, after: None }).map_err(failed)?;
        let jobs = catalog.unfinished_jobs().map_err(failed)?.len();
        Ok(Self { catalog: CatalogContents { collections, aliases, keys }, classifiers, jobs })
    }

    fn moved(self, collections: Vec<MovedCollection>) -> Moved {
        let Self { catalog: CatalogContents { aliases, keys, .. }, classifiers, jobs } = self;
        Moved { collections, aliases: aliases.len(), classifiers: classifiers.len(), keys: keys.len(), jobs_left: jobs }
    }
}

/// Refuses a target that uses a name of the source for something else.
fn check_names(named: &LocationContents, target: &OpenLocation) -> Result<(), MoveError> {
    let there = LocationContents::of(target)?;
    let taken = |what, name: &str| MoveError::Taken { what, name: name.to_owned() };
    let collection = |name: &CollectionName| there.catalog.collections.iter().find(|row| row.name == *name);
    let alias = |name: &CollectionName| there.catalog.aliases.iter().find(|alias| alias.name == *name);
    for row in &named.catalog.collections {
        let same_id = there.catalog.collections.iter().find(|other| other.id == row.id);
        if let Some(other) = collection(&row.name).or(same_id) {
            return Err(taken("a collection", other.name.as_str()));
        }
        if alias(&row.name).is_some() {
            return Err(taken("an alias", row.name.as_str()));
        }
    }
    for name in named.catalog.aliases.iter().map(|alias| &alias.name) {
        match (collection(name), alias(name)) {
            (Some(_), _) => return Err(taken("a collection", name.as_str())),
            (_, Some(_)) => return Err(taken("an alias", name.as_str())),
            (None, None) => (),
        }
    }
    // A classifier with the same id may be left from an interrupted move. It is compared later.
    let classifier = |row: &&StoredClassifier| {
        there.classifiers.iter().any(|other| other.record.name == row.record.name && other.id != row.id)
    };
    match named.classifiers.iter().find(classifier) {
        Some(row) => Err(taken("a classifier", row.record.name.as_str())),
        None => Ok(()),
    }
}

/// Moves a classifier unless the target already has it.
fn move_classifier((source, target): (&OpenLocation, &OpenLocation), row: &StoredClassifier) -> Result<(), MoveError> {
    let failed = |error: StoreError| target.catalog_failed(error);
    let whole = source.catalog.classifier_contents(&row.id).map_err(|error| source.catalog_failed(error))?;
    let there = target.catalog.classifier_contents(&row.id).map_err(failed)?;
    let Some(whole) = whole.filter(|whole| there.as_ref() != Some(whole)) else { return Ok(()) };
    if there.is_some() || !target.catalog.import_classifier(&whole).map_err(failed)? {
        return Err(MoveError::Taken { what: "a classifier", name: row.record.name.as_str().to_owned() });
    }
    Ok(())
}

/// Compares the collections, aliases, keys and classifiers in both catalogs.
fn compare_names(named: &LocationContents, (source, target): (&OpenLocation, &OpenLocation)) -> Result<(), MoveError> {
    let there = LocationContents::of(target)?.catalog;
    let differs = |what, name: &str| MoveError::Named { what, name: name.to_owned() };
    let CatalogContents { collections, aliases, keys } = &named.catalog;
    if let Some(row) = collections.iter().find(|row| !there.collections.contains(row)) {
        return Err(differs("collection", row.name.as_str()));
    }
    if let Some(alias) = aliases.iter().find(|alias| !there.aliases.contains(alias)) {
        return Err(differs("alias", alias.name.as_str()));
    }
    if let Some(stored) = keys.iter().find(|stored| !there.keys.contains(stored)) {
        return Err(differs("key", stored.key.id.as_str()));
    }
    for row in &named.classifiers {
        let of = |side: &OpenLocation| side.catalog.classifier_contents(&row.id).map_err(|error| side.catalog_failed(error));
        if of(source)? != of(target)? {
            return Err(differs("classifier", row.record.name.as_str()));
        }
    }
    Ok(())
}
