//! Errors of the store. Causes are kept as plain errors, so that no SQLite type leaves the module.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use rusqlite::ErrorCode;
use rusqlite::types::FromSqlError;
use rustix::io::Errno;

use crate::domain::{ClassifierName, CollectionName, DocumentId, PassageId, Sequence};

/// The problems of a damaged embedding; the rest of its passage is intact.
pub(super) const EMBEDDING_PROBLEMS: [&str; 2] =
    ["its embedding does not match its checksum", "its embedding does not have unit length"];

/// Maximum number of files that a connection opens at once: the database, the two files next to it, and its folder to sync it.
const FILES_PER_CONNECTION: usize = 4;

/// The cause of a `StoreError`. Shared, because one failed commit fails every write in it.
pub type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Makes a cause that is only a text.
pub(super) fn cause(text: &str) -> Cause {
    Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(text))
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum StoreError {
    #[error("SQLite failed while {operation}")]
    Sqlite { operation: &'static str, source: Cause },
    /// The disk is full, read-only or failing. Nothing of the write was stored; reads may still work.
    #[error("the storage is full, read-only or failing, which stopped {operation}")]
    StorageUnavailable { operation: &'static str, source: Cause },
    /// Another program, perhaps a backup, has held a lock on the database for too long. Nothing of the write was stored.
    #[error("another program has locked the database, which stopped {operation}")]
    Locked { operation: &'static str, source: Cause },
    /// SQLite could not open a file of a database, and its own error does not say why.
    #[error("the limit on open files (ulimit -n) is reached, which stopped {operation}")]
    OpenFiles { operation: &'static str, source: Cause },
    #[error("the database server failed while {operation}")]
    Server { operation: &'static str, source: Cause },
    /// A database server cannot be reached, or has no connection left. If the connection was lost during a write, the write may
    /// have been stored.
    #[error("the database server cannot be reached, which stopped {operation}")]
    ServerUnreachable { operation: &'static str, source: Cause },
    /// The database server lacks what it had acknowledged.
    #[error(
        "the database server is at an earlier state than before, which stopped {operation}; it may have failed over to a replica \
         that lagged behind"
    )]
    WentBack { operation: &'static str },
    #[error("the database server is not suitable: {problem}")]
    UnsuitableServer { problem: String },
    #[error("the replica of the database server cannot be used: {problem}")]
    UnsuitableReplica { problem: String },
    /// A file or folder cannot be created, opened or synced.
    #[error("cannot access {}{}", path.display(), file_limit_note(source))]
    File { path: PathBuf, source: Arc<std::io::Error> },
    /// A database needs a thread of its own. It is not open, and nothing of it was changed.
    #[error(
        "the system does not let the server start another thread: raise the limit (ulimit -u, pids.max of the container, TasksMax \
         of the service)"
    )]
    Thread { source: Arc<std::io::Error> },
    /// The file system does not support SQLite's write-ahead log. Network file systems do not.
    #[error("{} cannot use a write-ahead log; its journal mode stays {got}", path.display())]
    NoWriteAheadLog { path: PathBuf, got: String },
    #[error("the database has version {found}, but this server knows versions up to {known}")]
    NewerDatabase { found: i64, known: i64 },
    /// The database was opened only for reading, but this version would first have to change it.
    #[error("the database is not up to date: {problem}; start a server of this version on it once, which brings it up to date")]
    NotUpToDate { problem: String },
    /// The file is a database of another program, or the other kind of database of this one.
    #[error("the database has application id {found:#x}, expected {expected:#x}")]
    ForeignDatabase { found: i64, expected: i64 },
    #[error("the data directory {} is in use by another process", path.display())]
    DataDirectoryInUse { path: PathBuf },
    /// A server that does not share its database is already using it.
    #[error("a server of an older version uses the database: stop it first, or give each server its own database")]
    DatabaseInUse,
    /// Another server has changed the catalog since this one last read it. Nothing was stored.
    #[error("the catalog was changed at the same moment; try again")]
    CatalogChanged,
    /// Another server has taken over the job. Nothing of this write was stored.
    #[error("another server runs the job")]
    JobTakenOver,
    /// Another server has replaced this collection by one with another model. Nothing of a write was stored.
    #[error("the collection was re-embedded a moment ago; send the request again")]
    Replaced,
    /// Another job of this type is unfinished, and only one may run at a time. Nothing was stored.
    #[error("another job of this type is unfinished for the collection")]
    JobUnfinished,
    #[error("a collection {name} already exists")]
    CollectionExists { name: CollectionName },
    #[error("a classifier {name} already exists")]
    ClassifierExists { name: ClassifierName },
    #[error("an alias {name} already exists")]
    AliasExists { name: CollectionName },
    #[error("the database's {kind} {name} {problem}")]
    SchemaMismatch { kind: String, name: String, problem: &'static str },
    /// A statement was ended because the store closes or its caller canceled it. Nothing of a write was stored.
    #[error("interrupted while {operation}")]
    Interrupted { operation: &'static str },
    /// The queue of the collection's writer is full. Nothing of this write was stored.
    #[error("{limit} writes already wait for this collection")]
    WriteQueueFull { limit: usize },
    #[error("the store is closed")]
    Closed,
    /// A row has something that the store never writes: the file was damaged, or changed by another program.
    #[error("row {row} of table {table} is damaged: {problem}")]
    CorruptRow { table: &'static str, row: i64, problem: &'static str },
    /// SQLite found the file damaged, or it is not a database at all. Other parts of it may still be readable.
    #[error("the database is damaged; found while {operation}")]
    Damaged { operation: &'static str, source: Cause },
    #[error("its folder {} is missing", path.display())]
    FolderLost { path: PathBuf },
    #[error("its database {} is missing", path.display())]
    DatabaseLost { path: PathBuf },
    #[error("its database {} is empty", path.display())]
    DatabaseEmpty { path: PathBuf },
    /// Something else is in the place of a file. Opening it could wait forever.
    #[error("{} is not a regular file", path.display())]
    NotRegular { path: PathBuf },
    #[error(
        "its database {} ends at change {}, but its saved index reaches change {}: the database lost changes, or is an older copy",
        path.display(), stored.0, reached.0
    )]
    DatabaseBehind { path: PathBuf, stored: Sequence, reached: Sequence },
    #[error("{part} of its write-ahead log {} does not match its checksum; {transactions} later commits are lost", path.display())]
    LogDamaged { path: PathBuf, part: String, transactions: u64 },
    /// A document has a passage that is not part of its text, or that splits a character.
    #[error("bytes {start} to {end} are not a passage of document {id}")]
    InvalidPassage { id: DocumentId, start: usize, end: usize },
    /// A write required a version of a document other than the stored one, or named none at all. Nothing of it was stored.
    #[error("document {id} {}{}", version_text(*current), if *names_none { NO_VERSION } else { "" })]
    PreconditionFailed { id: DocumentId, current: Option<Sequence>, names_none: bool },
    /// A change would make a document's metadata too large or too deep. Nothing of it was stored.
    #[error("the metadata may have at most {max} {unit} after the change, got {got}")]
    MetadataTooLarge { unit: &'static str, max: usize, got: usize },
    #[error(
        "the histogram of {field} would have more than {max} buckets: ask for a wider interval, or for fewer documents with filter"
    )]
    TooManyBuckets { field: String, max: usize },
    /// The idempotency key was already used for a different request. Nothing was done.
    #[error("idempotency key {key:?} was already used for a different request")]
    KeyReused { key: String },
    #[error("metadata path {path} cannot have an index: its keys must not contain quotes, backslashes or control characters")]
    PathNotIndexable { path: String },
    /// The index of terms does not have every passage yet. `DocumentStore::fill_lexical` adds the rest.
    #[error("only passages up to {filled} of {until} are ready for lexical search")]
    LexicalIncomplete { filled: u64, until: u64 },
    /// Tombstones after `after` were purged, so an index that only reaches `after` cannot catch up and must be rebuilt.
    #[error("tombstones are purged up to change {}, so an index at change {} cannot catch up", purged_to.0, after.0)]
    ChangesPurged { after: Sequence, purged_to: Sequence },
}

impl StoreError {
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::CorruptRow { .. }
                | Self::Damaged { .. }
                | Self::FolderLost { .. }
                | Self::DatabaseLost { .. }
                | Self::DatabaseEmpty { .. }
                | Self::NotRegular { .. }
                | Self::DatabaseBehind { .. }
                | Self::LogDamaged { .. }
        )
    }

    /// Returns the passage whose embedding is damaged, if nothing else is damaged. It can be embedded again.
    pub fn damaged_embedding(&self) -> Option<PassageId> {
        match *self {
            Self::CorruptRow { table: "passages", row, problem } if EMBEDDING_PROBLEMS.contains(&problem) => {
                u64::try_from(row).ok().map(PassageId)
            }
            _ => None,
        }
    }
}

/// What the error of a file adds if the limit on open files kept it from being opened.
pub(crate) fn file_limit_note(error: &io::Error) -> &'static str {
    if is_file_limit(error) { ", because the limit on open files (ulimit -n) is reached" } else { "" }
}

