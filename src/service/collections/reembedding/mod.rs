//! Re-embedding: moves a collection to the server's model, with passages split by the current rules and, if requested, within
//! other bounds.
//!
//! The job builds a replacement under a separate id: the same documents with new passages, embeddings and index. Meanwhile the
//! collection is served as before. `copying` compares the two until they are equal. Writes wait during the last comparison.
//! Then one catalog transaction swaps in the replacement with its id, model and dimension (`swapping`), and searches use it at
//! once. So whenever a process is killed, the collection is either entirely old or entirely new. An unfinished job continues
//! with the same replacement, also on another server of the same database. A job that ends without success removes it.

mod copying;
mod plan;
mod swapping;

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::domain::{CollectionCounts, CollectionId, Job, JobId, JobType, JobUnit, PassageBounds, Scope, chain, with_causes};
use crate::new_id::new_uuid;
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::handle::CollectionHandle;
use crate::service::jobs::{JobContext, JobError, JobKind, NewJob, new_job_id};
use crate::service::mining::memory;
use crate::service::open_collection::OpenCollection;
use crate::service::snapshots::restore::build_index;
use crate::service::state::State;
use crate::store::StoreError;
use copying::CollectionCopier;
use plan::ReembedPlan;
use swapping::{Pair, swap};

/// Pause before another attempt when the database server is unreachable.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Bytes of a passage in a database besides its embedding and its text: its row, its terms, its entries in indexes.
const PASSAGE_BYTES: u64 = 400;

pub(crate) struct ReembedJob;

#[derive(Debug, Serialize)]
pub(crate) struct ReembedDetails {
    from_model: String,
    from_model_fingerprint: String,
    to_model: String,
    to_model_fingerprint: String,
    memory_bytes: u64,
    disk_bytes: u64,
}

impl CollectionHandle {
    /// Accepts a job that re-embeds all texts with the loaded model, split within `bounds` or as before. The collection is
    /// unchanged until the job has succeeded. Refuses a collection that has this model and was split within the same bounds and
    /// by the current rules.
    pub async fn reembed(&self, bounds: Option<PassageBounds>) -> Result<Job, Error> {
        let (service, collection) = (&self.service, self.open());
        service.check_running()?;
        let loaded = service.model();
        let row = &collection.row;
        let Some(current) = &row.model else {
            return Err(Error::NoModel { collection: row.name.clone(), dimension: row.dimension });
        };
        let before = fit_bounds(row.passages, loaded.tokens_max);
        let bounds = bounds.unwrap_or(before);
        if current.fingerprint == loaded.fingerprint && bounds == before {
            let older = |collection: &Arc<OpenCollection>| Ok(collection.store.counts()?.cut_by_older_rules);
            if !collection.run(older).await? {
                return Err(Error::ModelCurrent { collection: row.name.clone(), model: current.name.clone() });
            }
        }
        let plan = ReembedPlan {
            collection_id: row.id.clone(),
            replacement: CollectionId(new_uuid().to_string()),
            model: loaded.name.clone(),
            model_fingerprint: loaded.fingerprint.clone(),
            dimension: loaded.dimension,
            tokens_max: bounds.tokens_max,
            overlap_tokens: bounds.overlap_tokens,
        };
        let permit = service.job_permit()?;
        // Held so that no other job for the same collection is accepted in the meantime.
        let _naming = service.state.names_lock.lock().await;
        let (state, id) = (Arc::clone(&service.state), plan.collection_id.clone());
        let counts = collection.run(move |collection| {
            if let Some(job) = state.reembedding(&id)? {
                return Err(Error::AlreadyReembedding { collection: collection.row.name.clone(), job });
            }
            Ok(collection.store.counts()?)
        });
        let counts = counts.await?;
        let passages = estimate_passages(counts.passages, before, bounds);
        let (memory_bytes, disk_bytes) = check_resources(&service.state, &collection, (&counts, passages), plan.dimension)?;
        let details = ReembedDetails {
            from_model: current.name.clone(),
            from_model_fingerprint: current.fingerprint.clone(),
            to_model: plan.model.clone(),
            to_model_fingerprint: plan.model_fingerprint.clone(),
            memory_bytes,
            disk_bytes,
        };
        let (id, total) = (new_job_id()?, counts.documents);
        let (name, collection_id) = (row.name.clone(), plan.collection_id.clone());
        let new = NewJob { id, collection: Some(name.clone()), request: plan, details, total, folder: None, follows: None };
        match service.submit_job::<ReembedJob>(permit, new).await {
            // Another server has just accepted such a job.
            Err(Error::Store(StoreError::JobUnfinished)) => {
                let job = service.state.run(move |state| state.reembedding(&collection_id)).await?;
                Err(job.map_or(StoreError::JobUnfinished.into(), |job| Error::AlreadyReembedding { collection: name, job }))
            }
            submitted => submitted,
        }
    }
}

