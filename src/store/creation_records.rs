//! What a request with a key created: a collection, a classifier or a job. Kept in the catalog in the transaction that creates it.

use rusqlite::{Connection, OptionalExtension, params};

use super::error::{Fault, StoreError};
use crate::domain::RequestKey;

/// How long it is kept: 24 hours.
const KEPT_MS: i64 = 24 * 60 * 60 * 1_000;

/// Creations kept at once; the oldest go first.
const KEPT_MAX: i64 = 10_000;

/// The id of what this request created before. With another request of the same key: `StoreError::KeyReused`.
pub(super) fn find(connection: &Connection, request: &RequestKey, now_ms: i64) -> Result<Option<String>, Fault> {
    let sql =
        "select fingerprint, created from idempotency_records where key = ?1 and created_at_ms > ?2 and created_at_ms <= ?3";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?));
    let found = connection.query_row(sql, params![request.record_key(), now_ms - KEPT_MS, now_ms + KEPT_MS], read).optional()?;
    match found {
        Some((fingerprint, _)) if fingerprint != request.fingerprint() => {
            Err(StoreError::KeyReused { key: request.key().to_owned() }.into())
        }
        found => Ok(found.map(|(_, id)| id)),
    }
}

/// Keeps that a request created something of this id.
pub(super) fn keep(connection: &Connection, request: &RequestKey, id: &str, now_ms: i64) -> Result<(), Fault> {
    // What comes from a day ahead was kept by a clock that was wrong.
    let stale = "delete from idempotency_records where created_at_ms <= ?1 or created_at_ms > ?2";
    connection.execute(stale, [now_ms - KEPT_MS, now_ms + KEPT_MS])?;
    let sql = "insert into idempotency_records (key, fingerprint, created, created_at_ms) values (?1, ?2, ?3, ?4)";
    connection.execute(sql, params![request.record_key(), request.fingerprint(), id, now_ms])?;
    // In the order in which they came: a clock that jumped back makes the newest look like the oldest.
    let oldest = "delete from idempotency_records where key in
                  (select key from idempotency_records order by rowid desc limit -1 offset ?1)";
    connection.execute(oldest, [KEPT_MAX])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::connection::open_writer;
    use super::super::migrate::CATALOG;
    use super::*;

    fn request(key: &str) -> RequestKey {
        RequestKey::new(key, "1".to_owned()).unwrap()
    }

    #[test]
    fn a_clock_that_jumps_back_keeps_new_creations() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("catalog.sqlite"), &CATALOG, false).unwrap();
        let fill = "with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < ?1)
                    insert into idempotency_records select 'old' || n, '1', 'made', 5000000 from numbers";
        connection.execute(fill, [KEPT_MAX]).unwrap();
        keep(&connection, &request("new"), "made", 1_000).unwrap();
        let known = |key: &str| find(&connection, &request(key), 1_000).unwrap().is_some();
        assert_eq!([known("old1"), known("old2"), known("new")], [false, true, true]);
    }

    #[test]
    fn creations_from_more_than_a_day_ahead_are_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let connection = open_writer(&folder.path().join("catalog.sqlite"), &CATALOG, false).unwrap();
        keep(&connection, &request("a"), "first", 5_000 + KEPT_MS + 1).unwrap();
        assert_eq!(find(&connection, &request("a"), 5_000).unwrap(), None);
        keep(&connection, &request("a"), "second", 5_000).unwrap();
        assert_eq!(find(&connection, &request("a"), 5_000).unwrap().as_deref(), Some("second"));
    }
}
