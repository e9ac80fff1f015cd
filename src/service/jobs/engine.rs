//! Runs jobs: a bounded number at once, the others in the order in which they came.
//!
//! What is accepted is in the catalog first. A job that is stopped with the server, in order or not, stays unfinished there and
//! is taken up by the next start; how much of it is done again is its type's affair. Tasks hold the service only while they
//! work on something, so that a service that goes away takes its jobs with it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::context::{JobContext, JobError};
use super::kind_of;
use super::running::RunningJob;
use crate::domain::{Blame, JobFailure, JobStatus};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::state::State;
use crate::store::system_clock as now_ms;

/// Time before the end of a job is noted again after that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl State {
    /// Lets a job wait for its turn, which may have come already.
    pub(crate) fn enqueue(self: &Arc<Self>, live: Arc<RunningJob>) {
        self.jobs.lists.lock().waiting.push_back(live);
        self.start_jobs();
    }

    /// Starts jobs as long as there is room.
    fn start_jobs(self: &Arc<Self>) {
        let mut lists = self.jobs.lists.lock();
        lists.tasks.retain(|task| !task.is_finished());
        while !lists.stopped && lists.running.len() < self.jobs.running_max {
            let Some(live) = lists.waiting.pop_front() else { return };
            lists.running.insert(live.id.clone(), Arc::clone(&live));
            let context = JobContext { state: Arc::downgrade(self), live, noted: Arc::default() };
            lists.tasks.push(self.runtime.spawn(run(context)));
        }
    }
}

/// Runs a job from begin to end.
async fn run(context: JobContext) {
    let working = context.clone();
    // In a task of its own: a panic ends the job, not the engine.
    let worked = tokio::spawn(async move {
        working.begin().await?;
        kind_of(working.live.kind).run(&working).await
    });
    let ended = worked.await.unwrap_or_else(|error| Err(JobError::Failed(error.into())));
    let Ok(state) = context.state() else { return };
    context.end(&state, ended).await;
    state.jobs.lists.lock().running.remove(&context.live.id);
    context.live.progress.send_modify(|_| ());
    state.start_jobs();
}

impl JobContext {
    async fn begin(&self) -> Result<(), JobError> {
        self.check()?;
        let (state, id) = (self.state()?, self.live.id.clone());
        tracing::info!(job = %id, kind = self.live.kind.name(), "job started");
        self.live.progress.send_modify(|progress| progress.started = Some((Instant::now(), progress.done)));
        Ok(blocking(move || Ok(state.catalog.start_job(&id, now_ms())?)).await?)
    }

    /// Notes how the job ended; what was interrupted stays as it is.
    async fn end(&self, state: &Arc<State>, ended: Result<(), JobError>) {
        let stopping = state.stopping.load(Ordering::Acquire);
        let (status, error) = match ended {
            Ok(()) => (JobStatus::Succeeded, None),
            Err(JobError::Canceled) => (JobStatus::Canceled, None),
            Err(JobError::Interrupted) => return,
            // What fails because the server closes its parts has not failed.
            Err(JobError::Failed(error)) if stopping && error.code().blame() != Blame::Client => return,
            Err(JobError::Failed(error)) => (JobStatus::Failed, Some(self.failure(&error))),
        };
        let mut failures = 0_u64;
        while let Err(error) = self.try_end(state, status, error.clone()).await {
            failures += 1;
            if failures.is_power_of_two() {
                let cause = error.chain();
                tracing::error!(job = %self.live.id, failures, cause, "cannot record the end of a job; trying again");
            }
            if matches!(self.pause(RETRY_PAUSE).await, Err(JobError::Interrupted)) {
                return;
            }
        }
        tracing::info!(job = %self.live.id, kind = self.live.kind.name(), status = status.name(), "job ended");
    }

    async fn try_end(&self, state: &Arc<State>, status: JobStatus, error: Option<JobFailure>) -> Result<(), Error> {
        let (of, live) = (Arc::clone(state), Arc::clone(&self.live));
        blocking(move || {
            kind_of(live.kind).free_space(&of, &live);
            Ok(())
        })
        .await?;
        self.note(state).await?;
        let (state, live) = (Arc::clone(state), Arc::clone(&self.live));
        blocking(move || state.finish(&live, status, error.as_ref())).await
    }

    /// What the job shows of an error. A failure of the server is told to the log alone.
    fn failure(&self, error: &Error) -> JobFailure {
        let code = error.code();
        let cause = error.chain();
        let detail = match code.blame() {
            Blame::Client | Blame::Capacity => {
                tracing::warn!(job = %self.live.id, cause, "job failed");
                error.to_string()
            }
            Blame::Server => {
                tracing::error!(job = %self.live.id, cause, "job failed");
                "the server failed; its log has the cause under this job's id".to_owned()
            }
        };
        JobFailure { code, detail }
    }
}
