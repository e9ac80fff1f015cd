//! Runs jobs: a bounded number at a time, those of one caller in the order in which they were accepted, and those of several
//! callers in turn.
//!
//! A job is recorded in the catalog before it is queued. If the server stops or crashes, the job stays unfinished there, and
//! the next start resumes it, or another server that shares the catalog does. The type of the job decides how much work is
//! repeated. Tasks hold the service only while they use it, so that jobs do not keep a stopping service alive.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::context::{JobContext, JobError};
use super::kind::{self, JobKind};
use super::running::RunningJob;
use super::with_kind;
use crate::domain::{Code, ErrorClass, Job, JobFailure, JobStatus, Metadata};
use crate::service::error::Error;
use crate::service::limits::shares::LimitShare;
use crate::service::state::State;
use crate::store::StoreError;
use crate::store::system_clock as now_ms;

/// Pause before another attempt to record the end of a job.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

impl State {
    /// Queues a job that was just stored.
    pub(crate) fn enqueue_new(self: &Arc<Self>, job: &Job, permit: LimitShare) {
        self.enqueue(Arc::new(RunningJob::new(job, permit)));
    }

    /// Queues a job unless it is queued already, and starts it if fewer than the maximum are running.
    pub(super) fn enqueue(self: &Arc<Self>, job: Arc<RunningJob>) {
        {
            let mut lists = self.jobs.lists.lock();
            if lists.find(&job.id).is_none() {
                lists.waiting.push_back(job);
            }
        }
        self.start_jobs();
    }

    /// Starts jobs as long as there is room.
    fn start_jobs(self: &Arc<Self>) {
        let mut lists = self.jobs.lists.lock();
        lists.tasks.retain(|task| !task.is_finished());
        while !lists.stopped && lists.running.len() < self.jobs.running_max {
            let Some(job) = lists.take_next() else { return };
            lists.running.insert(job.id.clone(), Arc::clone(&job));
            let context = JobContext { state: Arc::downgrade(self), job, recorded: Arc::default() };
            lists.tasks.push(self.runtime.spawn(run(context)));
        }
    }
}

async fn run(context: JobContext) {
    let working = context.clone();
    // Runs in a separate task, so that a panic ends the job but not the engine.
    let worked = tokio::spawn(async move { working.work().await });
    let ended = worked.await.unwrap_or_else(|error| Err(JobError::Failed(error.into())));
    let Ok(state) = context.state() else { return };
    context.end(&state, ended).await;
    state.jobs.lists.lock().running.remove(&context.job.id);
    context.job.progress.send_modify(|_| ());
    state.start_jobs();
}

impl JobContext {
    /// Runs the job. Runs it again if a re-embedding changed its request after it was read.
    async fn work(&self) -> Result<(), JobError> {
        let mut request = self.begin().await?;
        loop {
            let ended = with_kind!(self.job.kind, J => kind::run::<J>(self, &request)).await;
            match &ended {
                Err(JobError::Failed(error)) if error.code() == Code::CollectionNotFound => (),
                _ => return ended,
            }
            match self.changed_request(&request).await {
                Some(changed) => request = changed,
                None => return ended,
            }
        }
    }

    async fn changed_request(&self, known: &Metadata) -> Option<Metadata> {
        let id = self.job.id.clone();
        let current = self.state().ok()?.run(move |state| Ok(state.job(&id)?.request)).await.ok()?;
        self.sync_names().await.ok()?;
        (current != *known).then_some(current)
    }

    /// Records that the job runs, as soon as the storage accepts that. A new job does not begin while the emergency space is
    /// released: it would use up that space and fail. A resumed job does begin, because it may itself hold the space that it
    /// would wait for. Returns what its job type needs to run it, which may have changed while the job waited: a re-embedded
    /// collection has another id.
    async fn begin(&self) -> Result<Metadata, JobError> {
        self.check()?;
        let mut failures = 0;
        let request = loop {
            let job = Arc::clone(&self.job);
            let started = self.state()?.run(move |state| {
                let stored = state.job(&job.id)?;
                // It has ended: it was queued a second time.
                if stored.status.is_finished() {
                    return Ok(Err(JobError::Interrupted));
                }
                // A cancellation between storing and queueing did not find it in the queue.
                if stored.cancel_requested {
                    return Ok(Err(JobError::Canceled));
                }
                if !job.had_begun {
                    state.reserve_emergency_space()?;
                }
                state.catalog.start_job(&job.id, now_ms())?;
                // If it changes from now on, `work` runs the job again.
                Ok(Ok(stored.request))
            });
            match started.await {
                Err(error) if error.code() == Code::StorageUnavailable => {
                    self.wait_for_storage("a job waits for the storage", failures, &error).await?;
                    failures += 1;
                }
                started => break started??,
            }
        };
        // The collection that the request names may have just been swapped in. If this fails, the job notices by itself.
        let _ = self.sync_names().await;
        tracing::info!(job = %self.job.id, kind = self.job.kind.name(), "job started");
        self.job.progress.send_modify(|progress| progress.started = Some((Instant::now(), progress.done)));
        Ok(request)
    }

