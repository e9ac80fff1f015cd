//! `catalog.sqlite`, the list of collections. Opening it locks the data directory for this process.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rusqlite::{Connection, params};

use super::catalog_storage::{CatalogPart, CatalogStorage, CatalogWork, Within};
use super::check::check_structure;
use super::collections::delete_collection;
use super::connection::{check_exists, check_files, discard_unsynced_commit, open_existing_writer, open_writer};
use super::deadline::Deadline;
use super::directory_lock::DirectoryLock;
use super::error::Fault;
use super::migrate::CATALOG;
use super::read_only::open_read_only;
use super::sqlite_session::SqliteSession;
use super::{StoreError, log};
use crate::domain::{Collection, CollectionId, CollectionName, JobType};

/// The catalog in a data directory. `CatalogStorage` has most operations.
pub struct Catalog {
    connection: Mutex<Connection>,
    deadline: Deadline,
    lock: Arc<DirectoryLock>,
}

const CATALOG_FILE: &str = "catalog.sqlite";
/// The types of jobs that go on with the replacement of their collection. Jobs of other types name passages, which the
/// replacement does not have.
pub(crate) const FOLLOWING_JOBS: [JobType; 4] = [JobType::Import, JobType::Classify, JobType::Evaluate, JobType::Project];
/// The types of jobs that only read, so that they also go on with what a restore puts in place of their collection.
const READING_JOBS: [JobType; 3] = [JobType::Evaluate, JobType::Project, JobType::Snapshot];
const CHECKING: &str = "checking the catalog";

/// Writes `FOLLOWING_JOBS` as an SQL list.
pub(crate) fn following_jobs() -> String {
    sql_list(&FOLLOWING_JOBS)
}

fn sql_list(types: &[JobType]) -> String {
    types.iter().map(|kind| format!("'{}'", kind.name())).collect::<Vec<_>>().join(", ")
}

/// Replaces the id of a collection by another one in the requests of the unfinished jobs that only read it.
pub(super) fn redirect_reading_jobs(connection: &Connection, old: &CollectionId, new: &CollectionId) -> Result<(), Fault> {
    redirect_jobs(connection, &READING_JOBS, old, new)
}

fn redirect_jobs(connection: &Connection, types: &[JobType], old: &CollectionId, new: &CollectionId) -> Result<(), Fault> {
    // A collection's id is a UUID, so an occurrence in a request always means the collection.
    let sql = format!(
        "update jobs set request = replace(request, ?1, ?2)
         where finished_at_ms is null and type in ({}) and instr(request, ?1) > 0",
        sql_list(types)
    );
    connection.execute(&sql, [&old.0, &new.0])?;
    Ok(())
}

impl Catalog {
    /// Opens or creates `catalog.sqlite` in `data_dir` and migrates it. Fails with `StoreError::DataDirectoryInUse` if another
    /// catalog is open there, in this process or another.
    pub fn open(data_dir: &Path) -> Result<Self, StoreError> {
        let lock = DirectoryLock::acquire(data_dir)?;
        let path = data_dir.join(CATALOG_FILE);
        check_files(&path)?;
        if check_exists(&path).is_ok() {
            log::check(&path)?;
        }
        Self::from_connection(open_writer(&path, &CATALOG, true)?, lock)
    }

    /// Like `open`, but for an existing catalog. Fails with `StoreError::DatabaseLost` or `StoreError::DatabaseEmpty` if it is
    /// gone, without creating a new one.
    pub fn open_existing(data_dir: &Path) -> Result<Self, StoreError> {
        let lock = DirectoryLock::acquire(data_dir)?;
        let path = data_dir.join(CATALOG_FILE);
        check_exists(&path)?;
        log::check(&path)?;
        Self::from_connection(open_existing_writer(&path, &CATALOG, true)?, lock)
    }

    /// Like `open_existing`, but for reading a catalog that no other process has open, without changing any of its files.
    /// Fails with `StoreError::NotUpToDate` if it would have to be changed first.
    pub fn open_read_only(data_dir: &Path) -> Result<Self, StoreError> {
        let path = data_dir.join(CATALOG_FILE);
        check_exists(&path)?;
        let lock = DirectoryLock::acquire(data_dir)?;
        Self::from_connection(open_read_only(&path, &CATALOG)?, lock)
    }

