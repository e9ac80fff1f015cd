//! Imports the content of another catalog: collections with their aliases, keys, and classifiers.

use super::PostgresCatalog;
use super::classifiers::insert_texts;
use super::rows::{json, text};
use crate::domain::{Alias, Collection, CollectionId, CollectionName, JobId};
use crate::storage::postgres::fault::Fault;
use crate::storage::postgres::session::{Parameter, Session};
use crate::store::{CatalogContents, ClassifierContents, StoreError};

impl PostgresCatalog {
    pub(crate) fn import_contents(&self, contents: &CatalogContents) -> Result<(), StoreError> {
        self.transaction("importing a catalog", |session| {
            for row in &contents.collections {
                if row_exists(session, "aliases", "name", row.name.as_str())? {
                    return Err(StoreError::AliasExists { name: row.name.clone() }.into());
                }
                if super::insert(session, row)? == 0 {
                    return Err(StoreError::CollectionExists { name: row.name.clone() }.into());
                }
            }
            for Alias { name, collection } in &contents.aliases {
                if let Some(row) = contents.collections.iter().find(|row: &&Collection| row.name == *collection) {
                    add_alias(session, name, &row.id)?;
                }
            }
            for stored in &contents.keys {
                if !row_exists(session, "api_keys", "id", stored.key.id.as_str())? {
                    super::insert_key(session, stored)?;
                }
            }
            Ok(())
        })
    }

    pub(crate) fn import_classifier(&self, contents: &ClassifierContents) -> Result<bool, StoreError> {
        self.transaction("importing a classifier", |session| {
            let Some(key) = insert_classifier(session, contents)? else { return Ok(false) };
            insert_texts(session, key, &contents.texts)?;
            Ok(true)
        })
    }
}

/// Whether a table has a row with this value. `table` and `column` must be literals of this file, because they become part of
/// the statement.
fn row_exists(session: &mut Session, table: &'static str, column: &'static str, value: &str) -> Result<bool, Fault> {
    let sql = format!("select 1 from dragoman.{table} where {column} = $1");
    Ok(session.row(&sql, &[&value])?.is_some())
}

fn add_alias(session: &mut Session, name: &CollectionName, collection: &CollectionId) -> Result<(), Fault> {
    if row_exists(session, "catalog", "name", name.as_str())? {
        return Err(StoreError::CollectionExists { name: name.clone() }.into());
    }
    let sql = "insert into dragoman.aliases (name, collection) values ($1, $2) on conflict (name) do nothing";
    match session.execute(sql, &[&name.as_str(), &collection.0])? {
        0 => Err(StoreError::AliasExists { name: name.clone() }.into()),
        _ => Ok(()),
    }
}

/// Adds a row and returns its key, or `None` if the name is taken.
fn insert_classifier(session: &mut Session, contents: &ClassifierContents) -> Result<Option<i64>, Fault> {
    let sql = "insert into dragoman.classifiers (id, name, job, next_job, version, state, model, model_fingerprint, dimension,
                   definition, report, weights, error_code, error_detail, created_at_ms, trained_at_ms)
               values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
               on conflict (name) do nothing returning key";
    let (row, record) = (&contents.row, &contents.row.record);
    let error = record.error.as_ref();
    let detail = error.map(|error| text(&error.detail));
    let values: [Parameter<'_>; 16] = [
        &row.id,
        &record.name.as_str(),
        &record.job.as_str(),
        &record.next_job.as_ref().map(JobId::as_str),
        &i64::try_from(record.version).unwrap_or(i64::MAX),
        &row.progress.name(),
        &record.model,
        &record.model_fingerprint,
        &(row.dimension as i64),
        &json(&row.definition),
        &row.report.as_ref().map(json),
        &contents.weights,
        &error.map(|error| error.code.name()),
        &detail.as_deref(),
        &record.created_at_ms,
        &record.trained_at_ms,
    ];
    Ok(session.row(sql, &values)?.map(|row| row.try_get(0)).transpose()?)
}
