//! Runs jobs: a bounded number at once, the others in the order in which they came.
//!
//! What is accepted is in the catalog first. A job that is stopped with the server, in order or not, stays unfinished there and
//! is taken up by the next start; how much of it is done again is its type's affair. Tasks hold the service only while they
//! work on something, so that a service that goes away takes its jobs with it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;

use super::super::collections::now_ms;
use super::super::runtime::lock;
use super::super::{Error, State, blocking};
use super::work;
use crate::domain::{Blame, CollectionName, Job, JobFailure, JobId, JobProgress, JobStatus, JobType, JobUnit, Metadata};

/// Time between two notes of a job's progress in the catalog.
const NOTE_PAUSE: Duration = Duration::from_secs(1);
/// Time before the end of a job is noted again after that failed.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The jobs that are not finished.
pub(in crate::service) struct Jobs {
    places: Arc<Semaphore>,
    running_max: usize,
    lists: Mutex<Lists>,
}

#[derive(Default)]
struct Lists {
    waiting: VecDeque<Arc<Live>>,
    running: BTreeMap<JobId, Arc<Live>>,
    tasks: Vec<JoinHandle<()>>,
    stopped: bool,
}

/// A job that waits or runs.
pub(in crate::service) struct Live {
    /// The id.
    pub(in crate::service) id: JobId,
    /// What it does.
    pub(in crate::service) kind: JobType,
    /// What it is about.
    pub(in crate::service) collection: Option<CollectionName>,
    /// What its type needs to run.
    pub(in crate::service) request: Metadata,
    progress: watch::Sender<Progress>,
    canceled: AtomicBool,
    interrupted: AtomicBool,
    wake: Notify,
    /// Its place among the bounded ones. A job taken up at start-up may have none.
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

/// How far a job is, as its task last said.
#[derive(Debug, Clone)]
pub(in crate::service) struct Progress {
    done: u64,
    total: u64,
    unit: JobUnit,
    details: Metadata,
    /// When this run of it began, and how much was done then.
    started: Option<(Instant, u64)>,
}

/// Why a job did not succeed.
#[derive(Debug)]
pub(in crate::service) enum Halt {
    /// Somebody asked for it.
    Canceled,
    /// The server stops; the next start goes on.
    Interrupted,
    /// It cannot go on.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// What a job's task works with.
#[derive(Clone)]
pub(in crate::service) struct JobContext {
    state: Weak<State>,
    /// The job.
    pub(in crate::service) live: Arc<Live>,
    noted: Arc<Mutex<Option<Instant>>>,
}

impl Jobs {
    pub(in crate::service) fn new(running_max: usize, queued_max: usize) -> Self {
        let running_max = running_max.max(1);
        let places = Arc::new(Semaphore::new(running_max.saturating_add(queued_max)));
        Self { places, running_max, lists: Mutex::default() }
    }

    /// Takes a place for a job that is about to be accepted.
    pub(in crate::service) fn place(&self, limit: usize) -> Result<OwnedSemaphorePermit, Error> {
        Arc::clone(&self.places).try_acquire_owned().map_err(|_| Error::JobsWaiting { limit })
    }

    /// Finds a job that is not finished.
    pub(in crate::service) fn find(&self, id: &JobId) -> Option<Arc<Live>> {
        let lists = lock(&self.lists);
        lists.running.get(id).or_else(|| lists.waiting.iter().find(|live| live.id == *id)).cloned()
    }

    /// Tells a running job to stop. Gives one that still waits: it will not run any more, and the caller finishes it.
    pub(in crate::service) fn cancel(&self, id: &JobId) -> Option<Arc<Live>> {
        let mut lists = lock(&self.lists);
        if let Some(live) = lists.running.get(id) {
            live.canceled.store(true, Ordering::Release);
            live.wake.notify_one();
            return None;
        }
        let at = lists.waiting.iter().position(|live| live.id == *id)?;
        lists.waiting.remove(at)
    }

    /// Interrupts what runs and starts nothing more.
    pub(in crate::service) async fn stop(&self) {
        let tasks = {
            let mut lists = lock(&self.lists);
            lists.stopped = true;
            lists.waiting.clear();
            for live in lists.running.values() {
                live.interrupted.store(true, Ordering::Release);
                live.wake.notify_one();
            }
            std::mem::take(&mut lists.tasks)
        };
        for task in tasks {
            if let Err(error) = task.await {
                tracing::error!(error = &error as &dyn std::error::Error, "a job's task failed");
            }
        }
    }
}

impl Live {
    pub(in crate::service) fn new(job: &Job, place: Option<OwnedSemaphorePermit>) -> Self {
        let JobProgress { done, total, unit, .. } = job.progress;
        Self {
            id: job.id.clone(),
            kind: job.kind,
            collection: job.collection.clone(),
            request: job.request.clone(),
            progress: watch::Sender::new(Progress { done, total, unit, details: job.details.clone(), started: None }),
            canceled: AtomicBool::new(job.cancel_requested),
            interrupted: AtomicBool::new(false),
            wake: Notify::new(),
            place: Mutex::new(place),
        }
    }

    /// Makes room for another job: this one is about to be over.
    pub(in crate::service) fn give_up_place(&self) {
        drop(lock(&self.place).take());
    }

