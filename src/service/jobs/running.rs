//! The unfinished jobs of this server: which ones are waiting, which are running, and how far they are.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use super::folder::Folder;
use super::turns::Turns;
use crate::domain::{CollectionName, Job, JobId, JobProgress, JobType, JobUnit, Metadata, QuotaOwner, with_causes};
use crate::service::error::Error;
use crate::service::limits::budget::RequestMemory;
use crate::service::limits::shares::{LimitExceeded, LimitShare, SharedLimit};

/// How long a stopping server waits for its jobs.
const STOP_MAX: Duration = Duration::from_secs(10);
/// How long to keep the folder of a job that may have been stored although the database's response was lost. `connector` lets
/// the database end an idle transaction after a minute, but not while the database's machine is suspended.
const FOLDERS_KEPT: Duration = Duration::from_secs(3_600);

/// Unfinished jobs.
pub(crate) struct Jobs {
    bound: Arc<SharedLimit>,
    pub(super) running_max: usize,
    pub(super) lists: Mutex<Lists>,
}

/// The waiting and the running jobs.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) waiting: VecDeque<Arc<RunningJob>>,
    turns: Turns,
    pub(super) running: BTreeMap<JobId, Arc<RunningJob>>,
    pub(super) tasks: Vec<JoinHandle<()>>,
    /// Jobs that were taken over from another server and are not resumed yet.
    taken_over: Vec<Job>,
    /// See `Jobs::reserve`.
    reserved: Vec<JobId>,
    /// Folders of jobs that may have been stored although the database's response was lost, and since when.
    folders: Vec<(Instant, JobId, Folder)>,
    pub(super) stopped: bool,
}

/// Marks a job as known to this server until it is dropped.
pub(crate) struct Reserved<'j> {
    jobs: &'j Jobs,
    id: JobId,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.jobs.lists.lock().reserved.retain(|id| *id != self.id);
    }
}

/// A job that waits or runs.
pub(crate) struct RunningJob {
    pub(crate) id: JobId,
    pub(crate) kind: JobType,
    /// The collection that it is about, if it is about a single one.
    pub(crate) collection: Option<CollectionName>,
    /// What its job type needs to run it.
    pub(crate) request: Metadata,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) canceled: AtomicBool,
    pub(super) interrupted: AtomicBool,
    /// Whether another server took it over. Stays true even if this server gets the job back, because then it is started again.
    pub(super) lost: AtomicBool,
    /// Whether it had begun before this server took it up.
    pub(super) had_begun: bool,
    pub(super) wake: Notify,
    /// Whose job it is.
    pub(super) owner: QuotaOwner,
    /// Counts the job toward the limit on jobs.
    permit: Mutex<Option<LimitShare>>,
}

/// A job's progress, as its task last published it.
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    pub(super) done: u64,
    pub(super) total: u64,
    unit: JobUnit,
    pub(super) details: Metadata,
    /// When this run of the job began, and how much was already done then.
    pub(super) started: Option<(Instant, u64)>,
}

impl Jobs {
    pub(crate) fn new(running_max: usize, queued_max: usize) -> Self {
        let running_max = running_max.max(1);
        let bound = SharedLimit::new("jobs_queued_max", running_max.saturating_add(queued_max) as u64);
        Self { bound, running_max, lists: Mutex::default() }
    }

    pub(crate) fn bound(&self) -> Arc<SharedLimit> {
        Arc::clone(&self.bound)
    }

    /// Takes a permit for a job that is about to be accepted. Charges it to the caller of the request that this task runs.
    pub(crate) fn permit(&self) -> Result<LimitShare, Error> {
        self.bound.acquire(RequestMemory::current().owner(), 1).map_err(|refusal| match refusal {
            LimitExceeded::Full { limit, .. } => Error::JobsWaiting { limit },
            LimitExceeded::Share { .. } => refusal.into(),
        })
    }

    /// Takes a permit for a job that was accepted before this server took it up, from a caller that is no longer known.
    pub(super) fn permit_of_earlier(&self) -> LimitShare {
        self.bound.acquire_accepted(QuotaOwner::Earlier, 1)
    }

    /// Finds a job that is not finished.
    pub(crate) fn find(&self, id: &JobId) -> Option<Arc<RunningJob>> {
        self.lists.lock().find(id).cloned()
    }

    /// Tells a running job to stop. If the job is still waiting, removes and returns it, and the caller must finish it.
    pub(crate) fn cancel(&self, id: &JobId) -> Option<Arc<RunningJob>> {
        let mut lists = self.lists.lock();
        if let Some(job) = lists.running.get(id) {
            job.canceled.store(true, Ordering::Release);
            job.wake.notify_one();
            return None;
        }
        let index = lists.waiting.iter().position(|job| job.id == *id)?;
        let job = lists.waiting.remove(index)?;
        job.canceled.store(true, Ordering::Release);
        Some(job)
    }

    pub(super) fn unfinished(&self) -> Vec<JobId> {
        let lists = self.lists.lock();
        lists.running.keys().chain(lists.waiting.iter().map(|job| &job.id)).cloned().collect()
    }

