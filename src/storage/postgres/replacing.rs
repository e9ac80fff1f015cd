//! Replaces a collection that several servers use: makes their writes wait, and removes the old rows when no request reads them.
//!
//! Reads that have begun on the old collection continue. So its rows stay for some seconds, until every server knows of the
//! replacement, and after that as long as any server holds a lock because it still reads them.

use super::fault::Fault;
use super::partition::{Postgres, drop_collection, metadata_indexes};
use super::server::{close_elsewhere, run_blocking};
use super::session::Session;
use super::writing::NOW_MS;
use crate::domain::{CollectionId, JobId, MetadataPath};
use crate::store::StoreError;

/// Minimum time that the rows of a replaced collection are kept.
const REPLACED_KEPT_MIN_MS: i64 = 10_000;
/// Idle time after which the database ends the transaction that blocks writes.
const BLOCKED_MAX_S: u32 = 120;

/// Makes all writes to a collection wait, on every server, until this is dropped.
pub struct BlockedWrites {
    /// Its transaction locks the collection's row. It is not from the pool, whose connections the waiting writes may occupy.
    session: Option<Session>,
    key: i64,
}

impl BlockedWrites {
    /// Reads the current metadata indexes of the collection.
    pub fn metadata_indexes(&mut self) -> Result<Vec<MetadataPath>, StoreError> {
        self.run("reading metadata indexes", metadata_indexes)
    }

    /// Runs statements in the transaction, with the collection's key.
    pub(super) fn run<T>(
        &mut self,
        operation: &'static str,
        work: impl FnOnce(&mut Session, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let session = self.session.as_mut().ok_or(StoreError::Closed)?;
        run_blocking(|| work(session, self.key)).map_err(|fault| fault.into_store_error(operation))
    }

    pub(super) fn commit(&mut self, operation: &'static str) -> Result<(), StoreError> {
        self.run(operation, |session, _| session.commit())
    }
}

impl Drop for BlockedWrites {
    fn drop(&mut self) {
        close_elsewhere(self.session.take());
    }
}

impl Postgres {
    /// Marks the collection as a replacement that `job` is building. It is removed with the job unless the catalog names it.
    pub fn mark_replacement(&self, job: &JobId) -> Result<(), StoreError> {
        self.run("beginning a replacement", |session| {
            let sql = "update dragoman.collections set job = $2 where key = $1";
            session.execute(sql, &[&self.key, &job.as_str()]).map(drop)
        })
    }

    /// Makes all writes to the collection wait, on every server. Fails with `StoreError::Replaced` if it has already been
    /// replaced.
    pub fn block_writes(&self) -> Result<BlockedWrites, StoreError> {
        let block = || {
            let mut session = self.server.connect_alone()?;
            session.begin_transaction(&format!("begin; set local idle_in_transaction_session_timeout = '{BLOCKED_MAX_S}s'"))?;
            let sql = "select replaced_by is not null from dragoman.collections where key = $1 for update";
            match session.value(sql, &[&self.key])? {
                None => Err(StoreError::Closed.into()),
                Some(true) => Err(StoreError::Replaced.into()),
                Some(false) => Ok(session),
            }
        };
        let blocked = run_blocking(block).map_err(|fault: Fault| fault.into_store_error("holding writes"))?;
        Ok(BlockedWrites { session: Some(blocked), key: self.key })
    }

    /// Keeps the rows of a replaced collection, which this server still reads, until `remove_replaced`.
    pub fn retain_replaced(&self) {
        if let Some(member) = self.server.member() {
            run_blocking(|| member.lock_shared(&readers_lock(self.key)));
        }
    }

    /// Removes the rows of a replaced collection that this server no longer reads, unless another server still does. Returns
    /// whether they are gone.
    pub fn remove_replaced(&self) -> Result<bool, StoreError> {
        let remove = || {
            if let Some(member) = self.server.member() {
                member.unlock_shared(&readers_lock(self.key));
            }
            self.server.session()?.in_transaction("begin", |session| remove_unread(session, self.key))
        };
        run_blocking(remove).map_err(|fault| fault.into_store_error("removing a replaced collection"))
    }
}

/// Drops the rows of a replaced collection in the caller's transaction, unless they may still be read. Returns whether they are
/// gone.
pub(super) fn remove_unread(session: &mut Session, key: i64) -> Result<bool, Fault> {
    let sql = format!("select id, {NOW_MS} - replaced_at_ms from dragoman.collections where key = $1");
    let Some(row) = session.row(&sql, &[&key])? else { return Ok(true) };
    if row.try_get::<_, Option<i64>>(1)?.is_none_or(|age_ms| age_ms < REPLACED_KEPT_MIN_MS) {
        return Ok(false);
    }
    let sql = "select pg_try_advisory_xact_lock(hashtextextended($1, 0))";
    if !session.value::<bool>(sql, &[&readers_lock(key)])?.unwrap_or_default() {
        return Ok(false);
    }
    drop_collection(session, &CollectionId(row.try_get(0)?))?;
    Ok(true)
}

/// Returns the name of the lock that the servers that read a replaced collection share.
fn readers_lock(key: i64) -> String {
    format!("dragoman.replaced_{key}")
}
