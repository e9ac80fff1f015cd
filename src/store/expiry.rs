//! Documents that expire. From its moment on no read finds a document, whether it was removed yet or not: each statement that
//! looks for documents has one of the conditions below. `expired` then removes them as any other deletion does.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::Connection;

use super::error::Fault;

/// True of `documents d` until it expires.
pub(super) const LIVE: &str = "(d.expires_at_ms is null or d.expires_at_ms > now_ms())";

/// The same for statements that walk through a whole index of `documents d` without reading rows.
pub(super) const LIVE_BY_INDEX: &str = "d.key not in (
    select e.key from documents e indexed by documents_expiring where e.expires_at_ms <= now_ms())";

/// The passages of documents that have expired.
pub(super) const EXPIRED_PASSAGES: &str = "select p.id from documents e indexed by documents_expiring
    cross join passages p on p.document = e.key where e.expires_at_ms <= now_ms()";

/// When the next document expires: no document does before that. `i64::MAX` if none will.
#[derive(Debug, Clone)]
pub(crate) struct NextExpiry(Arc<AtomicI64>);

impl Default for NextExpiry {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(i64::MAX)))
    }
}

impl NextExpiry {
    /// Takes in when documents of a committed transaction expire.
    pub(crate) fn note(&self, expires_at_ms: i64) {
        self.0.fetch_min(expires_at_ms, Ordering::SeqCst);
    }

    /// Whether a document may have expired by `now_ms`.
    pub(crate) fn is_due(&self, now_ms: i64) -> bool {
        self.0.load(Ordering::SeqCst) <= now_ms
    }

    /// Takes nothing for known any more, before what the database has is noted.
    pub(crate) fn forget(&self) {
        self.0.store(i64::MAX, Ordering::SeqCst);
    }
}

/// When the first document expires, or did; `None` if none will.
pub(super) fn first(connection: &Connection) -> Result<Option<i64>, Fault> {
    let sql = "select min(expires_at_ms) from documents indexed by documents_expiring where expires_at_ms is not null";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// When the next of the documents that are there expires; `None` if none will.
pub(super) fn next(connection: &Connection) -> Result<Option<i64>, Fault> {
    let sql = "select min(expires_at_ms) from documents indexed by documents_expiring where expires_at_ms > now_ms()";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}