    /// Stops a job that another server took over, without recording an end.
    pub(super) fn stop_lost(&self, id: &JobId) {
        let mut lists = self.lists.lock();
        lists.waiting.retain(|job| job.id != *id);
        if let Some(job) = lists.running.get(id) {
            job.lost.store(true, Ordering::Release);
            job.interrupted.store(true, Ordering::Release);
            job.wake.notify_one();
        }
    }

    /// Keeps jobs that were taken over until they are resumed.
    pub(super) fn add_taken_over(&self, jobs: Vec<Job>) {
        self.lists.lock().taken_over.extend(jobs);
    }

    /// Removes and returns the jobs that were taken over and must be resumed.
    pub(super) fn drain_taken_over(&self) -> Vec<Job> {
        std::mem::take(&mut self.lists.lock().taken_over)
    }

    /// Marks a job that is in no other list for a moment: one that is being stored, until it is queued, or one that is being
    /// canceled, until its end is recorded.
    pub(crate) fn reserve(&self, id: &JobId) -> Reserved<'_> {
        self.lists.lock().reserved.push(id.clone());
        Reserved { jobs: self, id: id.clone() }
    }

    /// Returns the jobs that this server runs, will run, is accepting, or is canceling.
    pub(super) fn known(&self) -> Vec<JobId> {
        let lists = self.lists.lock();
        let queued = lists.running.keys().chain(lists.waiting.iter().map(|job| &job.id));
        queued.chain(lists.taken_over.iter().map(|job| &job.id)).chain(&lists.reserved).cloned().collect()
    }

    /// Keeps the folder of a job that may be stored.
    pub(super) fn keep_folder(&self, id: &JobId, folder: Folder) {
        let mut lists = self.lists.lock();
        if lists.stopped {
            return folder.retain();
        }
        lists.folders.push((Instant::now(), id.clone(), folder));
    }

    /// Removes and returns the folders that were kept for at least `FOLDERS_KEPT`.
    pub(super) fn drain_folders(&self) -> Vec<(JobId, Folder)> {
        let is_due = |finished: &mut (Instant, JobId, Folder)| finished.0.elapsed() >= FOLDERS_KEPT;
        self.lists.lock().folders.extract_if(.., is_due).map(|(_, id, folder)| (id, folder)).collect()
    }

    /// Interrupts running jobs and starts no more.
    pub(crate) async fn stop(&self) {
        let tasks = {
            let mut lists = self.lists.lock();
            lists.stopped = true;
            lists.waiting.clear();
            // The jobs may be stored. The next start removes the folders of those that are not.
            lists.folders.drain(..).for_each(|(_, _, folder)| folder.retain());
            for job in lists.running.values() {
                job.interrupted.store(true, Ordering::Release);
                job.wake.notify_one();
            }
            std::mem::take(&mut lists.tasks)
        };
        let end = async {
            for task in tasks {
                if let Err(error) = task.await {
                    tracing::error!(error = with_causes(&error), "a job's task failed");
                }
            }
        };
        if tokio::time::timeout(STOP_MAX, end).await.is_err() {
            tracing::warn!("a job does not stop; the next start continues it");
        }
    }
}

impl Lists {
    /// Removes and returns the job that runs next.
    pub(super) fn take_next(&mut self) -> Option<Arc<RunningJob>> {
        let owners: Vec<&QuotaOwner> = self.waiting.iter().map(|job| &job.owner).collect();
        let next = self.turns.next(&owners)?;
        self.waiting.remove(next)
    }

    pub(super) fn find(&self, id: &JobId) -> Option<&Arc<RunningJob>> {
        self.running.get(id).or_else(|| self.waiting.iter().find(|job| job.id == *id))
    }
}

impl RunningJob {
    pub(crate) fn new(job: &Job, permit: LimitShare) -> Self {
        let JobProgress { done, total, unit, .. } = job.progress;
        Self {
            id: job.id.clone(),
            kind: job.kind,
            collection: job.collection.clone(),
            request: job.request.clone(),
            progress: watch::Sender::new(Progress { done, total, unit, details: job.details.clone(), started: None }),
            canceled: AtomicBool::new(job.cancel_requested),
            interrupted: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            had_begun: job.started_at_ms.is_some(),
            wake: Notify::new(),
            owner: permit.owner().clone(),
            permit: Mutex::new(Some(permit)),
        }
    }

    /// Makes room for another job, because this one is about to end.
    pub(crate) fn release_permit(&self) {
        drop(self.permit.lock().take());
    }

    /// Publishes that the whole total is done. An earlier run of the job may have done more than it could publish.
    pub(super) fn complete(&self) {
        self.progress.send_modify(|progress| progress.done = progress.done.max(progress.total));
    }

    /// Returns a receiver that changes whenever the job's progress does, and closes when the job ends.
    pub(crate) fn watch(&self) -> watch::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(crate) fn progress(&self) -> (JobProgress, Metadata) {
        let progress = self.progress.borrow().clone();
        let Progress { done, total, unit, details, started } = progress;
        let rate = started.and_then(|(time, before)| {
            let seconds = time.elapsed().as_secs_f64();
            (done > before && seconds > 0.0).then(|| (done - before) as f64 / seconds)
        });
        let eta_s = rate.map(|rate| total.saturating_sub(done) as f64 / rate);
        (JobProgress { done, total, unit, rate, eta_s }, details)
    }
}
