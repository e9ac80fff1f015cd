//! The owners of jobs. A job belongs to the server that accepted it. If that server dies, another one takes the job over.

use super::PostgresCatalog;
use super::session::CatalogRow;
use crate::domain::{Job, JobId, JobType};
use crate::storage::postgres::fault::Fault;
use crate::storage::postgres::member::remove_dead_servers;
use crate::storage::postgres::session::Parameter;
use crate::store::{JOB_COLUMNS, StoreError, read_job};

#[derive(Debug)]
pub struct TakenOverJobs {
    /// Jobs of dead servers that belong to this server from now on, in the order in which they were accepted.
    pub jobs: Vec<Job>,
    /// Whether a server has died since the last check, no matter which server noticed it.
    pub server_died: bool,
}

/// What a server must do with an unfinished job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOwnership {
    /// Run it.
    Own,
    /// Stop it, because it was canceled, perhaps through another server.
    Canceled,
    /// Drop it, because another server has taken it over.
    Lost,
}

impl PostgresCatalog {
    /// Takes over the unfinished jobs of dead servers: a job of the types `with_files` only if it is among `files_here`, a
    /// re-embedding only if it is to the model of this server, and a canceled job in any case.
    pub fn take_over_orphaned_jobs(
        &self,
        with_files: &[JobType],
        files_here: &[JobId],
        model_fingerprint: &str,
    ) -> Result<TakenOverJobs, StoreError> {
        const OPERATION: &str = "taking over jobs";
        let me = self.member.id();
        let with_files: Vec<&str> = with_files.iter().map(|kind| kind.name()).collect();
        let files_here: Vec<&str> = files_here.iter().map(JobId::as_str).collect();
        let values: [Parameter<'_>; 5] = [&me, &with_files, &files_here, &JobType::Reembed.name(), &model_fingerprint];
        let sql = format!(
            "update dragoman.jobs set owner = $1 where id in (
                 select id from dragoman.jobs j where finished_at_ms is null and owner is distinct from $1
                 and not exists (select 1 from dragoman.servers s where s.id = j.owner)
                 and (cancel_requested or (type <> all($2) or id = any($3)) and (type <> $4 or strpos(request, $5) > 0))
                 for update skip locked
             ) returning {JOB_COLUMNS}"
        );
        let ((others, some_died), mut jobs) = self.transaction(OPERATION, |session| {
            let others = remove_dead_servers(session, me)?;
            let jobs =
                session.rows(&sql, &values)?.into_iter().map(|row| Ok(read_job(&CatalogRow { row, operation: OPERATION })?));
            Ok((others, jobs.collect::<Result<Vec<Job>, Fault>>()?))
        })?;
        jobs.sort_by(|a, b| a.id.cmp(&b.id));
        let before = std::mem::replace(&mut *self.others.lock(), others.clone());
        // A server may have come and died since the last check.
        let server_died = some_died || before.iter().any(|id| !others.contains(id));
        Ok(TakenOverJobs { jobs, server_died })
    }

    /// Returns the unfinished jobs of this server that are not among `known`, in the order in which they were accepted.
    pub fn own_jobs_except(&self, known: &[JobId]) -> Result<Vec<Job>, StoreError> {
        const OPERATION: &str = "looking for unknown jobs";
        let known: Vec<&str> = known.iter().map(JobId::as_str).collect();
        let sql = format!(
            "select {JOB_COLUMNS} from dragoman.jobs
             where finished_at_ms is null and owner = $1 and id <> all($2) order by id"
        );
        self.run(OPERATION, |session| {
            let rows = session.rows(&sql, &[&self.member.id(), &known])?;
            rows.into_iter().map(|row| Ok(read_job(&CatalogRow { row, operation: OPERATION })?)).collect()
        })
    }

    /// Returns what this server must do with each unfinished one of these jobs.
    pub fn job_ownership(&self, jobs: &[JobId]) -> Result<Vec<(JobId, JobOwnership)>, StoreError> {
        let ids: Vec<&str> = jobs.iter().map(JobId::as_str).collect();
        let sql = "select id, cancel_requested, owner is not distinct from $2 from dragoman.jobs
                   where id = any($1) and finished_at_ms is null";
        self.run("looking at jobs", |session| {
            let mut found = Vec::new();
            for row in session.rows(sql, &[&ids, &self.member.id()])? {
                let ownership = match (row.try_get(2)?, row.try_get(1)?) {
                    (false, _) => JobOwnership::Lost,
                    (true, true) => JobOwnership::Canceled,
                    (true, false) => JobOwnership::Own,
                };
                found.extend(JobId::parse(row.try_get(0)?).ok().map(|id| (id, ownership)));
            }
            Ok(found)
        })
    }
}
