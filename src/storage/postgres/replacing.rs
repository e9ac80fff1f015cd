//! A collection whose place another one takes: how the writes of all servers wait for that, and when its rows are removed.
//!
//! Whoever was reading it then goes on. So its rows stay for a while, in which every server learns that it was replaced, and then as
//! long as a server that reads it holds a lock.

use postgres::types::Type;

use super::fault::Fault;
use super::partition::{Partition, drop_collection, metadata_indexes};
use super::server::waiting;
use super::session::Session;
use super::writing::NOW_MS;
use crate::domain::{CollectionId, JobId, MetadataPath};
use crate::store::StoreError;

/// How long the rows of a replaced collection stay at least.
const STAYS_MS: i64 = 10_000;
/// How long the last comparison may take: as long as the database waits for the next statement.
const HELD_MAX_S: u32 = 120;

/// The writes of a collection, which wait, through whatever server, until this is dropped.
pub struct HeldWrites {
    /// Its transaction has the collection's row. Not of the pool, which those may need that wait.
    session: Option<Session>,
    key: i64,
}

impl HeldWrites {
    /// The metadata indexes of the collection as they are.
    pub fn metadata_indexes(&mut self) -> Result<Vec<MetadataPath>, StoreError> {
        self.run("reading metadata indexes", metadata_indexes)
    }

    /// Runs statements in the transaction, with the collection's key.
    pub(super) fn run<T>(
        &mut self,
        doing: &'static str,
        work: impl FnOnce(&mut Session, i64) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        let session = self.session.as_mut().ok_or(StoreError::Closed)?;
        waiting(|| work(session, self.key)).map_err(|fault| fault.while_doing(doing))
    }

    /// Commits what was done.
    pub(super) fn commit(&mut self, doing: &'static str) -> Result<(), StoreError> {
        self.run(doing, |session, _| session.commit())
    }
}

impl Drop for HeldWrites {
    /// Closing a connection blocks, which an asynchronous thread must not.
    fn drop(&mut self) {
        let session = self.session.take();
        let closing = std::thread::Builder::new().name("postgres-close".to_owned()).spawn(move || drop(session));
        let _ = closing.map(std::thread::JoinHandle::join);
    }
}

impl Partition {
    /// From now on the collection goes with that job, unless the catalog names it.
    pub(super) fn mark_replacement(&self, job: &JobId) -> Result<(), StoreError> {
        self.read("beginning a replacement", |session| {
            let sql = "update dragoman.collections set job = $2 where key = $1";
            session.execute(sql, &[(&self.key, Type::INT8), (&job.as_str(), Type::TEXT)]).map(drop)
        })
    }

    /// Has all writes wait. `StoreError::Replaced` if another collection has its place already.
    pub(super) fn hold_writes(&self) -> Result<HeldWrites, StoreError> {
        let hold = || {
            let mut session = self.server.connect_alone()?;
            session.open(&format!("begin; set local idle_in_transaction_session_timeout = '{HELD_MAX_S}s'"))?;
            let sql = "select replaced_by is not null from dragoman.collections where key = $1 for update";
            let Some(row) = session.row(sql, &[(&self.key, Type::INT8)])? else { return Err(StoreError::Closed.into()) };
            if row.try_get(0)? { Err(StoreError::Replaced.into()) } else { Ok(session) }
        };
        let held = waiting(hold).map_err(|fault: Fault| fault.while_doing("holding writes"))?;
        Ok(HeldWrites { session: Some(held), key: self.key })
    }

    /// Has the rows stay after the collection was replaced, until `remove_replaced`.
    pub(super) fn keep_replaced(&self) {
        if let Some(member) = self.server.member() {
            waiting(|| member.lock_shared(&readers(self.key)));
        }
    }

    /// Removes the rows of a replaced collection that this server does not read any more. Says whether they are gone: not before the
    /// other servers have no use for them.
    pub(super) fn remove_replaced(&self) -> Result<bool, StoreError> {
        let remove = || {
            if let Some(member) = self.server.member() {
                member.unlock_shared(&readers(self.key));
            }
            self.server.session()?.within("begin", |session| remove_unread(session, self.key))
        };
        waiting(remove).map_err(|fault| fault.while_doing("removing a replaced collection"))
    }
}

/// Drops the rows of a replaced collection, in the caller's transaction, unless they may still be read. Says whether they are gone.
pub(super) fn remove_unread(session: &mut Session, key: i64) -> Result<bool, Fault> {
    let sql = format!("select id, {NOW_MS} - replaced_at_ms from dragoman.collections where key = $1");
    let Some(row) = session.row(&sql, &[(&key, Type::INT8)])? else { return Ok(true) };
    if row.try_get::<_, Option<i64>>(1)?.is_none_or(|age_ms| age_ms < STAYS_MS) {
        return Ok(false);
    }
    let sql = "select pg_try_advisory_xact_lock(hashtextextended($1, 0))";
    let free = session.row(sql, &[(&readers(key), Type::TEXT)])?;
    if !free.map(|row| row.try_get::<_, bool>(0)).transpose()?.unwrap_or_default() {
        return Ok(false);
    }
    drop_collection(session, &CollectionId(row.try_get(0)?))?;
    Ok(true)
}

/// The name of the lock that servers share who read a replaced collection.
fn readers(key: i64) -> String {
    format!("dragoman.replaced_{key}")
}
