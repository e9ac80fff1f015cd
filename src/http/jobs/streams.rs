//! Streams of a job: its progress as server-sent events, and an import's results line by line.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::stream::{self, Stream, StreamExt as _};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::{JobPath, VisibleJob, visible_job};
use crate::domain::{Caller, Code};
use crate::http::api::Api;
use crate::http::documents::import_export::NDJSON;
use crate::http::error::ApiError;
use crate::http::request::extract::Parameters;
use crate::http::response::{blocking_stream, complete_lines};
use crate::service::jobs::JobWatch;

/// Server-sent events. The data of each is a job, as in `GET /v1/jobs/{job}`: `event: progress` immediately and after every
/// change, at most five times a second, and `event: end` once the job has ended; then the stream ends. When the server stops,
/// the stream ends without that event.
#[derive(Debug, ToSchema)]
#[schema(value_type = String)]
pub struct JobEvents(pub String);

/// Lines of JSON, one for each document of the import that has been stored or refused so far, in order: `line` is the line of
/// the file on which the document begins, from 1; `id` is the document's id, omitted if it has no valid one; `status` is
/// `created`, `updated` or `failed`; a failed document has `error` with `code`, `pointer` and `detail`.
#[derive(Debug, ToSchema)]
#[schema(value_type = String)]
pub struct JobResults(pub String);

/// Which results to return.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct JobResultsParameters {
    /// Only lines with this status: `created`, `updated` or `failed`.
    #[param(value_type = Option<crate::http::documents::DocumentStatus>)]
    pub status: Option<String>,
}

/// Watch a job
///
/// Sends the job's progress as server-sent events until it ends.
#[utoipa::path(
    get, path = "/v1/jobs/{job}/events", tag = "job_streams",
    responses((
        status = 200, description = "The events.", body = JobEvents, content_type = "text/event-stream",
        example = json!("event: end\ndata: {\"id\":\"0198c0de-7a11-7000-8000-2f1de5c0ffee\",\"type\":\"import\",\"status\":\"succeeded\"}\n\n"),
    )),
)]
pub async fn watch_job(
    State(api): State<Api>,
    VisibleJob(job): VisibleJob,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let watch = api.service.watch_job(&job.id).await?;
    // Unlike this one, `unfold` panics if a layer asks it once more after its end.
    let events = stream::unfold(watch, next_event).fuse();
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

async fn next_event(mut watch: JobWatch) -> Option<(Result<Event, Infallible>, JobWatch)> {
    let job = match watch.next().await {
        Ok(job) => job?,
        Err(error) => {
            tracing::warn!(cause = error.chain(), "watching a job ended early");
            return None;
        }
    };
    let name = if job.status.is_finished() { "end" } else { "progress" };
    let event = Event::default().event(name).json_data(job).ok()?;
    Some((Ok(event), watch))
}

/// Get an import's results
///
/// Streams the results of an import so far: one line of JSON per document, in the order of the file. They are kept as long as
/// the job. For jobs of other types, the error names where their results are.
#[utoipa::path(
    get, path = "/v1/jobs/{job}/results", tag = "job_streams",
    params(JobResultsParameters),
    responses((
        status = 200, description = "The results.", body = JobResults, content_type = "application/x-ndjson",
        example = json!("{\"line\":1,\"id\":\"fr-1\",\"status\":\"created\"}\n{\"line\":2,\"status\":\"failed\",\"error\":\
            {\"code\":\"invalid_request\",\"pointer\":\"/text\",\"detail\":\"must not be blank\"}}\n"),
    )),
)]
pub async fn get_job_results(
    State(api): State<Api>,
    caller: Caller,
    JobPath(id): JobPath,
    parameters: Parameters<JobResultsParameters>,
) -> Result<([(HeaderName, &'static str); 1], Body), ApiError> {
    let status = parameters.read(|given| match given.status {
        Some(other) if !["created", "updated", "failed"].contains(&other.as_str()) => {
            let detail = format!("must be created, updated or failed, got {other:?}");
            Err(ApiError::parameter(Code::InvalidRequest, "status", detail))
        }
        status => Ok(status),
    })?;
    // Quotation marks within strings are escaped, so this text occurs only in the member itself.
    let part = status.map(|status| format!("\"status\":\"{status}\""));
    let has = |line: &[u8], part: &str| line.windows(part.len()).any(|window| window == part.as_bytes());
    visible_job(&api, &caller, &id).await?;
    let body = match api.service.job_results(&id).await? {
        None => Body::empty(),
        Some((file, bytes)) => Body::from_stream(blocking_stream(complete_lines(file, bytes).filter(move |line| {
            let Ok(line) = line else { return true };
            part.as_deref().is_none_or(|part| has(line, part))
        }))),
    };
    Ok(([(CONTENT_TYPE, NDJSON)], body))
}
