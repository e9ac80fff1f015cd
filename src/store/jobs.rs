//! The jobs of the catalog: their requests, progress and results.
//!
//! If several servers share the catalog, a job belongs to the one that accepted it, and only its owner may change it.

use super::StoreError;
use super::catalog_session::{CatalogSession, CatalogValue, Columns, catalog_json, values};
use super::catalog_storage::{CatalogStorage, Within};
use super::idempotency_records::{find, store_creation};
use super::keys::names_json;
use super::rows::to_sql;
use crate::domain::{
    Code, CollectionId, CollectionName, Job, JobFailure, JobFilter, JobId, JobProgress, JobStatus, JobType, JobUnit, Metadata,
    Page, RequestKey,
};

pub(crate) const JOB_COLUMNS: &str =
    "id, type, status, collection, request, details, done, total, unit, error_code, error_detail,
    cancel_requested, created_at_ms, started_at_ms, finished_at_ms, jobs.key";

impl dyn CatalogStorage {
    /// Adds a job, unless `request` was accepted before; then returns the id of that job. Fails with `StoreError::KeyReused` if
    /// the same key was used for another request, and with `StoreError::Replaced` if the collection with the id `follows` does
    /// not exist: a re-embedding only passes on jobs that are already stored (`FOLLOWING_JOBS`).
    pub fn create_job(
        &self,
        new: &Job,
        request: Option<&RequestKey>,
        follows: Option<&CollectionId>,
    ) -> Result<Option<JobId>, StoreError> {
        self.run_in(Within::Transaction, "creating a job", |session| {
            // Keeps other servers from replacing the collection until the job is stored. One catalog has one connection.
            let lock = if self.server_number().is_some() { " for share" } else { "" };
            let sql = format!("select 1 from dragoman.catalog where id = $1{lock}");
            if let Some(id) = follows
                && !session.has_row(&sql, values![id.0.as_str()])?
            {
                return Err(StoreError::Replaced);
            }
            if let Some(request) = request {
                session.lock_request_key(request)?;
                if let Some(before) = parse_created_job(find(session, request, new.created_at_ms)?)? {
                    return Ok(Some(before));
                }
                store_creation(session, request, new.id.as_str(), new.created_at_ms)?;
            }
            insert(session, new, self.server_number())?;
            Ok(None)
        })
    }

    /// Returns the job that this request created earlier. Fails with `StoreError::KeyReused` if the same key was used for
    /// another request.
    pub fn find_job_created_by(&self, request: &RequestKey, now_ms: i64) -> Result<Option<JobId>, StoreError> {
        self.run_in(Within::Statements, "reading an idempotency record", |session| {
            parse_created_job(find(session, request, now_ms)?)
        })
    }

