//! The deadline of a store's statements. Closing the store must not wait for one that runs for minutes, or forever.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use rusqlite::Connection;

use super::caller;
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

    /// Applies the deadline to the statements of a connection, and ends those of callers that are gone.
    pub(super) fn apply_to(&self, connection: &mut Connection) -> Result<(), Fault> {
        let deadline = self.clone();
        Ok(connection.progress_handler(STEPS_PER_CHECK, Some(move || deadline.has_passed() || caller::is_caller_gone()))?)
    }

    fn has_passed(&self) -> bool {
        let deadline = *self.0.lock();
        deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{DocumentStore, StoreError, with_caller};
    use super::*;

    const ENDLESS: &str = "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n";

    fn count(connection: &Connection) -> Result<i64, Fault> {
        Ok(connection.query_row(ENDLESS, [], |row| row.get(0))?)
    }

    #[test]
    fn the_deadline_interrupts_endless_statements_and_the_store_closes() {
        let (_folder, store) = DocumentStore::for_tests();
        std::thread::scope(|scope| {
            let reading = scope.spawn(|| store.read("counting", count));
            let writing = scope.spawn(|| store.write_patiently("writing", |transaction| count(transaction.connection)));
            store.interrupt_after(Instant::now() + Duration::from_millis(50));
            for (ended, operation) in [(reading.join().unwrap(), "counting"), (writing.join().unwrap(), "writing")] {
                assert!(matches!(&ended, Err(StoreError::Interrupted { operation: of }) if *of == operation), "{ended:?}");
            }
        });
        store.close().unwrap();
    }

    #[test]
    fn reads_of_a_disconnected_caller_end_and_release_their_connections() {
        let (_folder, store) = DocumentStore::for_tests();
        let callers: Vec<Arc<()>> = (0..3).map(|_| Arc::new(())).collect();
        std::thread::scope(|scope| {
            // One more than there are connections.
            let wanted = callers.iter().map(Arc::downgrade);
            let reads: Vec<_> =
                wanted.map(|caller| scope.spawn(|| with_caller(Some(caller), || store.read("counting", count)))).collect();
            std::thread::sleep(Duration::from_millis(50));
            drop(callers);
            for read in reads {
                let ended = read.join().unwrap();
                assert!(matches!(&ended, Err(StoreError::Interrupted { operation: "counting" })), "{ended:?}");
            }
        });
        assert_eq!(
            store.read("counting", |connection| Ok(connection.query_row("select 1", [], |row| row.get(0))?)).ok(),
            Some(1)
        );
    }

    #[test]
    fn a_shared_read_outlives_its_caller() {
        let (_folder, store) = DocumentStore::for_tests();
        let count = |connection: &Connection| -> Result<i64, Fault> {
            let enough =
                "with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000) select count(*) from n";
            Ok(connection.query_row(enough, [], |row| row.get(0))?)
        };
        let gone = Arc::downgrade(&Arc::new(()));
        let ended =
            with_caller(Some(gone), || (with_caller(None, || store.read("counting", count)), store.read("counting", count)));
        assert!(matches!(ended, (Ok(100_000), Err(StoreError::Interrupted { .. }))), "{ended:?}");
    }

    #[test]
    fn a_deadline_is_never_postponed() {
        let deadline = Deadline::default();
        assert!(!deadline.has_passed());
        deadline.set(Instant::now());
        deadline.set(Instant::now() + Duration::from_secs(1_000));
        assert!(deadline.has_passed());
    }
}