    fn from_connection(mut connection: Connection, lock: DirectoryLock) -> Result<Self, StoreError> {
        let deadline = Deadline::default();
        deadline.apply_to(&mut connection).map_err(|fault| fault.into_store_error(CHECKING))?;
        // The catalog is small and everything depends on it, so check all of it.
        let mut damage = check_structure(&connection, CHECKING, 1).map_err(|fault| fault.into_store_error(CHECKING))?;
        if let Some(error) = damage.pop() {
            return Err(error);
        }
        Ok(Self { connection: Mutex::new(connection), deadline, lock: Arc::new(lock) })
    }

    pub fn directory_lock(&self) -> Arc<DirectoryLock> {
        Arc::clone(&self.lock)
    }

    /// Replaces the row with id `old` by `new`, which has another id, database and model, in one transaction. Aliases,
    /// idempotency records and unfinished jobs of the old id (`FOLLOWING_JOBS`, `READING_JOBS`) then point to the new one.
    /// Returns whether the old row existed.
    pub fn swap_in(&self, old: &CollectionId, new: &Collection) -> Result<bool, StoreError> {
        let (name, fingerprint) = new.model.as_ref().map_or(("", ""), |model| (model.name.as_str(), model.fingerprint.as_str()));
        let bounds = new.passages;
        self.run("replacing a collection", |connection| {
            let transaction = connection.unchecked_transaction()?;
            // Aliases point to the old id until the next statement.
            transaction.pragma_update(None, "defer_foreign_keys", true)?;
            let sql = "update collections set id = ?2, model = ?3, model_fingerprint = ?4, dimension = ?5,
                       passage_tokens_max = ?6, passage_overlap_tokens = ?7 where id = ?1";
            let changed = transaction.execute(
                sql,
                params![
                    old.0,
                    new.id.0,
                    name,
                    fingerprint,
                    new.dimension as i64,
                    bounds.map(|bounds| bounds.tokens_max as i64),
                    bounds.map_or(0, |bounds| bounds.overlap_tokens as i64),
                ],
            )?;
            transaction.execute("update aliases set collection = ?2 where collection = ?1", [&old.0, &new.id.0])?;
            transaction.execute("update idempotency_records set answer = ?2 where answer = ?1", [&old.0, &new.id.0])?;
            redirect_jobs(&transaction, &FOLLOWING_JOBS, old, &new.id)?;
            redirect_reading_jobs(&transaction, old, &new.id)?;
            transaction.commit()?;
            Ok(changed > 0)
        })
    }

    /// Runs statements. Errors name the operation.
    pub(super) fn run<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let connection = self.connection.lock();
        let done = work(&connection).map_err(|fault| fault.into_store_error(operation));
        done.inspect_err(|error| discard_unsynced_commit(&connection, error))
    }
}

impl CatalogStorage for Catalog {
    fn run_work(&self, operation: &'static str, within: Within, work: &mut CatalogWork<'_>) -> Result<(), StoreError> {
        self.run(operation, |connection| {
            if within == Within::Statements {
                return Ok(work(&mut SqliteSession { connection, operation })?);
            }
            let transaction = connection.unchecked_transaction()?;
            work(&mut SqliteSession { connection: &transaction, operation })?;
            Ok(transaction.commit()?)
        })
    }

    fn server_number(&self) -> Option<i64> {
        None
    }

    fn delete(&self, name: &CollectionName) -> Result<Option<Collection>, StoreError> {
        self.run_in(Within::ChangeOf(CatalogPart::Names), "deleting a collection", |session| delete_collection(session, name))
    }

    fn interrupt_after(&self, time: Instant) {
        self.deadline.set(time);
    }
}

/// Gives the operations of `CatalogStorage`.
impl Deref for Catalog {
    type Target = dyn CatalogStorage;

