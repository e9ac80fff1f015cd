//! The source and the target of a move: a data directory or a database server, opened and locked as by a server.

use std::path::PathBuf;
use std::sync::Arc;

use super::error::MoveError;
use crate::domain::Collection;
use crate::embed::passage_terms;
use crate::service::collections::changing;
use crate::service::error::Error;
use crate::service::folders::{COLLECTIONS_DIR, orphaned};
use crate::service::lifecycle::{all_rows, open_catalog};
use crate::storage::{CatalogStorage, Embedded, Postgres, PostgresCatalog, PostgresOptions, PostgresServer, Storage};
use crate::store::{Catalog, DocumentStore, StoreError, StoreOptions, TermsOf};

/// Maximum number of waiting writes. A move has only one.
const WRITES_MAX: usize = 8;

#[derive(Debug, Clone)]
pub enum DataLocation {
    /// A data directory.
    Folder(PathBuf),
    Server(PostgresOptions),
}

pub(super) struct OpenLocation {
    /// "source" or "target".
    pub(super) which: &'static str,
    pub(super) catalog: Box<dyn CatalogStorage>,
    engine: Engine,
}

enum Engine {
    /// The folder of the collections, and whether it is only read.
    Folder { collections: PathBuf, read_only: bool },
    /// A database server. For the source, its connections refuse changes.
    Server(Arc<PostgresServer>),
}

impl OpenLocation {
    /// Opens a location for reading, without changing anything there.
    pub(super) fn open_for_reading(which: &'static str, location: &DataLocation) -> Result<Self, MoveError> {
        let opened = match location {
            DataLocation::Folder(data_dir) => Catalog::open_read_only(data_dir).map(|catalog| {
                let engine = Engine::Folder { collections: data_dir.join(COLLECTIONS_DIR), read_only: true };
                Self { which, catalog: Box::new(catalog), engine }
            }),
            DataLocation::Server(options) => PostgresServer::connect_to_read(options).and_then(|server| {
                let catalog = PostgresCatalog::open_read_only(&server)?;
                Ok(Self { which, catalog: Box::new(catalog), engine: Engine::Server(server) })
            }),
        };
        opened.map_err(|error| refused(which, error.into()))
    }

    /// Opens the target, or creates it if it does not exist.
    pub(super) fn open_for_writing(location: &DataLocation) -> Result<Self, MoveError> {
        let which = "target";
        let opened = match location {
            DataLocation::Folder(data_dir) => open_catalog(data_dir).map(|catalog| {
                let engine = Engine::Folder { collections: data_dir.join(COLLECTIONS_DIR), read_only: false };
                Self { which, catalog: Box::new(catalog), engine }
            }),
            DataLocation::Server(options) => PostgresServer::connect(options).map_err(Error::from).and_then(|server| {
                let catalog = PostgresCatalog::open_alone(&server)?;
                Ok(Self { which, catalog: Box::new(catalog), engine: Engine::Server(server) })
            }),
        };
        opened.map_err(|error| refused(which, error))
    }

    /// Returns the collections of the catalog as they are, even if a server was killed in the middle of a change of one.
    pub(super) fn collections(&self) -> Result<Vec<Collection>, MoveError> {
        let rows = all_rows(&*self.catalog).map_err(|error| self.catalog_failed(error))?;
        let Engine::Folder { collections, read_only: true } = &self.engine else { return Ok(rows) };
        let complete = |row: &Collection| {
            let store = DocumentStore::open_read_only(&collections.join(&row.id.0), &options());
            store.and_then(|store| changing::complete(row.clone(), &store)).map_err(self.failed(row))
        };
        rows.iter().map(complete).collect()
    }

    /// Opens the documents of a collection. In the target, creates the collection if it does not exist.
    pub(super) fn collection(&self, row: &Collection) -> Result<Box<dyn Storage>, MoveError> {
        let opened: Result<Box<dyn Storage>, StoreError> = match &self.engine {
            Engine::Server(server) => Postgres::open(server, row, terms_of(), WRITES_MAX).map(|store| Box::new(store) as _),
            Engine::Folder { collections, read_only } => {
                let folder = collections.join(&row.id.0);
                let open = if *read_only { DocumentStore::open_read_only } else { DocumentStore::open };
                open(&folder, &options()).map(|store| Box::new(Embedded::new(row, store)) as _)
            }
        };
        opened.map_err(self.failed(row))
    }

    /// Removes what an earlier move left of a collection.
    pub(super) fn remove(&self, row: &Collection) -> Result<(), MoveError> {
        match &self.engine {
            Engine::Server(server) => {
                let opened = Postgres::open(server, row, terms_of(), WRITES_MAX);
                opened.and_then(|store| store.remove()).map_err(self.failed(row))
            }
            Engine::Folder { collections, .. } => orphaned::remove(&collections.join(&row.id.0))
                .map_err(|source| MoveError::Remove { name: row.name.clone(), source }),
        }
    }

    pub(super) fn catalog_failed(&self, source: StoreError) -> MoveError {
        MoveError::Catalog { which: self.which, source }
    }

    pub(super) fn failed(&self, row: &Collection) -> impl Fn(StoreError) -> MoveError {
        let (which, name) = (self.which, row.name.clone());
        move |source| MoveError::Collection { which, name: name.clone(), source }
    }
}

fn refused(which: &'static str, error: Error) -> MoveError {
    match error {
        Error::Store(source @ (StoreError::DataDirectoryInUse { .. } | StoreError::DatabaseInUse)) => {
            MoveError::InUse { which, source }
        }
        error => MoveError::Open { which, source: Box::new(error) },
    }
}

fn options() -> StoreOptions {
    StoreOptions { power_safe: true, write_queue_max: WRITES_MAX, readers_max: 1, terms_of: terms_of(), slots: None }
}

/// Returns the function that computes the terms of passages. Their plain words, which need a model, are copied.
fn terms_of() -> TermsOf {
    TermsOf::new(|text, language| passage_terms(text, language, |_| true))
}
