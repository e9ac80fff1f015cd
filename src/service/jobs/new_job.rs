//! A job that is about to be accepted.

use super::kind::JobKind;
use crate::domain::{CollectionName, JobId, JobUnit};
use crate::new_id::new_uuid;
use crate::service::error::Error;

/// A job that is about to be accepted.
pub(crate) struct NewJob<J: JobKind> {
    pub(crate) id: JobId,
    /// The own name of the collection that it is about, if it is about a single one.
    pub(crate) collection: Option<CollectionName>,
    pub(crate) request: J::Request,
    /// Its initial details.
    pub(crate) details: J::Details,
    pub(crate) total: u64,
    pub(crate) unit: JobUnit,
}

pub(crate) fn new_job_id() -> Result<JobId, Error> {
    Ok(JobId::parse(&new_uuid().to_string())?)
}
