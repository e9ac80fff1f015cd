//! A job that is about to be accepted.

use uuid::Uuid;

use crate::domain::{CollectionName, JobId, JobType, JobUnit, Metadata};
use crate::service::error::Error;

/// A job to be accepted.
pub(crate) struct NewJob {
    /// The id.
    pub(crate) id: JobId,
    /// What it does.
    pub(crate) kind: JobType,
    /// What it is about.
    pub(crate) collection: Option<CollectionName>,
    /// What the type needs to run.
    pub(crate) request: Metadata,
    /// What it has to tell from the beginning.
    pub(crate) details: Metadata,
    /// What there is to be done in all.
    pub(crate) total: u64,
    /// What is counted.
    pub(crate) unit: JobUnit,
}

/// Makes an id for a new job.
pub(crate) fn new_job_id() -> Result<JobId, Error> {
    Ok(JobId::parse(&Uuid::now_v7().to_string())?)
}
