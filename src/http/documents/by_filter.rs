//! Documents selected by a filter: scroll, count, delete and update them, and count the values of fields.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::DocumentList;
use super::changes::{expiry_change, merge_patch};
use crate::domain::{
    Code, DistinctJson, Document, DocumentId, DocumentOrder, DocumentPatch, Facet, Field, Filter, Limits, MetadataObject, Scalar,
    ScrollPosition, ScrollRequest, Test,
};
use crate::http::api::Api;
use crate::http::error::{ApiError, Checks, invalid};
use crate::http::request::cursor;
use crate::http::request::extract::{ABOUT_IDEMPOTENCY_KEY, CollectionPath, JsonBody, KeyedBody, PAGE_DEFAULT, check_limit};
use crate::http::request::filter::{self, FilterNode, VALUES_MAX};
use crate::http::request::values::{check_count, check_each, check_parsed, present};
use crate::http::response::streamed::Streamed;
use crate::http::search::facets::{self, FacetInput};
use crate::service::json::{objects, some_object};

/// Which documents to list, and in which order.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ScrollDocumentsRequest {
    /// Only documents that match; all by default.
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
    /// The order of the documents. Defaults to `id`.
    pub order: Option<ScrollOrder>,
    /// Whether to reverse the order.
    #[schema(default = false)]
    pub descending: Option<bool>,
    /// An order by any field, instead of `order` and `descending`.
    #[serde(default, deserialize_with = "some_object")]
    pub order_by: Option<OrderBy>,
    /// Maximum documents, from 1 to the server's limit (1000 unless configured otherwise).
    #[schema(minimum = 1, default = 20)]
    pub limit: Option<usize>,
    /// Where the page begins: `next_cursor` of the previous page, with the same filter and order. Leave it out for the first
    /// page.
    pub cursor: Option<String>,
}

/// `id`: by id. `created_at`: by the time when a document was first stored. `updated_at`: by the time when it was last stored;
/// a document that changes between two pages moves to the end.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScrollOrder {
    Id,
    CreatedAt,
    UpdatedAt,
}

/// An order by a field: numbers (false as 0, true as 1) before strings by code points, with arrays and objects among the
/// strings as their JSON; equal values by id. Documents without the value come last in both directions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OrderBy {
    /// A metadata path as in filters, `id`, `created_at` or `updated_at`.
    #[schema(min_length = 1, examples("year"))]
    pub field: String,
    /// The direction. Defaults to `asc`.
    pub direction: Option<SortDirection>,
}

/// `asc`: smallest first. `desc`: largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum SortDirection {
    Asc,
    Desc,
}

/// Which documents to count.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CountDocumentsRequest {
    /// Only documents that match; all by default.
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
}

/// The number of matching documents.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentCount {
    /// Number of documents that match.
    pub documents: u64,
}

/// Which documents to delete: exactly one of `filter` and `ids`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DeleteDocumentsRequest {
    /// The documents that match. To delete all documents, use `{"and": []}`.
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
    /// The documents with these ids, at most 10000. Ids without a document are ignored.
    #[schema(min_items = 1, max_items = 10000)]
    pub ids: Option<Vec<String>>,
}

/// The number of deleted documents.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedDocuments {
    /// Number of documents that this request deleted.
    pub deleted: u64,
}

/// Which documents to update, by exactly one of `filter` and `ids`, and what to change.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateDocumentsRequest {
    /// The documents that match. To update all documents, use `{"and": []}`.
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
    /// The documents with these ids, at most 10000. Ids without a document are ignored.
    #[schema(min_items = 1, max_items = 10000)]
    pub ids: Option<Vec<String>>,
    /// A merge patch of the metadata, as in `PATCH`.
    pub metadata: Option<MetadataObject>,
    /// When they expire: from then on they are not found, and they are removed. Null for never.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Option<String>>,
    /// The same, in seconds from now.
    #[schema(maximum = 3155760000u64)]
    pub ttl_seconds: Option<u64>,
}

/// The number of updated documents.
#[derive(Debug, Serialize, ToSchema)]
pub struct UpdatedDocuments {
    /// Number of documents that match.
    pub matched: u64,
    /// Number of documents that changed and have a new version.
    pub updated: u64,
}

/// Which values to count, over which documents.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CountFacetsRequest {
    /// Only documents that match; all by default.
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
    /// The fields whose values to count, 1 to 20.
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1, max_items = 20)]
    pub facets: Vec<FacetInput>,
}

/// Values and how many documents have them.
#[derive(Debug, Serialize, ToSchema)]
pub struct FacetsResult {
    /// Number of documents that match the filter.
    pub documents: u64,
    /// One facet per field, in the order of the request.
    pub facets: Vec<Facet>,
}

