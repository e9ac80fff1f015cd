//! The jobs of the catalog: their requests, progress and results.
//!
//! A job belongs to the server that accepted it. If that server dies, another one takes the job over. Only its owner may change
//! a job.

use super::PostgresCatalog;
use super::creations;
use super::rows::{CatalogRow, json, limit, text};
use crate::domain::{
    CollectionName, Job, JobFailure, JobFilter, JobId, JobProgress, JobStatus, JobType, Metadata, Page, RequestKey,
};
use crate::storage::postgres::fault::Fault;
use crate::storage::postgres::member::remove_dead_servers;
use crate::storage::postgres::session::{Parameter, Session};
use crate::store::{StoreError, parse_created_job, read_job};

const COLUMNS: &str = "id, type, status, collection, request, details, done, total, unit, error_code, error_detail,
    cancel_requested, created_at_ms, started_at_ms, finished_at_ms, key";

/// The result of `take_over_orphaned_jobs`.
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
    /// Stop it, because somebody canceled it, perhaps through another server.
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
             ) returning {COLUMNS}"
        );
        let (others, mut jobs) = self.transaction("taking over jobs", |session| {
            Ok((remove_dead_servers(session, me)?, read_all(session, &sql, &values)?))
        })?;
        jobs.sort_by(|a, b| a.id.cmp(&b.id));
        let before = std::mem::replace(&mut *self.others.lock(), others.clone());
        Ok(TakenOverJobs { jobs, server_died: before.iter().any(|id| !others.contains(id)) })
    }

    /// Returns what this server must do with those of these jobs that are unfinished.
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

    pub(crate) fn create_job(&self, job: &Job) -> Result<(), StoreError> {
        self.run("creating a job", |session| insert(session, job, self.member.id()))
    }

    pub(crate) fn create_job_once(&self, new: &Job, request: &RequestKey) -> Result<Option<JobId>, StoreError> {
        self.transaction("creating a job", |session| {
            creations::lock_request_key(session, request)?;
            if let Some(before) = parse_created_job(creations::find(session, request, new.created_at_ms)?)? {
                return Ok(Some(before));
            }
            insert(session, new, self.member.id())?;
            creations::store_creation(session, request, new.id.as_str(), new.created_at_ms)?;
            Ok(None)
        })
    }

    pub(crate) fn find_job_created_by(&self, request: &RequestKey, now_ms: i64) -> Result<Option<JobId>, StoreError> {
        self.run("reading an idempotency record", |session| Ok(parse_created_job(creations::find(session, request, now_ms)?)?))
    }

    pub(crate) fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        let sql = format!("select {COLUMNS} from dragoman.jobs where id = $1");
        self.run("reading a job", |session| session.row(&sql, &[&id.as_str()])?.map(|row| read_job(&CatalogRow(row))).transpose())
    }

    pub(crate) fn jobs(&self, filter: &JobFilter, page: &Page<JobId>) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "select {COLUMNS} from dragoman.jobs where ($1 is null or id < $1) and ($2 is null or type = $2)
             and ($3 is null or status = $3) and ($4 is null or collection = any($4)) order by id desc limit $5"
        );
        let after = page.after.as_ref().map(JobId::as_str);
        let (kind, status) = (filter.kind.map(JobType::name), filter.status.map(JobStatus::name));
        let collections: Option<Vec<&str>> =
            filter.collections.as_ref().map(|names| names.iter().map(CollectionName::as_str).collect());
        self.run("listing jobs", |session| read_all(session, &sql, &[&after, &kind, &status, &collections, &limit(page.limit)]))
    }

    pub(crate) fn job_counts(&self) -> Result<Vec<(JobType, JobStatus, u64)>, StoreError> {
        self.run("counting jobs", |session| {
            let mut counts = Vec::new();
            let sql = "select type, status, count(*) from dragoman.jobs group by type, status order by type, status";
            for row in session.rows(sql, &[])? {
                let named = JobType::parse(row.try_get(0)?).zip(JobStatus::parse(row.try_get(1)?));
                let count = u64::try_from(row.try_get::<_, i64>(2)?).unwrap_or_default();
                counts.extend(named.map(|(kind, status)| (kind, status, count)));
            }
            Ok(counts)
        })
    }

    pub(crate) fn unfinished_jobs(&self) -> Result<Vec<Job>, StoreError> {
        let sql = format!("select {COLUMNS} from dragoman.jobs where finished_at_ms is null order by id");
        self.run("reading unfinished jobs", |session| read_all(session, &sql, &[]))
    }

    pub(crate) fn start_job(&self, id: &JobId, now_ms: i64) -> Result<(), StoreError> {
        let sql = "update dragoman.jobs set status = 'running', started_at_ms = coalesce(started_at_ms, $2)
                   where id = $1 and owner = $3";
        self.change_own_job("starting a job", sql, &[&id.as_str(), &now_ms, &self.member.id()])
    }

    pub(crate) fn record_progress(&self, id: &JobId, progress: &JobProgress, details: &Metadata) -> Result<(), StoreError> {
        let sql = "update dragoman.jobs set done = $2, total = $3, details = $4 where id = $1 and owner = $5";
        let values: [Parameter<'_>; 5] =
            [&id.as_str(), &(progress.done as i64), &(progress.total as i64), &json(details), &self.member.id()];
        self.change_own_job("recording a job's progress", sql, &values)
    }

    pub(crate) fn request_cancel(&self, id: &JobId) -> Result<(), StoreError> {
        let sql = "update dragoman.jobs set cancel_requested = true where id = $1 and finished_at_ms is null";
        self.change("canceling a job", sql, &[&id.as_str()])
    }

    pub(crate) fn finish_job(
        &self,
        id: &JobId,
        status: JobStatus,
        error: Option<&JobFailure>,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        debug_assert!(status.is_finished());
        let sql = "update dragoman.jobs set status = $2, error_code = $3, error_detail = $4, finished_at_ms = $5
                   where id = $1 and owner = $6";
        let (code, detail) = (error.map(|error| error.code.name()), error.map(|error| text(&error.detail)));
        let values: [Parameter<'_>; 6] = [&id.as_str(), &status.name(), &code, &detail.as_deref(), &now_ms, &self.member.id()];
        self.change_own_job("finishing a job", sql, &values)
    }

    pub(crate) fn prune_jobs(&self, kept_max: usize, before_ms: i64) -> Result<Vec<JobId>, StoreError> {
        let sql = "delete from dragoman.jobs where finished_at_ms < $1 or id in
                   (select id from dragoman.jobs where finished_at_ms is not null order by finished_at_ms desc, id desc offset $2)
                   returning id";
        self.run("pruning jobs", |session| {
            let mut pruned = Vec::new();
            for row in session.rows(sql, &[&before_ms, &limit(kept_max)])? {
                pruned.extend(JobId::parse(row.try_get(0)?).ok());
            }
            Ok(pruned)
        })
    }

    /// Runs a statement that returns no rows.
    pub(super) fn change(&self, doing: &'static str, sql: &str, values: &[Parameter<'_>]) -> Result<(), StoreError> {
        self.run(doing, |session| session.execute(sql, values).map(drop))
    }

    /// Changes a job of this server. Fails with `StoreError::JobTakenOver` if it belongs to another one.
    fn change_own_job(&self, doing: &'static str, sql: &str, values: &[Parameter<'_>]) -> Result<(), StoreError> {
        self.run(doing, |session| match session.execute(sql, values)? {
            0 => Err(StoreError::JobTakenOver.into()),
            _ => Ok(()),
        })
    }
}

fn read_all(session: &mut Session, sql: &str, values: &[Parameter<'_>]) -> Result<Vec<Job>, Fault> {
    session.rows(sql, values)?.into_iter().map(|row| read_job(&CatalogRow(row))).collect()
}

fn insert(session: &mut Session, job: &Job, owner: i64) -> Result<(), Fault> {
    let sql =
        "insert into dragoman.jobs (id, type, status, collection, request, details, done, total, unit, created_at_ms, owner)
               values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
               on conflict (collection) where type = 'reembed' and finished_at_ms is null do nothing";
    let values: [Parameter<'_>; 11] = [
        &job.id.as_str(),
        &job.kind.name(),
        &job.status.name(),
        &job.collection.as_ref().map(CollectionName::as_str),
        &json(&job.request),
        &json(&job.details),
        &(job.progress.done as i64),
        &(job.progress.total as i64),
        &job.progress.unit.name(),
        &job.created_at_ms,
        &owner,
    ];
    match session.execute(sql, &values)? {
        0 => Err(StoreError::JobUnfinished.into()),
        _ => Ok(()),
    }
}