/// Estimates the number of passages within new bounds from their number within the previous ones, assuming that all are full.
fn estimate_passages(passages: u64, before: PassageBounds, bounds: PassageBounds) -> u64 {
    let of_text = |bounds: PassageBounds| bounds.tokens_max.saturating_sub(bounds.overlap_tokens).max(1) as u64;
    let (before, after) = (of_text(before), of_text(bounds));
    passages.saturating_mul(before.max(after)).div_ceil(after)
}

/// Returns the memory and disk space that the job needs for this many passages, or an error if there is too little. The free
/// space of a database server is unknown, so it is not checked. Blocks.
fn check_resources(
    state: &State,
    collection: &OpenCollection,
    (counts, passages): (&CollectionCounts, u64),
    dimension: usize,
) -> Result<(u64, u64), Error> {
    let embeddings = passages.saturating_mul(dimension as u64 * 4 + PASSAGE_BYTES);
    let Ok(embedded) = collection.embedded() else { return Ok((0, counts.disk_bytes.saturating_add(embeddings))) };
    let memory_bytes = memory::index_bytes(passages, dimension);
    memory::check_free(memory_bytes)?;
    let disk_bytes = embedded.store.bytes().saturating_add(embeddings).saturating_add(memory_bytes);
    state.check_disk_space(disk_bytes)?;
    Ok((memory_bytes, disk_bytes))
}

/// Returns the passage bounds for a model that reads `tokens_max` tokens: the previous ones, reduced if they are too large.
fn fit_bounds(before: Option<PassageBounds>, tokens_max: usize) -> PassageBounds {
    let adjacent = PassageBounds::adjacent(tokens_max);
    before.map_or(adjacent, |before| {
        let tokens_max = before.tokens_max.min(tokens_max);
        PassageBounds { tokens_max, overlap_tokens: before.overlap_tokens.min(tokens_max / 2) }
    })
}

impl JobKind for ReembedJob {
    const TYPE: JobType = JobType::Reembed;
    const SCOPE: Scope = Scope::Admin;
    const UNIT: JobUnit = JobUnit::Documents;
    type Request = ReembedPlan;
    type Details = ReembedDetails;

    /// Builds the replacement and swaps it in. Waits while the database server is unreachable.
    async fn run(context: &JobContext, plan: ReembedPlan) -> Result<(), JobError> {
        loop {
            match build(context, &plan).await {
                Err(JobError::Failed(Error::Store(error))) if is_retryable(&error) && context.state()?.server.is_some() => {
                    let cause = chain(&error);
                    tracing::warn!(job = %context.job.id, cause, "a re-embedding was interrupted; it continues");
                    context.pause(RETRY_PAUSE).await?;
                }
                ended => return ended,
            }
        }
    }

    fn is_done(state: &State, _: &JobId, plan: &ReembedPlan) -> Result<bool, Error> {
        Ok(state.collection_by_id(&plan.replacement.0).is_some())
    }

    fn free_space(state: &State, _: &JobId, plan: &ReembedPlan) {
        plan.remove_leftovers(state);
    }

    fn finish(state: &State, _: &JobId, plan: &ReembedPlan) {
        plan.remove_leftovers(state);
    }

