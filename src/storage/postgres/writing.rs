//! A transaction that writes into one collection. It locks the collection's row, so sequence numbers are assigned and become
//! visible in order, regardless of the server.

use super::fault::Fault;
use super::names::{PartitionNames, time_literal};
use super::session::{Parameter, Session};
use crate::domain::Sequence;
use crate::store::{StoreError, TermsOf, from_sql};

/// Number of changes for which tombstones are kept. A server that asks for changes since an older one has to read everything.
const TOMBSTONES_KEPT: i64 = 1_000_000;
/// Number of changes after which older tombstones are deleted.
const TOMBSTONES_PER_PURGE: i64 = 10_000;

/// Expression of the time by the database server's clock, in milliseconds since the Unix epoch.
pub(super) const NOW_MS: &str = "(extract(epoch from clock_timestamp()) * 1000)::bigint";
/// Expression of the time when the statement began. It is the same for all rows of the statement, so that an index can be used.
/// On a replica it is the time that was set for the transaction, by the primary's clock.
pub(super) const BEGUN_MS: &str = "coalesce(nullif(current_setting('dragoman.now_ms', true), '')::bigint,
    (extract(epoch from statement_timestamp()) * 1000)::bigint)";

/// A transaction that writes into a collection.
pub(super) struct Writing<'s> {
    pub(super) session: &'s mut Session,
    pub(super) names: &'s PartitionNames,
    pub(super) key: i64,
    pub(super) terms_of: TermsOf,
    /// The number of this server, which embeds what it writes.
    pub(super) writer: Option<i64>,
    /// When it began, by the database server's clock, in milliseconds since the Unix epoch.
    pub(super) now_ms: i64,
    /// Table expression of the documents that have not expired by then.
    pub(super) live: String,
    /// When the first of the documents that it wrote expires. `i64::MAX` for never.
    pub(super) first_expiry_ms: i64,
    pub(super) passages: i64,
    pub(super) terms: i64,
    sequence: i64,
    begun_at: i64,
    /// Whether rows from another engine brought their own numbers.
    has_taken: bool,
    documents_drawn: i64,
    passages_drawn: i64,
}

impl<'s> Writing<'s> {
    /// Begins by locking the collection's row. `now` is an expression of the current time. Fails with `StoreError::Replaced` if
    /// another collection has replaced this one.
    pub(super) fn begin(
        session: &'s mut Session,
        names: &'s PartitionNames,
        key: i64,
        terms_of: TermsOf,
        now: &str,
    ) -> Result<Self, Fault> {
        let sql = format!(
            "select sequence, documents_drawn, passages_drawn, passages, terms, {now}, replaced_by is not null
             from dragoman.collections where key = $1 for update"
        );
        // Another server dropped the collection.
        let Some(row) = session.row(&sql, &[&key])? else { return Err(StoreError::Closed.into()) };
        if row.try_get(6)? {
            return Err(StoreError::Replaced.into());
        }
        let (sequence, now_ms): (i64, i64) = (row.try_get(0)?, row.try_get(5)?);
        Ok(Self {
            session,
            names,
            key,
            terms_of,
            writer: None,
            now_ms,
            live: names.live(&time_literal(now_ms)),
            first_expiry_ms: i64::MAX,
            passages: row.try_get(3)?,
            terms: row.try_get(4)?,
            sequence,
            begun_at: sequence,
            has_taken: false,
            documents_drawn: row.try_get(1)?,
            passages_drawn: row.try_get(2)?,
        })
    }

    pub(super) fn record_expiry(&mut self, expires_at_ms: Option<i64>) {
        self.first_expiry_ms = self.first_expiry_ms.min(expires_at_ms.unwrap_or(i64::MAX));
    }

    pub(super) fn next_sequence(&mut self) -> i64 {
        self.sequence += 1;
        self.sequence
    }

    /// Returns the last sequence number in use.
    pub(super) fn sequence(&self) -> Sequence {
        Sequence(from_sql(self.sequence))
    }

    pub(super) fn next_document(&mut self) -> i64 {
        self.documents_drawn += 1;
        self.documents_drawn
    }

    pub(super) fn next_passage(&mut self) -> i64 {
        self.passages_drawn += 1;
        self.passages_drawn
    }

    /// Marks all sequence numbers up to this one as used, for rows from another engine.
    pub(super) fn raise_sequence(&mut self, sequence: i64) {
        self.has_taken = true;
        self.sequence = self.sequence.max(sequence);
    }

    /// Marks all keys of documents up to this one as used, in the same way.
    pub(super) fn raise_document_key(&mut self, document: i64) {
        self.documents_drawn = self.documents_drawn.max(document);
    }

    /// Marks all keys of passages up to this one as used, in the same way.
    pub(super) fn raise_passage_key(&mut self, passage: i64) {
        self.passages_drawn = self.passages_drawn.max(passage);
    }

    /// Stores the last numbers and keys.
    pub(super) fn finish(self) -> Result<(), Fault> {
        if self.sequence == self.begun_at && !self.has_taken {
            return Ok(());
        }
        let numbers = [self.key, self.sequence, self.documents_drawn, self.passages_drawn, self.passages, self.terms];
        let purged_to = self.sequence - TOMBSTONES_KEPT;
        let sql =
            "update dragoman.collections set sequence = $2, documents_drawn = $3, passages_drawn = $4, passages = $5, terms = $6
                   where key = $1";
        self.session.execute(sql, &numbers.each_ref().map(|number| number as _))?;
        if purged_to > 0 && self.sequence / TOMBSTONES_PER_PURGE > self.begun_at / TOMBSTONES_PER_PURGE {
            let values: [Parameter<'_>; 2] = [&self.key, &purged_to];
            self.session.execute("delete from dragoman.tombstones where collection = $1 and sequence <= $2", &values)?;
            self.session.execute("update dragoman.collections set tombstones_purged = $2 where key = $1", &values)?;
        }
        Ok(())
    }
}