    /// Records how the job ended. An interrupted job stays unfinished. Does nothing if another server took the job over.
    async fn end(&self, state: &Arc<State>, ended: Result<(), JobError>) {
        let stopping = state.stopping.load(Ordering::Acquire);
        if self.job.lost.load(Ordering::Acquire) {
            return;
        }
        let (status, error) = match ended {
            Ok(()) => (JobStatus::Succeeded, None),
            Err(JobError::Canceled) => (JobStatus::Canceled, None),
            Err(JobError::Interrupted | JobError::Failed(Error::Store(StoreError::JobTakenOver))) => return,
            // The job probably failed because the server is closing its parts, so the next start resumes it.
            Err(JobError::Failed(error)) if stopping && error.code().class() != ErrorClass::Client => return,
            Err(JobError::Failed(error)) => (JobStatus::Failed, Some(self.failure(&error))),
        };
        let mut failures = 0_u64;
        while let Err(error) = self.try_end(state, status, error.clone()).await {
            if matches!(error, Error::Store(StoreError::JobTakenOver)) {
                tracing::info!(job = %self.job.id, kind = self.job.kind.name(), "another server runs the job");
                return;
            }
            failures += 1;
            if failures.is_power_of_two() {
                let cause = error.chain();
                tracing::error!(job = %self.job.id, failures, cause, "cannot record the end of a job; trying again");
            }
            if matches!(self.pause(RETRY_PAUSE).await, Err(JobError::Interrupted)) {
                return;
            }
        }
        tracing::info!(job = %self.job.id, kind = self.job.kind.name(), status = status.name(), "job ended");
    }

    async fn try_end(&self, state: &Arc<State>, status: JobStatus, error: Option<JobFailure>) -> Result<(), Error> {
        let job = Arc::clone(&self.job);
        let freed = state.run(move |state| {
            if !state.owns(&job.id)? {
                return Err(StoreError::JobTakenOver.into());
            }
            with_kind!(job.kind, J => if let Some(request) = kind::read::<J>(&job.id, &job.request) {
                J::free_space(state, &job.id, &request);
            });
            Ok(())
        });
        freed.await?;
        let job = Arc::clone(&self.job);
        state.run(move |state| state.finish(&job, status, error.as_ref())).await
    }

    /// Makes the error that the job shows. The causes of a server failure are only logged.
    fn failure(&self, error: &Error) -> JobFailure {
        let code = error.code();
        let cause = error.chain();
        let detail = match code.class() {
            ErrorClass::Client | ErrorClass::Capacity => {
                tracing::warn!(job = %self.job.id, cause, "job failed");
                public_detail(error)
            }
            ErrorClass::Server => {
                tracing::error!(job = %self.job.id, cause, "job failed");
                match error {
                    // The error must name the collection, so that an operator can repair it.
                    Error::Damaged { .. } | Error::NotCopied { .. } => error.to_string(),
                    _ => "the server failed; its log has the cause under this job's id".to_owned(),
                }
            }
        };
        JobFailure { code, detail }
    }
}

/// Describes an error for which the server is not to blame. A full disk is only named by the cause of an error. The causes of
/// other errors of the storage may come from a database server, and stay in the log.
fn public_detail(error: &Error) -> String {
    let code = error.code();
    match (code.class(), error) {
        (_, Error::File { .. } | Error::Index(_) | Error::Store(StoreError::File { .. })) => error.chain(),
        (ErrorClass::Client, Error::Store(source)) => source.to_string(),
        (ErrorClass::Client, Error::Embed(source)) => source.to_string(),
        _ => error.outage().map_or_else(|| error.to_string(), str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_fails_on_a_full_disk_says_so() {
        let error = Error::File { path: "map.json".into(), source: std::io::ErrorKind::StorageFull.into() };
        assert_eq!(error.code(), Code::StorageUnavailable);
        assert_eq!(public_detail(&error), "cannot access map.json: no storage space");
    }

    #[test]
    fn a_job_that_the_store_refuses_says_why() {
        let reused = StoreError::KeyReused { key: "k".to_owned() };
        assert_eq!(public_detail(&reused.clone().into()), reused.to_string());
        let source = Arc::new(std::io::Error::other("10.0.0.7 refused"));
        let unreachable = StoreError::ServerUnreachable { operation: "reading", source };
        assert_eq!(public_detail(&unreachable.into()), "the database server does not answer");
    }
}
