//! `catalog.sqlite`: which collections there are. Opening it takes the data directory for this process alone.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::StoreError;
use super::connection::{create_folder, file_error, open_writer};
use super::error::Fault;
use super::migrate::CATALOG;
use crate::domain::{Collection, CollectionId, CollectionName, Metric, Page};

/// The catalog. Calls block; the service makes them off the async threads. Every change is durable when its call returns.
pub struct Catalog {
    connection: Mutex<Connection>,
    /// Locked for as long as it is open. The system unlocks it when the process ends, however it ends.
    _lock: File,
}

const COLUMNS: &str = "key, id, name, description, model, model_fingerprint, dimension, metric, created_at_ms";

impl Catalog {
    /// Opens or creates `catalog.sqlite` in `data_dir` and migrates it. `StoreError::DataDirectoryInUse` when another catalog
    /// is open there, in this process or another.
    pub fn open(data_dir: &Path) -> Result<Self, StoreError> {
        create_folder(data_dir)?;
        let lock = lock(data_dir)?;
        let connection = open_writer(&data_dir.join("catalog.sqlite"), &CATALOG, true)?;
        Ok(Self { connection: Mutex::new(connection), _lock: lock })
    }

    /// Adds a collection. `StoreError::CollectionExists` when the name is taken.
    pub fn create(&self, collection: &Collection) -> Result<(), StoreError> {
        let sql = "insert into collections (id, name, description, model, model_fingerprint, dimension, metric, created_at_ms)
                   values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) on conflict (name) do nothing";
        let values = params![
            collection.id.0,
            collection.name.as_str(),
            collection.description,
            collection.model,
            collection.model_fingerprint,
            collection.dimension as i64,
            metric_name(collection.metric),
            collection.created_at_ms,
        ];
        let inserted = self.run("creating a collection", |connection| Ok(connection.execute(sql, values)?))?;
        if inserted == 0 {
            return Err(StoreError::CollectionExists { name: collection.name.clone() });
        }
        Ok(())
    }

    /// Finds a collection.
    pub fn get(&self, name: &CollectionName) -> Result<Option<Collection>, StoreError> {
        self.run("reading a collection", |connection| find(connection, name))
    }

    /// Lists collections in the order of their names; gives at most `page.limit` rows.
    pub fn list(&self, page: &Page<CollectionName>) -> Result<Vec<Collection>, StoreError> {
        self.run("listing collections", |connection| {
            let sql = format!("select {COLUMNS} from collections where name > ?1 order by name limit ?2");
            let after = page.after.as_ref().map_or("", CollectionName::as_str);
            let limit = i64::try_from(page.limit).unwrap_or(i64::MAX);
            connection.prepare_cached(&sql)?.query_and_then(params![after, limit], read)?.collect()
        })
    }

    /// How many collections there are.
    pub fn count(&self) -> Result<usize, StoreError> {
        self.run("counting collections", |connection| {
            Ok(connection.query_row("select count(*) from collections", [], |row| row.get::<_, i64>(0))? as usize)
        })
    }

    /// Removes a collection and gives what it was. Its folder stays; the caller deletes that.
    pub fn delete(&self, name: &CollectionName) -> Result<Option<Collection>, StoreError> {
        self.run("deleting a collection", |connection| {
            let found = find(connection, name)?;
            if found.is_some() {
                connection.execute("delete from collections where name = ?1", [name.as_str()])?;
            }
            Ok(found)
        })
    }

    fn run<T>(&self, doing: &'static str, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, StoreError> {
        let connection: MutexGuard<'_, Connection> = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        work(&connection).map_err(|fault| fault.while_doing(doing))
    }
}

/// Takes the data directory.
fn lock(data_dir: &Path) -> Result<File, StoreError> {
    let path = data_dir.join("lock");
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(|error| file_error(&path, error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StoreError::DataDirectoryInUse { path: data_dir.to_owned() }),
        Err(TryLockError::Error(error)) => Err(file_error(&path, error)),
    }
}

