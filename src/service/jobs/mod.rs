//! Accepts, lists, watches and cancels jobs. `scheduler` runs them. A job type consists of an implementation of `kind::JobKind`
//! in the module of its resource, a variant of `JobType`, and a line in `with_kind`.

mod accepting;
pub(super) mod checkpoint;
mod context;
mod embedding;
mod folder;
mod kind;
mod new_job;
pub(super) mod result_lines;
mod running;
mod scheduler;
mod steps;
pub(super) mod stored;
pub(super) mod takeover;
mod turns;

use std::collections::HashSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub(super) use context::{JobContext, JobError};
pub(super) use embedding::{embed_with_retry, try_embed};
pub(super) use folder::Folder;
pub(super) use kind::JobKind;
pub use kind::{JobAccess, JobVisibility};
pub(super) use new_job::{NewJob, new_job_id};
pub(super) use running::{Jobs, RunningJob};
pub(super) use steps::Steps;
use tokio::sync::watch;

use super::documents;
use super::error::Error;
use super::folders::{AtPath, create_dir_durably};
use super::state::{Service, State};
use crate::domain::{CollectionId, Job, JobFailure, JobFilter, JobId, JobStatus, JobType, Page, with_causes};
use crate::store::system_clock as now_ms;

/// The folder of the data directory that holds the files of jobs, with one folder per job.
const JOBS_DIR: &str = "jobs";
/// How much later than now a job may have finished. One that finished even later was timed by a clock that was far ahead. If it
/// counted as new, it would take the place of all jobs that finish from now on.
const CLOCK_STEP_MAX_MS: i64 = 24 * 3_600 * 1_000;
/// Minimum time between two events sent to a watcher.
const WATCH_PAUSE: Duration = Duration::from_millis(200);
/// Pause between two polls of a job that another server runs.
const REMOTE_POLL_PAUSE: Duration = Duration::from_secs(1);

/// Evaluates an expression in which `$kind` is the implementation of a job type.
macro_rules! with_kind {
    ($type:expr, $kind:ident => $value:expr) => {
        with_kind! { $type, $kind => $value;
            Import = crate::service::documents::import::ImportJob,
            Snapshot = crate::service::snapshots::create::SnapshotJob,
            Restore = crate::service::snapshots::restore::RestoreJob,
            Train = crate::service::classifiers::TrainJob,
            Classify = crate::service::classifiers::ClassifyJob,
            Evaluate = crate::service::classifiers::EvaluateJob,
            Mine = crate::service::mining::MineJob,
            Duplicates = crate::service::mining::duplicates::DuplicatesJob,
            Reembed = crate::service::collections::reembedding::ReembedJob,
            Project = crate::service::collections::projections::compute::ProjectJob,
        }
    };
    ($type:expr, $kind:ident => $value:expr; $($name:ident = $implementation:ty,)+) => {
        match $type {
            $(crate::domain::JobType::$name => {
                type $kind = $implementation;
                $value
            })+
        }
    };
}
pub(super) use with_kind;

/// Returns the collections that these jobs build in separate folders.
pub(super) fn collections_built_by(jobs: &[Job]) -> HashSet<CollectionId> {
    let built_by = |job: &Job| with_kind!(job.kind, J => J::builds_collection(&kind::read::<J>(&job.id, &job.request)?));
    jobs.iter().filter_map(built_by).collect()
}

/// Follows a job until it ends.
pub struct JobWatch {
    service: Service,
    id: JobId,
    changes: Option<watch::Receiver<running::Progress>>,
    stop: watch::Receiver<bool>,
    /// The job as last returned.
    given: Option<Job>,
    over: bool,
}

impl Service {
    pub async fn get_job(&self, id: &JobId) -> Result<Job, Error> {
        let id = id.clone();
        self.state.run(move |state| state.job(&id)).await
    }

    pub fn job_access(job: &Job) -> JobAccess {
        with_kind!(job.kind, J => kind::access::<J>(job))
    }

