//! `/v1/snapshots`: creates, lists, reads, deletes and restores snapshots, and transfers their archives.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::iter;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, LOCATION};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures::Stream;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::api::Api;
use super::error::{ApiError, invalid};
use super::jobs::AcceptedJob;
use crate::domain::{Code, CollectionName, Job, RestoreRequest, Snapshot, SnapshotId};
use crate::http::request::cursor;
use crate::http::request::extract::{JsonBody, PageParameters, Parameters, path_parameter};
use crate::http::request::values::check_parsed;
use crate::http::response::blocking_stream;

const ZSTD: &str = "application/zstd";
const BYTES_PER_READ: usize = 256 << 10;

/// A snapshot to create.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshotRequest {
    /// Names of the collections. By default the snapshot covers the whole server: all collections, their aliases, and all
    /// trained classifiers. No snapshot contains keys.
    #[schema(min_items = 1)]
    pub collections: Option<Vec<String>>,
}

/// One page of snapshots.
#[derive(Debug, Serialize, ToSchema)]
pub struct SnapshotList {
    /// Snapshots, the newest first.
    pub snapshots: Vec<Snapshot>,
    /// Where the next page begins; omitted on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// The archive of a snapshot: a tar file compressed with Zstandard that contains the databases and, at its end, a manifest with
/// their checksums.
#[derive(Debug, ToSchema)]
#[schema(value_type = String, format = Binary)]
pub struct SnapshotArchive(pub String);

path_parameter!(SnapshotPath, "snapshot", SnapshotId, SnapshotId::parse);

/// Create a snapshot
///
/// Starts a job that copies the named collections, or the whole server with its aliases and classifiers, into a new snapshot,
/// whose id is in the job's details. Writes and searches continue; each collection is copied as it is at one point in time.
#[utoipa::path(
    post, path = "/v1/snapshots", tag = "snapshots",
    request_body(content = CreateSnapshotRequest, description = "What the snapshot should contain."),
    responses((
        status = 202, description = "The job that creates the snapshot.", body = Job,
        headers(("location" = String, description = "Path of the job.")),
    )),
)]
pub async fn create_snapshot(
    State(api): State<Api>,
    JsonBody(body): JsonBody<CreateSnapshotRequest>,
) -> Result<AcceptedJob, ApiError> {
    if body.collections.as_ref().is_some_and(Vec::is_empty) {
        return invalid("/collections", "must have at least 1 name, or be left out for all, got 0");
    }
    let names = body.collections.unwrap_or_default();
    let (mut collections, mut distinct) = (Vec::with_capacity(names.len()), HashSet::new());
    for (index, name) in names.iter().enumerate() {
        let pointer = || format!("/collections/{index}");
        collections.push(check_parsed(pointer(), CollectionName::parse(name))?);
        if !distinct.insert(name) {
            return invalid(pointer(), format!("repeats {name}"));
        }
    }
    Ok(AcceptedJob(api.service.create_snapshot(collections).await?))
}

/// List snapshots
///
/// Lists snapshots, newest first, page by page.
#[utoipa::path(
    get, path = "/v1/snapshots", tag = "snapshots", params(PageParameters),
    responses((status = 200, description = "One page of snapshots.", body = SnapshotList)),
)]
pub async fn list_snapshots(
    State(api): State<Api>,
    parameters: Parameters<PageParameters>,
) -> Result<Json<SnapshotList>, ApiError> {
    let page = parameters.page(&api, "snapshots", SnapshotId::parse)?;
    let (snapshots, next) = api.service.list_snapshots(page).await?;
    Ok(Json(SnapshotList { snapshots, next_cursor: next.map(|id| cursor::encode("snapshots", id.as_str())) }))
}

/// Get a snapshot
///
/// Returns the contents of a snapshot.
#[utoipa::path(
    get, path = "/v1/snapshots/{snapshot}", tag = "snapshots",
    responses((status = 200, description = "The snapshot.", body = Snapshot)),
)]
pub async fn get_snapshot(State(api): State<Api>, SnapshotPath(id): SnapshotPath) -> Result<Json<Snapshot>, ApiError> {
    Ok(Json(api.service.get_snapshot(&id).await?))
}

