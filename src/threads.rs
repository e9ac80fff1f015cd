//! Whether the system lets the process start threads.

use std::io;
use std::sync::Mutex;
use std::thread::Builder;

/// Starts this many threads, so that all exist at once, and ends them. Blocks.
pub(crate) fn try_threads(count: usize, stack_bytes: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    std::thread::scope(|scope| {
        let closed = gate.lock();
        let mut threads = Vec::with_capacity(count);
        for _ in 0..count {
            threads.push(Builder::new().stack_size(stack_bytes).spawn_scoped(scope, || drop(gate.lock()))?);
        }
        drop(closed);
        // The end of the scope would not wait until the system has ended them.
        threads.into_iter().for_each(|thread| drop(thread.join()));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_cannot_be_started_are_an_error_and_no_panic() {
        try_threads(4, 64 << 10).unwrap();
        // No machine has that much address space.
        assert!(try_threads(4, 1 << 50).is_err());
    }
}