/// Scroll documents
///
/// Lists the documents that match a filter, in the requested order, page by page. Every document that exists throughout and
/// does not change appears exactly once. A page ends early if its texts and metadata are large (more than 1 MiB, and more than
/// 16 KiB per requested document); `next_cursor` continues from there.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/documents/scroll", tag = "documents",
    request_body(content = ScrollDocumentsRequest, description = "Which documents, and in which order."),
    responses((status = 200, description = "One page of documents.", body = DocumentList)),
)]
pub async fn scroll_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    JsonBody(body): JsonBody<ScrollDocumentsRequest>,
) -> Result<Streamed<Document>, ApiError> {
    let (limits, mut checks) = (api.service.limits(), Checks::default());
    let filter = checks.add(filter::parse(body.filter, limits));
    let limit = checks.add(check_limit(body.limit.unwrap_or(PAGE_DEFAULT.min(limits.page_max)), "/limit", limits));
    let order = checks.add(check_order(body.order, body.descending, body.order_by));
    let ((filter, limit), (order, descending)) = checks.end_with(filter.zip(limit).zip(order))?;
    let what = json!([format!("{order:?}"), descending, filter::print(&filter)]).to_string();
    let list = format!("scroll/{collection}/{:08x}", crc32fast::hash(what.as_bytes()));
    let after = body.cursor.map(|text| decode_position(&list, &text)).transpose()?;
    let request = ScrollRequest { filter, order, descending, limit, after };
    let page = api.service.collection(&collection)?.scroll(request).await?;
    let next =
        |after: ScrollPosition| cursor::encode(&list, &json!([to_cursor_value(after.value), after.id.as_str()]).to_string());
    Ok(Streamed::with_items(&DocumentList { documents: Vec::new(), next_cursor: page.next.map(next) }, page.documents))
}

/// Count documents
///
/// Counts the documents that match a filter.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/documents/count", tag = "documents",
    request_body(content = CountDocumentsRequest, description = "Which documents."),
    responses((status = 200, description = "How many there are.", body = DocumentCount)),
)]
pub async fn count_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    JsonBody(body): JsonBody<CountDocumentsRequest>,
) -> Result<Json<DocumentCount>, ApiError> {
    let filter = filter::parse(body.filter, api.service.limits())?;
    Ok(Json(DocumentCount { documents: api.service.collection(&collection)?.count(filter).await? }))
}

/// Delete documents by filter or by ids
///
/// Deletes the documents that match, or have these ids, and were last stored before this request. This takes several short
/// transactions, so other writes can run in between, and a request that fails midway has deleted some; send it again to delete
/// the rest. Once the response arrives, no search returns them.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/documents/delete", tag = "documents",
    params(("idempotency-key" = Option<String>, Header, description = ABOUT_IDEMPOTENCY_KEY)),
    request_body(content = DeleteDocumentsRequest, description = "Which documents."),
    responses((status = 200, description = "The documents were deleted.", body = DeletedDocuments)),
)]
pub async fn delete_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    KeyedBody(body, key): KeyedBody<DeleteDocumentsRequest>,
) -> Result<Json<DeletedDocuments>, ApiError> {
    let filter = selection_filter(body.filter, body.ids, api.service.limits())?;
    let deleted = api.service.collection(&collection)?.delete_matching(filter, key).await?;
    Ok(Json(DeletedDocuments { deleted }))
}

/// Update documents by filter or by ids
///
/// Changes metadata and expiry of the documents that match, or have these ids, and were last stored before this request. This
/// takes several short transactions: a request that fails midway has updated some; send it again to update the rest.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/documents/update", tag = "documents",
    params(("idempotency-key" = Option<String>, Header, description = ABOUT_IDEMPOTENCY_KEY)),
    request_body(content = UpdateDocumentsRequest, description = "Which documents, and what to change."),
    responses((status = 200, description = "The documents were updated.", body = UpdatedDocuments)),
)]
pub async fn update_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    KeyedBody(body, key): KeyedBody<UpdateDocumentsRequest>,
) -> Result<Json<UpdatedDocuments>, ApiError> {
    let limits = api.service.limits();
    let filter = selection_filter(body.filter, body.ids, limits)?;
    let expires_at_ms = expiry_change(body.expires_at, body.ttl_seconds, api.service.now_ms())?;
    if body.metadata.is_none() && expires_at_ms.is_none() {
        return invalid("", "must have metadata, expires_at or ttl_seconds");
    }
    let patch = DocumentPatch { expires_at_ms, ..limits.metadata_patch(merge_patch(body.metadata)?) };
    let [matched, updated] = api.service.collection(&collection)?.update_matching(filter, patch, key).await?;
    Ok(Json(UpdatedDocuments { matched, updated }))
}

