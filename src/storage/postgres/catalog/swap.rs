//! Swaps in the replacement of a collection that was re-embedded.

use super::PostgresCatalog;
use super::versions;
use crate::domain::{Collection, CollectionId, JobId};
use crate::storage::postgres::changes::check_job;
use crate::storage::postgres::fault::Fault;
use crate::storage::postgres::replacing::BlockedWrites;
use crate::storage::postgres::session::{Parameter, Session};
use crate::storage::postgres::writing::NOW_MS;
use crate::store::{CatalogPart, StoreError, following_jobs};

impl PostgresCatalog {
    /// Replaces the collection `old`, whose writes are blocked, by `new`, in one transaction: its name, aliases and idempotency
    /// records, and the checkpoints of unfinished jobs. From then on, writes to the old collection fail with
    /// `StoreError::Replaced`. Fails with `StoreError::JobTakenOver` if another server has taken over the job. Returns whether
    /// the old collection existed.
    pub fn swap_in(
        &self,
        blocked: &mut BlockedWrites,
        job: &JobId,
        old: &CollectionId,
        new: &Collection,
    ) -> Result<bool, StoreError> {
        const OPERATION: &str = "replacing a collection";
        let swapped = blocked.run(OPERATION, |session, old_key| {
            let version = versions::increment(session, CatalogPart::Names, self.known_version(CatalogPart::Names))?;
            check_job(session, job, self.member.id())?;
            if rename(session, old, new)? == 0 {
                return Ok(None);
            }
            transfer_state(session, old_key, &new.id)?;
            let (old, new) = (&old.0, &new.id.0);
            let sql = "update dragoman.creations set answer = $2 where answer = $1";
            session.execute(sql, &[old, new])?;
            // A collection's id is a UUID, so an occurrence in a request always means the collection.
            let sql = format!(
                "update dragoman.jobs set request = replace(request, $1, $2)
                 where finished_at_ms is null and type in ({}) and strpos(request, $1) > 0",
                following_jobs()
            );
            session.execute(&sql, &[old, new])?;
            Ok(Some(version))
        })?;
        let Some(version) = swapped else { return Ok(false) };
        blocked.commit(OPERATION)?;
        self.set_known_version(CatalogPart::Names, version);
        Ok(true)
    }
}

/// Changes id and model in the catalog's row and in the aliases that point to it. Returns 0 if there is no such row.
fn rename(session: &mut Session, old: &CollectionId, new: &Collection) -> Result<u64, Fault> {
    // One statement, because the aliases must point to an existing row when it ends.
    let sql = "with renamed as (
                   update dragoman.catalog set id = $2, model = $3, model_fingerprint = $4, dimension = $5, passage_tokens_max = $6,
                       passage_overlap_tokens = $7 where id = $1 returning 1
               ), pointed as (update dragoman.aliases set collection = $2 where collection = $1)
               select count(*) from renamed";
    let (model, fingerprint) = new.model.as_ref().map_or(("", ""), |model| (model.name.as_str(), model.fingerprint.as_str()));
    let tokens_max = new.passages.map(|bounds| bounds.tokens_max as i64);
    let overlap = new.passages.map_or(0, |bounds| bounds.overlap_tokens as i64);
    session.query_number(sql, &[&old.0, &new.id.0, &model, &fingerprint, &(new.dimension as i64), &tokens_max, &overlap])
}

/// Copies sequence numbers, idempotency records and checkpoints from the old collection, which takes no more writes, to the new
/// one.
fn transfer_state(session: &mut Session, old_key: i64, new: &CollectionId) -> Result<(), Fault> {
    let (old, new) = (&old_key, &new.0);
    let sql = "update dragoman.collections n set sequence = greatest(n.sequence, o.sequence), job = null,
                   documents_drawn = greatest(n.documents_drawn, o.documents_drawn)
               from dragoman.collections o where o.key = $1 and n.id = $2 returning n.key";
    let new_key: i64 = session.value(sql, &[old, new])?.ok_or(StoreError::Closed)?;
    let both: [Parameter<'_>; 2] = [old, &new_key];
    let sql = "insert into dragoman.idempotency_records (collection, key, fingerprint, answer, created_at_ms)
               select $2, key, fingerprint, answer, created_at_ms from dragoman.idempotency_records where collection = $1
               order by number on conflict (collection, key) do nothing";
    session.execute(sql, &both)?;
    let sql = "insert into dragoman.job_checkpoints (collection, job, checkpoint)
               select $2, job, checkpoint from dragoman.job_checkpoints where collection = $1
               on conflict (collection, job) do nothing";
    session.execute(sql, &both)?;
    let sql = format!("update dragoman.collections set replaced_by = $2, replaced_at_ms = {NOW_MS} where key = $1");
    session.execute(&sql, &[old, new]).map(drop)
}
