//! A common interface to rows of both databases, so that the code that reads values of the catalog is written only once.

use super::error::{Fault, StoreError};

/// The columns of a row, by position.
pub(crate) trait Columns {
    /// The error of reading.
    type Fault: From<StoreError>;

    /// Reads a text.
    fn text(&self, column: usize) -> Result<String, Self::Fault>;

    /// Reads a text or null.
    fn optional_text(&self, column: usize) -> Result<Option<String>, Self::Fault>;

    /// Reads an integer.
    fn integer(&self, column: usize) -> Result<i64, Self::Fault>;

    /// Reads an integer or null.
    fn optional_integer(&self, column: usize) -> Result<Option<i64>, Self::Fault>;

    /// Reads a boolean.
    fn boolean(&self, column: usize) -> Result<bool, Self::Fault>;

    /// Reads bytes or null.
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

    fn boolean(&self, column: usize) -> Result<bool, Fault> {
        Ok(self.get(column)?)
    }

    fn optional_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, Fault> {
        Ok(self.get(column)?)
    }
}
