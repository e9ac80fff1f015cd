//! Records of requests with an idempotency key, in the catalog and in the database of each collection. A record is written in
//! the transaction that does the work, so after a crash there are both or neither.

use rusqlite::{Connection, OptionalExtension, params};

use super::error::{Fault, StoreError};
use crate::domain::RequestKey;

/// How long a record is kept: 24 hours.
pub(crate) const KEPT_MS: i64 = 24 * 60 * 60 * 1_000;

/// Maximum number of records in the catalog.
const CREATIONS_MAX: i64 = 10_000;

/// Maximum number of records in one collection. The record of a request with a thousand documents takes about 80 kB.
pub(super) const ANSWERS_MAX: i64 = 1_000;

/// Returns the record of this request. Fails with `StoreError::KeyReused` if the same key was used for another request.
pub(super) fn find(connection: &Connection, request: &RequestKey, now_ms: i64) -> Result<Option<String>, Fault> {
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

/// Records in the catalog the id of what a request created. Fails with `StoreError::KeyReused` if the key already has a record.
pub(super) fn store_creation(connection: &Connection, request: &RequestKey, id: &str, now_ms: i64) -> Result<(), Fault> {
    match store_answer(connection, request, id, now_ms, CREATIONS_MAX)? {
        true => Ok(()),
        false => Err(StoreError::KeyReused { key: request.key().to_owned() }.into()),
    }
}

/// Records the answer of a request, unless there is a record. Returns whether it did. Deletes the oldest records beyond `most`.
pub(super) fn store_answer(
    connection: &Connection,
    request: &RequestKey,
    answer: &str,
    now_ms: i64,
    most: i64,
) -> Result<bool, Fault> {
    // Records from more than a day in the future were written by a wrong clock.
    let stale = "delete from idempotency_records where created_at_ms <= ?1 or created_at_ms > ?2";
    connection.prepare_cached(stale)?.execute([now_ms - KEPT_MS, now_ms + KEPT_MS])?;
    let sql = "insert or ignore into idempotency_records (key, fingerprint, answer, created_at_ms) values (?1, ?2, ?3, ?4)";
    let kept = connection.prepare_cached(sql)?.execute(params![request.record_key(), request.fingerprint(), answer, now_ms])?;
    // Deletes in the order of arrival, because after a clock jumped back, the newest record can have the oldest time.
    let oldest = "delete from idempotency_records where key in
                  (select key from idempotency_records order by rowid desc limit -1 offset ?1)";
    connection.prepare_cached(oldest)?.execute([most])?;
    Ok(kept > 0)
}

#[cfg(test)]
mod tests {
    use super::super::connection::open_writer;
    use super::super::migrate::{CATALOG, COLLECTION};
    use super::*;

    fn request(key: &str, fingerprint: &str) -> RequestKey {
        RequestKey::new(key, fingerprint.to_owned()).unwrap()
    }

    fn keep_answer(connection: &Connection, request: &RequestKey, answer: &str, now_ms: i64) -> bool {
        store_answer(connection, request, answer, now_ms, ANSWERS_MAX).unwrap()
    }

    #[test]
    fn a_response_is_found_for_its_request_for_one_day() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("documents.sqlite"), &COLLECTION, false).unwrap();
        keep_answer(&connection, &request("a", "1"), "done", 5_000);
        assert_eq!(find(&connection, &request("a", "1"), 6_000).unwrap().as_deref(), Some("done"));
        assert_eq!(find(&connection, &request("b", "1"), 6_000).unwrap(), None);
        let reused = find(&connection, &request("a", "2"), 6_000);
        assert!(matches!(reused, Err(Fault::Store(StoreError::KeyReused { .. }))), "{reused:?}");
        assert_eq!(find(&connection, &request("a", "2"), 5_000 + KEPT_MS).unwrap(), None);
        keep_answer(&connection, &request("a", "2"), "again", 5_000 + KEPT_MS);
        assert_eq!(find(&connection, &request("a", "2"), 6_000 + KEPT_MS).unwrap().as_deref(), Some("again"));
    }

    #[test]
    fn the_oldest_responses_are_deleted_first() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("documents.sqlite"), &COLLECTION, false).unwrap();
        for number in 0..ANSWERS_MAX + 2 {
            keep_answer(&connection, &request(&number.to_string(), "1"), "done", 5_000);
        }
        let known = |key: i64| find(&connection, &request(&key.to_string(), "1"), 5_000).unwrap().is_some();
        assert_eq!([known(0), known(1), known(2), known(ANSWERS_MAX + 1)], [false, false, true, true]);
    }

    #[test]
    fn new_responses_are_kept_after_the_clock_jumps_back() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("documents.sqlite"), &COLLECTION, false).unwrap();
        let fill = "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
                    insert into idempotency_records select 'old' || n, '1', 'done', 5000000 from numbers";
        connection.execute(fill, [ANSWERS_MAX]).unwrap();
        keep_answer(&connection, &request("new", "1"), "done", 1_000);
        let known = |key: &str| find(&connection, &request(key, "1"), 1_000).unwrap().is_some();
        assert_eq!([known("old1"), known("old2"), known("new")], [false, true, true]);
    }

    #[test]
    fn responses_dated_more_than_a_day_ahead_are_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("documents.sqlite"), &COLLECTION, false).unwrap();
        keep_answer(&connection, &request("a", "1"), "done", 5_000 + KEPT_MS + 1);
        assert_eq!(find(&connection, &request("a", "1"), 5_000).unwrap(), None);
        keep_answer(&connection, &request("a", "2"), "again", 5_000);
        assert_eq!(find(&connection, &request("a", "2"), 5_000).unwrap().as_deref(), Some("again"));
    }

    #[test]
    fn new_creations_are_kept_after_the_clock_jumps_back() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("catalog.sqlite"), &CATALOG, false).unwrap();
        let fill = "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
                    insert into idempotency_records select 'old' || n, '1', 'made', 5000000 from numbers";
        connection.execute(fill, [CREATIONS_MAX]).unwrap();
        store_creation(&connection, &request("new", "1"), "made", 1_000).unwrap();
        let known = |key: &str| find(&connection, &request(key, "1"), 1_000).unwrap().is_some();
        assert_eq!([known("old1"), known("old2"), known("new")], [false, true, true]);
    }

    #[test]
    fn creations_dated_more_than_a_day_ahead_are_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("catalog.sqlite"), &CATALOG, false).unwrap();
        store_creation(&connection, &request("a", "1"), "first", 5_000 + KEPT_MS + 1).unwrap();
        assert_eq!(find(&connection, &request("a", "1"), 5_000).unwrap(), None);
        store_creation(&connection, &request("a", "1"), "second", 5_000).unwrap();
        assert_eq!(find(&connection, &request("a", "1"), 5_000).unwrap().as_deref(), Some("second"));
    }

    #[test]
    fn reusing_an_idempotency_key_for_another_creation_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("catalog.sqlite"), &CATALOG, false).unwrap();
        store_creation(&connection, &request("a", "1"), "first", 5_000).unwrap();
        let again = store_creation(&connection, &request("a", "2"), "second", 5_000);
        assert!(matches!(again, Err(Fault::Store(StoreError::KeyReused { .. }))), "{again:?}");
        assert_eq!(find(&connection, &request("a", "1"), 5_000).unwrap().as_deref(), Some("first"));
    }
}
