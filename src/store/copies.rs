//! Copies databases that are in use. A copy has the state at one moment, complete in a single file.

use std::path::Path;

use super::connection::{file_fault, open_reader, sync};
use super::error::Fault;
use super::rows::query_number;
use super::swap::COUNT_DOCUMENTS;
use super::{DocumentStore, StoreError};
use crate::domain::Sequence;

/// Number of SQLite virtual machine steps between two checks for cancellation: some milliseconds.
const STEPS_PER_CHECK: i32 = 100_000;

/// The contents of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    /// The last change that it contains.
    pub sequence: Sequence,
    pub documents: u64,
}

impl DocumentStore {
    /// Copies the database into the file `to`, which must not exist, without blocking writers or readers. The copy has the
    /// state at the start of this call. `stop` is checked regularly; once it returns true, the copy ends with an error. The
    /// file is durable when this returns.
    pub fn copy_to(&self, to: &Path, stop: impl Fn() -> bool + Send + 'static) -> Result<Copied, StoreError> {
        let _open = self.connections.lease()?;
        let copied = copy(self.database(), to, stop).map_err(|fault| file_fault(fault, to, "copying a database"))?;
        sync(to)?;
        Ok(copied)
    }
}

fn copy(from: &Path, to: &Path, stop: impl Fn() -> bool + Send + 'static) -> Result<Copied, Fault> {
    let mut connection = open_reader(from)?;
    connection.progress_handler(STEPS_PER_CHECK, Some(stop))?;
    connection.execute("vacuum into ?1", [to.to_string_lossy()])?;
    drop(connection);
    let copy = open_reader(to)?;
    let sequence = Sequence(query_number(&copy, "select sequence from state", [])?);
    Ok(Copied { sequence, documents: query_number(&copy, COUNT_DOCUMENTS, [])? })
}
