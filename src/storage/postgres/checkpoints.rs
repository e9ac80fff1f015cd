//! Checkpoints of jobs. A job stores each one in the transaction of its batch.
//!
//! A failover to a replica that lagged behind loses the last transactions. Then the database is at an earlier checkpoint, and
//! lacks batches that the running job has counted as stored. So each checkpoint must follow the one that this server stored last.

use super::changes::check_owner;
use super::fault::Fault;
use super::partition::Postgres;
use super::writing::Writing;
use crate::domain::JobId;
use crate::store::StoreError;

impl Postgres {
    /// Runs a job's write and stores the checkpoint that follows it in the same transaction. Fails with `StoreError::WentBack` if
    /// the database no longer has the checkpoint before it.
    pub(super) fn write_for_job<T>(
        &self,
        operation: &'static str,
        job: &JobId,
        checkpoint: impl FnOnce(&[T]) -> String,
        work: impl FnOnce(&mut Writing<'_>) -> Result<Vec<T>, Fault>,
    ) -> Result<Vec<T>, StoreError> {
        // After a failure, the job continues from whatever checkpoint the database has.
        let before = self.checkpoints.lock().remove(job);
        let (outcomes, stored) = self.write_patiently(operation, |writing| {
            check_owner(writing, job)?;
            let outcomes = work(writing)?;
            let checkpoint = checkpoint(&outcomes);
            let Some(before) = before else {
                store_checkpoint(writing, job, &checkpoint)?;
                return Ok((outcomes, checkpoint));
            };
            let sql =
                "update dragoman.job_checkpoints set checkpoint = $4 where collection = $1 and job = $2 and checkpoint = $3";
            match writing.session.execute(sql, &[&writing.key, &job.as_str(), &before, &checkpoint])? {
                0 => Err(StoreError::WentBack { operation }.into()),
                _ => Ok((outcomes, checkpoint)),
            }
        })?;
        self.checkpoints.lock().insert(job.clone(), stored);
        Ok(outcomes)
    }

    /// Fails with `StoreError::WentBack` if the database no longer has the checkpoint that this server stored last.
    pub fn check_last_checkpoint(&self, job: &JobId) -> Result<(), StoreError> {
        let Some(last) = self.checkpoints.lock().get(job).cloned() else { return Ok(()) };
        if self.job_checkpoint(job)? == Some(last) {
            return Ok(());
        }
        self.checkpoints.lock().remove(job);
        Err(StoreError::WentBack { operation: "finishing a job" })
    }

    pub(crate) fn job_checkpoint(&self, job: &JobId) -> Result<Option<String>, StoreError> {
        self.run("reading a job's checkpoint", |session| {
            let sql = "select checkpoint from dragoman.job_checkpoints where collection = $1 and job = $2";
            session.value(sql, &[&self.key, &job.as_str()])
        })
    }

    pub(crate) fn delete_job_checkpoint(&self, job: &JobId) -> Result<(), StoreError> {
        self.checkpoints.lock().remove(job);
        self.run("deleting a checkpoint", |session| {
            let sql = "delete from dragoman.job_checkpoints where collection = $1 and job = $2";
            session.execute(sql, &[&self.key, &job.as_str()]).map(drop)
        })
    }

    pub(crate) fn delete_job_checkpoints(&self, running: &[JobId]) -> Result<(), StoreError> {
        let running: Vec<&str> = running.iter().map(JobId::as_str).collect();
        self.run("deleting checkpoints", |session| {
            // Another server may have begun a job since the list of jobs was read.
            let sql = "delete from dragoman.job_checkpoints c where collection = $1 and job <> all($2) and not exists
                       (select 1 from dragoman.jobs j where j.id = c.job and j.finished_at_ms is null)";
            session.execute(sql, &[&self.key, &running]).map(drop)
        })
    }
}

pub(super) fn store_checkpoint(writing: &mut Writing<'_>, job: &JobId, checkpoint: &str) -> Result<(), Fault> {
    let sql = "insert into dragoman.job_checkpoints (collection, job, checkpoint) values ($1, $2, $3)
               on conflict (collection, job) do update set checkpoint = excluded.checkpoint";
    writing.session.execute(sql, &[&writing.key, &job.as_str(), &checkpoint]).map(drop)
}
