//! Recovers the collections after a start, in the background.
//!
//! Each collection goes through the steps of `Step`. Two threads take the collections from one queue, and all collections
//! finish a step before any begins the next one. A collection that has failed is tried again after a pause; if it has failed
//! often, only when no other one waits. So a collection that cannot be recovered does not delay the others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::error::Error;
use super::search;
use super::state::{Service, State};
use crate::domain::with_causes;
use crate::service::open_collection::OpenCollection;
use crate::service::open_collection::damage::check_after_crash;
use crate::service::open_collection::maintenance;
use crate::service::open_collection::repair::recover;

/// Maximum number of collections that recover at once. Rebuilding a single index already uses all cores.
const RECOVERIES: usize = 2;
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// After this many failures of a step, a collection waits for all others.
const FAILURES_OFTEN: u32 = 8;

/// What a collection still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Its index. Searches wait for it.
    Recover,
    /// What later versions added for lexical search and late interaction, if the collection is older.
    Backfill,
    /// Checks of the database after a crash and of the saved index.
    Check,
}

/// A collection that waits for its next step.
struct Waiting {
    collection: Arc<OpenCollection>,
    /// Whether it was searched in the last days before the start.
    was_searched: bool,
    step: Step,
    failures: u32,
    due: Instant,
}

impl Waiting {
    fn new(collection: Arc<OpenCollection>) -> Self {
        let was_searched = collection.was_searched_lately();
        Self { collection, was_searched, step: Step::Recover, failures: 0, due: Instant::now() }
    }
}

#[derive(Default)]
struct Queue {
    /// Those that can be tried at once, in the order of their steps.
    ready: VecDeque<Waiting>,
    /// Those that have failed, in the order of their next attempts.
    failed: VecDeque<Waiting>,
    failed_often: VecDeque<Waiting>,
}

impl Queue {
    fn push(&mut self, waiting: Waiting) {
        let queue = match waiting.failures {
            0 => &mut self.ready,
            failures if failures < FAILURES_OFTEN => &mut self.failed,
            _ => &mut self.failed_often,
        };
        queue.push_back(waiting);
    }

    /// Takes the collection that is next. Its next attempt may be due later.
    fn take(&mut self, now: Instant) -> Option<Waiting> {
        let is_due = |waiting: &Waiting| waiting.due <= now;
        let failed = if self.failed.front().is_some_and(is_due) { self.failed.pop_front() } else { None };
        let next = failed.or_else(|| self.ready.pop_front()).or_else(|| self.failed.pop_front());
        next.or_else(|| self.failed_often.pop_front())
    }
}

impl Service {
    pub(super) fn start_recovery(&self) -> Result<(), Error> {
        let ready: VecDeque<_> = self.state.open_collections().into_iter().map(Waiting::new).collect();
        let threads = RECOVERIES.min(ready.len());
        let waiting = Arc::new(Mutex::new(Queue { ready, ..Queue::default() }));
        let (searched, to_prepare) = channel();
        search::start_preparing(to_prepare, &self.state.embedder);
        for number in 0..threads {
            let (state, waiting, searched) = (Arc::clone(&self.state), Arc::clone(&waiting), searched.clone());
            let recover_all = move || {
                while let Some(next) = take_due(&waiting) {
                    if let Some(again) = run_step(&state, next, &searched) {
                        waiting.lock().push(again);
                    }
                }
            };
            let thread = std::thread::Builder::new().name(format!("recovery-{number}")).spawn(recover_all);
            self.state.recovery_threads.lock().push(thread.map_err(Error::Thread)?);
        }
        Ok(())
    }
}

/// Takes the collection that is next, and waits until its attempt is due.
fn take_due(waiting: &Mutex<Queue>) -> Option<Waiting> {
    let now = Instant::now();
    let next = waiting.lock().take(now)?;
    if !next.collection.should_stop() {
        std::thread::sleep(next.due.saturating_duration_since(now));
    }
    Some(next)
}

/// Takes a step. Returns the collection with its next step, or with the same step to try it again. After the last step,
/// sends it on if it was searched before the start.
fn run_step(state: &State, waiting: Waiting, searched: &Sender<Arc<OpenCollection>>) -> Option<Waiting> {
    match take_step(state, &waiting) {
        _ if waiting.collection.should_stop() => None,
        Ok(Some(step)) => Some(Waiting { step, failures: 0, ..waiting }),
        Ok(None) => {
            if waiting.was_searched {
                // There is no receiver if the thread could not be started.
                let _ = searched.send(waiting.collection);
            }
            None
        }
        Err(error) => {
            log_failure(&waiting, &error);
            Some(Waiting { failures: waiting.failures + 1, due: Instant::now() + RETRY_PAUSE, ..waiting })
        }
    }
}

/// Takes a step of a collection, unless it was stopped. Returns the next step, if there is one.
fn take_step(state: &State, waiting: &Waiting) -> Result<Option<Step>, Error> {
    let collection = &waiting.collection;
    if collection.should_stop() {
        return Ok(None);
    }
    match waiting.step {
        Step::Recover => {
            recover_index(state, collection)?;
            Ok(Some(Step::Backfill))
        }
        Step::Backfill => {
            match search::fill(collection, &state.embedder).map_err(|error| collection.report_damage(error)) {
                // It stays damaged until it is repaired.
                Err(error @ Error::Damaged { .. }) => log_failure(waiting, &error),
                filled => drop(filled?),
            }
            search::precompute(collection, &state.embedder);
            Ok(Some(Step::Check))
        }
        Step::Check => {
            check_after_crash(collection);
            check_saved_index(collection);
            Ok(None)
        }
    }
}

/// Recovers the index, and starts the worker, unless the collection is stopped before.
fn recover_index(state: &State, collection: &Arc<OpenCollection>) -> Result<(), Error> {
    match recover(collection) {
        Ok(true) => {
            collection.record_recovery(None);
            state.start_worker(collection);
            Ok(())
        }
        Err(error) if !collection.should_stop() => {
            let error = collection.report_damage(error);
            collection.record_recovery(Some(&error));
            Err(error)
        }
        _ => Ok(()),
    }
}

/// Logs some of the failures, because a permanent one must not fill the disk with log lines.
fn log_failure(waiting: &Waiting, error: &Error) {
    let failures = waiting.failures + 1;
    if failures.is_power_of_two() {
        let (collection, error) = (&waiting.collection.row.name, with_causes(error));
        let task = if waiting.step == Step::Recover { "recover the index" } else { "prepare for lexical search" };
        tracing::error!(%collection, failures, error, "cannot {task}");
    }
}

/// Checks that a saved index finds every passage, unless it was checked before. The collection may have no worker to do it.
fn check_saved_index(collection: &OpenCollection) {
    if let Err(error) = maintenance::catch_up(collection) {
        tracing::error!(collection = %collection.row.name, error = with_causes(&error), "cannot check the index");
    }
}
