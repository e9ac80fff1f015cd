//! The transaction that the writer's commands share.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::clock::Clock;
use super::error::Fault;
use super::expiry::NextExpiry;
use super::{StoreError, TermsOf, term_rows};
use crate::domain::{PassageTerms, Sequence, with_causes};

/// What a writer uses in each of its transactions.
pub(super) struct WriteContext {
    pub(super) clock: Clock,
    pub(super) next_expiry: NextExpiry,
    pub(super) terms_of: TermsOf,
}

/// The transaction that a group of commands shares. Dropping it without `commit` rolls it back.
pub(super) struct WriteTransaction<'c> {
    pub(super) connection: &'c Connection,
    pub(super) terms_of: &'c TermsOf,
    next_expiry: &'c NextExpiry,
    /// When the transaction began, in milliseconds since the Unix epoch.
    pub(super) now_ms: i64,
    sequence: u64,
    /// When the first of the documents that it wrote expires. `i64::MAX` for never.
    first_expiry_ms: i64,
    /// The terms of the passages that the command added, by passage. The end of the command writes them: FTS5 writes its buffer
    /// out whenever a statement follows that must be undone if it fails midway, such as one with triggers, and that costs more
    /// than the terms themselves.
    added_terms: BTreeMap<i64, PassageTerms>,
}

impl<'c> WriteTransaction<'c> {
    pub(super) fn begin(connection: &'c Connection, context: &'c WriteContext) -> Result<Self, Fault> {
        connection.prepare_cached("begin immediate")?.execute([])?;
        let WriteContext { clock, next_expiry, terms_of } = context;
        let (now_ms, first_expiry_ms, added_terms) = (clock(), i64::MAX, BTreeMap::new());
        let mut transaction = Self { connection, terms_of, next_expiry, now_ms, sequence: 0, first_expiry_ms, added_terms };
        let sequence: i64 = connection.prepare_cached("select sequence from state")?.query_row([], |row| row.get(0))?;
        transaction.sequence = u64::try_from(sequence).map_err(|_| StoreError::CorruptRow {
            table: "state",
            row: 1,
            problem: "its sequence is negative",
        })?;
        Ok(transaction)
    }

    /// Returns the last sequence number in use.
    pub(super) fn sequence(&self) -> Sequence {
        Sequence(self.sequence)
    }

    /// Returns a new sequence number. Numbers of a failed command are not reused.
    pub(super) fn next_sequence(&mut self) -> i64 {
        self.sequence += 1;
        self.sequence as i64
    }

    /// Marks all numbers up to `sequence` as used, for rows from another database.
    pub(super) fn raise_sequence(&mut self, sequence: Sequence) {
        self.sequence = self.sequence.max(sequence.0);
    }

    pub(super) fn record_expiry(&mut self, expires_at_ms: Option<i64>) {
        self.first_expiry_ms = self.first_expiry_ms.min(expires_at_ms.unwrap_or(i64::MAX));
    }

    /// Sets the terms of a passage that has no row in the inverted index.
    pub(super) fn add_terms(&mut self, passage: i64, terms: PassageTerms) {
        self.added_terms.insert(passage, terms);
    }

    pub(super) fn drop_terms(&mut self, passages: &[i64]) {
        for passage in passages {
            self.added_terms.remove(passage);
        }
    }

    /// Forgets the terms that a failed command added.
    pub(super) fn discard_terms(&mut self) {
        self.added_terms.clear();
    }

    pub(super) fn write_terms(&mut self) -> Result<(), Fault> {
        let added = std::mem::take(&mut self.added_terms);
        if added.is_empty() {
            return Ok(());
        }
        added.iter().try_for_each(|(passage, terms)| term_rows::insert(self.connection, *passage, terms))?;
        // FTS5 writes its buffer out at the next savepoint. With one here, a full disk fails this command and not the whole
        // group.
        self.connection.prepare_cached("savepoint terms")?.execute([])?;
        self.connection.prepare_cached("release terms")?.execute([])?;
        Ok(())
    }

    pub(super) fn commit(self) -> Result<(), Fault> {
        self.connection.prepare_cached("update state set sequence = ?1")?.execute([self.sequence as i64])?;
        self.connection.prepare_cached("commit")?.execute([])?;
        // Recorded after the commit: a search for the next expiry that runs before this sees the new documents itself.
        self.next_expiry.record(self.first_expiry_ms);
        Ok(())
    }
}

impl Drop for WriteTransaction<'_> {
    fn drop(&mut self) {
        // Some errors, such as a full disk, end the transaction on their own.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("rollback")
        {
            tracing::error!(error = with_causes(&error), "cannot roll back");
        }
    }
}

#[cfg(test)]
impl WriteContext {
    /// Uses the system's clock, and computes no terms.
    pub(super) fn for_tests() -> Self {
        let terms_of = TermsOf::new(|_, _| Default::default());
        Self { clock: super::system_clock, next_expiry: NextExpiry::default(), terms_of }
    }
}
