//! Runs the statements of the catalog on SQLite.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, ToSql, params, params_from_iter};

use super::StoreError;
use super::catalog_session::{CatalogSession, CatalogValue, Columns, RowConsumer, catalog_json, columns};
use super::classifier_records::{ClassifierText, TextEmbedding};
use super::error::Fault;
use crate::domain::{Embedding, Language, RequestKey};

/// What statements say for PostgreSQL, and how SQLite spells it. Applied in this order.
const SPELLINGS: [(&str, &str); 8] = [
    ("dragoman.catalog", "collections"),
    ("dragoman.creations", "idempotency_records"),
    ("dragoman.", ""),
    ("creations.number", "rowid"),
    ("jobs.key", "rowid"),
    ("json_array_elements_text", "json_each"),
    ("::json", ""),
    ("$", "?"),
];

/// A connection for one operation.
pub(super) struct SqliteSession<'c> {
    pub(super) connection: &'c Connection,
    pub(super) operation: &'static str,
}

impl SqliteSession<'_> {
    fn run<T>(&self, work: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, StoreError> {
        work(self.connection).map_err(|fault| fault.into_store_error(self.operation))
    }
}

impl CatalogSession for SqliteSession<'_> {
    fn execute(&mut self, sql: &str, values: &[CatalogValue<'_>]) -> Result<u64, StoreError> {
        self.run(|connection| Ok(connection.prepare_cached(&translate(sql))?.execute(params_from_iter(values))? as u64))
    }

    fn for_each_row(&mut self, sql: &str, values: &[CatalogValue<'_>], take: &mut RowConsumer<'_>) -> Result<(), StoreError> {
        self.run(|connection| {
            let mut statement = connection.prepare_cached(&translate(sql))?;
            let mut rows = statement.query(params_from_iter(values))?;
            while let Some(row) = rows.next()? {
                take(&SqliteRow { row, operation: self.operation })?;
            }
            Ok(())
        })
    }

    /// Does nothing, because a catalog has one connection.
    fn lock_request_key(&mut self, _: &RequestKey) -> Result<(), StoreError> {
        Ok(())
    }

    fn insert_texts(&mut self, classifier: i64, texts: &[ClassifierText]) -> Result<(), StoreError> {
        let sql = "insert into classifier_texts (classifier, description, text, labels, language, embedding)
                   values (?1, ?2, ?3, ?4, ?5, ?6)";
        self.run(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            for ClassifierText { description, text, labels, language, embedding } in texts {
                let (language, embedding) = (language.map(Language::code), embedding.as_ref().map(Embedding::to_bytes));
                statement.execute(params![classifier, description, text, catalog_json(labels), language, embedding])?;
            }
            Ok(())
        })
    }

    fn store_embeddings(&mut self, embedded: &[TextEmbedding]) -> Result<(), StoreError> {
        self.run(|connection| {
            let sql = "update classifier_texts set language = ?2, embedding = ?3 where key = ?1";
            let mut statement = connection.prepare_cached(sql)?;
            for (key, language, embedding) in embedded {
                statement.execute(params![key, language.map(Language::code), embedding.to_bytes()])?;
            }
            Ok(())
        })
    }
}

fn translate(sql: &str) -> String {
    SPELLINGS.iter().fold(sql.to_owned(), |sql, (spelled, ours)| sql.replace(spelled, ours))
}

impl ToSql for CatalogValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Integer(number) => number.map_or(ValueRef::Null, ValueRef::Integer),
            Self::Text(text) => text.as_deref().map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes())),
            Self::Bytes(bytes) => bytes.as_deref().map_or(ValueRef::Null, ValueRef::Blob),
        }))
    }
}

/// A row that was read for one operation.
struct SqliteRow<'r, 's> {
    row: &'r Row<'s>,
    operation: &'static str,
}

impl SqliteRow<'_, '_> {
    fn get<T: rusqlite::types::FromSql>(&self, column: usize) -> Result<T, StoreError> {
        self.row.get(column).map_err(|error| Fault::from(error).into_store_error(self.operation))
    }
}

impl Columns for SqliteRow<'_, '_> {
    columns! { text: String, optional_text: Option<String>, integer: i64, optional_integer: Option<i64>, boolean: bool }
    columns! { optional_bytes: Option<Vec<u8>> }
}
