//! What a running job's task can use: the service, the job's progress, and the signal to stop.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::Serialize;

use super::running::RunningJob;
use super::stored;
use crate::domain::{Code, CollectionId, CollectionName, with_causes};
use crate::service::error::{Error, is_disk_failure};
use crate::service::open_collection::OpenCollection;
use crate::service::retries::retry_pause;
use crate::service::state::{Service, State};
use crate::store::StoreError;

/// Minimum time between two records of a job's progress in the catalog.
const RECORD_PAUSE: Duration = Duration::from_secs(1);
/// Pause between checks whether a collection has recovered.
const RECOVERY_PAUSE: Duration = Duration::from_millis(50);
/// Pause before another attempt after the storage refused a write. Doubles with each attempt without progress.
const STORAGE_PAUSE: Duration = Duration::from_secs(1);
const STORAGE_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Number of attempts without progress, over about an hour, after which a job fails because the disk does not read or write one
/// of the job's own files. Unlike a full disk, a broken one is rarely repaired with its files.
const BROKEN_FILE_ATTEMPTS: u32 = 120;

#[derive(Debug)]
pub(crate) enum JobError {
    Canceled,
    /// The server is stopping. The next start resumes the job.
    Interrupted,
    Failed(Error),
}

impl<E: Into<Error>> From<E> for JobError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl JobError {
    /// Returns the error that the collection was deleted, if the job failed because of that.
    pub(crate) fn or_deleted(self, collection: &OpenCollection) -> Self {
        match self {
            Self::Failed(error) if collection.failed_by_deletion(&error) => collection.not_found().into(),
            other => other,
        }
    }
}

/// What a running job's task can use.
#[derive(Clone)]
pub(crate) struct JobContext {
    pub(super) state: Weak<State>,
    pub(crate) job: Arc<RunningJob>,
    /// When its progress was last recorded.
    pub(super) recorded: Arc<Mutex<Option<Instant>>>,
}

impl JobContext {
    /// Returns the service, or fails if it is gone.
    pub(crate) fn state(&self) -> Result<Arc<State>, JobError> {
        self.state.upgrade().ok_or(JobError::Interrupted)
    }

    /// Returns the name of the collection that the job is about.
    pub(crate) fn collection_name(&self) -> Result<&CollectionName, Error> {
        let nameless = || Error::JobState { id: self.job.id.clone(), problem: "it does not name a collection" };
        self.job.collection.as_ref().ok_or_else(nameless)
    }

    /// Returns the collection that the job was accepted for, even if its name or alias belongs to another one now.
    pub(crate) fn collection(&self, id: &CollectionId) -> Result<Arc<OpenCollection>, JobError> {
        let (state, name) = (self.state()?, self.collection_name()?);
        Ok(state.find_by_id(&id.0).ok_or_else(|| state.missing_error(name))?.usable()?)
    }

    /// Fails if the job should stop. A job calls this wherever it is able to stop.
    pub(crate) fn check(&self) -> Result<(), JobError> {
        if self.job.canceled.load(Ordering::Acquire) {
            return Err(JobError::Canceled);
        }
        let stopping = self.state.upgrade().is_none_or(|state| state.stopping.load(Ordering::Acquire));
        if stopping || self.job.interrupted.load(Ordering::Acquire) { Err(JobError::Interrupted) } else { Ok(()) }
    }

    /// Like `check`, for blocking work. Its caller checks again after the failure, to find out why the job should stop.
    pub(crate) fn check_not_stopped(&self) -> Result<(), Error> {
        self.check().map_err(|_| Error::Stopping)
    }

    /// Reads what other servers changed before this call.
    pub(crate) async fn sync_catalog(&self) -> Result<(), JobError> {
        Ok(Service { state: self.state()? }.sync_catalog().await?)
    }

    /// Brings this server's collections up to date with the catalog.
    pub(crate) async fn sync_names(&self) -> Result<(), JobError> {
        Ok(Service { state: self.state()? }.sync_names().await?)
    }

    /// Returns the replacement of a collection that the job works on.
    pub(crate) async fn replacement_of(&self, old: &OpenCollection) -> Result<Arc<OpenCollection>, JobError> {
        self.state()?.find_replacement(old).await?;
        let next = old.replacement.get().ok_or(StoreError::Replaced)?;
        self.check()?;
        Ok(next.reembedded())
    }

    /// Waits until a collection has recovered, because a job may resume while the server is starting. Fails if the collection
    /// cannot recover, or was deleted or replaced.
    pub(crate) async fn wait_until_recovered(&self, collection: &OpenCollection) -> Result<(), JobError> {
        loop {
            self.check()?;
            match collection.check_ready() {
                Ok(()) => return Ok(()),
                Err(_) if collection.is_deleted() => return Err(collection.not_found().into()),
                Err(damaged @ Error::Damaged { .. }) => return Err(damaged.into()),
                Err(_) => {
                    collection.check_not_restored_over()?;
                    self.pause(RECOVERY_PAUSE).await?;
                }
            }
        }
    }

