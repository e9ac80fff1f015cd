//! Stores answers under a caller's idempotency key, so that a repeated request gets the same answer and does nothing.
//!
//! An answer is written in the transaction that does the work, so after a crash there are both or neither.

use super::documents::DocumentStore;
use super::idempotency_records::{ANSWERS_MAX, find, store_answer};
use super::sqlite_session::SqliteSession;
use super::upsert::Upsert;
use super::{PreparedDocument, StoreError, Upserted};
use crate::domain::RequestKey;

/// The outcome of a request with a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Idempotent<T> {
    /// The request was executed now.
    Executed(T),
    /// The request was executed before, with this record.
    Replayed(String),
}

impl DocumentStore {
    /// Like `upsert`, unless a request with this key was executed before. Records what `answer` makes from the outcomes. Fails
    /// with `StoreError::KeyReused` if the same key was used for another request.
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

    /// Returns the stored answer of a request. Fails with `StoreError::KeyReused` if the same key was used for another request.
    pub fn idempotency_record(&self, request: &RequestKey) -> Result<Option<String>, StoreError> {
        const OPERATION: &str = "reading an idempotency record";
        let request = request.clone();
        self.write(OPERATION, move |transaction| {
            let mut records = SqliteSession { connection: transaction.connection, operation: OPERATION };
            Ok(find(&mut records, &request, transaction.now_ms)?)
        })
    }

    /// Stores the answer of a request whose work is already done, unless there is an earlier record.
    pub fn record_answer(&self, request: &RequestKey, answer: String) -> Result<(), StoreError> {
        const OPERATION: &str = "storing an answer";
        let request = request.clone();
        self.write_patiently(OPERATION, move |transaction| {
            let mut records = SqliteSession { connection: transaction.connection, operation: OPERATION };
            store_answer(&mut records, &request, &answer, transaction.now_ms, ANSWERS_MAX)?;
            Ok(())
        })
    }
}