fn is_file_limit(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::MFILE)
}

/// Whether the process may open fewer files than a connection needs.
fn is_at_file_limit() -> bool {
    let opened: io::Result<Vec<File>> = (0..FILES_PER_CONNECTION).map(|_| File::open("/dev/null")).collect();
    opened.is_err_and(|error| is_file_limit(&error))
}

/// What an error adds if a precondition names no version, as weak entity tags do.
const NO_VERSION: &str = ", and the precondition names no version; a weak tag (W/) never does";

fn version_text(current: Option<Sequence>) -> String {
    current.map_or("does not exist".to_owned(), |version| format!("has version {}", version.0))
}

/// An internal error that does not name the failed operation yet.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(crate) enum Fault {
    Sqlite(#[from] rusqlite::Error),
    Store(#[from] StoreError),
}

impl From<FromSqlError> for Fault {
    fn from(error: FromSqlError) -> Self {
        Self::Sqlite(error.into())
    }
}

impl Fault {
    /// Adds the name of the failed operation.
    pub(super) fn into_store_error(self, operation: &'static str) -> StoreError {
        let error = match self {
            Self::Store(error) => return error,
            Self::Sqlite(error) => error,
        };
        let code = error.sqlite_error_code();
        // A value whose type is not that of its column, or a text that is not UTF-8.
        let is_unreadable = code.is_none() && is_unreadable(&error);
        let source = Arc::new(error);
        match code {
            Some(ErrorCode::DiskFull | ErrorCode::ReadOnly | ErrorCode::SystemIoFailure) => {
                StoreError::StorageUnavailable { operation, source }
            }
            Some(ErrorCode::DatabaseBusy) => StoreError::Locked { operation, source },
            Some(ErrorCode::CannotOpen) if is_at_file_limit() => StoreError::OpenFiles { operation, source },
            Some(ErrorCode::OperationInterrupted) => StoreError::Interrupted { operation },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged { operation, source },
            None if is_unreadable => StoreError::Damaged { operation, source },
            _ => StoreError::Sqlite { operation, source },
        }
    }
}

fn is_unreadable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error as E;
    matches!(
        error,
        E::InvalidColumnType(..) | E::FromSqlConversionFailure(..) | E::IntegralValueOutOfRange(..) | E::Utf8Error(..)
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn store_error(code: i32) -> StoreError {
        Fault::Sqlite(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)).into_store_error("testing")
    }

    #[test]
    fn a_file_error_names_the_limit_on_open_files_only_if_that_is_the_cause() {
        for (errno, named) in [(Errno::MFILE, true), (Errno::NOENT, false)] {
            let error = StoreError::File { path: "lock".into(), source: Arc::new(errno.into()) };
            assert_eq!(error.to_string().contains("ulimit -n"), named, "{error}");
        }
        assert!(matches!(store_error(ffi::SQLITE_CANTOPEN), StoreError::Sqlite { .. }), "files can be opened");
    }

    #[test]
    fn a_lock_of_another_program_is_named_as_the_cause() {
        let error = store_error(ffi::SQLITE_BUSY);
        assert!(matches!(error, StoreError::Locked { .. }), "{error:?}");
        assert_eq!(error.to_string(), "another program has locked the database, which stopped testing");
    }

    fn check(code: i32, unavailable: bool) {
        let error = store_error(code);
        assert_eq!(matches!(error, StoreError::StorageUnavailable { .. }), unavailable, "{error:?}");
    }

    #[test]
    fn a_damaged_file_is_distinguished_from_other_failures() {
        for (code, damage) in [
            (ffi::SQLITE_CORRUPT, true),
            (ffi::SQLITE_CORRUPT_VTAB, true),
            (ffi::SQLITE_NOTADB, true),
            (ffi::SQLITE_IOERR, false),
            (ffi::SQLITE_BUSY, false),
        ] {
            assert_eq!(store_error(code).is_damage(), damage, "{code}");
        }
    }

    #[test]
    fn a_full_or_failing_disk_is_reported_as_storage_unavailable() {
        check(ffi::SQLITE_FULL, true);
        check(ffi::SQLITE_READONLY, true);
        check(ffi::SQLITE_READONLY_DBMOVED, true);
        check(ffi::SQLITE_IOERR_FSYNC, true);
        check(ffi::SQLITE_BUSY, false);
        check(ffi::SQLITE_CORRUPT, false);
        check(ffi::SQLITE_CONSTRAINT_UNIQUE, false);
    }
}
