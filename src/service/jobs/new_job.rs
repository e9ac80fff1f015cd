//! A job that is about to be accepted.

use uuid::Uuid;

use super::kind::JobKind;
use crate::domain::{CollectionName, JobId, JobUnit};
use crate::service::error::Error;

/// A job to be accepted.
pub(crate) struct NewJob<J: JobKind> {
    /// The id.
    pub(crate) id: JobId,
    /// What it is about.
    pub(crate) collection: Option<CollectionName>,
    /// What it needs to run.
    pub(crate) request: J::Request,
    /// What it has to tell from the beginning.
    pub(crate) details: J::Details,
    /// What there is to be done in all.
    pub(crate) total: u64,
    /// What is counted.
    pub(crate) unit: JobUnit,
}

/// Makes an id for a new job.
pub(crate) fn new_job_id() -> Result<JobId, Error> {
    Ok(JobId::parse(&Uuid::now_v7().to_string())?)
}
