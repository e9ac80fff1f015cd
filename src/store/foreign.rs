//! Foreign databases, which come from archives. They are never opened like our own, because a trigger, a view or an index on an
//! expression would run its author's statements in this server. Instead, a foreign database is opened by a connection that can
//! only read rows of the tables that this program makes. Its schema must be exactly what the migrations make. Then
//! `foreign_import` copies its rows into a database of our own.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use super::StoreError;
use super::connection::{check_files, file_error};
use super::error::{Fault, cause};
use super::metadata_indexes::{create_index, is_index_name};
use super::migrate::{CATALOG, COLLECTION, Schema, create_in_memory};
use crate::domain::MetadataPath;

/// The first bytes of every SQLite database.
const MAGIC: &[u8] = b"SQLite format 3\0";
/// Size of SQLite's header in bytes.
const HEAD_BYTES: usize = 100;
/// Position of `user_version` and `application_id` in the header, four bytes each, big-endian.
const USER_VERSION_AT: usize = 60;
const APPLICATION_ID_AT: usize = 68;

/// Maximum objects in the schema of a foreign database. This program makes about fifty.
const OBJECTS_MAX: i32 = 256;
/// Maximum bytes of one object's definition.
const DEFINITION_BYTES_MAX: i32 = 64 << 10;
/// Maximum bytes of one value and of one row. That is more than any text or classifier that a server accepts, unless its limits
/// are far above the defaults.
const VALUE_BYTES_MAX: i32 = 128 << 20;
/// Size of the page cache of a foreign database in KiB.
const CACHE_KIB: i64 = 4 << 10;
/// Number of SQLite virtual machine steps between two checks for cancellation.
const STEPS_PER_CHECK: i32 = 1_000;
/// Number of checks after which a foreign database must have returned a row, or its schema. A row takes some dozens of steps.
const CHECKS_PER_ROW: u32 = 1_000;
/// Maximum number of characters of a foreign name to show.
const SHOWN_CHARS: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseKind {
    /// `catalog.sqlite`.
    Catalog,
    /// `documents.sqlite`.
    Collection,
}

impl DatabaseKind {
    pub(super) fn schema(self) -> &'static Schema {
        match self {
            Self::Catalog => &CATALOG,
            Self::Collection => &COLLECTION,
        }
    }
}

/// A foreign database whose schema exactly matches its version.
pub(super) struct ForeignDatabase {
    pub(super) connection: Connection,
    /// How many migrations were applied to it.
    pub(super) version: usize,
    /// Its indexed metadata paths.
    pub(super) indexes: Vec<MetadataPath>,
    checks: Arc<AtomicU32>,
}

/// Checks the header of a database: that it is of this kind, and that this server knows its version. This does not make
/// anything else in it trustworthy.
pub fn check_head(kind: DatabaseKind, head: &[u8]) -> Result<(), StoreError> {
    version(kind.schema(), head).map(drop)
}

/// Checks that the schema of a foreign database is exactly what this program makes for its version, with nothing missing and
/// nothing added.
pub fn check_foreign(kind: DatabaseKind, path: &Path) -> Result<(), StoreError> {
    ForeignDatabase::open(kind, path, || false).map(drop)
}

/// Whether a collection's database has any document. No process may have it open. A database without tables has none.
pub fn has_documents(database: &Path) -> Result<bool, StoreError> {
    check_files(database)?;
    any_document(database).map_err(|fault| fault.into_store_error("looking for documents"))
}

fn any_document(database: &Path) -> Result<bool, Fault> {
    // Logs that a crash left are part of the database, and only a connection that may write reads them.
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    let any = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, bool>(0));
    Ok(any("select exists (select 1 from sqlite_schema)")? && any("select exists (select 1 from documents)")?)
}

/// Returns the number of migrations of a database with this header.
fn version(schema: &Schema, head: &[u8]) -> Result<usize, StoreError> {
    let operation = "reading its first bytes";
    let head = head.get(..HEAD_BYTES).filter(|head| head.starts_with(MAGIC));
    let head = head.ok_or_else(|| StoreError::Damaged { operation, source: cause("the file is not an SQLite database") })?;
    let number =
        |offset: usize| i64::from(i32::from_be_bytes([head[offset], head[offset + 1], head[offset + 2], head[offset + 3]]));
    let (found, version) = (number(APPLICATION_ID_AT), number(USER_VERSION_AT));
    if found != schema.application_id {
        return Err(StoreError::ForeignDatabase { found, expected: schema.application_id });
    }
    let known = schema.migrations.len();
    match usize::try_from(version) {
        Ok(version) if (1..=known).contains(&version) => Ok(version),
        _ => Err(StoreError::NewerDatabase { found: version, known: known as i64 }),
    }
}

