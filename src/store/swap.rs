//! Builds a replacement for a database. Documents are copied unchanged, with their keys, times and sequence numbers; their
//! passages and embeddings are new.
//!
//! Every change of a document gets a new sequence number. So comparing the two databases' ordered lists of numbers finds the
//! documents that the replacement lacks or has in an older revision, regardless of what was changed or deleted since, and of
//! where a crash interrupted the copy.

use rusqlite::params;

use super::checksum::DocumentRow;
use super::connection::open_existing_writer;
use super::error::Fault;
use super::migrate::COLLECTION;
use super::mutations::{self, INSERT};
use super::rows::{self, DOCUMENT_COLUMNS, from_sql, json, query_all, query_number, query_one, to_sql};
use super::write_rules::PatchTransaction as _;
use super::write_transaction::WriteTransaction;
use super::{CopiedDocument, DocumentKey, DocumentStore, PreparedDocument, StoreError};
use crate::domain::{Document, JobId, Sequence};

/// One state of a document. Ordered by the sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    /// The change that made it.
    pub sequence: Sequence,
    pub key: DocumentKey,
}

impl Revision {
    /// Before all others.
    pub const FIRST: Self = Self { sequence: Sequence(0), key: DocumentKey(i64::MIN) };
}

/// The state that the replacement of a database needs besides the documents.
#[derive(Debug, Clone, Default)]
pub struct SwapState {
    /// Its last change.
    pub sequence: Sequence,
    /// Key, fingerprint, answer and creation time of each.
    records: Vec<(String, String, String, i64)>,
    /// By job id.
    checkpoints: Vec<(String, String)>,
}

impl From<Sequence> for SwapState {
    fn from(sequence: Sequence) -> Self {
        Self { sequence, ..Self::default() }
    }
}

impl DocumentStore {
    pub fn document_count(&self) -> Result<u64, StoreError> {
        self.read("counting documents", |connection| query_number(connection, COUNT_DOCUMENTS, []))
    }

    pub fn revisions(&self, after: Revision, limit: usize) -> Result<Vec<Revision>, StoreError> {
        self.read("reading revisions", |connection| {
            let values = [to_sql(after.sequence.0), after.key.0, to_sql(limit as u64)];
            query_all(connection, REVISIONS, values, |row| {
                Ok(Revision { sequence: Sequence(from_sql(row.get(0)?)), key: DocumentKey(row.get(1)?) })
            })
        })
    }

    pub fn documents_by_key(&self, keys: &[DocumentKey], bytes_max: usize) -> Result<Vec<Option<Document>>, StoreError> {
        self.read("reading documents", |connection| {
            let sql = format!("select {DOCUMENT_COLUMNS} from documents d where d.key = ?1");
            let (mut found, mut bytes) = (Vec::with_capacity(keys.len()), 0);
            for key in keys {
                let document = query_one(connection, &sql, [key.0], rows::document)?;
                bytes += document.as_ref().map_or(0, |document| document.text.len());
                found.push(document);
                if bytes >= bytes_max {
                    break;
                }
            }
            Ok(found)
        })
    }

    pub fn write_copies(&self, _: &JobId, documents: Vec<CopiedDocument>) -> Result<(), StoreError> {
        self.write_patiently("copying documents", move |transaction| {
            documents.iter().try_for_each(|document| write_copy(transaction, document))
        })
    }

    pub fn delete_by_key(&self, _: &JobId, keys: Vec<DocumentKey>) -> Result<(), StoreError> {
        self.write_patiently("removing documents", move |transaction| {
            keys.into_iter().try_for_each(|key| mutations::delete_key(transaction, key.0).map(drop))
        })
    }

