//! The end of a re-embedding: the last comparison, during which writes wait, and the swap.
//!
//! Writes through this server wait for a lock in memory. If several servers share a database, writes through the others wait
//! for the collection's row there, and then find that the collection was replaced. `collections::retiring` removes the replaced
//! collection.

use std::sync::Arc;

use super::copying::CollectionCopier;
use super::plan::ReembedPlan;
use crate::domain::{JobId, Sequence};
use crate::service::blocking::blocking;
use crate::service::error::Error;
use crate::service::folders::orphaned;
use crate::service::jobs::{JobContext, JobError};
use crate::service::open_collection::OpenCollection;
use crate::service::state::{CollectionEntry, State};
use crate::storage::{BlockedWrites, CatalogPart, Postgres};

pub(super) struct Pair {
    pub(super) old: Arc<OpenCollection>,
    pub(super) next: Arc<OpenCollection>,
}

/// Compares what changed after `seen` while writes wait, and swaps in the replacement.
pub(super) async fn swap(
    context: &JobContext,
    plan: &ReembedPlan,
    pair: Pair,
    copying: &mut CollectionCopier<'_>,
    seen: Sequence,
) -> Result<(), JobError> {
    // From here on, no new write to the old collection can begin.
    let locks = context.state()?.lock_for_replacement(std::slice::from_ref(&pair.old)).await;
    let old = Arc::clone(&pair.old);
    let blocked = blocking(move || Ok(old.server().map(Postgres::block_writes).transpose()?)).await?;
    copying.copy_changes(seen).await?;
    if !copying.is_equal().await? {
        // Something was deleted.
        copying.copy_all().await?;
    }
    if !copying.is_equal().await? {
        // The check may take long, so writes continue.
        drop((locks, blocked));
        return Err(different_counts(context, pair.old).await?.into());
    }
    context.check()?;
    let (state, plan, job) = (context.state()?, plan.clone(), context.job.id.clone());
    Ok(blocking(move || {
        let _waiting = locks;
        plan.activate_replacement(&state, &job, &pair, blocked)
    })
    .await?)
}

/// Makes the error for documents that could not be copied. Checks the database for damage.
async fn different_counts(context: &JobContext, old: Arc<OpenCollection>) -> Result<Error, Error> {
    let problem = "the collection and its replacement have different numbers of documents";
    let unequal = Error::JobState { id: context.job.id.clone(), problem };
    Ok(blocking(move || old.find_damage()).await?.unwrap_or(unequal))
}

impl ReembedPlan {
    /// Swaps in the replacement. No write to the old collection may run during the call. Waiting writes continue with the
    /// replacement. Blocks.
    fn activate_replacement(
        &self,
        state: &Arc<State>,
        job: &JobId,
        pair: &Pair,
        mut blocked: Option<BlockedWrites>,
    ) -> Result<(), Error> {
        state.check_running()?;
        let Pair { old, next } = pair;
        let name = &old.row.name;
        let indexes = blocked.as_mut().map_or_else(|| Ok(old.store.metadata_indexes()), BlockedWrites::metadata_indexes)?;
        if next.store.metadata_indexes() != indexes {
            next.store.set_metadata_indexes(indexes)?;
        }
        if let (Ok(old), Ok(next)) = (old.embedded(), next.embedded()) {
            let swapped = old.store.swap_state().map_err(|error| pair.old.report_damage(error.into()))?;
            next.store.swap_in(swapped)?;
        }
        orphaned::with_garbage_marks(std::slice::from_ref(&old.folder), || {
            state.change_catalog(CatalogPart::Names, || {
                let current = state.collections.read().get(name).and_then(CollectionEntry::open).cloned();
                if !current.is_some_and(|current| Arc::ptr_eq(&current, old)) {
                    return Err(state.missing_error(name));
                }
                let row = self.row(old);
                let is_there = match (state.catalog.shared(), &mut blocked) {
                    (Some(catalog), Some(blocked)) => catalog.swap_in(blocked, job, &old.row.id, &row)?,
                    _ => state.embedded_catalog()?.swap_in(&old.row.id, &row)?,
                };
                if !is_there {
                    return Err(state.missing_error(name));
                }
                next.set_current(row);
                state.collections.write().insert(name.clone(), CollectionEntry::Open(Arc::clone(next)));
                state.redirect_writes(old, next);
                Ok(())
            })
        })?;
        orphaned::unmark(&next.folder);
        state.start_worker(next);
        tracing::info!(collection = %name, model = self.model, id = %self.replacement, "collection re-embedded");
        Ok(())
    }
}
