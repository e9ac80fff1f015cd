//! Opens database files: creates their folders durably, migrates them, and configures the write-ahead log and durability.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::ffi::SQLITE_IOERR_FSYNC;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::io::Errno;

use super::StoreError;
use super::clock::{register_clock, system_clock};
use super::error::Fault;
use super::migrate::{Schema, applied, check_schema, migrate};
use crate::disk;

/// How long a statement waits for a lock. Within one server no connection waits for a lock, but a backup program may hold one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

const OPENING: &str = "opening a database";

/// What SQLite appends to the path of a database for the files next to it.
pub(super) const LOG_SUFFIX: &str = "-wal";
const OTHER_SUFFIXES: [&str; 2] = ["-shm", "-journal"];
/// Maximum number of files of a database.
const FILES: u64 = 4;

/// Maximum number of prepared statements that a connection keeps.
const STATEMENTS_CACHED: usize = 64;

/// Number of pages (of 4 KiB) in the write-ahead log after which a commit also moves them into the database. SQLite's default
/// of 1,000 is only two batches of documents, and each time the same index pages would be written and synced again.
const CHECKPOINT_PAGES: i64 = 4_096;

/// Size of the writer's page cache in KiB. A larger transaction writes some pages before the commit, and then again.
const WRITER_CACHE_KIB: i64 = 16 << 10;

/// Size of a reader's page cache in KiB.
const READER_CACHE_KIB: i64 = 4 << 10;

/// Size of the write-ahead log that stays on disk after a checkpoint, in bytes. A large import makes the log larger for a
/// while.
const WAL_BYTES_KEPT: i64 = 64 << 20;

/// Mode of new folders, from which the system takes the bits of the umask.
const FOLDER_MODE: u32 = 0o777;

/// Opens or creates a database for writing and migrates it. With `power_safe`, a commit waits until the disk has it.
pub(super) fn open_writer(path: &Path, schema: &Schema, power_safe: bool) -> Result<Connection, StoreError> {
    let folder = disk::parent(path);
    create_folder(folder)?;
    let fresh = !path.exists();
    let open = || -> Result<Connection, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = open_connection(path, flags)?;
        configure_writer(path, &mut connection, schema, power_safe)?;
        Ok(connection)
    };
    let connection = open().map_err(|fault| file_fault(fault, path, OPENING))?;
    if fresh {
        // The caller may have created the folder without syncing its parent.
        sync(folder)?;
        sync(disk::parent(folder))?;
    }
    Ok(connection)
}

/// Like `open_writer`, but for an existing database. A database that is gone or has no tables has lost its content, so this
/// fails instead of creating a new one.
pub(super) fn open_existing_writer(path: &Path, schema: &Schema, power_safe: bool) -> Result<Connection, StoreError> {
    check_exists(path)?;
    let open = || -> Result<Connection, Fault> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = open_connection(path, flags)?;
        if applied(&connection, schema)? == 0 {
            return Err(StoreError::DatabaseEmpty { path: path.to_owned() }.into());
        }
        configure_writer(path, &mut connection, schema, power_safe)?;
        Ok(connection)
    };
    open().map_err(|fault| file_fault(fault, path, OPENING))
}

/// Refuses a missing or empty database, and one with a file that is not regular. Looks only at the files: SQLite removes the log
/// of an empty database when opening it.
pub(super) fn check_exists(path: &Path) -> Result<(), StoreError> {
    check_files(path)?;
    match path.metadata() {
        Ok(file) if file.len() == 0 => Err(StoreError::DatabaseEmpty { path: path.to_owned() }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(StoreError::DatabaseLost { path: path.to_owned() }),
        Err(error) => Err(file_error(path, error)),
    }
}

/// Refuses a database if one of its files exists and is not regular.
pub(super) fn check_files(database: &Path) -> Result<(), StoreError> {
    check_regular(database)?;
    for suffix in [LOG_SUFFIX].into_iter().chain(OTHER_SUFFIXES) {
        let path = beside(database, suffix);
        // SQLite refuses links to these files.
        if path.is_symlink() {
            return Err(StoreError::NotRegular { path });
        }
        check_regular(&path)?;
    }
    Ok(())
}

/// Refuses anything but a regular file, a link to one, or nothing: opening a FIFO can wait forever.
pub(super) fn check_regular(path: &Path) -> Result<(), StoreError> {
    match path.metadata() {
        Ok(file) if file.is_file() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(()),
        // A link to nothing, a loop of links, or a path through a file.
        Err(error) if !matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::LOOP | Errno::NOTDIR)) => {
            Err(file_error(path, error))
        }
        _ => Err(StoreError::NotRegular { path: path.to_owned() }),
    }
}

