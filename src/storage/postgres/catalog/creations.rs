//! Records which request created which row of the catalog. A record is written in the transaction that does the work.

use crate::domain::RequestKey;
use crate::storage::postgres::fault::Fault;
use crate::storage::postgres::session::Session;
use crate::store::{RECORDS_KEPT_MS, StoreError};

/// Maximum number of records.
const RECORDS_MAX: i64 = 10_000;

/// Blocks other requests with this key until the end of the transaction.
pub(super) fn lock_request_key(session: &mut Session, request: &RequestKey) -> Result<(), Fault> {
    let sql = "select pg_advisory_xact_lock(hashtextextended($1, 0)) is null";
    session.row(sql, &[&request.record_key()]).map(drop)
}

/// Returns the record of this request. Fails with `StoreError::KeyReused` if the same key was used for another request.
pub(super) fn find(session: &mut Session, request: &RequestKey, now_ms: i64) -> Result<Option<String>, Fault> {
    let sql = "select fingerprint, answer from dragoman.creations where key = $1 and created_at_ms > $2 and created_at_ms <= $3";
    let (since, until) = (now_ms - RECORDS_KEPT_MS, now_ms + RECORDS_KEPT_MS);
    let Some(row) = session.row(sql, &[&request.record_key(), &since, &until])? else { return Ok(None) };
    if row.try_get::<_, &str>(0)? != request.fingerprint() {
        return Err(StoreError::KeyReused { key: request.key().to_owned() }.into());
    }
    Ok(Some(row.try_get(1)?))
}

/// Records the id of what a request created. Fails with `StoreError::KeyReused` if the key already has a record.
pub(super) fn store_creation(session: &mut Session, request: &RequestKey, id: &str, now_ms: i64) -> Result<(), Fault> {
    // Records from more than a day in the future were written by a wrong clock.
    let stale = "delete from dragoman.creations where created_at_ms <= $1 or created_at_ms > $2";
    session.execute(stale, &[&(now_ms - RECORDS_KEPT_MS), &(now_ms + RECORDS_KEPT_MS)])?;
    let sql = "insert into dragoman.creations (key, fingerprint, answer, created_at_ms) values ($1, $2, $3, $4)
               on conflict (key) do nothing";
    if session.execute(sql, &[&request.record_key(), &request.fingerprint(), &id, &now_ms])? == 0 {
        return Err(StoreError::KeyReused { key: request.key().to_owned() }.into());
    }
    // Deletes in the order of arrival, because after a clock jumped back, the newest record can have the oldest time.
    let oldest = format!(
        "delete from dragoman.creations
         where number <= (select number from dragoman.creations order by number desc limit 1 offset {RECORDS_MAX})"
    );
    session.execute(&oldest, &[]).map(drop)
}
