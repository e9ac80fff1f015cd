//! Records of requests with an idempotency key, in the catalog and in the database of each collection. A record is written in
//! the transaction that does the work, so after a crash there are both or neither.

use super::catalog_session::{CatalogSession, values};
use super::sqlite_session::SqliteSession;
use super::upsert::Upsert;
use super::{DocumentStore, PreparedDocument, StoreError, Upserted};
use crate::domain::RequestKey;

/// How long a record is kept: 24 hours.
pub(crate) const KEPT_MS: i64 = 24 * 60 * 60 * 1_000;

/// Maximum number of records in the catalog.
const CREATIONS_MAX: i64 = 10_000;

/// Maximum number of records in one collection. The record of a request with a thousand documents takes about 80 kB.
pub(crate) const ANSWERS_MAX: i64 = 1_000;

/// Returns the record of this request. Fails with `StoreError::KeyReused` if the same key was used for another request.
pub(super) fn find(session: &mut dyn CatalogSession, request: &RequestKey, now_ms: i64) -> Result<Option<String>, StoreError> {
    let sql = "select fingerprint, answer from dragoman.creations where key = $1 and created_at_ms > $2 and created_at_ms <= $3";
    let values = values![request.record_key(), now_ms - KEPT_MS, now_ms + KEPT_MS];
    let found = session.row(sql, values, |row| Ok((row.text(0)?, row.text(1)?)))?;
    found.map(|(fingerprint, answer)| replayed(request, &fingerprint, answer)).transpose()
}

/// Returns the recorded answer of a request, or `StoreError::KeyReused` if the record has the fingerprint of another request.
pub(crate) fn replayed(request: &RequestKey, fingerprint: &str, answer: String) -> Result<String, StoreError> {
    if fingerprint == request.fingerprint() { Ok(answer) } else { Err(key_reused(request)) }
}

fn key_reused(request: &RequestKey) -> StoreError {
    StoreError::KeyReused { key: request.key().to_owned() }
}

/// Records in the catalog the id of what a request created. Fails with `StoreError::KeyReused` if the key already has a record.
pub(super) fn store_creation(
    session: &mut dyn CatalogSession,
    request: &RequestKey,
    id: &str,
    now_ms: i64,
) -> Result<(), StoreError> {
    if store_answer(session, request, id, now_ms, CREATIONS_MAX)? { Ok(()) } else { Err(key_reused(request)) }
}

/// Records the response of a request, unless there is a record. Returns whether it did. Deletes the oldest records beyond `max`.
pub(super) fn store_answer(
    session: &mut dyn CatalogSession,
    request: &RequestKey,
    answer: &str,
    now_ms: i64,
    max: i64,
) -> Result<bool, StoreError> {
    // Records from more than a day in the future were written by a wrong clock.
    let stale = "delete from dragoman.creations where created_at_ms <= $1 or created_at_ms > $2";
    session.execute(stale, values![now_ms - KEPT_MS, now_ms + KEPT_MS])?;
    let sql = "insert into dragoman.creations (key, fingerprint, answer, created_at_ms) values ($1, $2, $3, $4)
               on conflict (key) do nothing";
    let inserted = session.execute(sql, values![request.record_key(), request.fingerprint(), answer, now_ms])?;
    // Deletes in the order of arrival, because after a clock jumped back, the newest record can have the oldest time.
    let oldest = "delete from dragoman.creations where creations.number <=
                  (select creations.number from dragoman.creations order by creations.number desc limit 1 offset $1)";
    session.execute(oldest, values![max])?;
    Ok(inserted > 0)
}

/// The outcome of a request with a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Idempotent<T> {
    /// The request was executed now.
    Executed(T),
    /// The request was executed before, with this record.
    Replayed(String),
}

impl DocumentStore {
    pub fn upsert_once(
        &self,
        documents: Vec<PreparedDocument>,
        request: RequestKey,
        answer: impl FnOnce(&[Upserted]) -> String + Send + 'static,
    ) -> Result<Idempotent<Vec<Upserted>>, StoreError> {
        const OPERATION: &str = "storing documents";
        let upsert = Upsert::prepare(self, documents)?;
        self.write(OPERATION, move |transaction| {
            let (mut records, now_ms) =
                (SqliteSession { connection: transaction.connection, operation: OPERATION }, transaction.now_ms);
            if let Some(before) = find(&mut records, &request, now_ms)? {
                return Ok(Idempotent::Replayed(before));
            }
            let outcomes = upsert.write(transaction)?;
            store_answer(&mut records, &request, &answer(&outcomes), now_ms, ANSWERS_MAX)?;
            Ok(Idempotent::Executed(outcomes))
        })
    }

    pub fn idempotency_record(&self, request: &RequestKey) -> Result<Option<String>, StoreError> {
        const OPERATION: &str = "reading an idempotency record";
        let request = request.clone();
        self.write(OPERATION, move |transaction| {
            let mut records = SqliteSession { connection: transaction.connection, operation: OPERATION };
            Ok(find(&mut records, &request, transaction.now_ms)?)
        })
    }

    pub fn record_answer(&self, request: &RequestKey, answer: String) -> Result<(), StoreError> {
        const OPERATION: &str = "storing a response";
        let request = request.clone();
        self.write_patiently(OPERATION, move |transaction| {
            let mut records = SqliteSession { connection: transaction.connection, operation: OPERATION };
            store_answer(&mut records, &request, &answer, transaction.now_ms, ANSWERS_MAX)?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection::open_writer;
    use super::super::migrate::CATALOG;
    use super::*;

    #[test]
    fn new_creations_are_kept_after_the_clock_jumps_back() {
        let folder = tempfile::tempdir().unwrap();
        let connection = &open_writer(&folder.path().join("a.sqlite"), &CATALOG, false).unwrap();
        let fill = "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
                    insert into idempotency_records select 'old' || n, '1', 'made', 5000000 from numbers";
        connection.execute(fill, [CREATIONS_MAX]).unwrap();
        let mut session = SqliteSession { connection, operation: "testing" };
        let request = |key: &str| RequestKey::new(key, "1".to_owned()).unwrap();
        store_creation(&mut session, &request("new"), "made", 1_000).unwrap();
        let known = ["old1", "old2", "new"].map(|key| find(&mut session, &request(key), 1_000).unwrap().is_some());
        assert_eq!(known, [false, true, true]);
    }
}
