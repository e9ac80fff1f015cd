//! Copies what a snapshot includes besides collections from one catalog to another: aliases and trained classifiers. Rows are
//! copied from database to database, so that only one of them is in memory at a time.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};

use super::aliases::{point_alias, read_aliases};
use super::catalog::redirect_reading_jobs;
use super::collections::insert_all;
use super::error::Fault;
use super::sqlite_session::SqliteSession;
use super::{Catalog, StoreError};
use crate::domain::{ClassifierName, Collection, CollectionId, CollectionName};

/// The name under which the other catalog is attached.
const ORIGIN: &str = "origin";

/// The columns of a classifier except its key, id and name, and the columns of a text except its key and its classifier's.
const CLASSIFIER_COLUMNS: &str = "job, state, model, model_fingerprint, dimension, definition, report, weights, created_at_ms,
    trained_at_ms, version";
const TEXT_COLUMNS: &str = "description, text, labels, language, embedding";

/// The change that a restored snapshot makes to the catalog.
#[derive(Debug, Clone, Default)]
pub struct Replacement {
    /// The collections to remove. Their aliases, and the jobs that only read them, move to the new collections with the same
    /// names.
    pub replaced: Vec<Collection>,
    pub new: Vec<Collection>,
    /// Aliases and classifiers to add.
    pub metadata: SnapshotMetadata,
}

/// Aliases and classifiers of another catalog.
#[derive(Debug, Clone, Default)]
pub struct SnapshotMetadata {
    /// The folder of the other catalog, which no process may have open. Without it there are no classifiers.
    pub origin: Option<PathBuf>,
    pub aliases: Vec<(CollectionName, CollectionId)>,
    /// Classifiers with their new ids.
    pub classifiers: Vec<(ClassifierName, String)>,
    /// Whether to replace aliases and classifiers with these names.
    pub replace: bool,
}

impl Catalog {
    /// Fills this empty catalog with `collections`. If there is an `origin`, which is the folder of their catalog, also copies
    /// the other data of a snapshot from there. Collections are matched by name, because one may have been re-embedded since
    /// its row was read, and then has another id there. An alias whose name was that of a collection when that was copied is left
    /// out: the collection keeps the name, and a snapshot with both could not be restored.
    pub fn fill(&self, collections: &[Collection], origin: Option<&Path>) -> Result<(), StoreError> {
        const OPERATION: &str = "filling a catalog";
        self.run(OPERATION, |connection| {
            attached(connection, origin, |connection| {
                let transaction = connection.unchecked_transaction()?;
                insert_all(&mut SqliteSession { connection: &transaction, operation: OPERATION }, collections)?;
                if origin.is_some() {
                    transaction.execute_batch(&format!(
                        "insert into aliases (name, collection)
                         select alias.name, here.id from {ORIGIN}.aliases alias
                         join {ORIGIN}.collections there on there.id = alias.collection
                         join main.collections here on here.name = there.name
                         where alias.name not in (select name from main.collections);
                         insert into classifiers (key, id, name, {CLASSIFIER_COLUMNS})
                         select key, id, name, {CLASSIFIER_COLUMNS} from {ORIGIN}.classifiers where state = 'ready';
                         insert into classifier_texts (classifier, {TEXT_COLUMNS})
                         select classifier, {TEXT_COLUMNS} from {ORIGIN}.classifier_texts
                         where classifier in (select key from main.classifiers) order by key;"
                    ))?;
                }
                Ok(transaction.commit()?)
            })
        })
    }

    /// Applies a restored snapshot, all or nothing. Fails with `StoreError::CollectionExists` if a collection that is not
    /// replaced has the name of a new collection, or if any collection has the name of a new alias. Fails with
    /// `StoreError::AliasExists` or `StoreError::ClassifierExists` if one exists and must not be replaced.
    pub fn replace(&self, change: &Replacement) -> Result<(), StoreError> {
        const OPERATION: &str = "replacing collections";
        self.run(OPERATION, |connection| {
            attached(connection, change.metadata.origin.as_deref(), |connection| {
                let transaction = connection.unchecked_transaction()?;
                let session = &mut SqliteSession { connection: &transaction, operation: OPERATION };
                let mut aliases = read_aliases(session)?;
                aliases.retain(|alias| change.replaced.iter().any(|replaced| replaced.name == alias.collection));
                for collection in &change.replaced {
                    transaction.execute("delete from collections where id = ?1", [&collection.id.0])?;
                }
                insert_all(session, &change.new)?;
                for old in &change.replaced {
                    if let Some(new) = change.new.iter().find(|new| new.name == old.name) {
                        redirect_reading_jobs(&transaction, &old.id, &new.id)?;
                    }
                }
                for alias in &aliases {
                    let new = change.new.iter().find(|new| new.name == alias.collection);
                    if let Some(new) = new {
                        point_alias(session, &alias.name, &new.id, true)?;
                    }
                }
                for (name, collection) in &change.metadata.aliases {
                    point_alias(session, name, collection, change.metadata.replace)?;
                }
                for (name, id) in &change.metadata.classifiers {
                    copy_classifier(&transaction, name, id, change.metadata.replace)?;
                }
                Ok(transaction.commit()?)
            })
        })
    }
}