    pub fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        let sql = format!("select {JOB_COLUMNS} from dragoman.jobs where id = $1");
        self.run_in(Within::Statements, "reading a job", |session| session.row(&sql, values![id.as_str()], read_job))
    }

    /// Lists at most `page.limit` jobs, newest first.
    pub fn jobs(&self, filter: &JobFilter, page: &Page<JobId>) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "select {JOB_COLUMNS} from dragoman.jobs where ($1 is null or id < $1) and ($2 is null or type = $2)
             and ($3 is null or status = $3)
             and ($4 is null or collection in (select value from json_array_elements_text($4::json)))
             order by id desc limit $5"
        );
        let values = values![
            page.after.as_ref().map(JobId::as_str),
            filter.kind.map(JobType::name),
            filter.status.map(JobStatus::name),
            filter.collections.as_deref().map(names_json),
            to_sql(page.limit as u64),
        ];
        self.run_in(Within::Statements, "listing jobs", |session| session.rows(&sql, values, read_job))
    }

    /// Returns the number of jobs of each type and status that has any.
    pub fn job_counts(&self) -> Result<Vec<(JobType, JobStatus, u64)>, StoreError> {
        let sql = "select type, status, count(*) from dragoman.jobs group by type, status order by type, status";
        self.run_in(Within::Statements, "counting jobs", |session| {
            let counts = session.rows(sql, &[], |row| {
                let named = JobType::parse(&row.text(0)?).zip(JobStatus::parse(&row.text(1)?));
                let count = u64::try_from(row.integer(2)?).unwrap_or_default();
                Ok(named.map(|(kind, status)| (kind, status, count)))
            })?;
            Ok(counts.into_iter().flatten().collect())
        })
    }

    /// Returns the unfinished jobs in the order in which they were accepted.
    pub fn unfinished_jobs(&self) -> Result<Vec<Job>, StoreError> {
        let sql = format!("select {JOB_COLUMNS} from dragoman.jobs where finished_at_ms is null order by id");
        self.run_in(Within::Statements, "reading unfinished jobs", |session| session.rows(&sql, &[], read_job))
    }

    /// Records that a job is running. If it ran before, keeps its first start time.
    pub fn start_job(&self, id: &JobId, now_ms: i64) -> Result<(), StoreError> {
        let change = "status = 'running', started_at_ms = coalesce(started_at_ms, $2)";
        self.change_own_job("starting a job", change, values![id.as_str(), now_ms])
    }

    pub fn record_progress(&self, id: &JobId, progress: &JobProgress, details: &Metadata) -> Result<(), StoreError> {
        let values = values![id.as_str(), to_sql(progress.done), to_sql(progress.total), catalog_json(details)];
        self.change_own_job("recording a job's progress", "done = $2, total = $3, details = $4", values)
    }

    /// Records that a job should stop. Does nothing to a finished one.
    pub fn request_cancel(&self, id: &JobId) -> Result<(), StoreError> {
        let sql = "update dragoman.jobs set cancel_requested = true where id = $1 and finished_at_ms is null";
        self.run_in(Within::Statements, "canceling a job", |session| session.execute(sql, values![id.as_str()]).map(drop))
    }

    /// Records how a job ended. `status` must be one of the finished ones.
    pub fn finish_job(&self, id: &JobId, status: JobStatus, error: Option<&JobFailure>, now_ms: i64) -> Result<(), StoreError> {
        self.run_in(Within::Statements, "finishing a job", |session| self.finish_job_in(session, id, (status, error), now_ms))
    }

    /// Like `finish_job`, in the caller's transaction.
    pub(super) fn finish_job_in(
        &self,
        session: &mut dyn CatalogSession,
        id: &JobId,
        (status, error): (JobStatus, Option<&JobFailure>),
        now_ms: i64,
    ) -> Result<(), StoreError> {
        debug_assert!(status.is_finished());
        let (code, detail) = (error.map(|error| error.code.name()), error.map(|error| error.detail.as_str()));
        let change = "status = $2, error_code = $3, error_detail = $4, finished_at_ms = $5";
        self.change_own_job_in(session, change, values![id.as_str(), status.name(), code, detail, now_ms])
    }

    /// Keeps the `kept_max` jobs that finished last, unless they finished before `before_ms`, and deletes all other finished
    /// jobs, except those of other servers that are alive: they have files to remove with them. The first to go are those that
    /// finished after `after_ms`: the clock was set back since then. Returns the ids of deleted jobs.
    pub fn prune_jobs(&self, kept_max: usize, (before_ms, after_ms): (i64, i64)) -> Result<Vec<JobId>, StoreError> {
        let own = self.server_number().map_or_else(String::new, |me| {
            format!(" and (owner = {me} or not exists (select 1 from dragoman.servers s where s.id = owner))")
        });
        // SQLite has no offset without a limit.
        let sql = format!(
            "delete from dragoman.jobs where (finished_at_ms < $1 or id in
                 (select id from dragoman.jobs where finished_at_ms is not null
                  order by finished_at_ms > $3, finished_at_ms desc, id desc limit {} offset $2)){own}
             returning id",
            i64::MAX
        );
        self.run_in(Within::Statements, "pruning jobs", |session| {
            let ids = session.rows(&sql, values![before_ms, to_sql(kept_max as u64), after_ms], |row| row.text(0))?;
            Ok(ids.iter().filter_map(|id| JobId::parse(id).ok()).collect())
        })
    }

    /// Changes the job whose id is the first value. If it belongs to another server, fails with `StoreError::JobTakenOver`.
    fn change_own_job(&self, operation: &'static str, change: &str, values: &[CatalogValue<'_>]) -> Result<(), StoreError> {
        self.run_in(Within::Statements, operation, |session| self.change_own_job_in(session, change, values))
    }

    fn change_own_job_in(
        &self,
        session: &mut dyn CatalogSession,
        change: &str,
        values: &[CatalogValue<'_>],
    ) -> Result<(), StoreError> {
        let owner = self.server_number().map_or_else(String::new, |me| format!(" and owner = {me}"));
        let sql = format!("update dragoman.jobs set {change} where id = $1{owner}");
        match session.execute(&sql, values)? {
            0 if self.server_number().is_some() => Err(StoreError::JobTakenOver),
            _ => Ok(()),
        }
    }
}

