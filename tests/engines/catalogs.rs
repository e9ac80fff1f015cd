//! Runs a test on both catalogs.

use std::ops::Deref;
use std::path::Path;

use dragoman::storage::{CatalogStorage, PostgresCatalog, PostgresOptions, PostgresServer};
use dragoman::store::{Catalog, StoreError};
use tempfile::TempDir;

use crate::postgres_server::Database;

/// Turns each function into one test per catalog.
macro_rules! over_both_catalogs {
    ($($(#[doc = $about:literal])* fn $name:ident($catalog:ident) $body:block)*) => {
        $($(#[doc = $about])* fn $name(mut $catalog: crate::catalogs::Opened) $body)*

        mod embedded {
            $(#[test] fn $name() { super::$name(crate::catalogs::Opened::embedded()) })*
        }

        mod postgres {
            $(#[test] fn $name() { super::$name(crate::catalogs::Opened::postgres()) })*
        }
    };
}
pub(crate) use over_both_catalogs;

/// An empty catalog.
pub struct Opened {
    place: Place,
    catalog: Option<Box<dyn CatalogStorage>>,
}

enum Place {
    Folder(TempDir),
    Database(PostgresOptions),
}

impl Opened {
    /// The catalog in a data directory.
    pub fn embedded() -> Self {
        Self::at(Place::Folder(tempfile::tempdir().unwrap()))
    }

    /// The catalog in its own database.
    pub fn postgres() -> Self {
        Self::at(Place::Database(Database::shared().0.own()))
    }

    fn at(place: Place) -> Self {
        let mut opened = Self { place, catalog: None };
        opened.restart();
        opened
    }

    /// Closes it, and opens it again.
    pub fn restart(&mut self) {
        self.catalog = None;
        self.catalog = Some(match &self.place {
            Place::Folder(folder) => Box::new(open(folder.path())),
            Place::Database(options) => {
                let catalog = PostgresCatalog::open(&PostgresServer::connect(options).unwrap()).unwrap();
                // As the next start does.
                catalog.take_over_orphaned_jobs(&[], &[], "").unwrap();
                Box::new(catalog)
            }
        });
    }
}

/// A process that another test is just starting may hold the folder for a moment.
fn open(folder: &Path) -> Catalog {
    loop {
        match Catalog::open(folder) {
            Err(StoreError::DataDirectoryInUse { .. }) => std::thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

impl Deref for Opened {
    type Target = dyn CatalogStorage;

    fn deref(&self) -> &Self::Target {
        &**self.catalog.as_ref().unwrap()
    }
}