    fn builds_collection(plan: &ReembedPlan) -> Option<CollectionId> {
        plan.builds_collection()
    }
}

fn is_retryable(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::ServerUnreachable { .. }
            | StoreError::Interrupted { .. }
            | StoreError::CatalogChanged
            | StoreError::WentBack { .. }
    )
}

/// Builds the replacement, continuing from an earlier attempt, and swaps it in.
async fn build(context: &JobContext, plan: &ReembedPlan) -> Result<(), JobError> {
    context.sync_catalog().await?;
    let Some(old) = plan.collection(context)? else {
        // The process ended after the swap, before the job was recorded as done.
        return Ok(());
    };
    let (opening, source, state, job) = (plan.clone(), Arc::clone(&old), context.state()?, context.job.id.clone());
    let next = blocking(move || opening.open(&state, &job, &source)).await?;
    let pair = Pair { old: Arc::clone(&old), next: Arc::clone(&next) };
    let replaced = replace(context, plan, pair).await;
    if let Err(error) = &replaced {
        let goes_on = matches!(error, JobError::Interrupted);
        blocking(move || {
            close(&next, goes_on);
            Ok(())
        })
        .await?;
    }
    if matches!(replaced, Err(JobError::Failed(_))) {
        context.sync_catalog().await?;
    }
    if matches!(replaced, Err(JobError::Failed(Error::Store(StoreError::Closed)))) && still_exists(&old).await {
        return Err(StoreError::WentBack { operation: "re-embedding a collection" }.into());
    }
    replaced.map_err(|error| error.or_deleted(&old))
}

/// Whether the database server still has the rows of a collection. If it has lost only those of the replacement, it has failed
/// over to a replica that lagged behind.
async fn still_exists(old: &Arc<OpenCollection>) -> bool {
    let reading = Arc::clone(old);
    old.is_shared() && !old.is_deleted() && blocking(move || Ok(reading.store.sequence()?)).await.is_ok()
}

async fn replace(context: &JobContext, plan: &ReembedPlan, pair: Pair) -> Result<(), JobError> {
    let Pair { old, next } = &pair;
    build_index(context, Arc::clone(next)).await?;
    let mut copying = CollectionCopier::begin(context, old, next).await?;
    let mut seen = copying.copy_all().await?;
    let saving = Arc::clone(next);
    blocking(move || saving.save()).await?;
    // Copies what changed in the meantime, twice, so that the comparison during which writes wait has little to do.
    seen = copying.copy_changes(seen).await?;
    if !copying.is_equal().await? {
        // Something was deleted.
        seen = copying.copy_all().await?;
    }
    seen = copying.copy_changes(seen).await?;
    swap(context, plan, pair, &mut copying, seen).await
}

/// Closes a replacement that was not swapped in. Blocks.
fn close(next: &OpenCollection, goes_on: bool) {
    next.stop();
    // Without a saved index, the next run would rebuild it from the embeddings.
    let saved = if goes_on { next.save() } else { Ok(()) };
    if let Err(error) = saved.and(next.store.close().map_err(Error::from)) {
        tracing::warn!(collection = %next.row.name, error = with_causes(&error), "cannot close an unfinished collection");
    }
}

impl State {
    /// Returns the unfinished job that re-embeds the collection with this id. Blocks.
    fn reembedding(&self, collection: &CollectionId) -> Result<Option<JobId>, Error> {
        self.find_unfinished::<ReembedJob>(|_, plan| plan.collection_id == *collection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrower_passage_bounds_raise_the_estimated_passage_count() {
        let bounds = |tokens_max, overlap_tokens| PassageBounds { tokens_max, overlap_tokens };
        for (before, after, expect) in [
            (bounds(120, 0), bounds(60, 0), 20),
            (bounds(120, 0), bounds(120, 60), 20),
            (bounds(120, 0), bounds(100, 0), 12),
            (bounds(60, 0), bounds(120, 0), 10),
        ] {
            assert_eq!(estimate_passages(10, before, after), expect, "{before:?} {after:?}");
        }
    }
}
