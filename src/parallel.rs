//! Processes the parts of a range on several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Builder;

pub(crate) fn parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Splits `range` into parts of `size` (the last may be smaller), calls `work` for each on up to `threads` threads, and returns
/// the results in order. If the system refuses to start some threads, the others do their work, or else the caller's. Stops at
/// the first error. Blocks.
pub(crate) fn in_parallel<T: Send, E: Send>(
    range: Range<usize>,
    size: usize,
    threads: usize,
    work: impl Fn(Range<usize>) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    on_threads_of(Builder::new, range, size, threads, work)
}

/// Like `in_parallel`, on threads that `builder` makes.
fn on_threads_of<T: Send, E: Send>(
    builder: fn() -> Builder,
    range: Range<usize>,
    size: usize,
    threads: usize,
    work: impl Fn(Range<usize>) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let parts = range.len().div_ceil(size);
    let threads = threads.min(parts);
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let run = || -> Result<Vec<(usize, T)>, E> {
        let mut done = Vec::new();
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part >= parts || failed.load(Ordering::Relaxed) {
                return Ok(done);
            }
            let begin = range.start + part * size;
            let worked = work(begin..range.end.min(begin + size));
            failed.fetch_or(worked.is_err(), Ordering::Relaxed);
            done.push((part, worked?));
        }
    };
    if threads < 2 {
        return Ok(run()?.into_iter().map(|(_, done)| done).collect());
    }
    let mut all = Vec::with_capacity(parts);
    std::thread::scope(|scope| -> Result<(), E> {
        let running: Vec<_> = (0..threads).map_while(|_| builder().spawn_scoped(scope, run).ok()).collect();
        if running.is_empty() {
            all.extend(run()?);
        }
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => {
                all.extend(done?);
                Ok(())
            }
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    all.sort_unstable_by_key(|(part, _)| *part);
    Ok(all.into_iter().map(|(_, done)| done).collect())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use super::*;

    struct SetOnDrop(Arc<AtomicBool>);

    impl Drop for SetOnDrop {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
        }
    }

    thread_local! {
        /// Dropped when the thread ends.
        static AT_THREAD_END: RefCell<Option<SetOnDrop>> = const { RefCell::new(None) };
    }

    #[test]
    fn results_keep_their_order_and_an_error_is_returned() {
        for threads in [1, 2, parallelism()] {
            let sums = in_parallel(3..1_000, 7, threads, |part| Ok::<_, ()>(part.sum::<usize>())).unwrap();
            assert_eq!((sums.len(), sums[0], sums.iter().sum::<usize>()), (143, 42, (3..1_000).sum()));
            assert!(in_parallel(0..0, 7, threads, |part| Ok::<_, ()>(part.len())).unwrap().is_empty());
            let failing = in_parallel(0..1_000, 1, threads, |part| if part.start == 500 { Err(part.start) } else { Ok(()) });
            assert_eq!(failing, Err(500));
        }
    }

    #[test]
    fn the_caller_does_everything_if_no_thread_can_be_started() {
        // No machine has that much address space.
        let builder = || Builder::new().stack_size(1 << 50);
        let caller = std::thread::current().id();
        let work = |part: Range<usize>| Ok::<_, ()>((part.sum::<usize>(), std::thread::current().id()));
        let done = on_threads_of(builder, 0..100, 10, 4, work).unwrap();
        assert_eq!(done.iter().map(|(sum, _)| sum).sum::<usize>(), (0..100).sum::<usize>());
        assert!(done.len() == 10 && done.iter().all(|(_, thread)| *thread == caller));
    }

    #[test]
    fn no_part_starts_once_an_error_is_recorded() {
        let (started, ended) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let result = in_parallel(0..10_000, 1, parallelism(), |part| {
            started.fetch_add(1, Ordering::Relaxed);
            if part.start == 0 {
                AT_THREAD_END.set(Some(SetOnDrop(Arc::clone(&ended))));
                return Err("stopped");
            }
            // Each other thread is still in its first part when the error is recorded.
            while !ended.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            Ok(())
        });
        assert_eq!(result, Err("stopped"));
        assert!((1..=parallelism()).contains(&started.into_inner()), "at most one part per thread starts");
    }
}
