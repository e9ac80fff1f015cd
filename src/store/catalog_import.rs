//! Imports the content of another catalog: collections with their aliases, keys, and classifiers. The documents of the
//! collections must already be there.

use std::path::Path;

use rusqlite::{Connection, params};

use super::catalog::{CATALOG_FILE, lock};
use super::classifiers::{ClassifierContents, insert_texts};
use super::connection::check_exists;
use super::error::Fault;
use super::migrate::CATALOG;
use super::read_only::open_read_only;
use super::rows::{json, to_sql};
use super::snapshot_metadata::{insert_all, set_alias};
use super::{Catalog, StoreError, StoredKey, keys};
use crate::domain::{Alias, Collection};

/// The content of a catalog without classifiers and jobs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CatalogContents {
    /// The collections.
    pub collections: Vec<Collection>,
    /// Their aliases.
    pub aliases: Vec<Alias>,
    /// The keys.
    pub keys: Vec<StoredKey>,
}

impl Catalog {
    /// Like `open_existing`, but for reading a catalog that nobody else has open, without changing any of its files. Fails with
    /// `StoreError::NotUpToDate` if it would have to be changed first.
    pub fn open_read_only(data_dir: &Path) -> Result<Self, StoreError> {
        let path = data_dir.join(CATALOG_FILE);
        check_exists(&path)?;
        let lock = lock(data_dir)?;
        Self::from_connection(open_read_only(&path, &CATALOG)?, lock)
    }

    pub(crate) fn import_contents(&self, contents: &CatalogContents) -> Result<(), StoreError> {
        self.run("importing a catalog", |connection| {
            let transaction = connection.unchecked_transaction()?;
            check_aliases(&transaction, &contents.collections)?;
            insert_all(&transaction, &contents.collections)?;
            for Alias { name, collection } in &contents.aliases {
                if let Some(row) = contents.collections.iter().find(|row| row.name == *collection) {
                    set_alias(&transaction, name, &row.id, false)?;
                }
            }
            for stored in &contents.keys {
                let known = "select exists (select 1 from api_keys where id = ?1)";
                if !transaction.query_row(known, [stored.key.id.as_str()], |row| row.get(0))? {
                    keys::insert(&transaction, stored)?;
                }
            }
            Ok(transaction.commit()?)
        })
    }

    pub(crate) fn import_classifier(&self, contents: &ClassifierContents) -> Result<bool, StoreError> {
        self.run("importing a classifier", |connection| {
            let transaction = connection.unchecked_transaction()?;
            let inserted = insert_classifier(&transaction, contents)?;
            if inserted > 0 {
                insert_texts(&transaction, transaction.last_insert_rowid(), &contents.texts)?;
            }
            transaction.commit()?;
            Ok(inserted > 0)
        })
    }
}

/// Refuses collections with the name of an alias.
fn check_aliases(connection: &Connection, collections: &[Collection]) -> Result<(), Fault> {
    let mut taken = connection.prepare_cached("select 1 from aliases where name = ?1")?;
    for Collection { name, .. } in collections {
        if taken.exists([name.as_str()])? {
            return Err(StoreError::AliasExists { name: name.clone() }.into());
        }
    }
    Ok(())
}

/// Adds a row. Returns 0 if the name is taken.
fn insert_classifier(connection: &Connection, contents: &ClassifierContents) -> Result<usize, Fault> {
    let sql = "insert into classifiers (id, name, job, next_job, version, state, model, model_fingerprint, dimension, definition,
                   report, weights, error_code, error_detail, created_at_ms, trained_at_ms)
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16) on conflict (name) do nothing";
    let (row, record) = (&contents.row, &contents.row.record);
    let error = record.error.as_ref();
    let values = params![
        row.id,
        record.name.as_str(),
        record.job.as_str(),
        record.next_job.as_ref().map(|job| job.as_str()),
        to_sql(record.version),
        row.progress.name(),
        record.model,
        record.model_fingerprint,
        to_sql(row.dimension as u64),
        json(&row.definition)?,
        row.report.as_ref().map(json).transpose()?,
        contents.weights,
        error.map(|error| error.code.name()),
        error.map(|error| error.detail.as_str()),
        record.created_at_ms,
        record.trained_at_ms,
    ];
    Ok(connection.execute(sql, values)?)
}
