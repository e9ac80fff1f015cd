//! One collection's documents, passages and embeddings: one writer with group commit, many readers.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::types::ValueRef;

use super::clock::{Clock, system_clock};
use super::connection::{check_exists, open_existing_writer, open_writer};
use super::error::Fault;
use super::expiry::{self, LIVE};
use super::filter::{Condition, compile};
use super::migrate::COLLECTION;
use super::open_databases::{Database, StoreOptions};
use super::read_only::{check_filled, open_read_only};
use super::readers::Extent;
use super::records::{Change, PendingPassage};
use super::rows::{passage_id, query_all, query_each, query_number, query_one, read_embedding, to_sql};
use super::write_transaction::WriteTransaction;
use super::{StoreError, check, log, metadata_indexes, mutations, queries, term_rows};
use crate::domain::{
    CollectionCounts, Document, DocumentId, DocumentPage, Embedding, MetadataPath, Page, PassageEmbedding, PassageId,
    SearchFilter, Sequence, with_causes,
};

/// The file in a collection's folder.
const DATABASE: &str = "documents.sqlite";

/// One collection's database. Calls block until they are done, and writes until they are durable. After `close`, every call
/// fails with `StoreError::Closed`. Dropping it closes it. `Storage` describes the methods that it has, too.
pub struct DocumentStore {
    /// Whether there was a log of changes at opening. Only a store that was not closed leaves one.
    pub recovered_log: bool,
    /// Which changes were missing from the log at opening, if commits do not wait for the disk.
    pub lost_log: Option<StoreError>,
    pub(super) connections: Arc<Database>,
    /// Number of writes since it was opened, successful or not.
    writes: AtomicU64,
    /// The last counts, so that a closed database need not be opened to be counted.
    cached_counts: Mutex<Option<CachedCounts>>,
    /// The declared metadata indexes, as in the database.
    indexes: RwLock<Vec<MetadataPath>>,
    /// Held while they change, in the database and then here.
    declaring: Mutex<()>,
}

#[derive(Clone)]
struct CachedCounts {
    /// The number of writes when they were counted.
    writes: u64,
    /// The counts are valid until this time, when the next document expires.
    until_ms: Option<i64>,
    counts: CollectionCounts,
}

impl DocumentStore {
    /// Opens or creates `documents.sqlite` in `folder`, migrates it and starts its writer thread.
    pub fn open(folder: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        Self::open_with_clock(folder, options, system_clock)
    }

    /// Like `open`, but with another clock than the system's.
    pub fn open_with_clock(folder: &Path, options: &StoreOptions, clock: Clock) -> Result<Self, StoreError> {
        let database = folder.join(DATABASE);
        let recovered_log = file_bytes(&log::log_path(&database)) > 0;
        let open = || with_vocabulary(open_writer(&database, &COLLECTION, options.power_safe)?, options);
        Self::start(Database::new(database.clone(), options, clock), recovered_log, open)
    }