    fn deref(&self) -> &Self::Target {
        self
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::{CollectionModel, HnswSettings, Language, Metric, PassageBounds, Quantization, RequestKey};

    pub fn name(text: &str) -> CollectionName {
        CollectionName::parse(text).unwrap()
    }

    pub fn collection(text: &str) -> Collection {
        Collection {
            id: CollectionId(format!("id-of-{text}")),
            name: name(text),
            description: Some("Nachrichten aus aller Welt".to_owned()),
            model: Some(CollectionModel { name: "ems-small".to_owned(), fingerprint: "c0ffee".to_owned() }),
            dimension: 256,
            metric: Metric::Cosine,
            quantization: Quantization::I8,
            hnsw: HnswSettings { m: 32, ef_construction: 200, ef_search: 50 },
            passages: Some(PassageBounds { tokens_max: 64, overlap_tokens: 16 }),
            default_languages: ["fr", "ja"].map(|code| Language::parse(code).unwrap()).to_vec(),
            created_at_ms: 1_700_000_000_123,
        }
    }

    #[test]
    fn a_replacement_takes_over_the_name_aliases_and_idempotency_key() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        let request = RequestKey::new("r1", "f1".to_owned()).unwrap();
        let old = Collection { created_at_ms: 1_000, ..collection("news") };
        catalog.create(&old, Some(&request)).unwrap();
        catalog.set_alias(&name("latest"), &old.id).unwrap();
        let new = Collection {
            id: CollectionId("replacement".to_owned()),
            model: Some(CollectionModel { name: "ems-base".to_owned(), fingerprint: "beef".to_owned() }),
            dimension: 1024,
            passages: Some(PassageBounds { tokens_max: 40, overlap_tokens: 8 }),
            ..old.clone()
        };
        assert!(catalog.swap_in(&old.id, &new).unwrap());
        assert!(!catalog.swap_in(&old.id, &new).unwrap());
        drop(catalog);
        let catalog = Catalog::open(folder.path()).unwrap();
        assert_eq!(catalog.get(&name("news")).unwrap(), Some(new.clone()));
        assert_eq!(catalog.aliases().unwrap()[0].collection, name("news"));
        assert_eq!(catalog.find_created_by(&request, 2_000).unwrap(), Some(new.id.0));
    }

    #[test]
    fn a_damaged_log_is_refused_and_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        ["a", "b", "c"].iter().for_each(|name| catalog.create(&collection(name), None).unwrap());
        // The files of a killed process, with a bit flipped in the first frame.
        let left = tempfile::tempdir().unwrap();
        let [database, log] =
            ["catalog.sqlite", "catalog.sqlite-wal"].map(|file| std::fs::read(folder.path().join(file)).unwrap());
        let damaged: Vec<u8> = log.iter().enumerate().map(|(index, byte)| byte ^ u8::from(index == 100)).collect();
        std::fs::write(left.path().join("catalog.sqlite"), database).unwrap();
        std::fs::write(left.path().join("catalog.sqlite-wal"), &damaged).unwrap();
        for open in [Catalog::open, Catalog::open_existing] {
            let error = open(left.path()).err().unwrap();
            assert!(matches!(error, StoreError::LogDamaged { .. }), "{error:?}");
        }
        assert!(std::fs::read(left.path().join("catalog.sqlite-wal")).unwrap() == damaged);
    }

    #[test]
    fn a_corrupt_row_error_names_its_table_and_row() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        catalog.create(&collection("news"), None).unwrap();
        let damage = "update collections set metric = 'taxicab';
                      insert into api_keys (id, name, secret_sha256, scope, created_at_ms)
                      values ('00000000000000000000000000000000', '', zeroblob(32), 'root', 0)";
        catalog.run("testing", |connection| Ok(connection.execute_batch(damage)?)).unwrap();
        let read = [("collections", catalog.get(&name("news")).map(drop)), ("api_keys", catalog.keys().map(drop))];
        for (expect, found) in read {
            assert!(matches!(found, Err(StoreError::CorruptRow { table, row: 1, .. }) if table == expect), "{found:?}");
        }
    }
}