/// Returns the path of a file next to a database.
pub(super) fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Opens a connection and applies the settings that all connections need.
pub(super) fn open_connection(path: &Path, flags: OpenFlags) -> Result<Connection, Fault> {
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    keep_statements(&connection)?;
    register_clock(&connection, system_clock)?;
    Ok(connection)
}

fn configure_writer(path: &Path, connection: &mut Connection, schema: &Schema, power_safe: bool) -> Result<(), Fault> {
    // Done first, because a foreign or newer database must not be changed.
    if migrate(connection, schema)? {
        // Renaming a table leaves FTS5 with an open statement, which blocks checkpoints.
        *connection = open_connection(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    }
    check_schema(connection, schema)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(StoreError::NoWriteAheadLog { path: path.to_owned(), got: mode }.into());
    }
    connection.pragma_update(None, "synchronous", if power_safe { "full" } else { "normal" })?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // A negative value means KiB instead of pages.
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB)?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", CHECKPOINT_PAGES, |_| Ok(()))?;
    connection.pragma_update_and_check(None, "journal_size_limit", WAL_BYTES_KEPT, |_| Ok(()))?;
    // The first read creates the log and the file next to it.
    Ok(connection.query_row("select count(*) from sqlite_schema", [], |_| Ok(()))?)
}

/// Opens a database that a writer of this process holds open.
pub(super) fn open_reader(path: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = open_connection(path, flags)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB)?;
    Ok(connection)
}

/// Keeps statements prepared between uses. Without the guarantee that a plan does not depend on bound values, SQLite
/// would prepare a statement again whenever it comes from the cache, which takes longer than most of them run.
fn keep_statements(connection: &Connection) -> Result<(), Fault> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Adds to an error the name of the failed operation, which was to open or to create the database at `path`. SQLite does not say
/// that the disk has no room for another file.
pub(super) fn file_fault(fault: Fault, path: &Path, operation: &'static str) -> StoreError {
    let lacks_room = || disk::free_files(disk::parent(path)).is_ok_and(|files| files < FILES);
    match fault {
        Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) && lacks_room() => {
            StoreError::StorageUnavailable { operation, source: Arc::new(error) }
        }
        fault => fault.into_store_error(operation),
    }
}

/// Removes a transaction from the write-ahead log that is complete there but could not be synced. After a crash it would be
/// committed, although its caller got this error, and may have removed files since.
pub(super) fn discard_unsynced_commit(connection: &Connection, error: &StoreError) {
    let StoreError::StorageUnavailable { source, .. } = error else { return };
    let cause = source.downcast_ref::<rusqlite::Error>().and_then(rusqlite::Error::sqlite_error);
    if cause.is_none_or(|cause| cause.extended_code != SQLITE_IOERR_FSYNC) {
        return;
    }
    // A transaction without effect overwrites it: SQLite writes the page of this number even if the number stays the same. It
    // syncs that after writing it, so another error does not matter.
    let version = connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    let _ = version.and_then(|version| connection.pragma_update(None, "user_version", version));
}

/// Creates a folder with its parents durably.
pub(super) fn create_folder(path: &Path) -> Result<(), StoreError> {
    disk::create_folder(path, FOLDER_MODE).map_err(|(path, error)| file_error(&path, error))
}

