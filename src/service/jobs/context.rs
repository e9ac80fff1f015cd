//! What a job's task works with: the service, its own progress, and whether to stop.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;

use super::running::RunningJob;
use super::stored;
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::state::State;

/// Time between two notes of a job's progress in the catalog.
const NOTE_PAUSE: Duration = Duration::from_secs(1);

/// Why a job did not succeed.
#[derive(Debug)]
pub(crate) enum JobError {
    /// Somebody asked for it.
    Canceled,
    /// The server stops; the next start goes on.
    Interrupted,
    /// It cannot go on.
    Failed(Error),
}

impl From<Error> for JobError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What a job's task works with.
#[derive(Clone)]
pub(crate) struct JobContext {
    pub(super) state: Weak<State>,
    /// The job.
    pub(crate) live: Arc<RunningJob>,
    pub(super) noted: Arc<Mutex<Option<Instant>>>,
}

impl JobContext {
    /// The service, unless it went away.
    pub(crate) fn state(&self) -> Result<Arc<State>, JobError> {
        self.state.upgrade().ok_or(JobError::Interrupted)
    }

    /// Says whether to stop, which a job looks at wherever it can stop.
    pub(crate) fn check(&self) -> Result<(), JobError> {
        if self.live.canceled.load(Ordering::Acquire) {
            return Err(JobError::Canceled);
        }
        let gone = self.state.upgrade().is_none_or(|state| state.stopping.load(Ordering::Acquire));
        if gone || self.live.interrupted.load(Ordering::Acquire) { Err(JobError::Interrupted) } else { Ok(()) }
    }

    /// Waits, unless the job is to stop.
    pub(crate) async fn pause(&self, duration: Duration) -> Result<(), JobError> {
        tokio::select! {
            () = tokio::time::sleep(duration) => (),
            () = self.live.wake.notified() => (),
        }
        self.check()
    }

    /// Says how far the job is, to whoever watches and now and then to the catalog.
    pub(crate) async fn progress(&self, done: u64, details: &(impl Serialize + Sync)) -> Result<(), JobError> {
        self.live.progress.send_modify(|progress| {
            progress.done = done;
            progress.details = stored::write(details);
        });
        let due = self.noted.lock().is_none_or(|noted| noted.elapsed() >= NOTE_PAUSE);
        if due {
            let state = self.state()?;
            self.note(&state).await?;
            *self.noted.lock() = Some(Instant::now());
        }
        Ok(())
    }

    /// Says how far the job is, to whoever watches.
    pub(crate) fn set_done(&self, done: u64) {
        self.live.progress.send_modify(|progress| progress.done = done);
    }

    /// Says that there is more or less to be done in all than was thought.
    pub(crate) fn set_total(&self, total: u64) {
        self.live.progress.send_modify(|progress| progress.total = total);
    }

    /// Sets what there is to be done in all, and where this run of the job begins.
    pub(crate) fn measure(&self, done: u64, total: u64) {
        self.live.progress.send_modify(|progress| {
            progress.done = done;
            progress.total = total;
            progress.started = Some((Instant::now(), done));
        });
    }

    /// Notes in the catalog how far the job is.
    pub(super) async fn note(&self, state: &Arc<State>) -> Result<(), Error> {
        let (state, id) = (Arc::clone(state), self.live.id.clone());
        let (progress, details) = self.live.progress();
        blocking(move || Ok(state.catalog.note_job(&id, &progress, &details)?)).await
    }
}
