//! Counts usearch's thread contexts, of which there is a fixed number: usearch fails if none is free; this makes the caller wait.

use std::sync::{Condvar, Mutex, PoisonError};

/// At most one caller in each context. The holder of the exclusive lock needs none, because all are free then.
pub(super) struct Permits {
    pub(super) total: usize,
    left: Mutex<usize>,
    given_back: Condvar,
}

/// The right to one context; returns it when dropped.
pub(super) struct Permit<'a>(&'a Permits);

impl Permits {
    pub(super) fn new(total: usize) -> Self {
        Self { total, left: Mutex::new(total), given_back: Condvar::new() }
    }

    pub(super) fn take(&self) -> Permit<'_> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        while *left == 0 {
            left = self.given_back.wait(left).unwrap_or_else(PoisonError::into_inner);
        }
        *left -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.left.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.given_back.notify_one();
    }
}
