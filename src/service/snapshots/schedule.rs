//! Makes snapshots of the whole server at regular intervals and copies them to a target. Makes none if the server has not
//! changed since the newest snapshot there. Failures are logged and counted, and retried after growing pauses.
//!
//! Until it has been copied, a snapshot stays in the data directory, and a file next to it records that it must be copied.
//! After a restart or a failure, the next attempt continues with that snapshot.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::watch;
use uuid::Uuid;

use super::schedule_meter::ScheduleMeter;
use crate::domain::{JobId, JobStatus, Page, SnapshotId, hex, with_causes};
use crate::new_id::new_dated_uuid;
use crate::service::error::Error;
use crate::service::folders::{AtPath, read_file, write_durably};
use crate::service::jobs::new_job_id;
use crate::service::retries;
use crate::service::state::{Service, State};
use crate::store::system_clock as now_ms;
use crate::targets::{StoredSnapshot, Target, TargetError};

/// The file that says which snapshot must be copied, in the folder of the snapshots.
const PENDING_COPY: &str = "scheduled-snapshot.json";
/// Pause after the first failure. It doubles with each further failure.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(3_600);

#[derive(Debug, Clone)]
pub struct SnapshotSchedule {
    pub target: Target,
    pub interval: Duration,
    /// Number of snapshots to keep at the target.
    pub keep: usize,
}

/// A snapshot that is not copied yet.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PendingCopy {
    snapshot: SnapshotId,
    fingerprint: String,
    /// The job that makes it. Files of earlier versions may lack it.
    job: Option<String>,
}