    /// Works on a collection until the work ends: follows a re-embedding to the replacement, and waits while the storage is
    /// unavailable, but not forever for a broken file of the job. Each call of `work` begins at the last checkpoint. `waiting` is
    /// logged while it waits.
    pub(crate) async fn work_on<'c>(
        &'c self,
        mut collection: Arc<OpenCollection>,
        waiting: &'static str,
        work: impl Fn(Arc<OpenCollection>) -> BoxFuture<'c, Result<(), JobError>>,
    ) -> Result<(), JobError> {
        let (mut failures, mut checkpoint, folder) = (0, 0, self.state()?.job_dir(&self.job.id));
        let ended = loop {
            match work(Arc::clone(&collection)).await {
                Err(JobError::Failed(Error::Store(StoreError::Replaced))) => {
                    collection = self.replacement_of(&collection).await?;
                }
                Err(JobError::Failed(error))
                    if error.code() == Code::StorageUnavailable && !collection.failed_by_deletion(&error) =>
                {
                    let done = self.job.progress().0.done;
                    failures = if done > checkpoint { 0 } else { failures };
                    checkpoint = done;
                    if failures >= BROKEN_FILE_ATTEMPTS && is_broken_file(&error, &folder) {
                        break Err(error.into());
                    }
                    self.wait_for_storage(waiting, failures, &error).await?;
                    failures += 1;
                }
                ended => break ended,
            }
        };
        ended.map_err(|error| error.or_deleted(&collection))
    }

    /// Waits before another attempt at what the storage refused after `failures` other times. Logs `message` from time to time.
    pub(crate) async fn wait_for_storage(&self, message: &'static str, failures: u32, error: &Error) -> Result<(), JobError> {
        if (failures + 1).is_power_of_two() {
            tracing::warn!(job = %self.job.id, failures, error = with_causes(error), "{message}");
        }
        self.pause(retry_pause(STORAGE_PAUSE, STORAGE_PAUSE_MAX, failures)).await
    }

    /// Waits for `duration`. Fails as soon as the job should stop.
    pub(crate) async fn pause(&self, duration: Duration) -> Result<(), JobError> {
        tokio::select! {
            () = tokio::time::sleep(duration) => (),
            () = self.job.wake.notified() => (),
        }
        self.check()
    }

    /// Publishes progress and details to watchers, and records them in the catalog from time to time.
    pub(crate) async fn progress(&self, done: u64, details: &(impl Serialize + Sync)) -> Result<(), JobError> {
        self.job.progress.send_modify(|progress| {
            progress.done = done;
            progress.details = stored::write(details);
        });
        let due = self.recorded.lock().is_none_or(|recorded| recorded.elapsed() >= RECORD_PAUSE);
        if due {
            self.record().await?;
            *self.recorded.lock() = Some(Instant::now());
        }
        Ok(())
    }

    /// Publishes progress to watchers.
    pub(crate) fn set_done(&self, done: u64) {
        self.job.progress.send_modify(|progress| progress.done = done);
    }

    pub(crate) fn set_total(&self, total: u64) {
        self.job.progress.send_modify(|progress| progress.total = total);
    }

    /// Sets the total, and how much was already done when this run of the job began.
    pub(crate) fn measure(&self, done: u64, total: u64) {
        self.job.progress.send_modify(|progress| {
            progress.done = done;
            progress.total = total;
            progress.started = Some((Instant::now(), done));
        });
    }

    async fn record(&self) -> Result<(), JobError> {
        let job = Arc::clone(&self.job);
        Ok(self.state()?.run(move |state| state.record_progress(&job)).await?)
    }
}

/// Whether the disk failed to read or write a file in this folder.
fn is_broken_file(error: &Error, folder: &Path) -> bool {
    matches!(error, Error::File { path, source } if path.starts_with(folder) && is_disk_failure(source))
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;

    #[test]
    fn only_a_disk_failure_of_a_file_of_the_job_is_a_broken_file() {
        for (path, errno, expect) in [
            ("jobs/one/source", Errno::IO, true),
            ("jobs/one", Errno::IO, true),
            ("jobs/one/results", Errno::NOSPC, false),
            ("jobs/other/source", Errno::IO, false),
        ] {
            let error = Error::File { path: path.into(), source: errno.into() };
            assert_eq!(is_broken_file(&error, Path::new("jobs/one")), expect, "{path} {errno:?}");
        }
    }

    #[test]
    fn a_job_waits_for_a_broken_file_for_about_an_hour() {
        let pauses = (0..BROKEN_FILE_ATTEMPTS).map(|failures| retry_pause(STORAGE_PAUSE, STORAGE_PAUSE_MAX, failures));
        assert!((50 * 60..70 * 60).contains(&pauses.sum::<Duration>().as_secs()));
    }
}
