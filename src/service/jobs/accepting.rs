//! Accepts jobs: stores them in the catalog, from where they survive a crash, and queues them.

use std::sync::Arc;

use tokio::sync::OwnedSemaphorePermit;

use super::kind::JobKind;
use super::new_job::{Folder, NewJob};
use super::running::RunningJob;
use crate::domain::{CollectionId, CollectionName, Job, JobId, Metadata, RequestKey};
use crate::service::error::Error;
use crate::service::state::{Service, State};
use crate::store::StoreError;
use crate::store::system_clock as now_ms;

impl Service {
    /// Reserves a place for a new job. Refuses it if too many jobs wait, or if the data directory is gone.
    pub(in crate::service) fn job_permit(&self) -> Result<OwnedSemaphorePermit, Error> {
        self.state.check_directory_seen()?;
        self.state.jobs.permit()
    }

    /// Returns the job that an earlier request with this key created, in its current state.
    async fn find_accepted_job(&self, request: Option<&RequestKey>) -> Result<Option<Job>, Error> {
        let Some(request) = request.cloned() else { return Ok(None) };
        self.state
            .run(move |state| match state.catalog.find_job_created_by(&request, now_ms())? {
                Some(id) => state.accepted_job(&id, &request).map(Some),
                None => Ok(None),
            })
            .await
    }

    /// Accepts a job. It is durable when this returns.
    pub(in crate::service) async fn submit_job<J: JobKind>(
        &self,
        permit: OwnedSemaphorePermit,
        new: NewJob<J>,
    ) -> Result<Job, Error> {
        self.submit(permit, new, None).await
    }

    /// Accepts the job that `prepared` returns. If an earlier request with this key created a job, returns that one in its
    /// current state instead.
    pub(in crate::service) async fn accept_job<J: JobKind>(
        &self,
        request: Option<RequestKey>,
        prepared: impl Future<Output = Result<NewJob<J>, Error>>,
    ) -> Result<Job, Error> {
        self.check_running()?;
        if let Some(job) = self.find_accepted_job(request.as_ref()).await? {
            return Ok(job);
        }
        let permit = self.job_permit()?;
        self.submit(permit, prepared.await?, request).await
    }

    async fn submit<J: JobKind>(
        &self,
        permit: OwnedSemaphorePermit,
        new: NewJob<J>,
        request: Option<RequestKey>,
    ) -> Result<Job, Error> {
        let (service, follows) = (self.clone(), J::follows(&new.request).cloned());
        let (job, folder) = new.into_job();
        // A caller that goes away does not stop this, so a stored job is always queued, and its folder stays.
        tokio::spawn(async move { service.store_and_queue(job, follows, request, (permit, folder)).await }).await?
    }

    async fn store_and_queue(
        &self,
        mut job: Job,
        mut follows: Option<CollectionId>,
        request: Option<RequestKey>,
        (permit, folder): (OwnedSemaphorePermit, Option<Folder>),
    ) -> Result<Job, Error> {
        loop {
            let (storing, collection, key) = (job.clone(), follows.clone(), request.clone());
            let stored = self.state.run(move |state| {
                state.check_directory()?;
                match (state.catalog.create_job(&storing, key.as_ref(), collection.as_ref())?, key) {
                    (Some(before), Some(key)) => state.accepted_job(&before, &key).map(Some),
                    _ => Ok(None),
                }
            });
            match (stored.await, &follows, &job.collection) {
                // A re-embedding that ended a moment ago did not see this job.
                (Err(Error::Store(StoreError::Replaced)), Some(old), Some(name)) => {
                    let current = self.id_after_swap(name).await?;
                    job.request = with_replaced_id(job.request, old, &current);
                    follows = Some(current);
                }
                (stored, ..) => {
                    if let Some(before) = stored? {
                        return Ok(before);
                    }
                    folder.into_iter().for_each(Folder::retain);
                    self.state.enqueue(Arc::new(RunningJob::new(&job, Some(permit))));
                    return Ok(job);
                }
            }
        }
    }

    /// Returns the id of a collection whose swap is in the catalog, but perhaps not in memory yet.
    async fn id_after_swap(&self, name: &CollectionName) -> Result<CollectionId, Error> {
        // A swap of this server holds the lock until it ends; those of other servers are read.
        drop(self.state.names_lock.lock().await);
        self.sync_catalog().await?;
        Ok(self.state.collection(name)?.row.id.clone())
    }
}

impl State {
    /// Returns the job that an earlier request with this key created.
    fn accepted_job(&self, id: &JobId, request: &RequestKey) -> Result<Job, Error> {
        match self.job(id) {
            Err(Error::JobNotFound { .. }) => Err(Error::CreatedAndGone { key: request.key().to_owned() }),
            found => found,
        }
    }
}

/// Returns a job's request for a collection whose id has changed. An id is a UUID, so it always means the collection.
fn with_replaced_id(request: Metadata, old: &CollectionId, current: &CollectionId) -> Metadata {
    request
        .into_iter()
        .map(|(name, value)| {
            let is_old = value.as_str() == Some(&old.0);
            (name, if is_old { current.0.clone().into() } else { value })
        })
        .collect()
}
