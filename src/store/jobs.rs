//! The jobs of the catalog: their requests, progress and results.

use rusqlite::{Connection, params};

use super::columns::Columns;
use super::error::Fault;
use super::keys::names_json;
use super::rows::{json, query_all, query_one, to_sql};
use super::{Catalog, StoreError, idempotency_records};
use crate::domain::{
    Code, CollectionName, Job, JobFailure, JobFilter, JobId, JobProgress, JobStatus, JobType, JobUnit, Metadata, Page, RequestKey,
};

const COLUMNS: &str = "id, type, status, collection, request, details, done, total, unit, error_code, error_detail,
    cancel_requested, created_at_ms, started_at_ms, finished_at_ms, rowid";

impl Catalog {
    pub(crate) fn create_job(&self, job: &Job) -> Result<(), StoreError> {
        self.run("creating a job", |connection| insert(connection, job))
    }

    pub(crate) fn find_job_created_by(&self, request: &RequestKey, now_ms: i64) -> Result<Option<JobId>, StoreError> {
        self.run("reading an idempotency record", |connection| {
            Ok(parse_created_job(idempotency_records::find(connection, request, now_ms)?)?)
        })
    }

    pub(crate) fn create_job_once(&self, new: &Job, request: &RequestKey) -> Result<Option<JobId>, StoreError> {
        self.run("creating a job", |connection| {
            let transaction = connection.unchecked_transaction()?;
            if let Some(before) = parse_created_job(idempotency_records::find(&transaction, request, new.created_at_ms)?)? {
                return Ok(Some(before));
            }
            insert(&transaction, new)?;
            idempotency_records::store_creation(&transaction, request, new.id.as_str(), new.created_at_ms)?;
            transaction.commit()?;
            Ok(None)
        })
    }

    pub(crate) fn job(&self, id: &JobId) -> Result<Option<Job>, StoreError> {
        self.run("reading a job", |connection| find(connection, id))
    }

    pub(crate) fn jobs(&self, filter: &JobFilter, page: &Page<JobId>) -> Result<Vec<Job>, StoreError> {
        let collections = filter.collections.as_deref().map(names_json);
        self.run("listing jobs", |connection| {
            let sql = format!(
                "select {COLUMNS} from jobs where (?1 is null or id < ?1) and (?2 is null or type = ?2)
                 and (?3 is null or status = ?3) and (?4 is null or collection in (select value from json_each(?4)))
                 order by id desc limit ?5"
            );
            let values = params![
                page.after.as_ref().map(JobId::as_str),
                filter.kind.map(JobType::name),
                filter.status.map(JobStatus::name),
                collections,
                to_sql(page.limit as u64),
            ];
            query_all(connection, &sql, values, |row| read_job(row))
        })
    }

    pub(crate) fn job_counts(&self) -> Result<Vec<(JobType, JobStatus, u64)>, StoreError> {
        self.run("counting jobs", |connection| {
            let sql = "select type, status, count(*) from jobs group by type, status";
            let counts = query_all(connection, sql, [], |row| {
                let (kind, status): (String, String) = (row.get(0)?, row.get(1)?);
                let named = JobType::parse(&kind).zip(JobStatus::parse(&status));
                let count = u64::try_from(row.get::<_, i64>(2)?).unwrap_or_default();
                Ok(named.map(|(kind, status)| (kind, status, count)))
            })?;
            Ok(counts.into_iter().flatten().collect())
        })
    }

    pub(crate) fn unfinished_jobs(&self) -> Result<Vec<Job>, StoreError> {
        self.run("reading unfinished jobs", |connection| {
            let sql = format!("select {COLUMNS} from jobs where finished_at_ms is null order by id");
            query_all(connection, &sql, [], |row| read_job(row))
        })
    }

    pub(crate) fn start_job(&self, id: &JobId, now_ms: i64) -> Result<(), StoreError> {
        let sql = "update jobs set status = 'running', started_at_ms = coalesce(started_at_ms, ?2) where id = ?1";
        self.run("starting a job", |connection| {
            connection.prepare_cached(sql)?.execute(params![id.as_str(), now_ms])?;
            Ok(())
        })
    }

    pub(crate) fn record_progress(&self, id: &JobId, progress: &JobProgress, details: &Metadata) -> Result<(), StoreError> {
        let sql = "update jobs set done = ?2, total = ?3, details = ?4 where id = ?1";
        self.run("recording a job's progress", |connection| {
            let values = params![id.as_str(), to_sql(progress.done), to_sql(progress.total), json(details)?];
            connection.prepare_cached(sql)?.execute(values)?;
            Ok(())
        })
    }

