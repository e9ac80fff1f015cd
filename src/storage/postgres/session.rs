//! A connection to a database server, and how statements and transactions use it.
//!
//! Statements are not prepared in advance: each one is parsed, bound and run in one round trip. So the planner knows the
//! values, and a transaction pooler may sit in between.

use std::borrow::Cow;
use std::pin::pin;
use std::time::Duration;

use pgvector::Vector;
use tokio_postgres::types::{FromSqlOwned, ToSql, Type};
use tokio_postgres::{CancelToken, Row, SimpleQueryMessage, SimpleQueryRow};

use super::client::BlockingClient;
use super::fault::Fault;
use super::rows::passage_id;
use crate::domain::{Embedding, PassageId};
use crate::store::{StoreError, from_sql};

pub(super) type Parameter<'p> = &'p (dyn SqlValue + Sync);

pub(super) trait SqlValue: ToSql {
    fn sql_type(&self, vectors: &VectorTypes) -> Type;
}

/// The types of pgvector, whose numbers differ between servers.
#[derive(Debug, Clone)]
pub(super) struct VectorTypes {
    /// `vector`.
    pub(super) single: Type,
    /// `vector[]`.
    pub(super) many: Type,
}

impl VectorTypes {
    /// Adds the type of each parameter.
    fn typed<'p>(&self, parameters: &[Parameter<'p>]) -> Vec<(&'p (dyn ToSql + Sync), Type)> {
        parameters.iter().map(|&value| (value as _, value.sql_type(self))).collect()
    }
}

/// Implements `SqlValue`: each type of the database has the Rust types that are stored as it.
macro_rules! sql_types {
    ($vectors:tt: $($of_database:expr => $($of_rust:ty),+;)+) => {
        $($(impl SqlValue for $of_rust {
            fn sql_type(&self, $vectors: &VectorTypes) -> Type {
                $of_database
            }
        })+)+
    };
}

sql_types! { _:
    Type::BOOL => bool;
    Type::INT8 => i64, Option<i64>;
    Type::FLOAT4 => Option<f32>;
    Type::TEXT => &str, Option<&str>, String, Option<String>;
    Type::BYTEA => &[u8], Option<Vec<u8>>;
    Type::BOOL_ARRAY => Vec<bool>;
    Type::INT4_ARRAY => Vec<i32>;
    Type::INT8_ARRAY => &[i64], Vec<i64>, Vec<Option<i64>>;
    Type::FLOAT4_ARRAY => Vec<Option<f32>>;
    Type::TEXT_ARRAY => &[&str], Vec<&str>, Option<Vec<&str>>, Vec<Option<&str>>, Vec<String>, Vec<Option<String>>, Vec<Cow<'_, str>>,
        Vec<Option<Cow<'_, str>>>;
    Type::BYTEA_ARRAY => Vec<Vec<u8>>, Vec<Option<Vec<u8>>>, Vec<&[u8]>, Vec<Option<&[u8]>>;
}

sql_types! { vectors:
    vectors.single.clone() => Vector;
    vectors.many.clone() => Vec<Vector>, Vec<Option<&Vector>>;
}

pub(super) struct Session {
    client: BlockingClient,
    types: VectorTypes,
    /// Whether a transaction was begun but not ended, for example because of a panic.
    is_open: bool,
}

impl Session {
    pub(super) fn new(client: BlockingClient, types: VectorTypes) -> Self {
        Self { client, types, is_open: false }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_open || self.client.is_closed()
    }

    /// Sets how long the server may take to answer each statement. `None` for as long as it shows any sign of life.
    pub(super) fn set_limit(&mut self, limit: Option<Duration>) {
        self.client.set_limit(limit);
    }

    /// Checks that the server answers.
    pub(super) fn check(&mut self) -> Result<(), Fault> {
        self.execute_batch("")
    }

    /// Returns a token that can end its running statement.
    pub(super) fn cancel_token(&self) -> Result<CancelToken, Fault> {
        self.client.cancel_token()
    }

    pub(super) fn rows(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        let parameters = self.types.typed(parameters);
        self.client.wait(|client| client.query_typed(sql, &parameters))
    }