/// Count the values of fields
///
/// Counts how many of the documents that match a filter have each value of a field: the languages of a collection, say, or the
/// most frequent tags.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/facets", tag = "documents",
    request_body(content = CountFacetsRequest, description = "Which fields, among which documents."),
    responses((status = 200, description = "The values, all counted in the same state of the collection.", body = FacetsResult)),
)]
pub async fn count_facets(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    JsonBody(body): JsonBody<CountFacetsRequest>,
) -> Result<Json<FacetsResult>, ApiError> {
    let mut checks = Checks::default();
    let filter = checks.add(filter::parse(body.filter, api.service.limits()));
    let facets = checks.add(facets::check(body.facets, api.service.limits()));
    let (filter, facets) = checks.end_with(filter.zip(facets))?;
    let facets = api.service.collection(&collection)?.facets(filter, facets).await?;
    Ok(Json(FacetsResult { documents: facets.documents, facets: facets.counts }))
}

fn selection_filter(filter: Option<DistinctJson>, ids: Option<Vec<String>>, limits: &Limits) -> Result<Filter, ApiError> {
    let refuse = |got| invalid("", format!("must have exactly one of filter and ids, got {got}"));
    match (filter, ids) {
        (Some(filter), None) => filter::parse(Some(filter), limits),
        (None, Some(ids)) => with_ids(&ids),
        (None, None) => refuse("none"),
        (Some(_), Some(_)) => refuse("both"),
    }
}

fn with_ids(ids: &[String]) -> Result<Filter, ApiError> {
    check_count("/ids", ids.len(), VALUES_MAX, "ids")?;
    let text = |id: DocumentId| Scalar::Text(id.as_str().to_owned());
    let ids = check_each("/ids", ids, |pointer, id| check_parsed(pointer, DocumentId::parse(id).map(text)))?;
    Ok(Filter::Field(Field::Id, Test::In(ids.into())))
}

fn decode_position(list: &str, text: &str) -> Result<ScrollPosition, ApiError> {
    let invalid = || {
        let detail = "must be the unchanged next_cursor of an earlier page of the same list, with the same filter and order";
        ApiError::at(Code::InvalidCursor, "/cursor", detail)
    };
    let after = cursor::decode(list, text).map_err(|_| invalid())?;
    let (value, id): (Value, String) = serde_json::from_str(&after).map_err(|_| invalid())?;
    let value = match value {
        Value::Null => None,
        Value::String(text) => Some(Scalar::Text(text)),
        Value::Number(number) => Some(Scalar::Integer(number.as_i64().ok_or_else(invalid)?)),
        other => Some(Scalar::Real(f64::from_bits(other["bits"].as_u64().ok_or_else(invalid)?))),
    };
    Ok(ScrollPosition { value, id: DocumentId::parse(&id).map_err(|_| invalid())? })
}

/// The value in a cursor. A number with a fraction is written as its bits, so parsing it does not round.
fn to_cursor_value(value: Option<Scalar>) -> Value {
    match value {
        Some(Scalar::Real(real)) => json!({ "bits": real.to_bits() }),
        other => json!(other),
    }
}

/// The order that a request asks for, and whether it is reversed.
fn check_order(
    order: Option<ScrollOrder>,
    descending: Option<bool>,
    order_by: Option<OrderBy>,
) -> Result<(DocumentOrder, bool), ApiError> {
    let Some(by) = order_by else {
        let order = match order.unwrap_or(ScrollOrder::Id) {
            ScrollOrder::Id => DocumentOrder::Id,
            ScrollOrder::CreatedAt => DocumentOrder::CreatedAt,
            ScrollOrder::UpdatedAt => DocumentOrder::UpdatedAt,
        };
        return Ok((order, descending.unwrap_or_default()));
    };
    let mut checks = Checks::default();
    for (pointer, given) in [("/order", order.is_some()), ("/descending", descending.is_some())] {
        if given {
            checks.add(invalid::<()>(pointer, "must be left out with order_by"));
        }
    }
    let field = match Field::parse(&by.field) {
        Ok(Field::Id) => Ok(DocumentOrder::Id),
        Ok(Field::CreatedAt) => Ok(DocumentOrder::CreatedAt),
        Ok(Field::UpdatedAt) => Ok(DocumentOrder::UpdatedAt),
        Ok(Field::Metadata(path)) => Ok(DocumentOrder::Metadata(path)),
        Ok(Field::Language) => {
            let detail = "must be a metadata path, id, created_at or updated_at, got the document's own language";
            invalid("/order_by/field", detail.to_owned())
        }
        Err(detail) => invalid("/order_by/field", detail),
    };
    let order = checks.add(field);
    checks.end_with(order).map(|order| (order, by.direction == Some(SortDirection::Desc)))
}
