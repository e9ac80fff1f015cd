//! A new job.

use uuid::Uuid;

use super::kind::JobKind;
use crate::domain::{CollectionName, JobId, JobUnit};
use crate::service::error::Error;

/// A job to be accepted.
pub(crate) struct NewJob<J: JobKind> {
    pub(crate) id: JobId,
    /// What it is about.
    pub(crate) collection: Option<CollectionName>,
    /// What is needed to run it.
    pub(crate) request: J::Request,
    /// Its first details.
    pub(crate) details: J::Details,
    /// The total of its progress.
    pub(crate) total: u64,
    /// What its progress counts.
    pub(crate) unit: JobUnit,
}

/// Makes an id for a new job.
pub(crate) fn new_job_id() -> Result<JobId, Error> {
    Ok(JobId::parse(&Uuid::now_v7().to_string())?)
}
