//! Permits for usearch's thread contexts, of which there is a fixed number. usearch fails if none is free, so this makes the
//! caller wait.

use parking_lot::{Condvar, Mutex};

/// Allows at most one caller per context. The holder of the graph's exclusive lock needs no permit, because all contexts are
/// free then.
pub(super) struct Permits {
    pub(super) total: usize,
    left: Mutex<usize>,
    given_back: Condvar,
}

/// The right to use one context. Dropping it returns the right.
pub(super) struct Permit<'a>(&'a Permits);

impl Permits {
    pub(super) fn new(total: usize) -> Self {
        Self { total, left: Mutex::new(total), given_back: Condvar::new() }
    }

    pub(super) fn acquire(&self) -> Permit<'_> {
        let mut left = self.left.lock();
        while *left == 0 {
            self.given_back.wait(&mut left);
        }
        *left -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.left.lock() += 1;
        self.0.given_back.notify_one();
    }
}