    /// Like `open`, but for an existing database that must contain at least the change `reached`, because its saved index has
    /// that change. A database that is gone, empty or behind counts as damaged and is left unchanged. So is a database whose
    /// log lost acknowledged changes. But if commits do not wait for the disk, it is opened without those changes, and
    /// `lost_log` describes them.
    pub fn open_existing(folder: &Path, options: &StoreOptions, reached: Option<Sequence>) -> Result<Self, StoreError> {
        let database = folder.join(DATABASE);
        check_exists(&database)?;
        let recovered_log = file_bytes(&log::log_path(&database)) > 0;
        let lost = match log::check(&database) {
            // A power loss may have caused it, which this durability setting permits.
            Err(error) if error.is_damage() && !options.power_safe => Some(error),
            checked => checked.map(|()| None)?,
        };
        let open = || {
            let connection = open_existing_writer(&database, &COLLECTION, options.power_safe)?;
            if let Some(reached) = reached {
                check_reaches(&database, &connection, reached)?;
            }
            if lost.is_some() {
                // Otherwise the next start would find the same damage again, before the changes written since.
                let emptied = connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()));
                emptied.map_err(|error| Fault::from(error).into_store_error("emptying a log"))?;
            }
            with_vocabulary(connection, options)
        };
        let connections = Database::new(database.clone(), options, system_clock);
        let mut store = Self::start(connections, recovered_log, open)?;
        store.lost_log = lost;
        Ok(store)
    }

    /// Like `open_existing`, but for reading a database that no other process has open, without changing any of its files. Fails
    /// with `StoreError::NotUpToDate` if it would have to be changed first.
    pub fn open_read_only(folder: &Path, options: &StoreOptions) -> Result<Self, StoreError> {
        let database = folder.join(DATABASE);
        let open = || open_read_only(&database, &COLLECTION);
        let store = Self::start(Database::read_only(database.clone(), options), false, open)?;
        store.read("looking for what an older version left", check_filled)?;
        Ok(store)
    }

    fn start(
        connections: Database,
        recovered_log: bool,
        open: impl FnOnce() -> Result<Connection, StoreError>,
    ) -> Result<Self, StoreError> {
        let connections = Arc::new(connections);
        let lease = connections.lease_opened_by(open)?;
        let read = |connection: &Connection| Ok((metadata_indexes::all(connection)?, expiry::first_expiry(connection)?));
        let read = lease.opened.readers.read("opening a database", Extent::FewRows, read);
        drop(lease);
        let store = Self {
            recovered_log,
            lost_log: None,
            connections,
            writes: AtomicU64::new(0),
            cached_counts: Mutex::default(),
            indexes: RwLock::default(),
            declaring: Mutex::new(()),
        };
        let (indexes, first_expiry_ms) = read?;
        *store.indexes.write() = indexes;
        store.connections.next_expiry.record(first_expiry_ms.unwrap_or(i64::MAX));
        Ok(store)
    }

    /// Compiles a filter to SQL, which may use the declared indexes.
    pub(super) fn compile(&self, filter: &SearchFilter) -> Condition {
        compile(filter, &self.indexes.read())
    }

    pub fn metadata_indexes(&self) -> Vec<MetadataPath> {
        self.indexes.read().clone()
    }

    /// Other writes of the collection wait in the meantime, reads do not.
    pub fn set_metadata_indexes(&self, paths: Vec<MetadataPath>) -> Result<(), StoreError> {
        self.declare_indexes(paths, |_| Ok(()))
    }

    /// Like `set_metadata_indexes`, as the first part of a change. Stores the rest of the change in the same transaction, until
    /// `finish_change`. `None` means that there is no rest.
    pub fn set_metadata_indexes_of_change(&self, paths: Vec<MetadataPath>, rest: Option<String>) -> Result<(), StoreError> {
        self.declare_indexes(paths, move |transaction| metadata_indexes::set_unfinished_change(transaction, rest.as_deref()))
    }

    fn declare_indexes(
        &self,
        paths: Vec<MetadataPath>,
        record: impl FnOnce(&WriteTransaction<'_>) -> Result<(), Fault> + Send + 'static,
    ) -> Result<(), StoreError> {
        let _declaring = self.declaring.lock();
        let set = self.write_patiently("declaring metadata indexes", move |transaction| {
            record(transaction)?;
            metadata_indexes::set(transaction, &paths)
        })?;
        *self.indexes.write() = set;
        Ok(())
    }

    /// Returns the rest of the change that `set_metadata_indexes_of_change` began, until `finish_change`.
    pub fn unfinished_change(&self) -> Result<Option<String>, StoreError> {
        self.read("reading an unfinished change", metadata_indexes::unfinished_change)
    }

    /// Records that nothing is left of the change. That survives power loss, because the rest must not be applied over later
    /// changes.
    pub fn finish_change(&self) -> Result<(), StoreError> {
        self.write_patiently("finishing a change", |transaction| metadata_indexes::set_unfinished_change(transaction, None))?;
        self.sync()
    }

    pub fn set_embeddings(
        &self,
        embeddings: Vec<(PassageId, impl Into<PassageEmbedding>)>,
    ) -> Result<Vec<(PassageId, Embedding)>, StoreError> {
        let embeddings = embeddings.into_iter().map(|(id, embedding)| (id, embedding.into())).collect();
        self.write_patiently("storing embeddings", move |transaction| mutations::set_embeddings(transaction, embeddings))
    }

    /// Discards a damaged embedding, so that its passage waits for another one. Returns whether there was one. Waits for a
    /// place in the write queue if the queue is full.
    pub fn discard_embedding(&self, id: PassageId) -> Result<bool, StoreError> {
        let sql = "update passages set embedding = null, embedded_sequence = null where id = ?1 and embedding is not null";
        self.write_patiently("discarding an embedding", move |transaction| {
            Ok(transaction.connection.prepare_cached(sql)?.execute([to_sql(id.0)])? == 1)
        })
    }

    /// Returns the id of the document in a row that `StoreError::CorruptRow` names, or `None` if the row has no readable id.
    pub fn id_of_row(&self, row: i64) -> Result<Option<DocumentId>, StoreError> {
        self.read("reading a document's id", |connection| {
            let sql = "select id from documents where key = ?1";
            let id = query_one(connection, sql, [row], |row| Ok(row.get::<_, String>(0)?))?;
            Ok(id.and_then(|id| DocumentId::parse(&id).ok()))
        })
    }

    /// Checks the structure of the file, and reads every document and every embedding. Returns at most `limit`
    /// findings. Takes as long as reading the file.
    pub fn check(&self, limit: usize) -> Result<Vec<StoreError>, StoreError> {
        self.read("checking a database", |connection| check::check(connection, limit))
    }

    /// Counts the changes that `changes` would return after `after`.
    pub fn count_changes(&self, after: Sequence) -> Result<u64, StoreError> {
        self.read("counting changes", |connection| {
            let sql = "select (select count(*) from passages where embedded_sequence > ?1)
                       + (select count(*) from tombstones where sequence > ?1)";
            query_number(connection, sql, [to_sql(after.0)])
        })
    }

    pub fn get(&self, id: &DocumentId) -> Result<Option<Document>, StoreError> {
        self.read("reading a document", |connection| queries::get(connection, id))
    }

    pub fn list(&self, page: &Page<DocumentId>, bytes_max: u64) -> Result<DocumentPage, StoreError> {
        self.read("listing documents", |connection| queries::list(connection, page, bytes_max))
    }

    pub fn list_embedded(
        &self,
        page: &Page<DocumentId>,
        bytes_max: u64,
    ) -> Result<(DocumentPage, Vec<Option<Embedding>>), StoreError> {
        self.read("listing documents", |connection| {
            let page = queries::list(connection, page, bytes_max)?;
            let sql = format!(
                "select p.id, p.embedding from documents d join passages p on p.document = d.key
                 where d.id = ?1 and p.embedding is not null and {LIVE}
                 and not exists (select 1 from passages other where other.document = d.key and other.ordinal > 0)"
            );
            let ids = page.documents.iter().map(|document| [document.id.as_str()]);
            let embeddings = query_each(connection, &sql, ids, |row| Ok(read_embedding(row, 0)?.1))?;
            Ok((page, embeddings))
        })
    }

    pub fn pending(&self, after: PassageId, limit: usize) -> Result<Vec<PendingPassage>, StoreError> {
        let sql = "select id, document, start, end, headings from passages indexed by passages_pending
                   where embedding is null and id > ?1 order by id limit ?2";
        let values = [to_sql(after.0), to_sql(limit as u64)];
        self.read("reading passages without embedding", |connection| queries::passage_texts(connection, sql, &values))
    }

    /// Some numbers before it do not belong to a change of the index's content.
    pub fn sequence(&self) -> Result<Sequence, StoreError> {
        self.read("reading the sequence", queries::sequence)
    }

    pub fn last_embedded(&self) -> Result<Sequence, StoreError> {
        let sql = "select coalesce((select max(embedded_sequence) from passages where embedded_sequence is not null), 0)";
        self.read("reading the newest embedding", |connection| queries::read_sequence(connection, sql))
    }

    /// Returns the identity of this database in hexadecimal digits. A copy has the same identity.
    pub fn identity(&self) -> Result<String, StoreError> {
        let sql = "select lower(hex(identity)) from state";
        self.read("reading the identity", |connection| Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?))
    }

    /// Reads at most `limit` changes of the index's content after `after`, in the order of the sequence, each with its own
    /// number. A passage that was embedded again appears only at its last number, and a deleted one only at its deletion. Fails
    /// with `StoreError::ChangesPurged` if tombstones after `after` were purged and `after` is not zero.
    pub fn changes(&self, after: Sequence, limit: usize) -> Result<Vec<(Sequence, Change)>, StoreError> {
        self.read("reading changes", |connection| {
            let purged_to = queries::tombstones_purged(connection)?;
            // An empty index contains nothing that could have been removed.
            if after > Sequence(0) && after < purged_to {
                return Err(StoreError::ChangesPurged { after, purged_to }.into());
            }
            let sql = "select embedded_sequence as sequence, id, embedding from passages where embedded_sequence > ?1
                       union all
                       select sequence, passage, null from tombstones where sequence > ?1
                       order by sequence limit ?2";
            query_all(connection, sql, [to_sql(after.0), to_sql(limit as u64)], |row| {
                let sequence = Sequence(row.get::<_, i64>(0)? as u64);
                let change = match row.get_ref(2)? {
                    ValueRef::Null => Change::Removed(passage_id(row.get(1)?)?),
                    _ => read_embedding(row, 1).map(|(id, embedding)| Change::Embedded(id, embedding))?,
                };
                Ok((sequence, change))
            })
        })
    }

    /// Reads at most `limit` embedded passages with keys above `after`, in the order of their keys, to rebuild the index.
    pub fn embeddings(&self, after: PassageId, limit: usize) -> Result<Vec<(PassageId, Embedding)>, StoreError> {
        self.read("reading embeddings", |connection| {
            let sql = "select id, embedding from passages where id > ?1 and embedding is not null order by id limit ?2";
            query_all(connection, sql, [to_sql(after.0), to_sql(limit as u64)], |row| read_embedding(row, 0))
        })
    }

    /// Purges tombstones up to `sequence`, which the saved index must include. Call it only after the save is durable. Waits
    /// for a place in the write queue if the queue is full.
    pub fn purge_tombstones(&self, sequence: Sequence) -> Result<(), StoreError> {
        self.write_patiently("purging tombstones", move |transaction| {
            let (connection, purged_to) = (transaction.connection, to_sql(sequence.min(transaction.sequence()).0));
            connection.prepare_cached("delete from tombstones where sequence <= ?1")?.execute([purged_to])?;
            let sql = "update state set tombstones_purged = max(tombstones_purged, ?1)";
            connection.prepare_cached(sql)?.execute([purged_to])?;
            Ok(())
        })
    }

    /// `disk_bytes` is the database's part.
    pub fn counts(&self) -> Result<CollectionCounts, StoreError> {
        let writes = self.writes.load(Ordering::SeqCst);
        let cached_counts = self.cached_counts.lock().clone();
        let is_valid = |cached: &CachedCounts| {
            cached.writes == writes && cached.until_ms.is_none_or(|until_ms| self.connections.now_ms() < until_ms)
        };
        let counts = match cached_counts.filter(is_valid) {
            Some(cached) => cached.counts,
            None => {
                let count = |connection: &Connection| Ok((expiry::next_expiry(connection)?, queries::counts(connection)?));
                let (until_ms, counts) = self.read("counting", count)?;
                *self.cached_counts.lock() = Some(CachedCounts { writes, until_ms, counts: counts.clone() });
                counts
            }
        };
        Ok(CollectionCounts { disk_bytes: self.bytes(), ..counts })
    }

    /// Returns the size on disk in bytes.
    pub fn bytes(&self) -> u64 {
        file_bytes(self.database()) + self.log_bytes()
    }

    /// Returns the size of the write-ahead log in bytes. It grows and shrinks with checkpoints.
    pub fn log_bytes(&self) -> u64 {
        file_bytes(&log::log_path(self.database()))
    }

    pub fn pending_count_excluding(&self, last: PassageId, others: &[PassageId]) -> Result<u64, StoreError> {
        self.read("counting passages without embedding", |connection| {
            let sql = "select count(*) from passages where embedding is null and id <= ?1";
            let mut count = query_number(connection, sql, [to_sql(last.0)])?;
            let mut is_pending = connection.prepare_cached("select 1 from passages where id = ?1 and embedding is null")?;
            for other in others.iter().filter(|other| **other <= last) {
                count = count.saturating_sub(u64::from(is_pending.exists([to_sql(other.0)])?));
            }
            Ok(count)
        })
    }

    pub(super) fn database(&self) -> &Path {
        &self.connections.path
    }

    pub(super) fn read<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&rusqlite::Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.connections.lease()?.opened.readers.read(operation, Extent::FewRows, work)
    }

    /// Runs a read that may go through all documents. It leaves connections to others.
    pub(super) fn scan<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&rusqlite::Connection) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.connections.lease()?.opened.readers.read(operation, Extent::Scan, work)
    }

    /// Runs an optional read. Opens the database like every read, but returns `None` if all connections to it are in use, or
    /// if the read fails.
    pub(super) fn try_read<T>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&rusqlite::Connection) -> Result<T, Fault>,
    ) -> Option<T> {
        self.connections.lease().ok()?.opened.readers.try_read(operation, work)
    }

    /// Runs a caller's write. Fails immediately if the queue is full.
    pub(super) fn write<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let written = self.connections.lease()?.opened.writer()?.write(operation, work);
        self.writes.fetch_add(1, Ordering::SeqCst);
        written
    }

    /// Runs a write of the server itself. Waits for a place in the queue if the queue is full.
    pub(super) fn write_patiently<T: Send + 'static>(
        &self,
        operation: &'static str,
        work: impl FnOnce(&mut WriteTransaction<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let written = self.connections.lease()?.opened.writer()?.write_patiently(operation, work);
        self.writes.fetch_add(1, Ordering::SeqCst);
        written
    }

    /// Such a statement fails with `StoreError::Interrupted`, so that `close` does not wait for it. Nothing of an interrupted
    /// write is stored.
    pub fn interrupt_after(&self, time: Instant) {
        self.connections.interrupt_after(time);
    }

    /// Answers the waiting writes, checkpoints and closes.
    pub fn close(&self) -> Result<(), StoreError> {
        self.connections.close()
    }
}

