//! Defines what a job type consists of: an implementation of `JobKind` in the module of its resource, and a line in `with_kind`.

use std::path::Path;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::context::{JobContext, JobError};
use super::stored;
use crate::domain::{
    CollectionId, CollectionName, Job, JobFailure, JobId, JobProgress, JobStatus, JobType, JobUnit, KeyId, Metadata, Scope,
    with_causes,
};
use crate::service::error::Error;
use crate::service::state::State;
use crate::store::system_clock as now_ms;

/// A job type.
///
/// Only what has no default is required. The methods that remove something may run twice, because a crash can come before the
/// end of the job is recorded.
pub(crate) trait JobKind: Send + Sync + 'static {
    /// The name in the API and in the catalog.
    const TYPE: JobType;
    /// The scope that a key needs to start and cancel the job.
    const SCOPE: Scope;
    /// What its progress counts.
    const UNIT: JobUnit;
    /// What the job needs to run. The catalog stores it, so requests written by earlier versions must stay readable.
    type Request: Serialize + DeserializeOwned + Send;
    /// The job's initial details. It may add more while it runs.
    type Details: Serialize;

    /// Whether the job also needs the files in its folder, which only one server has.
    const NEEDS_FILES: bool = false;

    /// Returns what the job reveals. `collection` is the collection that the job is about, if it is about a single one.
    fn visibility(_request: &Self::Request, collection: Option<&CollectionName>) -> JobVisibility {
        JobVisibility::for_collection(collection)
    }

    /// Runs the job. If the server restarts in the meantime, or the job does not find its collection because a re-embedding has
    /// changed its id, it runs again.
    fn run(context: &JobContext, request: Self::Request) -> impl Future<Output = Result<(), JobError>> + Send;

    /// Removes files of a job that has ended, before its end is recorded, because recording takes disk space, too. If the job
    /// runs again after this, it must start over. Blocks.
    fn free_space(_state: &State, _id: &JobId, _request: &Self::Request) {}

    /// Whether an earlier run did everything, so that only the job's end is left to be recorded. Asked when the job is resumed,
    /// because later requests may change what it did. Blocks.
    fn is_done(_state: &State, _id: &JobId, _request: &Self::Request) -> Result<bool, Error> {
        Ok(false)
    }

    /// Returns the progress and the details at the last checkpoint, if the job has checkpoints. After a crash the catalog may
    /// lag behind. Also repairs what the crash left of the results, because the job may be canceled before it runs again.
    /// Blocks.
    fn at_checkpoint(_state: &State, _id: &JobId, _request: &Self::Request) -> Result<Option<(u64, Self::Details)>, Error> {
        Ok(None)
    }

    /// Records the job's end in the catalog, with its consequences there in the same transaction. Blocks.
    fn record_end(state: &State, id: &JobId, status: JobStatus, error: Option<&JobFailure>) -> Result<(), Error> {
        Ok(state.catalog.finish_job(id, status, error, now_ms())?)
    }

    /// Removes what the job keeps outside of its folder, after its end is recorded. Blocks.
    fn finish(_state: &State, _id: &JobId, _request: &Self::Request) {}

    /// Removes the files in the job's folder that are not needed after the job ended with this status. The others stay until
    /// the job is pruned. By default, keeps the files of a job that succeeded, and removes all others. Blocks.
    fn clean_up(folder: &Path, status: JobStatus) {
        if status != JobStatus::Succeeded {
            // Most jobs have no folder. If this fails, the next start tries again.
            let _ = std::fs::remove_dir_all(folder);
        }
    }

    /// Returns the collection that the job builds in a separate folder. After a restart, the job continues with that folder.
    fn builds_collection(_request: &Self::Request) -> Option<CollectionId> {
        None
    }
}

/// Which keys may access a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobAccess {
    /// The scope that a key needs to start and cancel such a job.
    pub scope: Scope,
    /// What the job reveals. A key may see the job only if it may access all of that.
    pub visibility: JobVisibility,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobVisibility {
    /// Nothing about any collection, so every key may see it.
    Server,
    /// Something about each of these collections. A restricted key may see the job if it may access all of them.
    Collections(Vec<CollectionName>),
    /// Something about each of these collections, and texts of the request. Among restricted keys, only the caller's own may
    /// see the job.
    Texts {
        collections: Vec<CollectionName>,
        /// The key of the caller, if it has one.
        caller: Option<KeyId>,
    },
    /// More than a restricted key may access, so only unrestricted keys may see it.
    Everything,
}

impl JobVisibility {
    /// Returns the visibility of a job about one collection. `None` stands for a job about several collections or none.
    pub(crate) fn for_collection(collection: Option<&CollectionName>) -> Self {
        collection.map_or(Self::Everything, |only| Self::Collections(vec![only.clone()]))
    }
}

/// Returns which keys may access a job. A job whose request cannot be read needs an unrestricted admin key.
pub(super) fn access<J: JobKind>(job: &Job) -> JobAccess {
    match stored::read(&job.id, &job.request) {
        Ok(request) => JobAccess { scope: J::SCOPE, visibility: J::visibility(&request, job.collection.as_ref()) },
        Err(_) => JobAccess { scope: Scope::Admin, visibility: JobVisibility::Everything },
    }
}

pub(super) fn run<'c, J: JobKind>(context: &'c JobContext, request: &'c Metadata) -> BoxFuture<'c, Result<(), JobError>> {
    async move { J::run(context, stored::read(&context.job.id, request)?).await }.boxed()
}

pub(super) fn is_done<J: JobKind>(state: &State, job: &Job) -> Result<bool, Error> {
    J::is_done(state, &job.id, &stored::read(&job.id, &job.request)?)
}

/// Returns the job with its progress and details by its last checkpoint, if it has one.
pub(super) fn at_checkpoint<J: JobKind>(state: &State, job: &Job) -> Result<Job, Error> {
    let checkpoint = J::at_checkpoint(state, &job.id, &stored::read(&job.id, &job.request)?)?;
    Ok(checkpoint.map_or_else(
        || job.clone(),
        |(done, details)| {
            let progress = JobProgress { done, ..job.progress };
            Job { progress, details: stored::write(&details), ..job.clone() }
        },
    ))
}

/// Reads a request, or logs that it is damaged. The files of a job with a damaged request stay until the job is pruned.
pub(super) fn read<J: JobKind>(id: &JobId, request: &Metadata) -> Option<J::Request> {
    let log = |error: &Error| tracing::warn!(job = %id, error = with_causes(error), "a job's request cannot be read");
    stored::read(id, request).inspect_err(log).ok()
}

/// Removes files of a job that has ended, and its folder if it is empty then.
pub(super) fn clean_up<J: JobKind>(folder: &Path, status: JobStatus) {
    J::clean_up(folder, status);
    // Fails if it is not empty.
    let _ = std::fs::remove_dir(folder);
}