/// Adds the row of a job, which the server with the number `owner` runs if several share the catalog.
pub(super) fn insert(session: &mut dyn CatalogSession, job: &Job, owner: Option<i64>) -> Result<(), StoreError> {
    let (column, number, on_conflict) = owner.map_or_else(Default::default, |me| {
        let unfinished = " on conflict (collection) where type = 'reembed' and finished_at_ms is null do nothing";
        (", owner", format!(", {me}"), unfinished)
    });
    let sql = format!(
        "insert into dragoman.jobs (id, type, status, collection, request, details, done, total, unit, created_at_ms{column})
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10{number}){on_conflict}"
    );
    let values = values![
        job.id.as_str(),
        job.kind.name(),
        job.status.name(),
        job.collection.as_ref().map(CollectionName::as_str),
        catalog_json(&job.request),
        catalog_json(&job.details),
        to_sql(job.progress.done),
        to_sql(job.progress.total),
        job.progress.unit.name(),
        job.created_at_ms,
    ];
    match session.execute(&sql, values)? {
        0 => Err(StoreError::JobUnfinished),
        _ => Ok(()),
    }
}

fn parse_created_job(id: Option<String>) -> Result<Option<JobId>, StoreError> {
    let corrupt = |_| StoreError::CorruptRow { table: "idempotency_records", row: 0, problem: "its id is not the id of a job" };
    id.map(|id| JobId::parse(&id).map_err(corrupt)).transpose()
}

/// Reads the code of an error, if there is one, and its detail from the next column.
pub(super) fn read_failure(row: &dyn Columns, column: usize) -> Result<Option<JobFailure>, StoreError> {
    let Some(name) = row.optional_text(column)? else { return Ok(None) };
    let code = Code::ALL.iter().copied().find(|code| code.name() == name).unwrap_or(Code::Internal);
    Ok(Some(JobFailure { code, detail: row.optional_text(column + 1)?.unwrap_or_default() }))
}

/// Reads a row of `JOB_COLUMNS`.
pub(crate) fn read_job(row: &dyn Columns) -> Result<Job, StoreError> {
    let key = row.integer(15)?;
    let corrupt = |problem| StoreError::CorruptRow { table: "jobs", row: key, problem };
    let text = |column| row.text(column);
    let count = |column| -> Result<u64, StoreError> {
        u64::try_from(row.integer(column)?).map_err(|_| corrupt("it has a negative count"))
    };
    let object = |column| -> Result<Metadata, StoreError> {
        serde_json::from_str(&text(column)?).map_err(|_| corrupt("it has something other than a JSON object where one belongs"))
    };
    let collection = row.optional_text(3)?.map(|name| CollectionName::parse(&name)).transpose();
    Ok(Job {
        id: JobId::parse(&text(0)?).map_err(|_| corrupt("its id is not valid"))?,
        kind: JobType::parse(&text(1)?).ok_or_else(|| corrupt("its type is unknown"))?,
        status: JobStatus::parse(&text(2)?).ok_or_else(|| corrupt("its status is unknown"))?,
        collection: collection.map_err(|_| corrupt("the name of its collection is not valid"))?,
        request: object(4)?,
        details: object(5)?,
        progress: JobProgress {
            done: count(6)?,
            total: count(7)?,
            unit: JobUnit::parse(&text(8)?).ok_or_else(|| corrupt("its unit is unknown"))?,
            rate: None,
            eta_s: None,
        },
        error: read_failure(row, 9)?,
        cancel_requested: row.boolean(11)?,
        created_at_ms: row.integer(12)?,
        started_at_ms: row.optional_integer(13)?,
        finished_at_ms: row.optional_integer(14)?,
    })
}