    /// Lists jobs, newest first. Also returns the last id on the page if there is a next page. The filter may name collections
    /// by aliases.
    pub async fn list_jobs(&self, mut filter: JobFilter, page: Page<JobId>) -> Result<(Vec<Job>, Option<JobId>), Error> {
        // A job has its collection's own name. One that an earlier version accepted may have an alias.
        if let Some(names) = &mut filter.collections {
            let resolved: Vec<_> = names.iter().filter_map(|name| self.state.resolve_alias(name)).collect();
            names.extend(resolved);
        }
        self.state
            .run(move |state| {
                let (jobs, next) = page.take(state.catalog.jobs(&filter, &page.with_one_more())?, |job| &job.id);
                Ok((jobs.into_iter().map(|job| state.with_live_progress(job)).collect(), next))
            })
            .await
    }

    /// Cancels a job: immediately if it is waiting, otherwise at the next point where it can stop. Canceling it twice is not an
    /// error.
    pub async fn cancel_job(&self, id: &JobId) -> Result<Job, Error> {
        let id = id.clone();
        self.state
            .run(move |state| {
                let job = state.job(&id)?;
                match job.status {
                    JobStatus::Canceled => return Ok(job),
                    status if status.is_finished() => return Err(Error::JobFinished { id, status }),
                    _ => (),
                }
                state.check_directory()?;
                // Recorded in the catalog first, so that a restart does not resume the job.
                state.catalog.request_cancel(&id)?;
                state.cancel(&id)?;
                state.job(&id)
            })
            .await
    }

    pub async fn watch_job(&self, id: &JobId) -> Result<JobWatch, Error> {
        // Subscribe before reading, so that no change in between is missed.
        let changes = self.state.jobs.find(id).map(|job| job.watch());
        self.get_job(id).await?;
        let stop = self.state.stop_announced.subscribe();
        Ok(JobWatch { service: self.clone(), id: id.clone(), changes, stop, given: None, over: false })
    }

    /// Opens the results file of an import, which has one line per document. Also returns the current length of its complete
    /// lines in bytes. `None` if it has no results yet.
    pub async fn job_results(&self, id: &JobId) -> Result<Option<(File, u64)>, Error> {
        let id = id.clone();
        self.state
            .run(move |state| {
                let job = state.job(&id)?;
                if job.kind != JobType::Import {
                    return Err(Error::NoLines { id, kind: job.kind });
                }
                documents::import::open_results(&state.job_dir(&id), &job, state.server.is_some())
            })
            .await
    }

    /// Ends all watches, because the server is about to stop.
    pub fn announce_stop(&self) {
        self.state.stop_announced.send_replace(true);
    }

    /// Resumes the jobs that the last run of the server left unfinished, and removes files that other jobs no longer need.
    pub(super) fn resume_jobs(&self) -> Result<(), Error> {
        let state = &self.state;
        let folder = state.data_dir.join(JOBS_DIR);
        create_dir_durably(&folder).at(&folder)?;
        state.prune_old_jobs()?;
        let unfinished = state.catalog.unfinished_jobs()?;
        let ids: Vec<JobId> = unfinished.iter().map(|job| job.id.clone()).collect();
        state.fail_abandoned_trainings(&ids)?;
        let known: HashSet<String> = ids.iter().map(|id| id.as_str().to_owned()).collect();
        for entry in std::fs::read_dir(&folder).at(&folder)? {
            let entry = entry.at(&folder)?;
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|name| JobId::parse(name).ok()) else { continue };
            if known.contains(id.as_str()) {
                continue;
            }
            let path = entry.path();
            if !path.is_dir() {
                tracing::warn!(path = %path.display(), "this is not the folder of a job, so it stays as it is");
                continue;
            }
            match state.catalog.job(&id)? {
                // The database may not have committed yet what an earlier run of this server sent.
                None if state.server.is_some() => state.jobs.keep_folder(&id, Folder::existing(path)),
                None => std::fs::remove_dir_all(&path).at(&path)?,
                // The job ended right before the last stop, perhaps before its files were removed.
                Some(job) if job.status.is_finished() => with_kind!(job.kind, J => kind::clean_up::<J>(&path, job.status)),
                // The database has committed it a moment ago.
                Some(_) => (),
            }
        }
        // If several servers share the catalog, each one resumes only the jobs that it takes over.
        let resumed = match state.catalog.shared() {
            Some(catalog) => state.take_over_orphaned_jobs(catalog)?.jobs,
            None => unfinished,
        };
        resumed.iter().try_for_each(|job| self.resume(job))
    }

    /// Resumes a job that belongs to this server and is not running.
    fn resume(&self, job: &Job) -> Result<(), Error> {
        let resumed = RunningJob::new(&self.state.at_checkpoint(job), self.state.jobs.permit_of_earlier());
        if self.state.is_done(job) {
            return self.state.finish(&resumed, JobStatus::Succeeded, None);
        }
        if job.cancel_requested {
            return self.state.finish(&resumed, JobStatus::Canceled, None);
        }
        self.state.enqueue(Arc::new(resumed));
        Ok(())
    }
}

