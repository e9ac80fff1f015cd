//! Checkpoints of jobs that write into a collection, stored in the same transaction as their writes.

use rusqlite::{Connection, params};

use super::error::Fault;
use super::rows::{query_all, query_one};
use super::upsert::Upsert;
use super::write_transaction::WriteTransaction;
use super::{DocumentStore, PreparedDocument, StoreError, Upserted};
use crate::domain::JobId;

impl DocumentStore {
    pub fn upsert_for_job(
        &self,
        job: &JobId,
        documents: Vec<PreparedDocument>,
        checkpoint: impl FnOnce(&[Upserted]) -> String + Send + 'static,
    ) -> Result<Vec<Upserted>, StoreError> {
        let job = job.clone();
        let upsert = Upsert::prepare(self, documents)?;
        self.write_patiently("storing documents of a job", move |transaction| {
            let outcomes = upsert.write(transaction)?;
            store_checkpoint(transaction, &job, &checkpoint(&outcomes))?;
            Ok(outcomes)
        })
    }

    pub fn job_checkpoint(&self, job: &JobId) -> Result<Option<String>, StoreError> {
        self.read("reading a job's checkpoint", |connection| {
            let sql = "select checkpoint from job_checkpoints where job = ?1";
            query_one(connection, sql, [job.as_str()], |row| Ok(row.get(0)?))
        })
    }

    pub fn delete_job_checkpoints(&self, kept: &[JobId]) -> Result<(), StoreError> {
        let stale: Vec<String> = self.read("reading checkpoints", |connection| stale_jobs(connection, kept))?;
        if stale.is_empty() {
            return Ok(());
        }
        self.write_patiently("deleting checkpoints", move |transaction: &mut WriteTransaction<'_>| {
            let mut statement = transaction.connection.prepare_cached("delete from job_checkpoints where job = ?1")?;
            for job in &stale {
                statement.execute([job])?;
            }
            Ok(())
        })
    }
}

/// Stores the checkpoint of a job in the caller's transaction.
pub(super) fn store_checkpoint(transaction: &WriteTransaction<'_>, job: &JobId, checkpoint: &str) -> Result<(), Fault> {
    let sql = "insert into job_checkpoints (job, checkpoint) values (?1, ?2)
               on conflict (job) do update set checkpoint = excluded.checkpoint";
    transaction.connection.prepare_cached(sql)?.execute(params![job.as_str(), checkpoint])?;
    Ok(())
}

fn stale_jobs(connection: &Connection, kept: &[JobId]) -> Result<Vec<String>, Fault> {
    let jobs = query_all(connection, "select job from job_checkpoints", [], |row| Ok(row.get::<_, String>(0)?))?;
    Ok(jobs.into_iter().filter(|job| kept.iter().all(|kept| kept.as_str() != job)).collect())
}