    /// Changes whenever the job's progress does; closes when it ends.
    pub(in crate::service) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    /// How far it is, and what it has to tell.
    pub(in crate::service) fn progress(&self) -> (JobProgress, Metadata) {
        let progress = self.progress.borrow().clone();
        let Progress { done, total, unit, details, started } = progress;
        let rate = started.and_then(|(at, before)| {
            let seconds = at.elapsed().as_secs_f64();
            (done > before && seconds > 0.0).then(|| (done - before) as f64 / seconds)
        });
        let eta_s = rate.map(|rate| total.saturating_sub(done) as f64 / rate);
        (JobProgress { done, total, unit, rate, eta_s }, details)
    }
}

impl State {
    /// Lets a job wait for its turn, which may have come already.
    pub(in crate::service) fn enqueue(self: &Arc<Self>, live: Arc<Live>) {
        lock(&self.jobs.lists).waiting.push_back(live);
        self.start_jobs();
    }

    /// Starts jobs as long as there is room.
    fn start_jobs(self: &Arc<Self>) {
        let mut lists = lock(&self.jobs.lists);
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
        work(&working).await
    });
    let ended = worked.await.unwrap_or_else(|error| Err(Halt::Failed(error.into())));
    let Ok(state) = context.state() else { return };
    context.end(&state, ended).await;
    lock(&state.jobs.lists).running.remove(&context.live.id);
    context.live.progress.send_modify(|_| ());
    state.start_jobs();
}

impl JobContext {
    /// The service, unless it went away.
    pub(in crate::service) fn state(&self) -> Result<Arc<State>, Halt> {
        self.state.upgrade().ok_or(Halt::Interrupted)
    }

    /// Says whether to stop, which a job looks at wherever it can stop.
    pub(in crate::service) fn check(&self) -> Result<(), Halt> {
        if self.live.canceled.load(Ordering::Acquire) {
            return Err(Halt::Canceled);
        }
        let gone = self.state.upgrade().is_none_or(|state| state.stopping.load(Ordering::Acquire));
        if gone || self.live.interrupted.load(Ordering::Acquire) { Err(Halt::Interrupted) } else { Ok(()) }
    }

    /// Waits, unless the job is to stop.
    pub(in crate::service) async fn pause(&self, duration: Duration) -> Result<(), Halt> {
        tokio::select! {
            () = tokio::time::sleep(duration) => (),
            () = self.live.wake.notified() => (),
        }
        self.check()
    }

    /// Says how far the job is, to whoever watches and now and then to the catalog.
    pub(in crate::service) async fn progress(&self, done: u64, details: Metadata) -> Result<(), Halt> {
        self.live.progress.send_modify(|progress| {
            progress.done = done;
            progress.details = details;
        });
        let due = lock(&self.noted).is_none_or(|noted| noted.elapsed() >= NOTE_PAUSE);
        if due {
            let state = self.state()?;
            self.note(&state).await?;
            *lock(&self.noted) = Some(Instant::now());
        }
        Ok(())
    }

    /// Says how far the job is, to whoever watches.
    pub(in crate::service) fn set_done(&self, done: u64) {
        self.live.progress.send_modify(|progress| progress.done = done);
    }

    /// Says that there is more or less to be done in all than was thought.
    pub(in crate::service) fn set_total(&self, total: u64) {
        self.live.progress.send_modify(|progress| progress.total = total);
    }

    /// Sets what there is to be done in all, and where this run of the job begins.
    pub(in crate::service) fn measure(&self, done: u64, total: u64) {
        self.live.progress.send_modify(|progress| {
            progress.done = done;
            progress.total = total;
            progress.started = Some((Instant::now(), done));
        });
    }

    async fn note(&self, state: &Arc<State>) -> Result<(), Error> {
        let (state, id) = (Arc::clone(state), self.live.id.clone());
        let (progress, details) = self.live.progress();
        blocking(move || Ok(state.catalog.note_job(&id, &progress, &details)?)).await
    }

    async fn begin(&self) -> Result<(), Halt> {
        self.check()?;
        let (state, id) = (self.state()?, self.live.id.clone());
        tracing::info!(job = %id, kind = self.live.kind.name(), "job started");
        self.live.progress.send_modify(|progress| progress.started = Some((Instant::now(), progress.done)));
        Ok(blocking(move || Ok(state.catalog.start_job(&id, now_ms())?)).await?)
    }

    /// Notes how the job ended; what was interrupted stays as it is.
    async fn end(&self, state: &Arc<State>, ended: Result<(), Halt>) {
        let stopping = state.stopping.load(Ordering::Acquire);
        let (status, error) = match ended {
            Ok(()) => (JobStatus::Succeeded, None),
            Err(Halt::Canceled) => (JobStatus::Canceled, None),
            Err(Halt::Interrupted) => return,
            // What fails because the server closes its parts has not failed.
            Err(Halt::Failed(error)) if stopping && error.code().blame() != Blame::Client => return,
            Err(Halt::Failed(error)) => (JobStatus::Failed, Some(self.failure(&error))),
        };
        let mut failures = 0_u64;
        while let Err(error) = self.try_end(state, status, error.clone()).await {
            failures += 1;
            if failures.is_power_of_two() {
                let cause = error.chain();
                tracing::error!(job = %self.live.id, failures, cause, "noting the end of a job failed, trying again");
            }
            if matches!(self.pause(RETRY_PAUSE).await, Err(Halt::Interrupted)) {
                return;
            }
        }
        tracing::info!(job = %self.live.id, kind = self.live.kind.name(), status = status.name(), "job ended");
    }

    async fn try_end(&self, state: &Arc<State>, status: JobStatus, error: Option<JobFailure>) -> Result<(), Error> {
        let (of, live) = (Arc::clone(state), Arc::clone(&self.live));
        blocking(move || {
            of.make_room_after(&live);
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
