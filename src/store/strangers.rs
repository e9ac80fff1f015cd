//! Databases that come from elsewhere, in archives: looked at before anything of them is run. A trigger or a view of somebody
//! else's would run its statements in this server when a row is written or read.

use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::StoreError;
use super::error::Fault;
use super::metadata_indexes::is_index_name;
use super::migrate::{CATALOG, COLLECTION, Schema, applied, objects_at};

/// What every SQLite database begins with.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Bytes of SQLite's header.
const HEAD_BYTES: usize = 100;
/// Where the header has `user_version` and `application_id`, four bytes each, the highest first.
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;

/// Which of the two kinds a database should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseKind {
    /// `catalog.sqlite`.
    Catalog,
    /// `documents.sqlite`.
    Collection,
}

impl DatabaseKind {
    fn schema(self) -> &'static Schema {
        match self {
            Self::Catalog => &CATALOG,
            Self::Collection => &COLLECTION,
        }
    }
}

/// Looks at the beginning of a database, which is enough to know that it is of this kind and of a version that this server
/// knows. Nothing else of it is believed after that.
pub fn check_head(kind: DatabaseKind, head: &[u8]) -> Result<(), StoreError> {
    let schema = kind.schema();
    let head = head.get(..HEAD_BYTES).filter(|head| head.starts_with(MAGIC)).ok_or_else(|| {
        let source: Box<dyn std::error::Error + Send + Sync> = "the file is no SQLite database".into();
        StoreError::Damaged { doing: "reading its first bytes", source: source.into() }
    })?;
    let number = |at: usize| i64::from(i32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]));
    let (found, version) = (number(APPLICATION_ID_AT), number(USER_VERSION_AT));
    if found != schema.application_id {
        return Err(StoreError::ForeignDatabase { found, expected: schema.application_id });
    }
    let known = schema.migrations.len() as i64;
    if (1..=known).contains(&version) { Ok(()) } else { Err(StoreError::NewerDatabase { found: version, known }) }
}

/// Checks that a database which nobody has open has no table, trigger or view but those that the migrations of its version
/// make. Indexes may be there: a collection has some for the metadata that it is filtered by, which it names.
pub fn check_stranger(kind: DatabaseKind, path: &Path) -> Result<(), StoreError> {
    look(kind.schema(), path).map_err(|fault| fault.while_doing("looking at a database from elsewhere"))
}

/// Whether a collection's database which nobody has open has any document. One that was never filled with tables has none.
pub fn holds_documents(database: &Path) -> Result<bool, StoreError> {
    any_document(database).map_err(|fault| fault.while_doing("looking for documents"))
}

fn any_document(database: &Path) -> Result<bool, Fault> {
    // What a crash left in its logs is a part of it, and only one who may write reads that.
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let any = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, bool>(0));
    Ok(any("select exists (select 1 from sqlite_schema)")? && any("select exists (select 1 from documents)")?)
}

fn look(schema: &Schema, path: &Path) -> Result<(), Fault> {
    // A database with a write-ahead log cannot be opened by one who may not write.
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    let version = applied(&connection, schema)?;
    let known = objects_at(schema, version)?;
    let sql = "select type, name, sql from sqlite_schema where type <> 'index' and name not like 'sqlite\\_%' escape '\\'";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (kind, name, sql): (String, String, Option<String>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let ours = sql.is_some_and(|sql| known.iter().any(|(known, made)| *known == name && *made == sql));
        if !ours {
            return Err(StoreError::StrangeObject { kind, name }.into());
        }
    }
    if !known.iter().any(|(name, _)| name == "metadata_indexes") {
        return Ok(());
    }
    let mut statement = connection.prepare("select name from metadata_indexes")?;
    let names = statement.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    match names.into_iter().find(|name| !is_index_name(name)) {
        Some(name) => Err(StoreError::StrangeObject { kind: "index".to_owned(), name }.into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::open_writer;
    use super::*;

    fn database(folder: &Path, sql: &str) -> std::path::PathBuf {
        let path = folder.join("documents.sqlite");
        let connection = open_writer(&path, &COLLECTION, false).unwrap();
        connection.execute_batch(sql).unwrap();
        path
    }

    fn check(sql: &str, expect: Option<(&str, &str)>) {
        let folder = tempfile::tempdir().unwrap();
        let path = database(folder.path(), sql);
        check_head(DatabaseKind::Collection, &std::fs::read(&path).unwrap()).unwrap();
        match (check_stranger(DatabaseKind::Collection, &path), expect) {
            (Ok(()), None) => (),
            (Err(StoreError::StrangeObject { kind, name }), Some(expect)) => assert_eq!((&*kind, &*name), expect, "{sql}"),
            (found, _) => panic!("{sql}: {found:?}"),
        }
    }

    #[test]
    fn what_the_migrations_do_not_make_is_strange() {
        check("", None);
        check("create index by_text on documents (text)", None);
        check("create table more (a text)", Some(("table", "more")));
        check("create view documents_too as select * from documents", Some(("view", "documents_too")));
        let trigger = "create trigger lies after insert on documents begin delete from documents; end";
        check(trigger, Some(("trigger", "lies")));
        check("insert into metadata_indexes values ('year', 'documents_metadata_7')", None);
        let statement = "documents_metadata_7; drop table documents";
        let row = format!("insert into metadata_indexes values ('year', '{statement}')");
        check(&row, Some(("index", statement)));
        check("create virtual table words using fts5 (a)", Some(("table", "words")));
    }

    #[test]
    fn a_head_tells_kind_and_version() {
        let folder = tempfile::tempdir().unwrap();
        let head = |sql| std::fs::read(database(folder.path(), sql)).unwrap();
        let newer = head("pragma user_version = 99; pragma wal_checkpoint(truncate)");
        let found = check_head(DatabaseKind::Collection, &newer);
        assert!(matches!(found, Err(StoreError::NewerDatabase { found: 99, .. })), "{found:?}");
        let found = check_head(DatabaseKind::Catalog, &newer);
        assert!(matches!(found, Err(StoreError::ForeignDatabase { .. })), "{found:?}");
        for head in [&b""[..], &newer[..99], &[7; 4096]] {
            assert!(check_head(DatabaseKind::Collection, head).unwrap_err().is_damage());
        }
    }
}