    /// Reads the state that the replacement of this database needs besides the documents.
    pub fn swap_state(&self) -> Result<SwapState, StoreError> {
        let (records, checkpoints) = self.read("reading stored responses and checkpoints", |connection| {
            let sql = "select key, fingerprint, answer, created_at_ms from idempotency_records order by rowid";
            let records = query_all(connection, sql, [], |row| Ok(row.try_into()?))?;
            let sql = "select job, checkpoint from job_checkpoints order by job";
            let checkpoints = query_all(connection, sql, [], |row| Ok(row.try_into()?))?;
            Ok((records, checkpoints))
        })?;
        Ok(SwapState { sequence: self.sequence()?, records, checkpoints })
    }

    /// Applies the state of the database that this one replaces: the next change gets a number after its last one, repeated
    /// requests get the same responses, and jobs continue from their checkpoints. Everything is durable when this returns, even
    /// if commits do not wait for the disk.
    pub fn swap_in(&self, before: SwapState) -> Result<(), StoreError> {
        let SwapState { sequence, records, checkpoints } = before;
        self.write_patiently("replacing a database", move |transaction| {
            transaction.raise_sequence(sequence);
            let sql =
                "insert or ignore into idempotency_records (key, fingerprint, answer, created_at_ms) values (?1, ?2, ?3, ?4)";
            let mut statement = transaction.connection.prepare_cached(sql)?;
            for record in records {
                statement.execute(record)?;
            }
            let sql = "insert or ignore into job_checkpoints (job, checkpoint) values (?1, ?2)";
            let mut statement = transaction.connection.prepare_cached(sql)?;
            for checkpoint in checkpoints {
                statement.execute(checkpoint)?;
            }
            Ok(())
        })?;
        self.sync()
    }

    /// Makes all committed changes survive power loss. A commit that waits for the disk includes all earlier ones in the same
    /// log, and a checkpoint syncs what it moves out of the log. Does not open and close the files themselves: closing one
    /// would release the locks that SQLite holds on it for this process.
    pub fn sync(&self) -> Result<(), StoreError> {
        if self.connections.options.power_safe {
            return Ok(());
        }
        let _open = self.connections.lease()?;
        let connection = open_existing_writer(self.database(), &COLLECTION, true)?;
        // SQLite writes nothing if a statement changes no byte.
        let change =
            "begin immediate; update state set sequence = sequence + 1; update state set sequence = sequence - 1; commit";
        let synced = connection.execute_batch(change);
        synced.map_err(|error| Fault::from(error).into_store_error("syncing a database"))
    }
}

/// Counts documents, also those that have expired and are not removed yet.
pub(super) const COUNT_DOCUMENTS: &str = "select coalesce(sum(documents), 0) from language_counts";

const REVISIONS: &str = "select sequence, key from documents indexed by documents_sequence
    where (sequence, key) > (?1, ?2) order by sequence, key limit ?3";

fn write_copy(transaction: &mut WriteTransaction<'_>, moved: &CopiedDocument) -> Result<(), Fault> {
    let CopiedDocument { key, document, passages } = moved;
    transaction.raise_sequence(document.sequence);
    let Some(passages) = passages else {
        // If the text has changed in the meantime, the next comparison finds the document again.
        let sql = "select language from documents where key = ?1 and id = ?2 and text = ?3 and title is ?4";
        let values = params![key.0, document.id.as_str(), document.text, document.title];
        let same = query_one(transaction.connection, sql, values, |row| Ok(row.get::<_, Option<String>>(0)?))?;
        let Some(language) = same else { return Ok(()) };
        write_document(transaction, UPDATE, *key, document)?;
        if language.as_deref() != document.language.map(|language| language.code()) {
            transaction.renew_terms(key.0, document.language)?;
        }
        return Ok(());
    };
    let sql = "select key from documents where key = ?1 or id = ?2";
    for stale in query_all(transaction.connection, sql, params![key.0, document.id.as_str()], |row| Ok(row.get(0)?))? {
        mutations::delete_key(transaction, stale)?;
    }
    write_document(transaction, INSERT, *key, document)?;
    let spans = passages.iter().map(|passage| passage.span.clone()).collect();
    let prepared = PreparedDocument { passages: spans, ..document.clone().into() };
    let terms = mutations::passage_terms(&prepared, transaction.terms_of)?;
    let pending = mutations::insert_passages(transaction, key.0, &prepared, terms)?;
    let embedded = pending.into_iter().zip(passages);
    let embedded = embedded.filter_map(|(pending, passage)| Some((pending.id, passage.embedding.clone()?))).collect();
    mutations::set_embeddings(transaction, embedded)?;
    Ok(())
}