impl JobWatch {
    /// Returns the job as it is now, then after each change, and finally after its end. After that, returns `None`.
    pub async fn next(&mut self) -> Result<Option<Job>, Error> {
        if self.over {
            return Ok(None);
        }
        loop {
            if self.given.is_some() && !self.changed().await {
                return Ok(None);
            }
            let job = self.service.get_job(&self.id).await?;
            // A job that has no task here no longer changes, unless another server runs it.
            let is_elsewhere = self.changes.is_none() && self.service.state.catalog.shared().is_some();
            self.over = job.status.is_finished() || (self.changes.is_none() && !is_elsewhere);
            if self.over || !is_elsewhere || self.given.as_ref() != Some(&job) {
                self.given = Some(job.clone());
                return Ok(Some(job));
            }
        }
    }

    /// Waits for a change, or for a while if another server runs the job, because that one cannot notify us. Returns false if
    /// no more changes will come.
    async fn changed(&mut self) -> bool {
        let pause = if self.changes.is_some() { WATCH_PAUSE } else { REMOTE_POLL_PAUSE };
        tokio::select! {
            _ = self.stop.wait_for(|stop| *stop) => return false,
            () = tokio::time::sleep(pause) => (),
        }
        let Some(changes) = &mut self.changes else {
            self.changes = self.service.state.jobs.find(&self.id).map(|job| job.watch());
            return self.service.state.catalog.shared().is_some();
        };
        let ended = tokio::select! {
            _ = self.stop.wait_for(|stop| *stop) => return false,
            changed = changes.changed() => changed.is_err(),
        };
        if ended {
            self.changes = None;
        }
        true
    }
}

impl State {
    pub(super) fn job_dir(&self, id: &JobId) -> PathBuf {
        self.data_dir.join(JOBS_DIR).join(id.as_str())
    }

    /// Cancels a job of this server: immediately if it is waiting, otherwise at the next point where it can stop. Blocks.
    fn cancel(self: &Arc<Self>, id: &JobId) -> Result<(), Error> {
        // Known until its end is recorded, so that `takeover` does not resume it.
        let _reserved = self.jobs.reserve(id);
        let Some(waiting) = self.jobs.cancel(id) else { return Ok(()) };
        // If this fails, the job waits again, and ends as canceled when its turn comes.
        self.finish(&waiting, JobStatus::Canceled, None).inspect_err(|_| self.enqueue(waiting))
    }

    /// Records how a job ended, and removes what is no longer needed. Blocks.
    pub(super) fn finish(&self, job: &RunningJob, status: JobStatus, error: Option<&JobFailure>) -> Result<(), Error> {
        with_kind!(job.kind, J => self.finish_as::<J>(job, status, error))
    }

