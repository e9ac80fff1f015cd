//! Removes documents that have expired. Like any other deletion, this uses sequence numbers and leaves tombstones for the
//! index.

use super::StoreError;
use super::documents::DocumentStore;
use super::error::Fault;
use super::expiry::first_expiry;
use super::mutations::delete_key;
use super::rows::{self, DOCUMENT_COLUMNS, query_all, query_one};
use super::write_rules::CHANGED_PER_TRANSACTION;
use super::write_transaction::WriteTransaction;

/// The result of one transaction that removed expired documents.
#[derive(Debug)]
pub struct Expired {
    /// The rows of the removed documents, as `StoreError::CorruptRow` names them.
    pub rows: Vec<i64>,
    pub more: bool,
    /// Rows that seem to have expired but are damaged, so they stay.
    pub damage: Vec<StoreError>,
}

impl DocumentStore {
    pub fn expiry_due(&self) -> bool {
        self.connections.next_expiry.is_due(self.connections.now_ms())
    }

    /// A crash leaves the rest to the next call. Waits for a place in the write queue if the queue is full.
    pub fn delete_expired(&self) -> Result<Expired, StoreError> {
        const OPERATION: &str = "removing expired documents";
        let sql = "select key from documents indexed by documents_expiring where expires_at_ms <= now_ms()
                   order by expires_at_ms limit ?1";
        let keys: Vec<i64> = self
            .read(OPERATION, |connection| query_all(connection, sql, [CHANGED_PER_TRANSACTION as i64], |row| Ok(row.get(0)?)))?;
        let more = keys.len() == CHANGED_PER_TRANSACTION;
        let (rows, damage) = match keys.is_empty() {
            true => Default::default(),
            false => self.write_patiently(OPERATION, move |transaction| remove(transaction, &keys))?,
        };
        if !more {
            self.connections.next_expiry.refresh(|| self.read(OPERATION, first_expiry))?;
        }
        Ok(Expired { rows, more, damage })
    }
}

/// Removes the documents that have expired according to their rows, so that a damaged index or row cannot remove anything.
fn remove(transaction: &mut WriteTransaction<'_>, keys: &[i64]) -> Result<(Vec<i64>, Vec<StoreError>), Fault> {
    let sql = format!("select {DOCUMENT_COLUMNS} from documents d where d.key = ?1");
    let (mut removed, mut damage) = (Vec::new(), Vec::new());
    for key in keys {
        match query_one(transaction.connection, &sql, [key], rows::document) {
            Ok(Some(document)) if document.expires_at_ms.is_some_and(|at| at <= transaction.now_ms) => {
                delete_key(transaction, *key)?;
                removed.push(*key);
            }
            Ok(_) => (),
            Err(Fault::Store(error @ StoreError::CorruptRow { .. })) => damage.push(error),
            Err(fault) => return Err(fault),
        }
    }
    Ok((removed, damage))
}
