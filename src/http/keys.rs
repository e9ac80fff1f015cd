//! `/v1/keys`: creates, lists and revokes keys.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::api::Api;
use super::error::{ApiError, Checks, invalid};
use crate::domain::timestamps::parse_rfc3339;
use crate::domain::{CollectionName, CreateKeyRequest, Key, KeyId};
use crate::http::request::cursor;
use crate::http::request::extract::{JsonBody, KeyPath, PageParameters, Parameters};
use crate::http::request::values::{check_count, check_each, check_parsed};

const NAME_BYTES_MAX: usize = 256;
const COLLECTIONS_MAX: usize = 1_000;

/// A key that was just created.
#[derive(Debug, Serialize, ToSchema)]
pub struct CreatedKey {
    /// The key.
    pub key: Key,
    /// The secret, which requests send as `authorization: Bearer SECRET`. Shown only once: the server stores only its hash.
    pub secret: String,
}

/// One page of keys.
#[derive(Debug, Serialize, ToSchema)]
pub struct KeyList {
    /// Keys, oldest first, including those that expired in the last 30 days.
    pub keys: Vec<Key>,
    /// Where the next page begins; omitted on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// Create a key
///
/// Creates a key and returns its secret, which cannot be read again. Once there is a key, every request needs one, so the first
/// must be an unrestricted admin key that never expires.
#[utoipa::path(
    post, path = "/v1/keys", tag = "keys",
    request_body(content = CreateKeyRequest, description = "What the key is for and what it may do."),
    responses((status = 201, description = "The key was created; the response has its secret.", body = CreatedKey)),
)]
pub async fn create_key(
    State(api): State<Api>,
    JsonBody(body): JsonBody<CreateKeyRequest>,
) -> Result<(StatusCode, Json<CreatedKey>), ApiError> {
    let (collections, expires_at_ms) = check(&body)?;
    let (key, secret) = api.service.create_key(body.name, body.scope, collections, expires_at_ms).await?;
    Ok((StatusCode::CREATED, Json(CreatedKey { key, secret })))
}

/// List keys
///
/// Lists keys without their secrets, oldest first, page by page.
#[utoipa::path(
    get, path = "/v1/keys", tag = "keys", params(PageParameters),
    responses((status = 200, description = "One page of keys.", body = KeyList)),
)]
pub async fn list_keys(State(api): State<Api>, parameters: Parameters<PageParameters>) -> Result<Json<KeyList>, ApiError> {
    let page = parameters.page(&api, "keys", KeyId::parse)?;
    let (keys, next) = api.service.list_keys(page);
    Ok(Json(KeyList { keys, next_cursor: next.map(|id| cursor::encode("keys", id.as_str())) }))
}

/// Revoke a key
///
/// Revokes a key: once the response arrives, requests with it are refused. The last key that can create others and never
/// expires cannot be revoked, unless the server was started with an admin key.
#[utoipa::path(
    delete, path = "/v1/keys/{key}", tag = "keys",
    responses((status = 204, description = "The key was deleted and is refused from now on.")),
)]
pub async fn revoke_key(State(api): State<Api>, KeyPath(id): KeyPath) -> Result<StatusCode, ApiError> {
    api.service.revoke_key(&id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The collections that the key may access, and when it expires, in milliseconds since the Unix epoch.
fn check(body: &CreateKeyRequest) -> Result<(Option<Vec<CollectionName>>, Option<i64>), ApiError> {
    let mut checks = Checks::default();
    let bytes = body.name.len();
    if body.name.trim().is_empty() || bytes > NAME_BYTES_MAX {
        let blank = if bytes > NAME_BYTES_MAX { "" } else { " of white space" };
        let detail = format!("must have 1 to {NAME_BYTES_MAX} bytes and must not be blank, got {bytes}{blank}");
        checks.add::<()>(invalid("/name", detail));
    }
    let collections = checks.add_or_default(body.collections.as_deref().map(check_collections).transpose());
    let expires_at_ms = check_parsed("/expires_at", body.expires_at.as_deref().map(future_time).transpose());
    let expires_at_ms = checks.add_or_default(expires_at_ms);
    checks.end().map(|()| (collections, expires_at_ms))
}

fn check_collections(names: &[String]) -> Result<Vec<CollectionName>, ApiError> {
    check_count("/collections", names.len(), COLLECTIONS_MAX, "names, or be left out for all")?;
    check_each("/collections", names, |pointer, name| check_parsed(pointer, CollectionName::parse(name)))
}

/// Parses an RFC 3339 time in the future, as milliseconds since the Unix epoch.
fn future_time(text: &str) -> Result<i64, String> {
    let time_ms = parse_rfc3339(text)?;
    if time_ms <= jiff::Timestamp::now().as_millisecond() {
        return Err(format!("must be in the future, got {text:?}"));
    }
    Ok(time_ms)
}
