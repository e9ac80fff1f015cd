//! Recovers the collections after a start, in the background.
//!
//! Each collection goes through the steps of `Step`. Two threads take the collections from one queue, in which those of an earlier
//! step come first, unless they failed: a collection that cannot be recovered does not delay the others.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::error::Error;
use super::search;
use super::state::{Service, State};
use crate::service::open_collection::OpenCollection;
use crate::service::open_collection::damage::check_after_crash;
use crate::service::open_collection::maintenance;
use crate::service::open_collection::repair::recover;

/// Maximum number of collections that recover at once. Rebuilding a single index already uses all cores.
const RECOVERIES: usize = 2;
/// Pause before another attempt after a failure.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

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
    /// Whether it was searched before the start.
    was_searched: bool,
    step: Step,
    /// Number of times that this step has failed.
    failures: u32,
    /// When to try it.
    due: Instant,
}

impl Waiting {
    fn new(collection: Arc<OpenCollection>) -> Self {
        let was_searched = collection.take_search_mark();
        Self { collection, was_searched, step: Step::Recover, failures: 0, due: Instant::now() }
    }

    fn next(self, step: Step) -> Self {
        Self { step, failures: 0, due: Instant::now(), ..self }
    }

    fn again(self) -> Self {
        Self { failures: self.failures + 1, due: Instant::now() + RETRY_PAUSE, ..self }
    }
}

impl Service {
    /// Starts to recover all open collections.
    pub(super) fn start_recovery(&self) -> Result<(), Error> {
        let waiting: VecDeque<_> = self.state.open.read().values().cloned().map(Waiting::new).collect();
        let threads = RECOVERIES.min(waiting.len());
        let waiting = Arc::new(Mutex::new(waiting));
        let (searched, to_prepare) = channel();
        search::start_preparing(to_prepare, &self.state.embedder);
        for number in 0..threads {
            let (state, waiting, searched) = (Arc::clone(&self.state), Arc::clone(&waiting), searched.clone());
            let recover_all = move || {
                while let Some(next) = take_due(&waiting) {
                    if let Some(again) = run_step(&state, next, &searched) {
                        waiting.lock().push_back(again);
                    }
                }
            };
            let thread = std::thread::Builder::new().name(format!("recovery-{number}")).spawn(recover_all);
            self.state.recovery_threads.lock().push(thread.map_err(Error::Thread)?);
        }
        Ok(())
    }
}

/// Takes the first collection that is due. If none is, waits for the first one.
fn take_due(waiting: &Mutex<VecDeque<Waiting>>) -> Option<Waiting> {
    let now = Instant::now();
    let next = {
        let mut waiting = waiting.lock();
        let due = waiting.iter().position(|one| one.due <= now || one.collection.should_stop());
        waiting.remove(due.unwrap_or(0))?
    };
    if !next.collection.should_stop() {
        std::thread::sleep(next.due.saturating_duration_since(now));
    }
    Some(next)
}

/// Takes a step. Returns the collection with its next step, or to try this one again. Sends it on if it was searched before the
/// start and can be searched again.
fn run_step(state: &State, waiting: Waiting, searched: &Sender<Arc<OpenCollection>>) -> Option<Waiting> {
    let collection = &waiting.collection;
    if collection.should_stop() {
        return None;
    }
    let result = match waiting.step {
        Step::Recover => recover_index(state, collection),
        Step::Backfill => search::fill(collection, &state.embedder),
        Step::Check => {
            check_after_crash(collection);
            check_saved_index(collection);
            Ok(true)
        }
    };
    match (result, waiting.step) {
        (Ok(true), Step::Recover) => Some(waiting.next(Step::Backfill)),
        (Ok(true), Step::Backfill) => {
            search::precompute(collection, &state.embedder);
            Some(waiting.next(Step::Check))
        }
        (Ok(true), Step::Check) => {
            if waiting.was_searched {
                // Nobody receives it if there could not be another thread.
                let _ = searched.send(waiting.collection);
            }
            None
        }
        (Err(error), _) if !collection.should_stop() => {
            log_failure(&waiting, &error);
            Some(waiting.again())
        }
        _ => None,
    }
}

/// Recovers the index, and starts the worker. Returns false if the collection was stopped before.
fn recover_index(state: &State, collection: &Arc<OpenCollection>) -> Result<bool, Error> {
    match recover(collection) {
        Ok(true) => {
            collection.record_recovery(None);
            state.start_worker(collection);
            Ok(true)
        }
        Err(error) if !collection.should_stop() => {
            let error = collection.report_damage(error);
            collection.record_recovery(Some(&error));
            Err(error)
        }
        other => other,
    }
}

/// Logs some of the failures, because a permanent one must not fill the disk with log lines.
fn log_failure(waiting: &Waiting, error: &Error) {
    let failures = waiting.failures + 1;
    if failures.is_power_of_two() {
        let (collection, error) = (&waiting.collection.row.name, error as &dyn std::error::Error);
        let task = if waiting.step == Step::Recover { "recover the index" } else { "prepare for lexical search" };
        tracing::error!(%collection, failures, error, "cannot {task}; trying again");
    }
}

/// Checks that a saved index finds every passage, unless it was checked before. The collection may have no worker to do it.
fn check_saved_index(collection: &OpenCollection) {
    if let Err(error) = maintenance::catch_up(collection) {
        let error = &error as &dyn std::error::Error;
        tracing::error!(collection = %collection.row.name, error, "cannot check the index");
    }
}