impl ForeignDatabase {
    /// Opens a database that no other process has open and compares its schema. `stop` is checked regularly; once it returns
    /// true, every read ends with `StoreError::Interrupted`.
    pub(super) fn open(kind: DatabaseKind, path: &Path, stop: impl Fn() -> bool + Send + 'static) -> Result<Self, StoreError> {
        let mut head = Vec::new();
        let read = File::open(path).and_then(|file| file.take(HEAD_BYTES as u64).read_to_end(&mut head));
        read.map_err(|error| file_error(path, error))?;
        let version = version(kind.schema(), &head)?;
        let checks = Arc::new(AtomicU32::new(0));
        let connection = open_restricted(kind.schema(), path, Arc::clone(&checks), stop);
        let foreign = connection.map(|connection| Self { connection, version, indexes: Vec::new(), checks });
        let opened = foreign.and_then(|mut foreign| {
            foreign.indexes = foreign.compare(kind.schema())?;
            Ok(foreign)
        });
        opened.map_err(|fault| match fault.into_store_error(INSPECTING) {
            StoreError::Sqlite { operation, source } => StoreError::Damaged { operation, source },
            error => error,
        })
    }

    /// Records that a row has arrived, and restarts the time limit for the next one.
    pub(super) fn record_row(&self) {
        self.checks.store(0, Ordering::Relaxed);
    }

    /// Whether a read was interrupted because it returned no row for too long.
    pub(super) fn took_too_long(&self) -> bool {
        self.checks.load(Ordering::Relaxed) >= CHECKS_PER_ROW
    }

    /// Compares the schema with what the migrations of its version make, and its metadata indexes with those that this program
    /// makes for their paths. Returns the paths.
    fn compare(&self, schema: &Schema) -> Result<Vec<MetadataPath>, Fault> {
        let fresh = create_in_memory(schema, self.version)?;
        let found = self.objects()?;
        let ours = objects(&fresh)?;
        let (indexes, others): (Vec<_>, Vec<_>) = found.into_iter().partition(Object::is_metadata_index);
        Object::compare(&ours, &others)?;
        let mut paths = Vec::new();
        if ours.iter().any(|object| object.name == "metadata_indexes") {
            let mut statement = self.connection.prepare("select path, name from main.metadata_indexes not indexed")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                self.record_row();
                let (path, name): (String, String) = (row.get(0)?, row.get(1)?);
                let unexpected =
                    || Object { kind: "index".to_owned(), name: name.clone(), ..Object::default() }.unexpected(UNKNOWN);
                let path = MetadataPath::parse(&path).ok().filter(|_| is_index_name(&name)).ok_or_else(unexpected)?;
                create_index(&fresh, &name, &path)?;
                paths.push(path);
            }
        }
        let expected: Vec<_> = objects(&fresh)?.into_iter().filter(Object::is_metadata_index).collect();
        Object::compare(&expected, &indexes)?;
        Ok(paths)
    }

    fn objects(&self) -> Result<Vec<Object>, Fault> {
        let found = objects(&self.connection)?;
        self.record_row();
        Ok(found)
    }
}