/// Runs `work` with the other catalog attached. A transaction that `work` leaves open is rolled back first.
fn attached<T>(
    connection: &Connection,
    origin: Option<&Path>,
    work: impl FnOnce(&Connection) -> Result<T, Fault>,
) -> Result<T, Fault> {
    let Some(origin) = origin else { return work(connection) };
    let path = origin.join("catalog.sqlite");
    let detach = || {
        // Prepared statements would keep the other catalog busy.
        connection.flush_prepared_statement_cache();
        connection.execute(&format!("detach {ORIGIN}"), [])
    };
    // Detaches a catalog that an earlier change could not detach. Usually there is none.
    let _ = detach();
    connection.execute(&format!("attach ?1 as {ORIGIN}"), [path.to_string_lossy()])?;
    let done = work(connection);
    // A failure cannot undo the commit, so it is not a failure of the change.
    let _ = detach();
    done
}

fn copy_classifier(connection: &Connection, name: &ClassifierName, id: &str, replace: bool) -> Result<(), Fault> {
    if replace {
        connection.execute("delete from main.classifiers where name = ?1", [name.as_str()])?;
    }
    let sql = format!(
        "insert into main.classifiers (id, name, {CLASSIFIER_COLUMNS})
         select ?1, name, {CLASSIFIER_COLUMNS} from {ORIGIN}.classifiers where name = ?2 on conflict (name) do nothing"
    );
    if connection.execute(&sql, params![id, name.as_str()])? == 0 {
        return Err(StoreError::ClassifierExists { name: name.clone() }.into());
    }
    let key = connection.last_insert_rowid();
    let sql = format!(
        "insert into main.classifier_texts (classifier, {TEXT_COLUMNS})
         select ?1, {TEXT_COLUMNS} from {ORIGIN}.classifier_texts
         where classifier = (select key from {ORIGIN}.classifiers where name = ?2) order by key"
    );
    connection.execute(&sql, params![key, name.as_str()])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::catalog::tests::{collection, name};
    use super::*;
    use crate::domain::Alias;

    #[test]
    fn aliases_are_copied_even_if_the_collection_got_a_new_id() {
        let folder = tempfile::tempdir().unwrap();
        let origin = Catalog::open(&folder.path().join("origin")).unwrap();
        let (old, other) = (collection("news"), collection("other"));
        let new = Collection { id: CollectionId("new".to_owned()), ..old.clone() };
        for (collection, alias) in [(&old, "latest"), (&other, "else")] {
            origin.create(collection, None).unwrap();
            origin.set_alias(&name(alias), &collection.id).unwrap();
        }
        assert!(origin.swap_in(&old.id, &new).unwrap());
        let copy = Catalog::open(&folder.path().join("copy")).unwrap();
        copy.fill(&[old], Some(&folder.path().join("origin"))).unwrap();
        assert_eq!(copy.aliases().unwrap(), [Alias { name: name("latest"), collection: name("news") }]);
    }

    #[test]
    fn an_alias_that_got_the_name_of_a_copied_collection_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let origin = Catalog::open(&folder.path().join("origin")).unwrap();
        let (deleted, other) = (collection("news"), collection("other"));
        origin.create(&other, None).unwrap();
        origin.set_alias(&name("news"), &other.id).unwrap();
        let copy = Catalog::open(&folder.path().join("copy")).unwrap();
        copy.fill(&[deleted, other], Some(&folder.path().join("origin"))).unwrap();
        assert_eq!(copy.aliases().unwrap(), []);
    }
}