    /// Runs a statement and passes on its rows one by one, without collecting them.
    pub(super) fn for_each_row(
        &mut self,
        sql: &str,
        parameters: &[Parameter<'_>],
        mut take: impl FnMut(&Row) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let parameters = self.types.typed(parameters);
        let mut rows = pin!(self.client.wait(|client| client.query_typed_raw(sql, parameters))?);
        while let Some(row) = self.client.next_row(rows.as_mut())? {
            take(&row)?;
        }
        Ok(())
    }

    /// Runs a statement that returns at most one row.
    pub(super) fn row(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Option<Row>, Fault> {
        let parameters = self.types.typed(parameters);
        self.client.wait(|client| client.query_typed_opt(sql, &parameters))
    }

    /// Runs a statement that returns at most one row. Returns its first column.
    pub(super) fn value<T: FromSqlOwned>(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Option<T>, Fault> {
        Ok(self.row(sql, parameters)?.map(|row| row.try_get(0)).transpose()?)
    }

    /// Runs a statement and returns the first column of its rows.
    pub(super) fn column<T: FromSqlOwned>(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<Vec<T>, Fault> {
        self.rows(sql, parameters)?.iter().map(|row| Ok(row.try_get(0)?)).collect()
    }

    /// Runs a statement whose only column is the key of a passage.
    pub(super) fn passages<C: FromIterator<PassageId>>(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<C, Fault> {
        Ok(self.column(sql, parameters)?.into_iter().map(passage_id).collect())
    }

    /// Runs a statement that returns one number. A negative one counts as 0.
    pub(super) fn query_number(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<u64, Fault> {
        let parameters = self.types.typed(parameters);
        Ok(from_sql(self.client.wait(|client| client.query_typed_one(sql, &parameters))?.try_get(0)?))
    }

    /// Runs a statement that returns no rows. Returns how many rows it affected.
    pub(super) fn execute(&mut self, sql: &str, parameters: &[Parameter<'_>]) -> Result<u64, Fault> {
        let parameters = self.types.typed(parameters);
        self.client.wait(|client| client.execute_typed(sql, &parameters))
    }

    pub(super) fn execute_batch(&mut self, sql: &str) -> Result<(), Fault> {
        self.client.wait(|client| client.batch_execute(sql))
    }

    /// Runs `work` in a transaction that the statement `begin` begins. Commits unless `work` fails. Inside another transaction,
    /// `work` becomes part of that one.
    pub(super) fn in_transaction<T>(
        &mut self,
        begin: &str,
        work: impl FnOnce(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if self.is_open {
            return work(self);
        }
        self.in_transaction_with_row(begin, |session, _| work(session))
    }

    /// Begins a transaction that lasts until `commit`. Without a commit, it is rolled back when the connection closes.
    pub(super) fn begin_transaction(&mut self, begin: &str) -> Result<(), Fault> {
        self.is_open = true;
        self.execute_batch(begin)
    }

    pub(super) fn commit(&mut self) -> Result<(), Fault> {
        self.execute_batch("commit")?;
        self.is_open = false;
        Ok(())
    }

    /// Like `in_transaction`, but `work` gets the last row that `begin` selects.
    pub(super) fn in_transaction_with_row<T>(
        &mut self,
        begin: &str,
        work: impl FnOnce(&mut Self, Option<SimpleQueryRow>) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        self.is_open = true;
        let row = self.client.wait(|client| client.simple_query(begin))?.into_iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let worked = work(self, row);
        let ended = self.execute_batch(if worked.is_ok() { "commit" } else { "rollback" });
        self.is_open = ended.is_err();
        match (worked, ended) {
            (Err(fault), _) | (Ok(_), Err(fault)) => Err(fault),
            (Ok(done), Ok(())) => Ok(done),
        }
    }
}

/// Begins a transaction that reads a single state.
pub(super) const SNAPSHOT: &str = "begin isolation level repeatable read, read only";

/// Converts an embedding to a value of a statement.
pub(super) fn vector(embedding: &Embedding) -> Vector {
    Vector::from(embedding.as_slice().to_vec())
}

pub(super) fn embedding(passage: i64, vector: Vector) -> Result<Embedding, Fault> {
    let problem = "its embedding holds no finite numbers";
    Embedding::unscaled(vector.into()).ok_or_else(|| StoreError::CorruptRow { table: "passages", row: passage, problem }.into())
}