/// Opens a connection that can only read rows of the tables that `schema` makes in any version, and only for a limited time.
fn open_restricted(
    schema: &'static Schema,
    path: &Path,
    checks: Arc<AtomicU32>,
    stop: impl Fn() -> bool + Send + 'static,
) -> Result<Connection, Fault> {
    let mut tables = Vec::new();
    for version in 1..=schema.migrations.len() {
        let made = objects(&create_in_memory(schema, version)?)?;
        tables.extend(made.into_iter().filter(|object| object.kind == "table").map(|object| object.name));
    }
    // The file is immutable, so SQLite looks for no lock, log or journal next to it.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let mut connection = Connection::open_with_flags(format!("file:{}?mode=ro&immutable=1", escaped(path)), flags)?;
    use DbConfig as Config;
    for (config, on) in [
        (Config::SQLITE_DBCONFIG_DEFENSIVE, true),
        (Config::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
        (Config::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false),
        (Config::SQLITE_DBCONFIG_ENABLE_TRIGGER, false),
        (Config::SQLITE_DBCONFIG_ENABLE_VIEW, false),
        (Config::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false),
        (Config::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false),
    ] {
        connection.set_db_config(config, on)?;
    }
    for (limit, value) in [
        (Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, DEFINITION_BYTES_MAX),
        (Limit::SQLITE_LIMIT_SCHEMA, OBJECTS_MAX),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    ] {
        connection.set_limit(limit, value)?;
    }
    connection.progress_handler(
        STEPS_PER_CHECK,
        Some(move || checks.fetch_add(1, Ordering::Relaxed) + 1 >= CHECKS_PER_ROW || stop()),
    )?;
    // These pragmas read nothing from the file.
    connection.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(()))?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    let may_read = move |table: &str| table == "sqlite_master" || tables.iter().any(|ours| ours == table);
    connection.authorizer(Some(move |context: AuthContext<'_>| match context.action {
        AuthAction::Select => Authorization::Allow,
        AuthAction::Read { table_name, .. } if may_read(table_name) => Authorization::Allow,
        _ => Authorization::Deny,
    }))?;
    Ok(connection)
}

/// Escapes a path for a URI.
pub(super) fn escaped(path: &Path) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.~".contains(byte);
    let escape = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    path.to_string_lossy().bytes().map(escape).collect()
}

const INSPECTING: &str = "inspecting a foreign database";
const UNKNOWN: &str = "is unknown to this program";
const DIFFERENT: &str = "is defined differently than this program defines it";
const MISSING: &str = "is missing";

/// A row of a schema.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Object {
    kind: String,
    name: String,
    table: String,
    /// The SQL. `None` for an index that a table's definition creates.
    definition: Option<String>,
}

impl Object {
    fn is_metadata_index(&self) -> bool {
        self.kind == "index" && is_index_name(&self.name)
    }

    fn compare(expected: &[Self], found: &[Self]) -> Result<(), Fault> {
        let of = |all: &[Self], one: &Self| all.iter().filter(|other| *other == one).count();
        if let Some(object) = found.iter().find(|object| of(found, object) != of(expected, object)) {
            let same = expected.iter().any(|known| (&known.kind, &known.name) == (&object.kind, &object.name));
            return Err(object.unexpected(if same { DIFFERENT } else { UNKNOWN }).into());
        }
        match expected.iter().find(|object| !found.contains(object)) {
            Some(object) => Err(object.unexpected(MISSING).into()),
            None => Ok(()),
        }
    }

    fn unexpected(&self, problem: &'static str) -> StoreError {
        let shown = |text: &str| text.chars().take(SHOWN_CHARS).collect::<String>();
        StoreError::SchemaMismatch { kind: shown(&self.kind), name: shown(&self.name), problem }
    }
}

fn objects(connection: &Connection) -> Result<Vec<Object>, Fault> {
    let mut statement = connection.prepare("select type, name, tbl_name, sql from sqlite_schema")?;
    let read = |row: &rusqlite::Row<'_>| {
        Ok(Object { kind: row.get(0)?, name: row.get(1)?, table: row.get(2)?, definition: row.get(3)? })
    };
    Ok(statement.query_map([], read)?.collect::<Result<_, _>>()?)
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

    #[test]
    fn a_foreign_database_allows_only_plain_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = database(folder.path(), "insert into tombstones values (1, 1)");
        let foreign = ForeignDatabase::open(DatabaseKind::Collection, &path, || false).unwrap().connection;
        assert_eq!(foreign.query_row("select sequence from tombstones", [], |row| row.get::<_, i64>(0)).unwrap(), 1);
        for sql in [
            "delete from tombstones",
            "pragma writable_schema = on",
            "pragma integrity_check",
            "attach ':memory:' as other",
            "create temp table t (a)",
            "select hex(zeroblob(100000000)) from tombstones",
            "select name from pragma_table_info('documents')",
            "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n limit 1 offset 1000000000",
        ] {
            let refused = foreign.prepare(sql).and_then(|mut statement| statement.query([])?.next().map(drop));
            assert!(refused.is_err(), "{sql}");
        }
    }

    #[test]
    fn a_path_with_special_characters_can_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let odd = folder.path().join("a b?mode=memory&c=%20#é");
        check_foreign(DatabaseKind::Collection, &database(&odd, "")).unwrap();
    }
}
