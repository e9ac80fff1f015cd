//! Removes documents that have expired. Even before that, reads do not find them, because they use the table expression of
//! `Postgres::live`.

use super::changes::{CHANGED_PER_TRANSACTION, delete_keys};
use super::fault::Fault;
use super::partition::Postgres;
use crate::store::{Expired, StoreError};

impl Postgres {
    pub(crate) fn expiry_due(&self) -> bool {
        self.next_expiry.is_due(self.now_ms())
    }

    pub(crate) fn delete_expired(&self) -> Result<Expired, StoreError> {
        const OPERATION: &str = "removing expired documents";
        let documents = &self.names.documents;
        let due = format!(
            "select document from {documents} where expires_at_ms <= {} order by expires_at_ms, document
             limit {CHANGED_PER_TRANSACTION}",
            self.now()
        );
        let keys = self.run(OPERATION, |session| {
            session.rows(&due, &[])?.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<i64>, Fault>>()
        })?;
        let more = keys.len() == CHANGED_PER_TRANSACTION;
        let rows = match keys.is_empty() {
            true => Vec::new(),
            false => self.write_patiently(OPERATION, |writing| {
                // Selects again, because a write may have extended their time meanwhile.
                let sql = format!(
                    "select document from {documents} where document = any($1) and expires_at_ms <= $2
                     order by expires_at_ms, document"
                );
                let found = writing.session.rows(&sql, &[&keys, &writing.now_ms])?;
                let expired = found.iter().map(|row| Ok(row.try_get(0)?)).collect::<Result<Vec<i64>, Fault>>()?;
                delete_keys(writing, &expired)?;
                Ok(expired)
            })?,
        };
        if !more {
            // Cleared before reading, so that the expiry time that a concurrent write records is not lost.
            self.next_expiry.clear();
            let sql = format!("select min(expires_at_ms) from {documents} where expires_at_ms is not null");
            let first = self.run(OPERATION, |session| {
                let row = session.row(&sql, &[])?;
                Ok(row.map(|row| row.try_get::<_, Option<i64>>(0)).transpose()?.flatten())
            });
            let first = first.inspect_err(|_| self.next_expiry.note(i64::MIN))?;
            self.next_expiry.note(first.unwrap_or(i64::MAX));
        }
        Ok(Expired { rows, more, damage: Vec::new() })
    }
}