/// Updates the row that `INSERT` inserts.
const UPDATE: &str = "update documents set id = ?2, language = ?3, language_confidence = ?4, created_at_ms = ?5,
    updated_at_ms = ?6, sequence = ?7, metadata = ?8, text = ?9, title = ?10, expires_at_ms = ?11, checksum = ?12 where key = ?1";

/// Writes a document's row unchanged, including its sequence number.
pub(super) fn write_document(
    transaction: &mut WriteTransaction<'_>,
    sql: &str,
    key: DocumentKey,
    document: &Document,
) -> Result<(), Fault> {
    let metadata = json(&document.metadata)?;
    mutations::write_row(transaction, sql, Some(key.0), &DocumentRow::of(document, &metadata))
}

#[cfg(test)]
mod tests {
    use super::super::queries::tests::query_plan;
    use super::*;

    /// Returns the locks that processes hold on a file, as the system lists them.
    #[cfg(target_os = "linux")]
    fn locks(path: &std::path::Path) -> Vec<String> {
        use std::os::unix::fs::MetadataExt as _;
        let inode = format!(":{}", path.metadata().unwrap().ino());
        let held = std::fs::read_to_string("/proc/locks").unwrap_or_default();
        let lines = held.lines().filter(|line| line.contains("POSIX"));
        let mut found: Vec<String> =
            lines.filter(|line| line.split(' ').any(|part| part.ends_with(&inode))).map(lock_of).collect();
        found.sort();
        // The system may list a lock twice if others are taken or released while it is read.
        found.dedup();
        found
    }

    /// Returns a line of `/proc/locks` without its number, which changes.
    #[cfg(target_os = "linux")]
    fn lock_of(line: &str) -> String {
        line.split_once(": ").map_or(line, |(_, lock)| lock).to_owned()
    }

    #[test]
    fn sync_commits_even_without_pending_changes() {
        let (_folder, store) = DocumentStore::for_tests();
        let log = || std::fs::metadata(store.database().with_extension("sqlite-wal")).unwrap().len();
        store.swap_in(SwapState { sequence: Sequence(7), ..SwapState::default() }).unwrap();
        let before = log();
        store.sync().unwrap();
        assert!(log() > before, "sync must write to the log, because a commit without changes does not wait for the disk");
        assert_eq!(store.sequence().unwrap(), Sequence(7));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn swap_in_keeps_the_locks_on_the_database_file() {
        if std::fs::read_to_string("/proc/locks").is_err() {
            println!("skipped: the system lists no locks");
            return;
        }
        let (_folder, store) = DocumentStore::for_tests();
        store.sequence().unwrap();
        let before = locks(store.database());
        assert!(!before.is_empty(), "an open database has locks, and Linux lists them in /proc/locks");
        store.swap_in(SwapState { sequence: Sequence(7), ..SwapState::default() }).unwrap();
        assert_eq!(locks(store.database()), before);
        assert_eq!(store.sequence().unwrap(), Sequence(7));
    }

    #[test]
    fn revisions_are_read_from_a_covering_index() {
        let plan = query_plan(&[], REVISIONS, [1, 2, 3]);
        assert!(plan.contains("COVERING INDEX documents_sequence (sequence>?"), "{plan}");
        assert!(!plan.contains("TEMP B-TREE"), "{plan}");
    }
}
