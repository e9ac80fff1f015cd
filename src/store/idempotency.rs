//! Answers that are kept under a caller's key, so that a repeated request gets the same and does nothing.
//!
//! An answer is written in the transaction that does the work: after a crash there are both or neither.

use rusqlite::{Connection, OptionalExtension, params};

use super::documents::DocumentStore;
use super::error::Fault;
use super::{PreparedDocument, StoreError, Upserted, mutations};
use crate::domain::RequestKey;

/// How long an answer is kept: 24 hours.
const KEPT_MS: i64 = 24 * 60 * 60 * 1_000;

/// Answers kept at once in one database; the oldest go first. One of a thousand documents takes about 80 kB.
const KEPT_MAX: i64 = 1_000;

/// What came of a request with a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Idempotent<T> {
    /// It was done now.
    Now(T),
    /// It was done before, and this was kept of it.
    Before(String),
}

impl DocumentStore {
    /// As `upsert`, unless a request of this key was done before. What `answer` makes of the outcome is kept. With another
    /// request of the same key: `StoreError::KeyReused`.
    pub fn upsert_once(
        &self,
        documents: Vec<PreparedDocument>,
        request: RequestKey,
        answer: impl FnOnce(&[Upserted]) -> String + Send + 'static,
    ) -> Result<Idempotent<Vec<Upserted>>, StoreError> {
        let terms_of = self.terms_of;
        self.write("storing documents", move |transaction| {
            let now_ms = transaction.now_ms;
            if let Some(before) = find(transaction.connection, &request, now_ms)? {
                return Ok(Idempotent::Before(before));
            }
            let outcomes = mutations::upsert(transaction, &documents, terms_of)?;
            keep(transaction.connection, &request, &answer(&outcomes), now_ms)?;
            Ok(Idempotent::Now(outcomes))
        })
    }

    /// What was kept of a request. With another request of the same key: `StoreError::KeyReused`.
    pub fn idempotency_record(&self, request: &RequestKey) -> Result<Option<String>, StoreError> {
        let request = request.clone();
        self.write("reading a kept answer", move |transaction| find(transaction.connection, &request, transaction.now_ms))
    }

    /// Keeps the answer of a request whose work is done already. One that was kept before stays.
    pub fn record_answer(&self, request: &RequestKey, answer: String) -> Result<(), StoreError> {
        let request = request.clone();
        self.write_patiently("keeping an answer", move |transaction| {
            keep(transaction.connection, &request, &answer, transaction.now_ms)
        })
    }
}

fn find(connection: &Connection, request: &RequestKey, now_ms: i64) -> Result<Option<String>, Fault> {
    let sql = "select fingerprint, answer from idempotency_records where key = ?1 and created_at_ms > ?2 and created_at_ms <= ?3";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?));
    let found: Option<(String, String)> = connection
        .prepare_cached(sql)?
        .query_row(params![request.record_key(), now_ms - KEPT_MS, now_ms + KEPT_MS], read)
        .optional()?;
    match found {
        Some((fingerprint, _)) if fingerprint != request.fingerprint() => {
            Err(StoreError::KeyReused { key: request.key().to_owned() }.into())
        }
        found => Ok(found.map(|(_, answer)| answer)),
    }
}

fn keep(connection: &Connection, request: &RequestKey, answer: &str, now_ms: i64) -> Result<(), Fault> {
    // What comes from a day ahead was kept by a clock that was wrong.
    let stale = "delete from idempotency_records where created_at_ms <= ?1 or created_at_ms > ?2";
    connection.prepare_cached(stale)?.execute([now_ms - KEPT_MS, now_ms + KEPT_MS])?;
    let sql = "insert or ignore into idempotency_records (key, fingerprint, answer, created_at_ms) values (?1, ?2, ?3, ?4)";
    connection.prepare_cached(sql)?.execute(params![request.record_key(), request.fingerprint(), answer, now_ms])?;
    // In the order in which they came: a clock that jumped back makes the newest look like the oldest.
    let oldest = "delete from idempotency_records where key in
                  (select key from idempotency_records order by rowid desc limit -1 offset ?1)";
    connection.prepare_cached(oldest)?.execute([KEPT_MAX])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::connection::open_writer;
    use super::super::migrate::COLLECTION;
    use super::*;

    fn request(key: &str, fingerprint: &str) -> RequestKey {
        RequestKey::new(key, fingerprint.to_owned()).unwrap()
    }

    #[test]
    fn an_answer_is_found_for_its_request_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("documents.sqlite"), &COLLECTION, false).unwrap();
        keep(&connection, &request("a", "1"), "done", 5_000).unwrap();
        assert_eq!(find(&connection, &request("a", "1"), 6_000).unwrap().as_deref(), Some("done"));
        assert_eq!(find(&connection, &request("b", "1"), 6_000).unwrap(), None);
        let reused = find(&connection, &request("a", "2"), 6_000);
        assert!(matches!(reused, Err(Fault::Store(StoreError::KeyReused { .. }))), "{reused:?}");
        assert_eq!(find(&connection, &request("a", "2"), 5_000 + KEPT_MS).unwrap(), None);
        keep(&connection, &request("a", "2"), "again", 5_000 + KEPT_MS).unwrap();
        assert_eq!(find(&connection, &request("a", "2"), 6_000 + KEPT_MS).unwrap().as_deref(), Some("again"));
    }

    #[test]
    fn the_oldest_answers_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("documents.sqlite"), &COLLECTION, false).unwrap();
        for number in 0..KEPT_MAX + 2 {
            keep(&connection, &request(&number.to_string(), "1"), "done", 5_000).unwrap();
        }
        let known = |key: i64| find(&connection, &request(&key.to_string(), "1"), 5_000).unwrap().is_some();
        assert_eq!([known(0), known(1), known(2), known(KEPT_MAX + 1)], [false, false, true, true]);
    }

    #[test]
    fn a_clock_that_jumps_back_keeps_new_answers() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("documents.sqlite"), &COLLECTION, false).unwrap();
        let fill = "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
                    insert into idempotency_records select 'old' || n, '1', 'done', 5000000 from numbers";
        connection.execute(fill, [KEPT_MAX]).unwrap();
        keep(&connection, &request("new", "1"), "done", 1_000).unwrap();
        let known = |key: &str| find(&connection, &request(key, "1"), 1_000).unwrap().is_some();
        assert_eq!([known("old1"), known("old2"), known("new")], [false, true, true]);
    }

    #[test]
    fn answers_from_more_than_a_day_ahead_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("documents.sqlite"), &COLLECTION, false).unwrap();
        keep(&connection, &request("a", "1"), "done", 5_000 + KEPT_MS + 1).unwrap();
        assert_eq!(find(&connection, &request("a", "1"), 5_000).unwrap(), None);
        keep(&connection, &request("a", "2"), "again", 5_000).unwrap();
        assert_eq!(find(&connection, &request("a", "2"), 5_000).unwrap().as_deref(), Some("again"));
    }
}
