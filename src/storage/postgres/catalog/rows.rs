//! Implements reading of catalog rows through `Columns`, which both databases share, and conversions of values.

use std::borrow::Cow;

use postgres::Row;

use crate::storage::postgres::escape::{escape, unescape};
use crate::storage::postgres::fault::Fault;
use crate::store::Columns;

/// A row of the catalog.
pub(super) struct CatalogRow(pub(super) Row);

impl Columns for CatalogRow {
    type Fault = Fault;

    fn text(&self, column: usize) -> Result<String, Fault> {
        Ok(unescape(self.0.try_get(column)?))
    }

    fn optional_text(&self, column: usize) -> Result<Option<String>, Fault> {
        Ok(self.0.try_get::<_, Option<&str>>(column)?.map(unescape))
    }

    fn integer(&self, column: usize) -> Result<i64, Fault> {
        Ok(self.0.try_get(column)?)
    }

    fn optional_integer(&self, column: usize) -> Result<Option<i64>, Fault> {
        Ok(self.0.try_get(column)?)
    }

    fn boolean(&self, column: usize) -> Result<bool, Fault> {
        Ok(self.0.try_get(column)?)
    }

    fn optional_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, Fault> {
        Ok(self.0.try_get(column)?)
    }
}

/// Converts a text to the form that the database can store.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    escape(text)
}

/// Converts a number of rows to the type of the database.
pub(super) fn limit(rows: usize) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// Serializes a value to JSON.
pub(super) fn json(value: &impl serde::Serialize) -> String {
    // Serializing maps with text keys and lists of texts cannot fail.
    escape(&serde_json::to_string(value).unwrap_or_default()).into_owned()
}
