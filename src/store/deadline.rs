//! The deadline of a store's statements. Closing the store must not wait for one that runs for minutes, or forever.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::error::Fault;

/// Number of SQLite virtual machine steps between two checks of the time: well under a millisecond for most statements.
const STEPS_PER_CHECK: i32 = 10_000;

/// A deadline for all connections of a store. There is none until it is set. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Deadline(Arc<Mutex<Option<Instant>>>);

impl Deadline {
    /// Ends statements that are running at `time` or later with `StoreError::Interrupted`. The deadline is never postponed.
    pub(super) fn set(&self, time: Instant) {
        let mut deadline = self.0.lock();
        *deadline = Some(deadline.map_or(time, |set| set.min(time)));
    }

    /// Applies the deadline to the statements of a connection.
    pub(super) fn watch(&self, connection: &mut Connection) -> Result<(), Fault> {
        let deadline = self.clone();
        Ok(connection.progress_handler(STEPS_PER_CHECK, Some(move || deadline.is_over()))?)
    }

    fn is_over(&self) -> bool {
        let deadline = *self.0.lock();
        deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{DocumentStore, StoreError, StoreOptions};
    use super::*;

    const ENDLESS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";

    fn store() -> (tempfile::TempDir, DocumentStore) {
        let folder = tempfile::tempdir().unwrap();
        let options = StoreOptions {
            power_safe: false,
            write_queue_max: 8,
            readers_max: 2,
            terms_of: |_, _| Default::default(),
            slots: None,
        };
        let store = DocumentStore::open(folder.path(), &options).unwrap();
        (folder, store)
    }

    fn count(connection: &Connection) -> Result<i64, Fault> {
        Ok(connection.query_row(ENDLESS, [], |row| row.get(0))?)
    }

    #[test]
    fn statements_without_an_end_are_interrupted_and_the_store_closes() {
        let (_folder, store) = store();
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| store.read("counting", count));
            let writing = scope.spawn(|| store.write_patiently("writing", |transaction| count(transaction.connection)));
            store.end_by(Instant::now() + Duration::from_millis(50));
            for (ended, doing) in [(reading.join().unwrap(), "counting"), (writing.join().unwrap(), "writing")] {
                assert!(matches!(&ended, Err(StoreError::Interrupted { doing: of }) if *of == doing), "{ended:?}");
            }
        });
        store.close().unwrap();
    }

    #[test]
    fn a_deadline_is_never_postponed() {
        let deadline = Deadline::default();
        assert!(!deadline.is_over());
        deadline.set(Instant::now());
        deadline.set(Instant::now() + Duration::from_secs(1_000));
        assert!(deadline.is_over());
    }
}