impl Drop for DocumentStore {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(error = with_causes(&error), "cannot close a database");
        }
    }
}

/// Returns a database whose passages will all get the words of the current vocabulary.
fn with_vocabulary(connection: Connection, options: &StoreOptions) -> Result<Connection, StoreError> {
    let adopted = term_rows::adopt_vocabulary(&connection, &options.terms_of);
    adopted.map_err(|fault| fault.into_store_error("comparing vocabularies"))?;
    Ok(connection)
}

/// Refuses a database that ends before `reached`, and leaves its log unchanged.
fn check_reaches(database: &Path, connection: &Connection, reached: Sequence) -> Result<(), StoreError> {
    let stored = queries::sequence(connection).map_err(|fault| fault.into_store_error("reading the sequence"))?;
    if stored >= reached {
        return Ok(());
    }
    let configured = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    configured.map_err(|error| Fault::from(error).into_store_error("preserving the log of a database"))?;
    Err(StoreError::DatabaseBehind { path: database.to_owned(), stored, reached })
}

/// Returns the length of a file, or 0 if there is none.
fn file_bytes(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

#[cfg(test)]
impl DocumentStore {
    /// Creates an empty database whose commits do not wait for the disk, with two connections for reads.
    pub(super) fn for_tests() -> (tempfile::TempDir, Self) {
        let folder = tempfile::tempdir().unwrap();
        let terms_of = super::TermsOf::new(|_, _| Default::default());
        let options = StoreOptions { power_safe: false, write_queue_max: 8, readers_max: 2, terms_of, slots: None };
        let store = Self::open(folder.path(), &options).unwrap();
        (folder, store)
    }
}
