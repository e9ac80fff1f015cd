//! The threads that searches run on.
//!
//! A thread goes from one search to the next. If each search took a thread of the runtime instead, a busy machine would start
//! one for nearly every search, because a thread that has just ended a search does not count as idle yet; and the memory that a
//! thread has allocated from stays with it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tracing::Span;

use crate::service::error::Error;

/// Number of searches per thread that may be running or next. Further ones wait with their callers.
const ADMITTED_PER_THREAD: usize = 2;

/// Runs at most `threads_max` searches at once.
pub(crate) struct SearchThreads {
    threads_max: usize,
    /// A search has one from the time when it is next until it ends.
    permits: Arc<Semaphore>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    next: VecDeque<Search>,
    /// Number of threads that run searches.
    threads: usize,
}

type Search = Box<dyn FnOnce() + Send>;

impl SearchThreads {
    pub(crate) fn new(threads_max: usize) -> Self {
        let permits = Arc::new(Semaphore::new(ADMITTED_PER_THREAD * threads_max));
        Self { threads_max, permits, queue: Mutex::default() }
    }

    /// Runs a search, which blocks, within the caller's tracing span. If the caller gives up before it begins, it never does.
    ///
    /// # Errors
    ///
    /// That of the search, or `SearchPanicked`.
    pub(crate) async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        search: impl FnOnce() -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| Error::Stopping)?;
        let (answer, answered) = oneshot::channel();
        let span = Span::current();
        self.add(permit, move || {
            if !answer.is_closed() {
                let _ = answer.send(span.in_scope(search));
            }
        });
        answered.await.map_err(|_| Error::SearchPanicked)?
    }

    /// Number of threads that run searches.
    #[cfg(test)]
    pub(super) fn running(&self) -> usize {
        self.queue.lock().threads
    }

    fn add(self: &Arc<Self>, permit: OwnedSemaphorePermit, search: impl FnOnce() + Send + 'static) {
        let mut queue = self.queue.lock();
        queue.next.push_back(Box::new(move || {
            let _permit = permit;
            search();
        }));
        if queue.threads < self.threads_max {
            queue.threads += 1;
            let threads = Arc::clone(self);
            tokio::task::spawn_blocking(move || threads.run_all());
        }
    }

    /// Runs searches until none is left.
    fn run_all(&self) {
        while let Some(search) = self.next() {
            // The panic is already in the log, and dropping the search tells its caller.
            let _ = catch_unwind(AssertUnwindSafe(search));
        }
    }

    fn next(&self) -> Option<Search> {
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

    use parking_lot::RwLock;

    use super::*;

    fn threads(max: usize) -> Arc<SearchThreads> {
        Arc::new(SearchThreads::new(max))
    }

    /// Starts a search that runs until the sender is dropped, and waits until it has begun.
    async fn busy(threads: &Arc<SearchThreads>) -> mpsc::Sender<()> {
        let (end, ended) = mpsc::channel::<()>();
        let (begun, has_begun) = oneshot::channel();
        let threads = Arc::clone(threads);
        tokio::spawn(async move {
            let search = move || {
                begun.send(()).unwrap();
                let _ = ended.recv();
                Ok(())
            };
            threads.run(search).await
        });
        has_begun.await.unwrap();
        end
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn many_searches_share_few_threads() {
        let threads = Arc::new(SearchThreads { permits: Arc::new(Semaphore::new(100)), ..SearchThreads::new(3) });
        let (gate, running) = (Arc::new(RwLock::new(())), Arc::new(AtomicUsize::new(0)));
        let closed = gate.write();
        let searches = (0..100).map(|number| {
            let (threads, gate, running) = (Arc::clone(&threads), Arc::clone(&gate), Arc::clone(&running));
            let search = move || {
                let at_once = running.fetch_add(1, Ordering::SeqCst) + 1;
                drop(gate.read());
                running.fetch_sub(1, Ordering::SeqCst);
                Ok((number, at_once, std::thread::current().id()))
            };
            tokio::spawn(async move { threads.run(search).await.unwrap() })
        });
        let searches: Vec<_> = searches.collect();
        while threads.queue.lock().next.len() < 97 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(closed);
        let answers = futures::future::try_join_all(searches).await.unwrap();
        assert!(answers.iter().map(|(number, ..)| *number).eq(0..100), "each caller gets its own answer");
        assert!(answers.iter().all(|(_, at_once, _)| *at_once <= 3));
        assert_eq!(answers.iter().map(|(.., thread)| *thread).collect::<HashSet<_>>().len(), 3);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_search_that_panics_fails_alone() {
        let threads = threads(1);
        let failed = threads.run(|| -> Result<(), Error> { panic!("as intended") }).await;
        assert!(matches!(failed, Err(Error::SearchPanicked)));
        assert_eq!(threads.run(|| Ok(7)).await.unwrap(), 7);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_search_whose_caller_gives_up_before_it_begins_does_not_run() {
        let threads = threads(1);
        let end = busy(&threads).await;
        let has_run = Arc::new(AtomicBool::new(false));
        let ran = Arc::clone(&has_run);
        let given_up = threads.run(move || {
            ran.store(true, Ordering::SeqCst);
            Ok(())
        });
        assert!(tokio::time::timeout(Duration::from_millis(50), given_up).await.is_err());
        drop(end);
        threads.run(|| Ok(())).await.unwrap();
        assert!(!has_run.load(Ordering::SeqCst));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_so_many_searches_leave_their_callers() {
        let threads = threads(1);
        let end = busy(&threads).await;
        let callers: Vec<_> = (0..8)
            .map(|_| {
                let threads = Arc::clone(&threads);
                tokio::spawn(async move { threads.run(|| Ok(())).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(threads.queue.lock().next.len(), ADMITTED_PER_THREAD - 1);
        drop(end);
        for caller in callers {
            caller.await.unwrap().unwrap();
        }
        assert_eq!(threads.permits.available_permits(), ADMITTED_PER_THREAD);
    }
}
