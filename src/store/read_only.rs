//! Opens databases that no other process has open for reading, without changing any of their files: no migration, no checkpoint
//! of the log, and no shared-memory file.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::connection::{check_exists, open_connection};
use super::error::Fault;
use super::foreign::escaped;
use super::migrate::{Schema, applied, check_schema};
use super::{StoreError, log};

/// Opens a database, including the content of its log. Fails with `StoreError::NotUpToDate` if migrations are missing.
pub(super) fn open_read_only(path: &Path, schema: &Schema) -> Result<Connection, StoreError> {
    check_exists(path)?;
    log::check(path)?;
    let logged = log::log_path(path).metadata().is_ok_and(|log| log.len() > 0);
    let open = if logged { open_exclusive } else { open_immutable };
    let connection = open(path).and_then(|connection| check(connection, path, schema));
    connection.map_err(|fault| fault.into_store_error("opening a database to read it"))
}

/// Opens it as immutable, so that SQLite neither looks for a lock or log nor makes one.
fn open_immutable(path: &Path) -> Result<Connection, Fault> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    open_connection(format!("file:{}?mode=ro&immutable=1", escaped(path)).as_ref(), flags)
}

/// Opens it exclusively, so that the connection keeps the log's index in its own memory instead of a shared file. That requires
/// a connection that may write.
fn open_exclusive(path: &Path) -> Result<Connection, Fault> {
    let connection = open_connection(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update_and_check(None, "locking_mode", "exclusive", |_| Ok(()))?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    connection.pragma_update(None, "query_only", true)?;
    Ok(connection)
}

fn check(connection: Connection, path: &Path, schema: &Schema) -> Result<Connection, Fault> {
    let (found, known) = (applied(&connection, schema)?, schema.migrations.len());
    if found == 0 {
        return Err(StoreError::DatabaseEmpty { path: path.to_owned() }.into());
    }
    if found < known {
        return Err(StoreError::NotUpToDate { problem: format!("it has version {found} of {known}") }.into());
    }
    check_schema(&connection, schema)?;
    Ok(connection)
}

/// Fails with `StoreError::NotUpToDate` while passages lack what newer versions added: terms, stems or tokens.
pub(super) fn check_filled(connection: &Connection) -> Result<(), Fault> {
    let unfilled =
        ["lexical_fill", "stem_fill", "token_fill"].map(|table| format!("exists (select 1 from {table} where filled < until)"));
    match connection.query_row(&format!("select {}", unfilled.join(" or ")), [], |row| row.get(0))? {
        true => {
            Err(StoreError::NotUpToDate { problem: "it has passages that are not yet prepared for search".to_owned() }.into())
        }
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::connection::open_writer;
    use super::super::migrate::{COLLECTION, apply};
    use super::*;

    /// Returns the files of a folder with their contents.
    fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        paths.map(|path| (name(&path), std::fs::read(&path).unwrap())).collect()
    }

    fn sequence(path: &Path) -> i64 {
        let connection = open_read_only(path, &COLLECTION).unwrap();
        assert!(connection.execute("update state set sequence = 9", []).is_err());
        connection.query_row("select sequence from state", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_closed_database_is_read_without_being_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b?c.sqlite");
        open_writer(&path, &COLLECTION, false).unwrap().execute("update state set sequence = 5", []).unwrap();
        let before = files(folder.path());
        assert_eq!(before.len(), 1);
        assert_eq!(sequence(&path), 5);
        assert!(files(folder.path()) == before);
    }

    #[test]
    fn the_log_of_a_killed_server_is_read_without_being_changed() {
        let (folder, left) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join("documents.sqlite");
        let writer = open_writer(&path, &COLLECTION, false).unwrap();
        writer.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(())).unwrap();
        writer.execute("update state set sequence = 7", []).unwrap();
        for (name, content) in files(folder.path()) {
            std::fs::write(left.path().join(name), content).unwrap();
        }
        let before = files(left.path());
        assert!(before["documents.sqlite-wal"].len() > 1_000);
        assert_eq!(sequence(&left.path().join("documents.sqlite")), 7);
        assert!(files(left.path()) == before);
    }

    #[test]
    fn a_database_of_an_older_version_is_refused_without_being_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("documents.sqlite");
        apply(&mut Connection::open(&path).unwrap(), &COLLECTION, 3).unwrap();
        let before = files(folder.path());
        let refused = open_read_only(&path, &COLLECTION);
        assert!(matches!(&refused, Err(StoreError::NotUpToDate { problem }) if problem.contains("version 3 of")), "{refused:?}");
        assert!(files(folder.path()) == before);
    }
}
