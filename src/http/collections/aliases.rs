//! `/v1/aliases`: other names of collections.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::{Alias, Caller, CollectionName};
use crate::http::api::Api;
use crate::http::error::ApiError;
use crate::http::request::cursor;
use crate::http::request::extract::{AliasPath, JsonBody, PageParameters, Parameters};
use crate::http::request::values::check_parsed;

/// The collection that an alias points to.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutAliasRequest {
    /// The collection's name.
    pub collection: String,
}

/// One page of aliases.
#[derive(Debug, Serialize, ToSchema)]
pub struct AliasList {
    /// Aliases in the order of their names.
    pub aliases: Vec<Alias>,
    /// Where the next page begins; omitted on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// List aliases
///
/// Lists aliases by name, page by page; with a restricted key only its own.
#[utoipa::path(
    get, path = "/v1/aliases", tag = "aliases", params(PageParameters),
    responses((status = 200, description = "One page of aliases.", body = AliasList)),
)]
pub async fn list_aliases(
    State(api): State<Api>,
    caller: Caller,
    parameters: Parameters<PageParameters>,
) -> Result<Json<AliasList>, ApiError> {
    let page = parameters.page(&api, "aliases", CollectionName::parse)?;
    let (aliases, next) = api.service.list_aliases(page, &caller).await?;
    Ok(Json(AliasList { aliases, next_cursor: next.map(|name| cursor::encode("aliases", name.as_str())) }))
}

/// Set an alias
///
/// Points an alias to a collection. The alias works wherever a collection's name does, except for deleting the collection. An
/// existing alias switches atomically, so you can rebuild a collection under a new name and switch over to it without downtime.
#[utoipa::path(
    put, path = "/v1/aliases/{alias}", tag = "aliases",
    params(("alias" = String, Path, description = "The alias; it follows the rules for collection names.", example = "current")),
    request_body(content = PutAliasRequest, description = "The collection."),
    responses((status = 200, description = "The alias points to the collection.", body = Alias)),
)]
pub async fn put_alias(
    State(api): State<Api>,
    AliasPath(name): AliasPath,
    JsonBody(body): JsonBody<PutAliasRequest>,
) -> Result<Json<Alias>, ApiError> {
    let collection = check_parsed("/collection", CollectionName::parse(&body.collection))?;
    Ok(Json(api.service.set_alias(Alias { name, collection }).await?))
}

/// Delete an alias
///
/// Deletes an alias, but not its collection.
#[utoipa::path(
    delete, path = "/v1/aliases/{alias}", tag = "aliases",
    responses((status = 204, description = "The alias was deleted.")),
)]
pub async fn delete_alias(State(api): State<Api>, AliasPath(name): AliasPath) -> Result<StatusCode, ApiError> {
    api.service.delete_alias(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
