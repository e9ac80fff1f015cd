//! Accepts jobs: stores them in the catalog, from where they survive a crash, and queues them.

use std::sync::Arc;

use super::folder::Folder;
use super::kind::JobKind;
use super::new_job::NewJob;
use crate::domain::{CollectionId, Job, JobId, Metadata, RequestKey};
use crate::service::error::Error;
use crate::service::limits::shares::LimitShare;
use crate::service::open_collection::OpenCollection;
use crate::service::state::{Service, State};
use crate::store::system_clock as now_ms;
use crate::store::{FOLLOWING_JOBS, StoreError};

impl Service {
    /// Reserves a place for a new job. Refuses it if too many jobs wait, or if the data directory is gone.
    pub(in crate::service) fn job_permit(&self) -> Result<LimitShare, Error> {
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
    pub(in crate::service) async fn submit_job<J: JobKind>(&self, permit: LimitShare, new: NewJob<J>) -> Result<Job, Error> {
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

    async fn submit<J: JobKind>(&self, permit: LimitShare, new: NewJob<J>, request: Option<RequestKey>) -> Result<Job, Error> {
        debug_assert_eq!(new.follows.is_some(), FOLLOWING_JOBS.contains(&J::TYPE), "{}", J::TYPE.name());
        let mut follows = new.follows.clone();
        let (mut job, mut folder) = new.into_job();
        let mut permit = permit;
        loop {
            let (storing, collection, key) = (job.clone(), follows.clone(), request.clone());
            // A caller that goes away does not stop this, so a stored job is always queued, and its folder stays.
            let stored = self.state.run(move |state| {
                state.check_directory()?;
                let _reserved = state.jobs.reserve(&storing.id);
                let id = collection.as_ref().map(|collection| &collection.row.id);
                match (state.catalog.create_job(&storing, key.as_ref(), id), key) {
                    // A re-embedding has just replaced the collection, too early to pass on this job. Accept it for the
                    // replacement.
                    (Err(StoreError::Replaced), _) if id.is_some() => Ok(Err((permit, folder))),
                    (Ok(Some(before)), Some(key)) => state.accepted_job(&before, &key).map(Ok),
                    (Err(lost @ StoreError::ServerUnreachable { .. }), _) => {
                        // The job may have been stored. If so, `takeover` runs it.
                        folder.into_iter().for_each(|folder| state.jobs.keep_folder(&storing.id, folder));
                        Err(lost.into())
                    }
                    (stored, _) => {
                        stored?;
                        folder.into_iter().for_each(Folder::retain);
                        state.enqueue_new(&storing, permit);
                        Ok(Ok(storing))
                    }
                }
            });
            let unused = match stored.await? {
                Ok(job) => return Ok(job),
                Err(unused) => unused,
            };
            let old = follows.ok_or(StoreError::Replaced)?;
            let next = self.replacement_after_swap(&old).await?;
            job.request = with_replaced_id(job.request, &old.row.id, &next.row.id);
            ((permit, folder), follows) = (unused, Some(next));
        }
    }

    /// Returns the replacement of a collection that the catalog no longer has. Fails if it was not re-embedded, but deleted or
    /// replaced by a restore.
    async fn replacement_after_swap(&self, old: &Arc<OpenCollection>) -> Result<Arc<OpenCollection>, Error> {
        self.sync_names().await?;
        let next = old.reembedded();
        if next.row.id == old.row.id { Err(self.state.missing_error(&old.row.name)) } else { Ok(next) }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::{CollectionName, Limits, NewCollection};
    use crate::embed::Embedder;
    use crate::service::state::Parts;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_replacement_is_found_while_another_collection_is_being_swapped() {
        let folder = tempfile::tempdir().unwrap();
        let (data_dir, embedder) = (folder.path().to_owned(), Embedder::fake(64));
        let service = Service::open(Parts { data_dir, embedder, limits: Limits::default(), power_safe: false }).unwrap();
        let mut made = Vec::new();
        for name in ["old", "next"].map(|name| CollectionName::parse(name).unwrap()) {
            service.create_collection(NewCollection::new(name.clone()), None).await.unwrap();
            made.push(service.state.collection(&name).unwrap());
        }
        service.state.redirect_writes(&made[0], &made[1]);
        let _swapping = service.state.names_lock.lock().await;
        let found = tokio::time::timeout(Duration::from_secs(10), service.replacement_after_swap(&made[0])).await.unwrap();
        assert_eq!(found.unwrap().row.id, made[1].row.id);
    }
}
