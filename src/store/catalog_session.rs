//! What operations of the catalog ask of a connection to its database: to run statements, and to read their rows.
//!
//! Statements are written for PostgreSQL, in SQL that SQLite understands, too, once `sqlite_session` has translated names.

use std::borrow::Cow;

use serde::Serialize;

use super::StoreError;
use super::classifier_records::{ClassifierText, TextEmbedding};
use crate::domain::RequestKey;

/// A connection to the database of the catalog. Its errors name the operation that it is for.
pub trait CatalogSession {
    /// Runs a statement that returns no rows. Returns how many rows it affected.
    fn execute(&mut self, sql: &str, values: &[CatalogValue<'_>]) -> Result<u64, StoreError>;

    /// Runs a statement and passes on its rows one by one.
    fn for_each_row(&mut self, sql: &str, values: &[CatalogValue<'_>], take: &mut RowConsumer<'_>) -> Result<(), StoreError>;

    /// Blocks other requests with this key until the end of the transaction.
    fn lock_request_key(&mut self, request: &RequestKey) -> Result<(), StoreError>;

    /// Adds the texts of the classifier with this key, in their order.
    fn insert_texts(&mut self, classifier: i64, texts: &[ClassifierText]) -> Result<(), StoreError>;

    /// Stores the languages and embeddings of a classifier's texts, by their keys. Deleted texts are skipped.
    fn store_embeddings(&mut self, embedded: &[TextEmbedding]) -> Result<(), StoreError>;
}

pub type RowConsumer<'r> = dyn FnMut(&dyn Columns) -> Result<(), StoreError> + 'r;

impl dyn CatalogSession + '_ {
    pub(crate) fn rows<T>(
        &mut self,
        sql: &str,
        values: &[CatalogValue<'_>],
        read: impl Fn(&dyn Columns) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        self.for_each_row(sql, values, &mut |row| {
            rows.push(read(row)?);
            Ok(())
        })?;
        Ok(rows)
    }

    /// Reads the row of a query that returns at most one.
    pub(crate) fn row<T>(
        &mut self,
        sql: &str,
        values: &[CatalogValue<'_>],
        read: impl Fn(&dyn Columns) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.rows(sql, values, read)?.pop())
    }

    pub(crate) fn has_row(&mut self, sql: &str, values: &[CatalogValue<'_>]) -> Result<bool, StoreError> {
        Ok(self.row(sql, values, |_| Ok(()))?.is_some())
    }
}

/// The columns of a row, by position.
pub trait Columns {
    fn text(&self, column: usize) -> Result<String, StoreError>;
    fn optional_text(&self, column: usize) -> Result<Option<String>, StoreError>;
    fn integer(&self, column: usize) -> Result<i64, StoreError>;
    fn optional_integer(&self, column: usize) -> Result<Option<i64>, StoreError>;
    fn boolean(&self, column: usize) -> Result<bool, StoreError>;
    fn optional_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, StoreError>;
}

/// Implements methods of `Columns` for a row whose method `get` reads a column of any type.
macro_rules! columns {
    ($($name:ident: $type:ty),+ $(,)?) => {
        $(fn $name(&self, column: usize) -> Result<$type, StoreError> {
            self.get(column)
        })+
    };
}
pub(crate) use columns;

/// A value of a statement.
#[derive(Debug, Clone)]
pub enum CatalogValue<'v> {
    Integer(Option<i64>),
    Text(Option<Cow<'v, str>>),
    Bytes(Option<Cow<'v, [u8]>>),
}

/// Implements the conversions of Rust values to `CatalogValue`.
macro_rules! conversions {
    ($($type:ty, $value:ident => $converted:expr;)+) => {
        $(impl<'v> From<$type> for CatalogValue<'v> {
            fn from($value: $type) -> Self {
                $converted
            }
        })+
    };
}

conversions! {
    i64, value => Self::Integer(Some(value));
    Option<i64>, value => Self::Integer(value);
    &'v str, value => Self::Text(Some(value.into()));
    Option<&'v str>, value => Self::Text(value.map(Into::into));
    String, value => Self::Text(Some(value.into()));
    Option<String>, value => Self::Text(value.map(Into::into));
    &'v [u8], value => Self::Bytes(Some(value.into()));
    Option<&'v [u8]>, value => Self::Bytes(value.map(Into::into));
}

/// Makes the values of a statement from Rust values.
macro_rules! values {
    ($($value:expr),* $(,)?) => { &[$($crate::store::catalog_session::CatalogValue::from($value)),*] };
}
pub(super) use values;

pub(crate) fn catalog_json(value: &impl Serialize) -> String {
    // Serializing maps with text keys and lists of texts cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}
