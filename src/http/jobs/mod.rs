//! `/v1/jobs`: lists, reads and cancels jobs. Their streams are in `streams`.

pub mod streams;

use std::fmt::Display;

use axum::Json;
use axum::extract::{FromRequestParts, State};
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, IntoResponses, ToSchema};

use super::api::Api;
use super::error::{ApiError, Checks};
use crate::domain::{Caller, Code, CollectionName, Job, JobFilter, JobId, JobStatus, JobType, Page};
use crate::http::middleware::auth::check_access;
use crate::http::request::cursor;
use crate::http::request::extract::{PageParameters, Parameters, path_parameter};
use crate::service::Service;
use crate::service::jobs::JobVisibility;

/// One page of jobs.
#[derive(Debug, Serialize, ToSchema)]
pub struct JobList {
    /// Jobs, the newest first.
    pub jobs: Vec<Job>,
    /// Where the next page begins; omitted on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Filters of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct ListJobsParameters {
    /// Only jobs of this type.
    #[serde(rename = "type")]
    #[param(rename = "type", value_type = Option<JobType>)]
    pub kind: Option<String>,
    /// Only jobs with this status.
    #[param(value_type = Option<JobStatus>)]
    pub status: Option<String>,
    /// Only jobs of the collection with this name or alias.
    pub collection: Option<String>,
    /// Maximum rows, from 1 to the server's limit (1000 unless configured otherwise).
    #[param(value_type = Option<u32>, minimum = 1, default = 20)]
    pub limit: Option<String>,
    /// Where the page begins: the unchanged `next_cursor` of the previous page. Leave it out for the first page.
    pub cursor: Option<String>,
}

path_parameter!(JobPath, "job", JobId, JobId::parse);

/// The job that the path parameter `job` names, if the caller may see it.
pub struct VisibleJob(pub Job);

/// The job was accepted.
#[derive(Debug, IntoResponses)]
#[response(status = 202, headers(("location" = String, description = "Path of the job.")))]
pub struct AcceptedJob(pub Job);

/// List jobs
///
/// Lists jobs, newest first, page by page. A key that is restricted to collections sees only the jobs that it may access, so a
/// page may have fewer rows. Finished jobs are deleted after a week, and earlier if there are many.
#[utoipa::path(
    get, path = "/v1/jobs", tag = "jobs", params(ListJobsParameters),
    responses((status = 200, description = "One page of jobs.", body = JobList)),
)]
pub async fn list_jobs(
    State(api): State<Api>,
    caller: Caller,
    parameters: Parameters<ListJobsParameters>,
) -> Result<Json<JobList>, ApiError> {
    let (mut filter, page) = parameters.read(|given| read_list(given, &api))?;
    match &filter.collections {
        Some(named) => named.iter().try_for_each(|name| check_access(&caller, name))?,
        None => filter.collections = caller.collections().map(<[_]>::to_vec),
    }
    let (jobs, next) = api.service.list_jobs(filter, page).await?;
    Ok(Json(JobList {
        jobs: jobs.into_iter().filter(|job| check_visible(&api, &caller, job).is_ok()).collect(),
        next_cursor: next.map(|id| cursor::encode("jobs", id.as_str())),
    }))
}

/// Get a job
///
/// Returns a job with its progress.
#[utoipa::path(
    get, path = "/v1/jobs/{job}", tag = "jobs",
    responses((status = 200, description = "The job.", body = Job)),
)]
pub async fn get_job(VisibleJob(job): VisibleJob) -> Json<Job> {
    Json(job)
}

/// Cancel a job
///
/// Asks a job to stop. A queued job stops at once; a running one as soon as it can, and is `running` with `cancel_requested`
/// until then. This needs the same scope as starting the job. What the job has done so far is kept, and its details say how far
/// it got. Canceling a canceled job changes nothing; canceling one that ended otherwise is an error.
#[utoipa::path(
    post, path = "/v1/jobs/{job}/cancel", tag = "jobs",
    responses((status = 200, description = "The job, asked to stop.", body = Job)),
)]
pub async fn cancel_job(State(api): State<Api>, caller: Caller, VisibleJob(job): VisibleJob) -> Result<Json<Job>, ApiError> {
    let scope = Service::job_access(&job).scope;
    if caller.scope() < scope {
        let (has, kind, needs) = (caller.scope().name(), job.kind.name(), scope.name());
        let detail = format!("the key has scope {has}; canceling a job of type {kind} needs {needs}, like starting one");
        return Err(ApiError::new(Code::Forbidden, detail));
    }
    Ok(Json(api.service.cancel_job(&job.id).await?))
}

fn read_list(given: ListJobsParameters, api: &Api) -> Result<(JobFilter, Page<JobId>), ApiError> {
    let ListJobsParameters { kind, status, collection, limit, cursor } = given;
    let mut checks = Checks::default();
    let kind = checks.add_or_default(parse_parameter("type", kind.as_deref(), JobType::try_parse));
    let status = checks.add_or_default(parse_parameter("status", status.as_deref(), JobStatus::try_parse));
    let collection = parse_parameter("collection", collection.as_deref(), CollectionName::parse);
    let collections = checks.add_or_default(collection).map(|name| vec![name]);
    let page = checks.add(PageParameters { limit, cursor }.page(api, "jobs", JobId::parse));
    checks.end_with(page).map(|page| (JobFilter { kind, status, collections }, page))
}

pub async fn visible_job(api: &Api, caller: &Caller, id: &JobId) -> Result<Job, ApiError> {
    let job = api.service.get_job(id).await?;
    check_visible(api, caller, &job).map(|()| job)
}

/// Refuses a job that the caller may not see, because it shows collections that the key may not access, neither by their own
/// names nor by aliases that lead to them now. A job of a classifier whose definition names an alias shows that alias. Callers
/// without restriction may see all jobs.
fn check_visible(api: &Api, caller: &Caller, job: &Job) -> Result<(), ApiError> {
    if caller.collections().is_none() {
        return Ok(());
    }
    let refuse = |detail: &str| Err(ApiError::new(Code::Forbidden, detail));
    // Does not name the collection, because the caller did not either.
    let check = |name: &CollectionName| match api.service.may_access_collection(caller, name) {
        true => Ok(()),
        false => refuse("the key is restricted to certain collections, and the job is about others"),
    };
    match Service::job_access(job).visibility {
        JobVisibility::Server => Ok(()),
        JobVisibility::Collections(names) => names.iter().try_for_each(check),
        JobVisibility::Texts { collections, caller: owner } => {
            collections.iter().try_for_each(check)?;
            match caller.key() {
                Some(key) if owner.as_ref() != Some(&key.id) => refuse("the job has texts of another caller"),
                _ => Ok(()),
            }
        }
        JobVisibility::Everything => refuse("the key is restricted to certain collections, and the job may show others"),
    }
}

fn parse_parameter<T, E: Display>(
    name: &'static str,
    text: Option<&str>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, ApiError> {
    let parsed = text.map(parse).transpose();
    parsed.map_err(|error| ApiError::parameter(Code::InvalidRequest, name, error.to_string()))
}

impl IntoResponse for AcceptedJob {
    fn into_response(self) -> Response {
        let location = format!("/v1/jobs/{}", self.0.id);
        (StatusCode::ACCEPTED, [(LOCATION, location)], Json(self.0)).into_response()
    }
}

impl FromRequestParts<Api> for VisibleJob {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let caller = Caller::from_request_parts(parts, api).await?;
        let JobPath(id) = JobPath::from_request_parts(parts, api).await?;
        visible_job(api, &caller, &id).await.map(Self)
    }
}