fn find(connection: &Connection, name: &CollectionName) -> Result<Option<Collection>, Fault> {
    let sql = format!("select {COLUMNS} from collections where name = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_row([name.as_str()], |row| Ok(read(row))).optional()?.transpose()
}

/// Reads a row of `COLUMNS`.
fn read(row: &Row<'_>) -> Result<Collection, Fault> {
    let key = row.get(0)?;
    let corrupt = |problem| StoreError::CorruptRow { table: "collections", row: key, problem };
    let name: String = row.get(2)?;
    let metric: String = row.get(7)?;
    Ok(Collection {
        id: CollectionId(row.get(1)?),
        name: CollectionName::parse(&name).map_err(|_| corrupt("its name is none"))?,
        description: row.get(3)?,
        model: row.get(4)?,
        model_fingerprint: row.get(5)?,
        dimension: usize::try_from(row.get::<_, i64>(6)?).map_err(|_| corrupt("its dimension is negative"))?,
        metric: metric_named(&metric).ok_or_else(|| corrupt("its metric is unknown"))?,
        created_at_ms: row.get(8)?,
    })
}

fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Cosine => "cosine",
    }
}

fn metric_named(name: &str) -> Option<Metric> {
    [Metric::Cosine].into_iter().find(|metric| metric_name(*metric) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> CollectionName {
        CollectionName::parse(text).unwrap()
    }

    fn collection(text: &str) -> Collection {
        Collection {
            id: CollectionId(format!("id-of-{text}")),
            name: name(text),
            description: Some("Nachrichten aus aller Welt".to_owned()),
            model: "ems-small".to_owned(),
            model_fingerprint: "c0ffee".to_owned(),
            dimension: 256,
            metric: Metric::Cosine,
            created_at_ms: 1_700_000_000_123,
        }
    }

    #[test]
    fn a_collection_is_found_after_a_restart_as_it_was_created() {
        let folder = tempfile::tempdir().unwrap();
        let plain = Collection { description: None, ..collection("plain") };
        let catalog = Catalog::open(folder.path()).unwrap();
        catalog.create(&collection("news")).unwrap();
        catalog.create(&plain).unwrap();
        drop(catalog);

        let catalog = Catalog::open(folder.path()).unwrap();
        assert_eq!(catalog.get(&name("news")).unwrap(), Some(collection("news")));
        assert_eq!(catalog.get(&name("plain")).unwrap(), Some(plain));
        assert_eq!(catalog.get(&name("absent")).unwrap(), None);
        assert_eq!(catalog.count().unwrap(), 2);
    }

    #[test]
    fn a_name_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        catalog.create(&collection("news")).unwrap();
        let second = Collection { id: CollectionId("other".to_owned()), ..collection("news") };
        let error = catalog.create(&second).unwrap_err();
        assert!(matches!(&error, StoreError::CollectionExists { name } if name.as_str() == "news"), "{error:?}");
        assert_eq!(catalog.get(&name("news")).unwrap(), Some(collection("news")));
    }

    #[test]
    fn a_deleted_collection_frees_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        catalog.create(&collection("news")).unwrap();
        assert_eq!(catalog.delete(&name("news")).unwrap(), Some(collection("news")));
        assert_eq!(catalog.delete(&name("news")).unwrap(), None);
        catalog.create(&collection("news")).unwrap();
    }

    #[test]
    fn pages_follow_each_other_in_the_order_of_names() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        for text in ["b", "Z", "a", "a-1"] {
            catalog.create(&collection(text)).unwrap();
        }
        let page = |limit, after: Option<&str>| {
            let rows = catalog.list(&Page { limit, after: after.map(name) }).unwrap();
            rows.iter().map(|row| row.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(page(3, None), ["Z", "a", "a-1"]);
        assert_eq!(page(3, Some("a-1")), ["b"]);
        assert_eq!(page(3, Some("b")), [""; 0]);
        assert_eq!(page(0, None), [""; 0]);
    }

    #[test]
    fn a_data_directory_has_one_server() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        let error = Catalog::open(folder.path()).err().unwrap();
        assert!(matches!(&error, StoreError::DataDirectoryInUse { path } if path == folder.path()), "{error:?}");
        drop(catalog);
        Catalog::open(folder.path()).unwrap();
    }

    #[test]
    fn a_damaged_row_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(folder.path()).unwrap();
        catalog.create(&collection("news")).unwrap();
        catalog.run("testing", |connection| Ok(connection.execute("update collections set metric = 'taxicab'", [])?)).unwrap();
        let error = catalog.get(&name("news")).unwrap_err();
        assert!(matches!(error, StoreError::CorruptRow { table: "collections", row: 1, .. }), "{error:?}");
    }
}
