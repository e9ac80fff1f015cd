//! Removes documents that have expired. Even before that, reads do not find them, because they use the table expression of
//! `Postgres::live`.

use super::changes::delete_keys;
use super::partition::{Postgres, first_expiry};
use crate::store::{CHANGED_PER_TRANSACTION, Expired, StoreError};

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
        let keys: Vec<i64> = self.run(OPERATION, |session| session.column(&due, &[]))?;
        let more = keys.len() == CHANGED_PER_TRANSACTION;
        let rows = match keys.is_empty() {
            true => Vec::new(),
            false => self.write_patiently(OPERATION, |writing| {
                // Selects again, because a write may have extended their time in the meantime.
                let sql = format!(
                    "select document from {documents} where document = any($1) and expires_at_ms <= $2
                     order by expires_at_ms, document"
                );
                let expired = writing.session.column(&sql, &[&keys, &writing.now_ms])?;
                delete_keys(writing, &expired)?;
                Ok(expired)
            })?,
        };
        if !more {
            self.next_expiry.refresh(|| self.run(OPERATION, |session| first_expiry(session, documents)))?;
        }
        Ok(Expired { rows, more, damage: Vec::new() })
    }
}
