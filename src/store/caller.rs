//! Ends the reads of a caller that is gone. Otherwise a few slow reads that no client waits for would occupy all connections
//! for minutes.

use std::cell::RefCell;
use std::sync::Weak;

thread_local! {
    static CALLER: RefCell<Option<Weak<()>>> = const { RefCell::new(None) };
}

/// Restores the caller of the thread's earlier reads, even after a panic.
struct Restore(Option<Weak<()>>);

impl Drop for Restore {
    fn drop(&mut self) {
        CALLER.set(self.0.take());
    }
}

/// Runs `work`. Its reads on this thread end with `StoreError::Interrupted` once `caller` has been dropped. Without a
/// caller, all reads run to the end.
pub fn with_caller<T>(caller: Option<Weak<()>>, work: impl FnOnce() -> T) -> T {
    let _restore = Restore(CALLER.replace(caller));
    work()
}

/// Whether this thread reads on behalf of a caller.
pub(crate) fn has_caller() -> bool {
    CALLER.with_borrow(Option::is_some)
}

/// Whether this thread reads on behalf of a caller that is gone.
pub(crate) fn is_caller_gone() -> bool {
    CALLER.with_borrow(|caller| caller.as_ref().is_some_and(|caller| caller.strong_count() == 0))
}
