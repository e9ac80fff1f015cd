//! `/v1/collections/{collection}/documents`: upserts, lists, reads and deletes documents.

pub mod batch;
pub mod by_filter;
mod changes;
pub mod import_export;
pub mod put_patch;

use axum::Json;
use axum::extract::State;
use axum::http::header::ETAG;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::api::Api;
use super::error::{ApiError, Violation};
use crate::domain::{Code, Document, DocumentFailure, DocumentId, Sequence, UpsertedDocument, Wait};
use crate::http::request::cursor;
use crate::http::request::extract::{ABOUT_IDEMPOTENCY_KEY, CollectionPath, DocumentPath, KeyedBody, PageParameters, Parameters};
use crate::http::request::preconditions::{RequiredPrecondition, etag};
use crate::http::request::values::check_count;
use crate::http::response::etags;
use crate::http::response::streamed::Streamed;
use crate::service::documents::input::{UpsertOutcome, check};
use batch::{DocumentBatch, UpsertDocumentsRequest};

/// The results for the documents of one request.
#[derive(Debug, Serialize, ToSchema)]
pub struct UpsertResult {
    /// One result per document, in the order of the request.
    pub results: Vec<DocumentResult>,
    /// How many documents were not stored.
    pub failed: u64,
}

/// The result for one document.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentResult {
    /// The id, given or generated; omitted if the document was refused before it had a valid one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub id: Option<DocumentId>,
    /// Whether it was created, updated, or not stored at all.
    pub status: DocumentStatus,
    /// The document's new version, which `etag` shows in quotes; omitted if it was not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>)]
    pub version: Option<Sequence>,
    /// Why it was not stored; omitted if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<DocumentFailure>,
}

/// `created`: the id was new. `updated`: the document with this id was replaced. `failed`: nothing of it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentStatus {
    Created,
    Updated,
    Failed,
}

/// One page of documents.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentList {
    /// Documents, in the order of their ids or in the requested order.
    pub documents: Vec<Document>,
    /// Where the next page begins; omitted on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// When to respond.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UpsertParameters {
    /// When to respond: `stored`, as soon as the documents are durable, or `indexed`, as soon as searches find them, too.
    #[param(value_type = Option<Wait>, default = "indexed")]
    pub wait: Option<String>,
}

/// Store documents
///
/// Stores one or more documents. A document whose id already exists is replaced, so a request can be sent again after a
/// timeout. Each document succeeds or fails by itself, with one result per document in the order of the request. The status is
/// 200 if all were stored and 207 if only some were. If none was, the response is an error with every document's place in
/// `errors`.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/documents", tag = "documents",
    params(("idempotency-key" = Option<String>, Header, description = ABOUT_IDEMPOTENCY_KEY), UpsertParameters),
    request_body(content = UpsertDocumentsRequest, description = "The documents."),
    responses(
        (status = 200, description = "All documents were stored.", body = UpsertResult),
        (status = 207, description = "Some documents were stored and `failed` others were not.", body = UpsertResult),
    ),
)]
pub async fn upsert_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    parameters: Parameters<UpsertParameters>,
    KeyedBody(DocumentBatch(documents), key): KeyedBody<DocumentBatch>,
) -> Result<(StatusCode, Json<UpsertResult>), ApiError> {
    let wait = parameters.wait()?;
    let limits = api.service.limits();
    check_count("/documents", documents.len(), limits.batch_documents_max, "documents (batch_documents_max)")?;
    let collection = api.service.collection(&collection)?;
    let (row, now_ms) = (collection.row(), api.service.now_ms());
    let documents = documents.into_iter().map(|input| input.and_then(|input| check(input, &row, limits, now_ms))).collect();
    upsert_response(collection.upsert(documents, wait, key).await?)
}

/// List documents
///
/// Lists a collection's documents in the order of their ids, page by page. A page ends early if its titles, texts and metadata
/// are large (more than 1 MiB, and more than 16 KiB per requested document); `next_cursor` continues from there.
#[utoipa::path(
    get, path = "/v1/collections/{collection}/documents", tag = "documents",
    params(PageParameters),
    responses((status = 200, description = "One page of documents.", body = DocumentList)),
)]
pub async fn list_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    parameters: Parameters<PageParameters>,
) -> Result<Streamed<Document>, ApiError> {
    let list = format!("documents/{collection}");
    let page = parameters.page(&api, &list, DocumentId::parse)?;
    let page = api.service.collection(&collection)?.list(page).await?;
    let next_cursor = page.next.map(|id| cursor::encode(&list, id.as_str()));
    Ok(Streamed::with_items(&DocumentList { documents: Vec::new(), next_cursor }, page.documents))
}

