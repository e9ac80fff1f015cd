//! Expiry of documents. After a document has expired, no read finds it, whether it is removed or not, because each statement
//! that looks for documents has one of the conditions below. `expired` removes expired documents like any other deletion.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::Connection;

use super::StoreError;
use super::error::Fault;

/// Condition that `documents d` has not expired.
pub(super) const LIVE: &str = "(d.expires_at_ms is null or d.expires_at_ms > now_ms())";

/// The same condition for statements that scan a whole index of `documents d` without reading rows.
pub(super) const LIVE_BY_INDEX: &str = "d.key not in (
    select e.key from documents e indexed by documents_expiring where e.expires_at_ms <= now_ms())";

/// Selects the passages of documents that have expired.
pub(super) const EXPIRED_PASSAGES: &str = "select p.id from documents e indexed by documents_expiring
    cross join passages p on p.document = e.key where e.expires_at_ms <= now_ms()";

/// When the next document expires. No document expires before that time. `i64::MAX` if none will.
#[derive(Debug, Clone)]
pub(crate) struct NextExpiry(Arc<AtomicI64>);

impl Default for NextExpiry {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(i64::MAX)))
    }
}

impl NextExpiry {
    /// Records when a document of a committed transaction expires.
    pub(crate) fn record(&self, expires_at_ms: i64) {
        self.0.fetch_min(expires_at_ms, Ordering::SeqCst);
    }

    /// Whether a document may have expired by `now_ms`.
    pub(crate) fn is_due(&self, now_ms: i64) -> bool {
        self.0.load(Ordering::SeqCst) <= now_ms
    }

    /// Replaces the time by the one that `first_expiry` reads, or `None` if no document expires.
    pub(crate) fn refresh(&self, first_expiry: impl FnOnce() -> Result<Option<i64>, StoreError>) -> Result<(), StoreError> {
        // Cleared before reading, so that the expiry time that a concurrent write records is not lost.
        self.0.store(i64::MAX, Ordering::SeqCst);
        let first_ms = first_expiry().inspect_err(|_| self.record(i64::MIN))?;
        self.record(first_ms.unwrap_or(i64::MAX));
        Ok(())
    }
}

/// Returns when the first document expires or has expired, or `None` if none will.
pub(super) fn first_expiry(connection: &Connection) -> Result<Option<i64>, Fault> {
    let sql = "select min(expires_at_ms) from documents indexed by documents_expiring where expires_at_ms is not null";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Returns when the next document that has not expired yet expires, or `None` if none will.
pub(super) fn next_expiry(connection: &Connection) -> Result<Option<i64>, Fault> {
    let sql = "select min(expires_at_ms) from documents indexed by documents_expiring where expires_at_ms > now_ms()";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}
