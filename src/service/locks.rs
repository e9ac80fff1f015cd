//! Locking where no panic leaves anything half-done.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks; after a panic of another holder too: what these mutexes guard is valid between any two statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