/// Makes a file or the entries of a folder durable.
pub(super) fn sync(path: &Path) -> Result<(), StoreError> {
    disk::sync(path).map_err(|error| file_error(path, error))
}

/// Makes an error that names the file. A full or read-only disk gets a different error.
pub(super) fn file_error(path: &Path, error: io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::StorageUnavailable { operation: "creating a file", source: Arc::new(error) }
        }
        _ => StoreError::File { path: path.to_owned(), source: Arc::new(error) },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::super::migrate::COLLECTION;
    use super::*;

    fn pragma(connection: &Connection, name: &str) -> i64 {
        connection.pragma_query_value(None, name, |row| row.get(0)).unwrap()
    }

    #[test]
    fn power_safety_sets_the_synchronous_pragma() {
        let folder = tempfile::tempdir().unwrap();
        for (power_safe, synchronous) in [(true, 2), (false, 1)] {
            let path = folder.path().join(format!("{power_safe}.sqlite"));
            let connection = open_writer(&path, &COLLECTION, power_safe).unwrap();
            assert_eq!(pragma(&connection, "synchronous"), synchronous);
        }
    }

    #[test]
    fn a_cached_statement_is_not_prepared_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("documents.sqlite");
        let writer = open_writer(&path, &COLLECTION, false).unwrap();
        for connection in [&open_reader(&path).unwrap(), &writer] {
            let sql = "select d.id from passages p join documents d on d.key = p.document where p.id = ?1";
            for key in 0..5 {
                let mut statement = connection.prepare_cached(sql).unwrap();
                assert!(!statement.exists([key]).unwrap());
                assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0, "use {key}");
            }
        }
    }

    #[test]
    fn missing_parent_folders_are_created() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b/c/documents.sqlite");
        drop(open_writer(&path, &COLLECTION, true).unwrap());
        assert!(path.is_file());
    }

    /// Lets `replace` put something at the path of a database or of a file next to it, and checks that this is refused.
    fn check_refused(suffix: &str, replace: impl FnOnce(&Path)) {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("documents.sqlite");
        drop(open_writer(&database, &COLLECTION, true).unwrap());
        let path = beside(&database, suffix);
        if suffix.is_empty() {
            fs::rename(&database, folder.path().join("moved")).unwrap();
        }
        replace(&path);
        let error = open_existing_writer(&database, &COLLECTION, true).unwrap_err();
        assert!(matches!(&error, StoreError::NotRegular { path: named } if *named == path), "{suffix:?}: {error:?}");
        assert!(error.is_damage());
    }

    #[test]
    fn files_that_are_not_regular_are_refused() {
        for suffix in ["", "-wal", "-shm", "-journal"] {
            check_refused(suffix, |path| fs::create_dir(path).unwrap());
            check_refused(suffix, |path| rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap());
            check_refused(suffix, |path| symlink(path, path).unwrap());
        }
        check_refused("-wal", |path| symlink(path.with_file_name("elsewhere"), path).unwrap());
    }

    #[test]
    fn a_link_to_a_database_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let [database, link] = ["documents.sqlite", "link"].map(|name| folder.path().join(name));
        drop(open_writer(&database, &COLLECTION, true).unwrap());
        symlink(&database, &link).unwrap();
        open_existing_writer(&link, &COLLECTION, true).unwrap();
    }

    #[test]
    fn the_error_names_a_folder_that_cannot_be_created() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "no folder").unwrap();
        let error = open_writer(&file.join("documents.sqlite"), &COLLECTION, true).unwrap_err();
        assert!(matches!(&error, StoreError::File { path, .. } if *path == file), "{error:?}");
    }

    #[test]
    fn a_reader_cannot_write() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("documents.sqlite");
        let _writer = open_writer(&path, &COLLECTION, true).unwrap();
        assert!(open_reader(&path).unwrap().execute("delete from documents", []).is_err());
    }
}
