//! A job that is about to be accepted, and the folder of its files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::kind::JobKind;
use super::stored;
use crate::domain::{CollectionName, Job, JobId, JobProgress, JobStatus};
use crate::new_id::new_uuid;
use crate::service::error::Error;
use crate::service::folders::{AtPath, sync_dir};
use crate::service::open_collection::OpenCollection;
use crate::store::system_clock as now_ms;

/// A job that is about to be accepted.
pub(crate) struct NewJob<J: JobKind> {
    pub(crate) id: JobId,
    /// The own name of the collection that it is about, if it is about a single one.
    pub(crate) collection: Option<CollectionName>,
    pub(crate) request: J::Request,
    /// Its initial details.
    pub(crate) details: J::Details,
    pub(crate) total: u64,
    /// The folder of its files, if it has any.
    pub(crate) folder: Option<Folder>,
    /// The collection of its request that the job works on also after a re-embedding, if its type is one of `FOLLOWING_JOBS`.
    pub(crate) follows: Option<Arc<OpenCollection>>,
}

impl<J: JobKind> NewJob<J> {
    /// Makes the row of the catalog, and returns the folder with it.
    pub(crate) fn into_job(self) -> (Job, Option<Folder>) {
        let Self { id, collection, request, details, total, folder, follows: _ } = self;
        let job = Job {
            id,
            kind: J::TYPE,
            status: JobStatus::Queued,
            collection,
            request: stored::write(&request),
            details: stored::write(&details),
            progress: JobProgress { done: 0, total, unit: J::UNIT, rate: None, eta_s: None },
            error: None,
            cancel_requested: false,
            created_at_ms: now_ms(),
            started_at_ms: None,
            finished_at_ms: None,
        };
        (job, folder)
    }
}

pub(crate) fn new_job_id() -> Result<JobId, Error> {
    Ok(JobId::parse(&new_uuid().to_string())?)
}

/// The folder for a new job's files. Dropping it removes the folder, unless the job was accepted.
pub(crate) struct Folder {
    path: PathBuf,
    retained: bool,
}

impl Folder {
    pub(crate) fn create(path: PathBuf) -> Result<Self, Error> {
        std::fs::create_dir(&path).at(&path)?;
        path.parent().map_or(Ok(()), sync_dir).at(&path)?;
        Ok(Self { path, retained: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Retains the folder, because the job was accepted.
    pub(crate) fn retain(mut self) {
        self.retained = true;
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.retained {
            // If this fails, the next start removes it.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