/// Delete a snapshot
///
/// Deletes a snapshot with its archive. Collections restored from it are kept.
#[utoipa::path(
    delete, path = "/v1/snapshots/{snapshot}", tag = "snapshots",
    responses((status = 204, description = "The snapshot was deleted.")),
)]
pub async fn delete_snapshot(State(api): State<Api>, SnapshotPath(id): SnapshotPath) -> Result<StatusCode, ApiError> {
    api.service.delete_snapshot(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Restore a snapshot
///
/// Starts a job that restores collections, aliases and classifiers from a snapshot. Everything is checked, decompressed and
/// indexed alongside the existing data. Then all of it takes effect at once, or, after a failure or a crash, none of it.
#[utoipa::path(
    post, path = "/v1/snapshots/{snapshot}/restore", tag = "snapshots",
    request_body(content = RestoreRequest, description = "What to restore, and under which name."),
    responses((
        status = 202, description = "The job that restores.", body = Job,
        headers(("location" = String, description = "Path of the job.")),
    )),
)]
pub async fn restore_snapshot(
    State(api): State<Api>,
    SnapshotPath(id): SnapshotPath,
    JsonBody(request): JsonBody<RestoreRequest>,
) -> Result<AcceptedJob, ApiError> {
    if request.rename_to.is_some() && request.collection.is_none() {
        return invalid("/rename_to", "works with collection only, because one name fits one collection");
    }
    Ok(AcceptedJob(api.service.restore_snapshot(&id, request).await?))
}

/// Download a snapshot
///
/// Streams the archive of a snapshot, with its length. You can upload it to another server. If that server has another model, it
/// can read the collections and re-embed them.
#[utoipa::path(
    get, path = "/v1/snapshots/{snapshot}/archive", tag = "snapshot_archives",
    responses((
        status = 200, description = "The archive.", body = SnapshotArchive, content_type = "application/zstd",
        example = json!("(binary)"),
    )),
)]
pub async fn download_snapshot(State(api): State<Api>, SnapshotPath(id): SnapshotPath) -> Result<Response, ApiError> {
    let (file, bytes) = api.service.open_snapshot(&id).await?;
    let response = Response::builder()
        .header(CONTENT_TYPE, ZSTD)
        .header(CONTENT_LENGTH, bytes)
        .header(CONTENT_DISPOSITION, format!("attachment; filename=\"{id}.tar.zst\""));
    response.body(Body::from_stream(archive_stream(file, bytes))).map_err(|error| ApiError::internal(error.to_string()))
}

/// Upload a snapshot
///
/// Receives the archive of a snapshot from this or another server, under an unused id. The whole archive is verified against
/// its checksums before the response; nothing of a damaged archive is kept.
#[utoipa::path(
    put, path = "/v1/snapshots/{snapshot}/archive", tag = "snapshot_archives",
    request_body(
        description = "The archive.", content((SnapshotArchive = "application/zstd", example = json!("(binary)"))),
    ),
    responses((
        status = 201, description = "The snapshot.", body = Snapshot,
        headers(("location" = String, description = "Path of the snapshot.")),
    )),
)]
pub async fn upload_snapshot(
    State(api): State<Api>,
    SnapshotPath(id): SnapshotPath,
    request: Request,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Snapshot>), ApiError> {
    let announced = archive_bytes(request.headers())?;
    let snapshot = api.service.receive_snapshot(&id, announced, request.into_body().into_data_stream()).await?;
    Ok((StatusCode::CREATED, [(LOCATION, format!("/v1/snapshots/{id}"))], Json(snapshot)))
}

/// Checks the headers of an archive; returns its size, if they include it.
fn archive_bytes(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let media_type = header(CONTENT_TYPE).unwrap_or("none");
    if !media_type.eq_ignore_ascii_case(ZSTD) {
        let detail = format!("must be {ZSTD}, got {media_type:?}");
        return Err(ApiError::parameter(Code::UnsupportedMediaType, "content-type", detail));
    }
    Ok(header(CONTENT_LENGTH).and_then(|bytes| bytes.parse().ok()))
}

/// The first `bytes` of a file.
fn archive_stream(file: File, bytes: u64) -> impl Stream<Item = io::Result<Vec<u8>>> {
    let mut file = file.take(bytes);
    blocking_stream(iter::from_fn(move || {
        let mut part = vec![0; BYTES_PER_READ];
        let read = file.read(&mut part).inspect(|read| part.truncate(*read));
        read.map(|read| (read > 0).then_some(part)).transpose()
    }))
}
