//! A job that is about to be accepted.

use uuid::Uuid;

use super::kind::JobKind;
use crate::domain::{CollectionName, JobId, JobUnit};
use crate::service::error::Error;

/// A job that is about to be accepted.
pub(crate) struct NewJob<J: JobKind> {
    pub(crate) id: JobId,
    /// The own name of the collection that it is about, if it is about a single one.
    pub(crate) collection: Option<CollectionName>,
    /// What the job needs to run.
    pub(crate) request: J::Request,
    /// Its initial details.
    pub(crate) details: J::Details,
    /// The total of its progress.
    pub(crate) total: u64,
    /// The unit of its progress.
    pub(crate) unit: JobUnit,
}

/// Makes an id for a new job.
pub(crate) fn new_job_id() -> Result<JobId, Error> {
    Ok(JobId::parse(&Uuid::now_v7().to_string())?)
}
