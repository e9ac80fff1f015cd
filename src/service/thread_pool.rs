//! A bounded number of threads for work of one kind, such as searches.
//!
//! A thread goes from one piece of work to the next. If each took a thread of the runtime instead, a busy machine would start one
//! for nearly every piece, because a thread that has just ended its work does not count as idle yet; and the memory that a
//! thread has allocated from stays with it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::Span;

use super::error::Error;

/// Pieces of work per thread that may be running or next. Further ones wait with their callers.
const ADMITTED_PER_THREAD: usize = 2;

/// Runs at most `threads_max` pieces of work at once.
pub(crate) struct ThreadPool {
    threads_max: usize,
    /// Each piece of work has one from the time when it is next until it ends.
    permits: Arc<Semaphore>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    next: VecDeque<Work>,
    /// Number of threads that work.
    threads: usize,
}

type Work = Box<dyn FnOnce() + Send>;

impl ThreadPool {
    pub(crate) fn new(threads_max: usize) -> Self {
        let permits = Arc::new(Semaphore::new(ADMITTED_PER_THREAD * threads_max));
        Self { threads_max, permits, queue: Mutex::default() }
    }

    /// Runs `work`, which blocks, within the caller's tracing span. If the caller gives up before it begins, it never does. Once
    /// begun, it runs to its end.
    ///
    /// # Errors
    ///
    /// That of the work, or `Panicked`.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Stopping)?;
        let (result, received) = oneshot::channel();
        let span = Span::current();
        self.add(permit, move || {
            if !result.is_closed() {
                let _ = result.send(span.in_scope(work));
            }
        });
        received.await.map_err(|_| Error::Panicked)?
    }

    /// Number of threads that work.
    #[cfg(test)]
    pub(super) fn running(&self) -> usize {
        self.queue.lock().threads
    }

    fn add(self: &Arc<Self>, permit: OwnedSemaphorePermit, work: impl FnOnce() + Send + 'static) {
        let mut queue = self.queue.lock();
        queue.next.push_back(Box::new(move || {
            let _permit = permit;
            work();
        }));
        if queue.threads < self.threads_max {
            queue.threads += 1;
            let pool = Arc::clone(self);
            tokio::task::spawn_blocking(move || pool.run_all());
        }
    }

    /// Works until nothing is left.
    fn run_all(&self) {
        while let Some(work) = self.next() {
            // The panic is already in the log, and dropping the work tells its caller.
            let _ = catch_unwind(AssertUnwindSafe(work));
        }
    }

    fn next(&self) -> Option<Work> {
        let mut queue = self.queue.lock();
        let next = queue.next.pop_front();
        if next.is_none() {
            queue.threads -= 1;
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::sync::RwLock;

    use super::*;

    fn pool(max: usize) -> Arc<ThreadPool> {
        Arc::new(ThreadPool::new(max))
    }

    /// Starts work that runs until the sender is dropped, and waits until it has begun.
    async fn busy(pool: &Arc<ThreadPool>) -> mpsc::Sender<()> {
        let (end, ended) = mpsc::channel::<()>();
        let (begun, has_begun) = oneshot::channel();
        let pool = Arc::clone(pool);
        tokio::spawn(async move {
            let work = move || {
                begun.send(()).unwrap();
                let _ = ended.recv();
                Ok(())
            };
            pool.run(work).await
        });
        has_begun.await.unwrap();
        end
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn much_work_shares_few_threads() {
        let pool = Arc::new(ThreadPool { permits: Arc::new(Semaphore::new(100)), ..ThreadPool::new(3) });
        let (gate, running) = (Arc::new(RwLock::new(())), Arc::new(AtomicUsize::new(0)));
        let closed = gate.write().await;
        let works = (0..100).map(|number| {
            let (pool, gate, running) = (Arc::clone(&pool), Arc::clone(&gate), Arc::clone(&running));
            let work = move || {
                let at_once = running.fetch_add(1, Ordering::SeqCst) + 1;
                drop(gate.blocking_read());
                running.fetch_sub(1, Ordering::SeqCst);
                Ok((number, at_once, std::thread::current().id()))
            };
            tokio::spawn(async move { pool.run(work).await.unwrap() })
        });
        let works: Vec<_> = works.collect();
        while pool.queue.lock().next.len() < 97 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(closed);
        let answers = futures::future::try_join_all(works).await.unwrap();
        assert!(answers.iter().map(|(number, ..)| *number).eq(0..100), "each caller gets its own answer");
        assert!(answers.iter().all(|(_, at_once, _)| *at_once <= 3));
        assert!(answers.iter().map(|(.., thread)| *thread).collect::<HashSet<_>>().len() <= 3);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn work_that_panics_fails_alone() {
        let pool = pool(1);
        let failed = pool.run(|| -> Result<(), Error> { panic!("as intended") }).await;
        assert!(matches!(failed, Err(Error::Panicked)));
        assert_eq!(pool.run(|| Ok(7)).await.unwrap(), 7);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn work_whose_caller_gives_up_before_it_begins_does_not_run() {
        let pool = pool(1);
        let end = busy(&pool).await;
        let has_run = Arc::new(AtomicBool::new(false));
        let ran = Arc::clone(&has_run);
        let given_up = pool.run(move || {
            ran.store(true, Ordering::SeqCst);
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), given_up).await.is_err());
        drop(end);
        pool.run(|| Ok(())).await.unwrap();
        assert!(!has_run.load(Ordering::SeqCst));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_so_much_work_leaves_its_callers() {
        let pool = pool(1);
        let end = busy(&pool).await;
        let callers: Vec<_> = (0..8)
            .map(|_| {
                let pool = Arc::clone(&pool);
                tokio::spawn(async move { pool.run(|| Ok(())).await })
            })
            .collect();
        while pool.permits.available_permits() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(pool.queue.lock().next.len() < ADMITTED_PER_THREAD);
        drop(end);
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        // A caller has its result a moment before its permit is back.
        let all = pool.permits.acquire_many(ADMITTED_PER_THREAD as u32);
        let all = tokio::time::timeout(Duration::from_secs(10), all).await.expect("all permits come back").unwrap();
        drop(all);
        assert_eq!(pool.permits.available_permits(), ADMITTED_PER_THREAD);
    }
}
