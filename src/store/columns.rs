//! A row of either database, as the catalog's values are read from it: what a row means is written once.

use super::error::{Fault, StoreError};

/// The columns of a row, by their places.
pub(crate) trait Columns {
    /// What reading fails with.
    type Fault: From<StoreError>;

    /// A text.
    fn text(&self, column: usize) -> Result<String, Self::Fault>;

    /// A text, or null.
    fn optional_text(&self, column: usize) -> Result<Option<String>, Self::Fault>;

    /// An integer.
    fn integer(&self, column: usize) -> Result<i64, Self::Fault>;

    /// An integer, or null.
    fn optional_integer(&self, column: usize) -> Result<Option<i64>, Self::Fault>;

    /// A truth value.
    fn truth(&self, column: usize) -> Result<bool, Self::Fault>;

    /// Bytes, or null.
    fn optional_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, Self::Fault>;
}

impl Columns for rusqlite::Row<'_> {
    type Fault = Fault;

    fn text(&self, column: usize) -> Result<String, Fault> {
        Ok(self.get(column)?)
    }

    fn optional_text(&self, column: usize) -> Result<Option<String>, Fault> {
        Ok(self.get(column)?)
    }

    fn integer(&self, column: usize) -> Result<i64, Fault> {
        Ok(self.get(column)?)
    }

    fn optional_integer(&self, column: usize) -> Result<Option<i64>, Fault> {
        Ok(self.get(column)?)
    }

    fn truth(&self, column: usize) -> Result<bool, Fault> {
        Ok(self.get(column)?)
    }

    fn optional_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, Fault> {
        Ok(self.get(column)?)
    }
}
