//! Ends the reads of a caller that is gone. Otherwise a few slow ones, for which nobody waits, would keep all connections for
//! minutes.

use std::cell::RefCell;
use std::sync::Weak;

thread_local! {
    static CALLER: RefCell<Option<Weak<()>>> = const { RefCell::new(None) };
}

/// Puts the caller of the thread's earlier reads back, also after a panic.
struct Restore(Option<Weak<()>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CALLER.set(self.0.take());
    }
}

/// Runs `work`, whose reads on this thread end with `StoreError::Interrupted` once `caller` has been dropped. Without a caller, all
/// of them run to their end.
pub fn with_caller<T>(caller: Option<Weak<()>>, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(CALLER.replace(caller));
    work()
}

/// Whether this thread reads for a caller.
pub(super) fn has_caller() -> bool {
    CALLER.with_borrow(Option::is_some)
}

/// Whether this thread reads for a caller that is gone.
pub(super) fn is_caller_gone() -> bool {
    CALLER.with_borrow(|caller| caller.as_ref().is_some_and(|caller| caller.strong_count() == 0))
}