/// Get a document
///
/// Returns a stored document, with its language and whether it is searchable. With `if-none-match` and an entity tag that the
/// caller has, an unchanged document is not sent again.
#[utoipa::path(
    get, path = "/v1/collections/{collection}/documents/{id}", tag = "documents",
    params(("if-none-match" = Option<String>, Header, description = "Entity tags of versions that the caller has.")),
    responses(
        (
            status = 200, description = "The document.", body = Document,
            headers(("etag" = String, description = "The document's entity tag: its version in quotes.")),
        ),
        (
            status = 304, description = "The document has one of these entity tags.",
            headers(("etag" = String, description = "The document's entity tag: its version in quotes.")),
        ),
    ),
)]
pub async fn get_document(
    State(api): State<Api>,
    DocumentPath(collection, id): DocumentPath,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let document = api.service.collection(&collection)?.get(&id).await?;
    let etag = etag(document.sequence);
    if etags::is_known(&headers, &etag) {
        return Ok((StatusCode::NOT_MODIFIED, [(ETAG, etag)]).into_response());
    }
    Ok(([(ETAG, etag)], Json(document)).into_response())
}

/// Delete a document
///
/// Deletes a document. Once the response arrives, no search returns it.
#[utoipa::path(
    delete, path = "/v1/collections/{collection}/documents/{id}", tag = "documents",
    params(("if-match" = Option<String>, Header, description = "Deletes only a document with one of these entity tags.")),
    responses((status = 204, description = "The document was deleted.")),
)]
pub async fn delete_document(
    State(api): State<Api>,
    DocumentPath(collection, id): DocumentPath,
    RequiredPrecondition(precondition): RequiredPrecondition,
) -> Result<StatusCode, ApiError> {
    api.service.collection(&collection)?.delete(&id, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl Parameters<UpsertParameters> {
    pub fn wait(self) -> Result<Wait, ApiError> {
        self.read(|given| {
            let Some(name) = given.wait else { return Ok(Wait::default()) };
            let refuse = || format!("must be stored or indexed, got {name:?}");
            Wait::parse(&name).ok_or_else(|| ApiError::parameter(Code::InvalidRequest, "wait", refuse()))
        })
    }
}

/// Converts the outcomes, which are in the order of the request.
///
/// If nothing at all was stored, the request failed, and the response is an error: a client that looks only at the status
/// must not take it for a success. Its code is the most serious one: a failure of the server comes before a full queue, and
/// that comes before a mistake of the client.
fn upsert_response(outcomes: Vec<UpsertOutcome>) -> Result<(StatusCode, Json<UpsertResult>), ApiError> {
    let codes = outcomes.iter().filter_map(|outcome| outcome.as_ref().err().map(|refusal| refusal.code));
    // Of equally grave codes, the last one of the reversed order is the first.
    let worst = codes.rev().max_by_key(|code| code.class());
    let (mut results, mut violations) = (Vec::with_capacity(outcomes.len()), Vec::new());
    for (index, outcome) in outcomes.into_iter().enumerate() {
        results.push(match outcome {
            Ok(document) => DocumentResult::from(document),
            Err(refusal) => {
                let base = format!("/documents/{index}");
                let error = Some(refusal.failure(&base));
                violations.extend(refusal.problems.into_iter().map(|problem| Violation::from(problem).with_base_pointer(&base)));
                DocumentResult { id: refusal.id, status: DocumentStatus::Failed, version: None, error }
            }
        });
    }
    let failed = results.iter().filter(|result| result.error.is_some()).count();
    match worst {
        None => Ok((StatusCode::OK, Json(UpsertResult { results, failed: 0 }))),
        Some(code) if failed == results.len() => Err(ApiError::several(code, violations)),
        Some(_) => Ok((StatusCode::MULTI_STATUS, Json(UpsertResult { results, failed: failed as u64 }))),
    }
}

impl From<UpsertedDocument> for DocumentResult {
    fn from(UpsertedDocument { id, version, created }: UpsertedDocument) -> Self {
        let status = if created { DocumentStatus::Created } else { DocumentStatus::Updated };
        Self { id: Some(id), status, version: Some(version), error: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::documents::input::InvalidDocument;

    fn refused(code: Code) -> UpsertOutcome {
        Err(InvalidDocument::whole(None, code, "is wrong".to_owned()))
    }

    #[test]
    fn a_request_that_stores_no_document_fails_with_the_gravest_code() {
        let error = upsert_response(vec![refused(Code::InvalidRequest), refused(Code::Overloaded)]).unwrap_err();
        assert_eq!(error.code, Code::Overloaded);
        let error = upsert_response(vec![refused(Code::UnknownLanguage), refused(Code::InvalidRequest)]).unwrap_err();
        assert_eq!(error.code, Code::UnknownLanguage, "the first of two equally grave ones");
    }
}
