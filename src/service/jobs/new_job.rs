//! A job that is about to be accepted.

use std::sync::Arc;

use super::folder::Folder;
use super::kind::JobKind;
use super::stored;
use crate::domain::{CollectionName, Job, JobId, JobProgress, JobStatus};
use crate::new_id::new_uuid;
use crate::service::error::Error;
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