#[derive(Debug, thiserror::Error)]
enum ScheduleError {
    #[error("cannot make or finish a snapshot")]
    Service(#[from] Error),
    #[error("cannot copy a snapshot")]
    Target(#[from] TargetError),
    #[error("job {job}, which makes a snapshot, ended with status {}: {problem}", status.name())]
    Job { job: JobId, status: JobStatus, problem: String },
}

impl Service {
    /// Starts making snapshots until the server stops.
    pub fn schedule_snapshots(&self, schedule: SnapshotSchedule) {
        let (service, stop) = (self.clone(), self.state.stop_announced.subscribe());
        self.state.runtime.spawn(run(service, schedule, stop));
    }

    pub fn schedule_meter(&self) -> &ScheduleMeter {
        &self.state.schedule
    }
}

async fn run(service: Service, schedule: SnapshotSchedule, mut stop: watch::Receiver<bool>) {
    let work = async {
        let mut pause = first_pause(&schedule).await;
        let mut failures = 0;
        let meter = service.schedule_meter();
        loop {
            tokio::time::sleep(pause).await;
            let counter = match run_once(&service, &schedule).await {
                Ok(stored) => {
                    (failures, pause) = (0, schedule.interval);
                    meter.last_ms.store(now_ms(), Ordering::Relaxed);
                    if stored { &meter.stored } else { &meter.unchanged }
                }
                Err(error) => {
                    pause = retry_pause(failures, schedule.interval);
                    failures += 1;
                    let (target, error) = (schedule.target.name(), with_causes(&error));
                    tracing::warn!(target_name = target, failures, ?pause, error, "no scheduled snapshot; trying again");
                    &meter.failed
                }
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
    };
    tokio::select! {
        () = work => (),
        _ = stop.wait_for(|stop| *stop) => (),
    }
}

/// Returns the time until the newest snapshot at the target is as old as the interval. Returns zero if the target does not
/// answer, because the first attempt asks it again, and if that snapshot is from the future, because its age is unknown.
async fn first_pause(schedule: &SnapshotSchedule) -> Duration {
    let newest = schedule.target.list().await.ok().and_then(|mut stored| stored.pop());
    let age_ms = newest.map_or(i64::MAX, |newest| age_ms(&newest, now_ms()));
    schedule.interval.saturating_sub(Duration::from_millis(u64::try_from(age_ms).unwrap_or(u64::MAX)))
}

/// Returns the age of a snapshot, which is negative if it is from the future. A snapshot that is dated after an earlier one from
/// the future still has the time of its creation in its id.
fn age_ms(snapshot: &StoredSnapshot, now_ms: i64) -> i64 {
    if snapshot.created_at_ms <= now_ms {
        return now_ms.saturating_sub(snapshot.created_at_ms);
    }
    let in_id = Uuid::try_parse(snapshot.snapshot.as_str()).ok().and_then(|id| id.get_timestamp());
    let created_at_ms = in_id.map_or(snapshot.created_at_ms, |time| {
        let (seconds, nanoseconds) = time.to_unix();
        let milliseconds = Duration::new(seconds, nanoseconds).as_millis();
        i64::try_from(milliseconds).unwrap_or(i64::MAX)
    });
    now_ms.saturating_sub(created_at_ms)
}

/// Returns the pause after a failure that followed `failures` other ones.
fn retry_pause(failures: u32, interval: Duration) -> Duration {
    retries::retry_pause(RETRY_PAUSE, RETRY_PAUSE_MAX.min(interval), failures)
}

/// Makes sure that the target has the current state of the server. Returns whether this needed a snapshot.
async fn run_once(service: &Service, schedule: &SnapshotSchedule) -> Result<bool, ScheduleError> {
    let target = &schedule.target;
    let newest = target.list().await?.pop();
    let pending = match find_unfinished(service).await? {
        Some(pending) => pending,
        None => {
            let fingerprint = service.state.run(move |state| state.fingerprint()).await?;
            if newest.as_ref().is_some_and(|newest| newest.fingerprint == fingerprint) {
                return Ok(false);
            }
            create_snapshot(service, fingerprint).await?
        }
    };
    match copy(service, &pending, target, newest.as_ref()).await {
        // Otherwise, each later attempt would fail, too.
        Err(
            damaged
            @ (ScheduleError::Service(Error::InvalidSnapshot { .. }) | ScheduleError::Target(TargetError::Damaged { .. })),
        ) => {
            delete(service, &pending).await?;
            return Err(damaged);
        }
        copied => copied?,
    }
    target.prune(schedule.keep).await?;
    delete(service, &pending).await?;
    tracing::info!(snapshot = %pending.snapshot, target_name = target.name(), "stored a scheduled snapshot");
    Ok(true)
}

async fn copy(
    service: &Service,
    pending: &PendingCopy,
    target: &Target,
    newest: Option<&StoredSnapshot>,
) -> Result<(), ScheduleError> {
    let snapshot = service.get_snapshot(&pending.snapshot).await?;
    let (archive, _) = service.open_snapshot(&pending.snapshot).await?;
    let about = StoredSnapshot::new(&snapshot, pending.fingerprint.clone()).dated_after(newest);
    Ok(target.put(&about, archive).await?)
}

/// Deletes a snapshot from the data directory, and the file that says that it must be copied.
async fn delete(service: &Service, pending: &PendingCopy) -> Result<(), Error> {
    match service.delete_snapshot(&pending.snapshot).await {
        Err(Error::SnapshotNotFound { .. }) => (),
        deleted => deleted?,
    }
    let path = pending_copy_path(service);
    std::fs::remove_file(&path).at(&path)
}

/// Returns the snapshot of an earlier attempt that is not copied yet, if any. Waits for its job first.
async fn find_unfinished(service: &Service) -> Result<Option<PendingCopy>, ScheduleError> {
    let Some(pending) = read_pending_copy(service)? else { return Ok(None) };
    if let Some(job) = pending.job.as_deref().and_then(|job| JobId::parse(job).ok()) {
        match wait_for_job(service, &job).await {
            Ok(()) | Err(ScheduleError::Job { .. } | ScheduleError::Service(Error::JobNotFound { .. })) => (),
            Err(error) => return Err(error),
        }
    }
    match service.get_snapshot(&pending.snapshot).await {
        Ok(_) | Err(Error::InvalidSnapshot { .. }) => Ok(Some(pending)),
        Err(Error::SnapshotNotFound { .. }) => {
            // A deletion that was interrupted may have left the archive.
            delete(service, &pending).await?;
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

async fn create_snapshot(service: &Service, fingerprint: String) -> Result<PendingCopy, ScheduleError> {
    let snapshot = SnapshotId::parse(&new_dated_uuid().to_string()).map_err(Error::from)?;
    let job = new_job_id()?;
    // Written before the job starts, so that after a crash the next attempt finds the job or its snapshot.
    let pending = PendingCopy { snapshot, fingerprint, job: Some(job.as_str().to_owned()) };
    write_pending_copy(service, &pending)?;
    service.create_snapshot_as(job.clone(), pending.snapshot.clone(), Vec::new()).await?;
    wait_for_job(service, &job).await?;
    Ok(pending)
}

async fn wait_for_job(service: &Service, job: &JobId) -> Result<(), ScheduleError> {
    let mut watch = service.watch_job(job).await?;
    let mut last = None;
    while let Some(job) = watch.next().await? {
        last = Some(job);
    }
    match last {
        Some(job) if job.status == JobStatus::Succeeded => Ok(()),
        Some(job) => {
            let problem = job.error.map_or_else(|| "no reason".to_owned(), |failure| failure.detail);
            Err(ScheduleError::Job { job: job.id, status: job.status, problem })
        }
        None => Err(Error::Stopping.into()),
    }
}

fn pending_copy_path(service: &Service) -> PathBuf {
    service.state.snapshots_dir().join(PENDING_COPY)
}

fn read_pending_copy(service: &Service) -> Result<Option<PendingCopy>, Error> {
    let path = pending_copy_path(service);
    let text = match read_file(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.at(&path)?,
    };
    let log = |error: &serde_json::Error| {
        let path = path.display();
        tracing::warn!(%path, %error, "the file that names a snapshot to copy is damaged; that snapshot stays here");
    };
    Ok(serde_json::from_slice(&text).inspect_err(log).ok())
}

fn write_pending_copy(service: &Service, pending: &PendingCopy) -> Result<(), Error> {
    let path = pending_copy_path(service);
    let json = serde_json::to_vec(pending).map_err(std::io::Error::other);
    json.and_then(|json| write_durably(&path, &json)).at(&path)?;
    service.state.sync_snapshots()
}

impl State {
    /// Computes a hash that is equal for two states of the server if their snapshots would have the same content. Blocks.
    fn fingerprint(&self) -> Result<String, Error> {
        let mut hash = Sha256::new();
        for collection in self.collections_to_snapshot(&[])? {
            let (row, indexes) = (collection.current(), collection.store.metadata_indexes());
            let sequence = collection.with_store(|store| store.sequence())?;
            hash.update(format!("{row:?} {indexes:?} {sequence:?} {}", collection.identity));
        }
        let all = Page { limit: usize::MAX, after: None };
        hash.update(format!("{:?} {:?}", self.catalog.aliases()?, self.catalog.classifiers(&all)?));
        Ok(hex(&hash.finalize()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tempfile::TempDir;

    use super::*;
    use crate::domain::Limits;
    use crate::embed::Embedder;
    use crate::service::snapshots::DESCRIPTION;
    use crate::service::state::Parts;

    /// A service with a schedule, and the folders of its data and of its copies.
    fn scheduled() -> (TempDir, Service, TempDir, SnapshotSchedule) {
        let [data, copies] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let (data_dir, embedder) = (data.path().to_owned(), Embedder::fake(64));
        let service = Service::open(Parts { data_dir, embedder, limits: Limits::default(), power_safe: false }).unwrap();
        let target = Target::open(copies.path().to_str().unwrap(), None).unwrap();
        let schedule = SnapshotSchedule { target, interval: Duration::from_secs(3_600), keep: 1 };
        (data, service, copies, schedule)
    }

    #[tokio::test]
    async fn the_first_pause_ends_when_the_newest_snapshot_is_due() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::open(folder.path().to_str().unwrap(), None).unwrap();
        let schedule = SnapshotSchedule { target, interval: Duration::from_secs(3_600), keep: 1 };
        assert_eq!(first_pause(&schedule).await, Duration::ZERO, "there is none");
        let (young, old, of_the_future) = (3_000, 4_000, -7_200);
        for (dated, made, expect_s) in [
            (young, young, 590..=600),
            (old, old, 0..=0),
            (of_the_future, of_the_future, 0..=0),
            // The clock was set back before it was made.
            (of_the_future, young, 590..=600),
            (of_the_future, old, 0..=0),
        ] {
            let made_at = u64::try_from(now_ms() / 1_000 - made).unwrap();
            let id = Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, made_at, 0));
            let about = json!({
                "format": 1, "snapshot": id.to_string(), "created_at_ms": now_ms() - dated * 1_000, "server_version": "1",
                "collections": [], "archive_bytes": 0, "archive_sha256": "", "fingerprint": "",
            });
            let path = folder.path().join(format!("{id}.json"));
            std::fs::write(&path, about.to_string()).unwrap();
            let pause = first_pause(&schedule).await;
            assert!(expect_s.contains(&pause.as_secs()), "dated {dated} s and made {made} s ago: {pause:?}");
            std::fs::remove_file(path).unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_snapshot_that_was_damaged_before_it_was_copied_is_made_again() {
        let (_data, service, _copies, schedule) = scheduled();
        for damage in ["", "not an archive"] {
            let pending = create_snapshot(&service, damage.to_owned()).await.unwrap();
            let archive = service.state.snapshot_archive(&pending.snapshot);
            if damage.is_empty() { std::fs::remove_file(archive) } else { std::fs::write(archive, damage) }.unwrap();
            run_once(&service, &schedule).await.unwrap_err();
        }
        assert!(run_once(&service, &schedule).await.unwrap());
        assert_eq!(schedule.target.list().await.unwrap().len(), 1);
        assert_eq!(std::fs::read_dir(service.state.snapshots_dir()).unwrap().count(), 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_interrupted_deletion_of_a_copied_snapshot_is_completed() {
        let (_data, service, _copies, schedule) = scheduled();
        let pending = create_snapshot(&service, String::new()).await.unwrap();
        copy(&service, &pending, &schedule.target, None).await.unwrap();
        std::fs::remove_file(service.state.snapshot_file(&pending.snapshot, DESCRIPTION)).unwrap();
        run_once(&service, &schedule).await.unwrap();
        assert_eq!(std::fs::read_dir(service.state.snapshots_dir()).unwrap().count(), 0);
    }

    #[test]
    fn retry_pauses_double_up_to_the_maximum_or_the_interval() {
        let day = Duration::from_secs(86_400);
        let pauses: Vec<u64> = (0..9).map(|failures| retry_pause(failures, day).as_secs()).collect();
        assert_eq!(pauses, [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
        assert_eq!(retry_pause(u32::MAX, day), RETRY_PAUSE_MAX);
        assert_eq!(retry_pause(3, Duration::from_secs(1)), Duration::from_secs(1));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_other_snapshot_is_made_while_the_file_that_names_the_unfinished_one_cannot_be_read() {
        let (_data, service, _copies, schedule) = scheduled();
        let pending = create_snapshot(&service, String::new()).await.unwrap();
        let path = pending_copy_path(&service);
        std::fs::remove_file(&path).unwrap();
        // A folder cannot be read as a file, not even by root.
        std::fs::create_dir(&path).unwrap();
        let error = run_once(&service, &schedule).await.unwrap_err();
        assert!(matches!(&error, ScheduleError::Service(Error::File { path: named, .. }) if *named == path), "{error:?}");
        std::fs::remove_dir(&path).unwrap();
        write_pending_copy(&service, &pending).unwrap();
        assert!(run_once(&service, &schedule).await.unwrap());
        assert_eq!(schedule.target.list().await.unwrap()[0].snapshot, pending.snapshot);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_snapshot_is_made_although_the_file_that_names_an_unfinished_one_is_damaged() {
        let (_data, service, _copies, schedule) = scheduled();
        std::fs::write(pending_copy_path(&service), "{").unwrap();
        assert!(run_once(&service, &schedule).await.unwrap());
        assert_eq!(schedule.target.list().await.unwrap().len(), 1);
    }
}