    pub(crate) fn request_cancel(&self, id: &JobId) -> Result<(), StoreError> {
        let sql = "update jobs set cancel_requested = 1 where id = ?1 and finished_at_ms is null";
        self.run("canceling a job", |connection| {
            connection.prepare_cached(sql)?.execute([id.as_str()])?;
            Ok(())
        })
    }

    pub(crate) fn finish_job(
        &self,
        id: &JobId,
        status: JobStatus,
        error: Option<&JobFailure>,
        now_ms: i64,
    ) -> Result<(), StoreError> {
        debug_assert!(status.is_finished());
        let sql = "update jobs set status = ?2, error_code = ?3, error_detail = ?4, finished_at_ms = ?5 where id = ?1";
        self.run("finishing a job", |connection| {
            let (code, detail) = (error.map(|error| error.code.name()), error.map(|error| error.detail.as_str()));
            connection.prepare_cached(sql)?.execute(params![id.as_str(), status.name(), code, detail, now_ms])?;
            Ok(())
        })
    }

    pub(crate) fn prune_jobs(&self, kept_max: usize, before_ms: i64) -> Result<Vec<JobId>, StoreError> {
        self.run("pruning jobs", |connection| {
            let sql = "delete from jobs where finished_at_ms < ?1 or id in
                       (select id from jobs where finished_at_ms is not null order by finished_at_ms desc, id desc limit -1 offset ?2)
                       returning id";
            let ids = query_all(connection, sql, [before_ms, to_sql(kept_max as u64)], |row| Ok(row.get::<_, String>(0)?))?;
            Ok(ids.iter().filter_map(|id| JobId::parse(id).ok()).collect())
        })
    }
}

fn insert(connection: &Connection, job: &Job) -> Result<(), Fault> {
    let sql = "insert into jobs (id, type, status, collection, request, details, done, total, unit, created_at_ms)
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";
    connection.prepare_cached(sql)?.execute(params![
        job.id.as_str(),
        job.kind.name(),
        job.status.name(),
        job.collection.as_ref().map(CollectionName::as_str),
        json(&job.request)?,
        json(&job.details)?,
        to_sql(job.progress.done),
        to_sql(job.progress.total),
        job.progress.unit.name(),
        job.created_at_ms,
    ])?;
    Ok(())
}

/// Reads the id of a job that a request created.
pub(crate) fn parse_created_job(id: Option<String>) -> Result<Option<JobId>, StoreError> {
    let corrupt = |_| StoreError::CorruptRow { table: "idempotency_records", row: 0, problem: "its id is not the id of a job" };
    id.map(|id| JobId::parse(&id).map_err(corrupt)).transpose()
}

fn find(connection: &Connection, id: &JobId) -> Result<Option<Job>, Fault> {
    let sql = format!("select {COLUMNS} from jobs where id = ?1");
    query_one(connection, &sql, [id.as_str()], |row| read_job(row))
}

/// Reads a row of `COLUMNS`.
pub(crate) fn read_job<C: Columns>(row: &C) -> Result<Job, C::Fault> {
    let key = row.integer(15)?;
    let corrupt = |problem| C::Fault::from(StoreError::CorruptRow { table: "jobs", row: key, problem });
    let text = |column| row.text(column);
    let count =
        |column| -> Result<u64, C::Fault> { u64::try_from(row.integer(column)?).map_err(|_| corrupt("it has a negative count")) };
    let object = |column| -> Result<Metadata, C::Fault> {
        serde_json::from_str(&text(column)?).map_err(|_| corrupt("it has something other than a JSON object where one belongs"))
    };
    let collection = row.optional_text(3)?.map(|name| CollectionName::parse(&name)).transpose();
    let (code, detail) = (row.optional_text(9)?, row.optional_text(10)?);
    let failure = |code: String| {
        let code = Code::ALL.iter().copied().find(|one| one.name() == code).unwrap_or(Code::Internal);
        JobFailure { code, detail: detail.unwrap_or_default() }
    };
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
        error: code.map(failure),
        cancel_requested: row.boolean(11)?,
        created_at_ms: row.integer(12)?,
        started_at_ms: row.optional_integer(13)?,
        finished_at_ms: row.optional_integer(14)?,
    })
}