    fn finish_as<J: JobKind>(&self, job: &RunningJob, status: JobStatus, error: Option<&JobFailure>) -> Result<(), Error> {
        if status == JobStatus::Succeeded {
            job.complete();
        }
        self.record_progress(job)?;
        // Released first, because a client that sees that the job has ended must be able to start another.
        job.release_permit();
        J::record_end(self, &job.id, status, error)?;
        kind::clean_up::<J>(&self.job_dir(&job.id), status);
        // A re-embedding may have changed it since the job was accepted.
        let request = self.job(&job.id).map_or_else(|_| job.request.clone(), |job| job.request);
        if let Some(request) = kind::read::<J>(&job.id, &request) {
            J::finish(self, &job.id, &request);
        }
        self.prune_old_jobs()
    }

    /// Records a job's progress and details in the catalog. Blocks.
    fn record_progress(&self, job: &RunningJob) -> Result<(), Error> {
        let (progress, details) = job.progress();
        Ok(self.catalog.record_progress(&job.id, &progress, &details)?)
    }

    /// Whether an unfinished job has only its end left to be recorded. Blocks.
    fn is_done(&self, job: &Job) -> bool {
        // If it cannot tell, the job runs, and finds out itself.
        with_kind!(job.kind, J => kind::is_done::<J>(self, job)).unwrap_or(false)
    }

    /// Returns an unfinished job as of its last checkpoint, which may be ahead of the catalog after a crash. Blocks.
    fn at_checkpoint(&self, job: &Job) -> Job {
        with_kind!(job.kind, J => kind::at_checkpoint::<J>(self, job)).unwrap_or_else(|error| {
            tracing::warn!(job = %job.id, error = with_causes(&error), "cannot read a job's checkpoint");
            job.clone()
        })
    }

    /// Removes a finished job's checkpoint from a collection. If that fails, the next start does it.
    pub(super) fn delete_checkpoints(&self, job: &JobId, collection_id: &CollectionId) {
        let Some(collection) = self.collection_by_id(&collection_id.0) else { return };
        if let Err(error) = collection.with_store(|store| store.delete_job_checkpoint(job)) {
            tracing::warn!(%job, error = with_causes(&error), "cannot delete a job's checkpoint");
        }
    }

    /// Returns an unfinished job of a type whose request fits. Blocks.
    pub(super) fn find_unfinished<J: JobKind>(&self, fits: impl Fn(&Job, J::Request) -> bool) -> Result<Option<JobId>, Error> {
        let same = |job: &Job| job.kind == J::TYPE && stored::read(&job.id, &job.request).is_ok_and(|request| fits(job, request));
        Ok(self.catalog.unfinished_jobs()?.into_iter().find(same).map(|job| job.id))
    }

    fn prune_old_jobs(&self) -> Result<(), Error> {
        let now_ms = now_ms();
        let kept = (now_ms.saturating_sub(self.limits.jobs_kept_ms), now_ms.saturating_add(CLOCK_STEP_MAX_MS));
        for id in self.catalog.prune_jobs(self.limits.jobs_kept_max, kept)? {
            let folder = self.job_dir(&id);
            if folder.is_dir() {
                std::fs::remove_dir_all(&folder).at(&folder)?;
            }
        }
        Ok(())
    }

    pub(super) fn job(&self, id: &JobId) -> Result<Job, Error> {
        let found = self.catalog.job(id)?;
        found.map(|job| self.with_live_progress(job)).ok_or_else(|| Error::JobNotFound { id: id.clone() })
    }

    /// Adds to a row of the catalog the progress that the job's task has published since.
    fn with_live_progress(&self, job: Job) -> Job {
        match self.jobs.find(&job.id) {
            Some(running) if !job.status.is_finished() => {
                let (progress, details) = running.progress();
                Job { progress, details, ..job }
            }
            _ => job,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_job_type_has_its_own_implementation() {
        for job_type in JobType::ALL {
            assert_eq!(with_kind!(job_type, J => J::TYPE), job_type);
        }
    }
}
