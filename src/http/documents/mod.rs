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
use crate::domain::timestamps::rfc3339;
use crate::domain::{Blame, Code, Document, DocumentId, MetadataObject, UpsertOutcome, UpsertStatus, Wait};
use crate::http::openapi::operation_errors::{OperationErrors, READ_ERRORS, WRITE_ERRORS};
use crate::http::openapi::operations::{Example, examples};
use crate::http::request::cursor::{self, List};
use crate::http::request::extract::{CollectionPath, DocumentPath, KeyedBody, PageParameters, Parameters};
use crate::http::request::preconditions::{Demanded, etag};
use crate::http::response::etags;
use crate::http::response::streamed::Streamed;
use crate::service::documents::input::{DocumentProblem, Refusal, check};
use batch::{DocumentBatch, UpsertDocumentsRequest};

/// The errors of each operation.
pub const ERRORS: &[OperationErrors] = &[
    (
        "upsert_documents",
        &[
            WRITE_ERRORS,
            &[
                Code::UnknownLanguage,
                Code::CollectionNotFound,
                Code::ModelMismatch,
                Code::IdempotencyConflict,
                Code::DocumentPending,
            ],
        ],
    ),
    ("list_documents", &[READ_ERRORS, &[Code::InvalidCursor, Code::CollectionNotFound]]),
    ("get_document", &[READ_ERRORS, &[Code::CollectionNotFound, Code::DocumentNotFound]]),
    (
        "delete_document",
        &[READ_ERRORS, &[Code::CollectionNotFound, Code::DocumentNotFound, Code::PreconditionFailed, Code::Overloaded]],
    ),
];

/// Examples of their bodies.
pub const EXAMPLES: &[Example] = examples![
    "upsert_documents.request",
    "upsert_documents.200",
    "upsert_documents.207",
    "list_documents.200",
    "get_document.200"
];

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
    /// The id, given or generated; omitted if the document was rejected before it had a valid one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Whether it was created, updated, or not stored at all.
    pub status: DocumentStatus,
    /// The document's new version, which `etag` shows in quotes; omitted if it was not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Why it was not stored; omitted if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<DocumentFailure>,
}

/// `created`: the id was new. `updated`: the document with this id was replaced. `failed`: nothing of it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentStatus {
    /// The id was new.
    Created,
    /// The document with this id was replaced.
    Updated,
    /// Nothing of it was stored.
    Failed,
}

/// Why one document was not stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentFailure {
    /// The error code, from the same closed list as for whole requests.
    #[schema(value_type = Code)]
    pub code: String,
    /// JSON pointer into the request body.
    pub pointer: String,
    /// The limit, what was expected and what was given.
    pub detail: String,
}

/// A stored document.
#[derive(Debug, Serialize, ToSchema)]
pub struct StoredDocument {
    /// The id.
    pub id: String,
    /// The title as it was sent; omitted if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The text as it was sent.
    pub text: String,
    /// ISO 639-1 code of the language, given or detected; omitted if none was recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Confidence of the language detection, 0 to 1; omitted if the caller gave the language.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1)]
    pub language_confidence: Option<f32>,
    /// The caller's metadata; may be empty.
    pub metadata: MetadataObject,
    /// How many passages the text was split into; each has its own embedding.
    #[schema(minimum = 1)]
    pub passages: usize,
    /// Whether all its passages are searchable.
    pub indexed: bool,
    /// When a document with this id was first stored.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was last stored.
    #[schema(format = DateTime)]
    pub updated_at: String,
    /// From when on it is not found; omitted if it stays.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// The document's version; it grows with every change in the collection.
    pub version: u64,
}

/// One page of documents.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentList {
    /// Documents, in the order of their ids or in the requested order.
    pub documents: Vec<StoredDocument>,
    /// Where the next page begins; omitted on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// When the server answers an upsert: `stored`, once the documents are durable, or `indexed`, once searches also find them.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum WaitFor {
    /// Once the documents are durable.
    Stored,
    /// Once searches also find them.
    Indexed,
}

/// When to answer.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct UpsertParameters {
    /// When to answer: `stored`, once the documents are durable, or `indexed`, once searches also find them.
    #[param(value_type = Option<WaitFor>, default = "indexed")]
    pub wait: Option<String>,
}

/// Store documents
///
/// Stores one or more documents. A document whose id already exists is replaced, so a request can be sent again after a timeout.
/// Each document succeeds or fails by itself, with one result per document in the order of the request. The status is 200 if
/// all were stored and 207 if only some were. If none was, the response is an error with every document's place in `errors`.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/documents", tag = "documents",
    params(
        ("collection" = String, Path, description = "Name of the collection.", example = "news"),
        ("idempotency-key" = Option<String>, Header, description = "A name of your choice for this request, 1 to 255 printable \
            ASCII characters: if you send it again within 24 hours, the server repeats its answer and does nothing."),
        UpsertParameters,
    ),
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
    let (max, got) = (api.service.limits().batch_documents_max, documents.len());
    if !(1..=max).contains(&got) {
        let detail = format!("must hold 1 to {max} documents (batch_documents_max), got {got}");
        return Err(ApiError::at(Code::InvalidRequest, "/documents", detail));
    }
    let collection = api.service.collection(&collection)?;
    let row = collection.row();
    let checked = documents.into_iter().map(|input| input.and_then(|input| check(input, &row, api.service.limits())));
    let (mut accepted, mut items) = (Vec::new(), Vec::with_capacity(got));
    for outcome in checked {
        items.push(outcome.map(|document| accepted.push(document)));
    }
    let outcomes = match accepted.len() {
        0 => Vec::new(),
        _ => match key {
            Some(key) => collection.upsert_once(accepted, wait, key).await?,
            None => collection.upsert(accepted, wait).await?,
        },
    };
    answer(items, outcomes)
}

/// List documents
///
/// Lists a collection's documents in the order of their ids, page by page. A page ends early if its titles, texts and metadata
/// are large (more than 1 MiB, and than 16 KiB per requested document); `next_cursor` continues from there.
#[utoipa::path(
    get, path = "/v1/collections/{collection}/documents", tag = "documents",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news"), PageParameters),
    responses((status = 200, description = "One page of documents.", body = DocumentList)),
)]
pub async fn list_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    parameters: Parameters<PageParameters>,
) -> Result<Streamed<StoredDocument>, ApiError> {
    let list = List::Documents(&collection);
    let page = parameters.page(&api, &list, DocumentId::parse)?;
    let page = api.service.collection(&collection)?.list(page).await?;
    let next_cursor = page.next.map(|id| cursor::encode(&list, id.as_str()));
    let documents = page.documents.into_iter().map(StoredDocument::from);
    Ok(Streamed::within(&DocumentList { documents: Vec::new(), next_cursor }, documents))
}

/// Get a document
///
/// Returns a stored document, with its language and whether it is searchable. `if-none-match` with the entity tag that the caller
/// has spares an unchanged document its way.
#[utoipa::path(
    get, path = "/v1/collections/{collection}/documents/{id}", tag = "documents",
    params(
        ("collection" = String, Path, description = "Name of the collection.", example = "news"),
        ("id" = String, Path, description = "Id of the document, percent-encoded: a slash within it is `%2F`.", example = "fr-1"),
        ("if-none-match" = Option<String>, Header, description = "Entity tags of versions that the caller has."),
    ),
    responses(
        (
            status = 200, description = "The document.", body = StoredDocument,
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
    Ok(([(ETAG, etag)], Json(StoredDocument::from(document))).into_response())
}

/// Delete a document
///
/// Deletes a document. Once the response arrives, no search returns it.
#[utoipa::path(
    delete, path = "/v1/collections/{collection}/documents/{id}", tag = "documents",
    params(
        ("collection" = String, Path, description = "Name of the collection.", example = "news"),
        ("id" = String, Path, description = "Id of the document, percent-encoded: a slash within it is `%2F`.", example = "fr-1"),
        ("if-match" = Option<String>, Header, description = "Deletes only a document with one of these entity tags."),
    ),
    responses((status = 204, description = "The document was deleted.")),
)]
pub async fn delete_document(
    State(api): State<Api>,
    DocumentPath(collection, id): DocumentPath,
    Demanded(precondition): Demanded,
) -> Result<StatusCode, ApiError> {
    api.service.collection(&collection)?.delete(&id, precondition).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl Parameters<UpsertParameters> {
    /// When to answer.
    pub fn wait(self) -> Result<Wait, ApiError> {
        self.read(|given| match given.wait.as_deref() {
            None | Some("indexed") => Ok(Wait::Indexed),
            Some("stored") => Ok(Wait::Stored),
            Some(other) => {
                Err(ApiError::parameter(Code::InvalidRequest, "wait", format!("must be stored or indexed, got {other:?}")))
            }
        })
    }
}

/// Combines the results of rejected and stored documents in the order of the request.
///
/// If nothing at all was stored, the request failed, and the response is an error: a client that looks only at the status must
/// not take it for a success. Its code is the one that a retry can help least: a failure of the server before a full
/// queue, that before a mistake of the client.
fn answer(items: Vec<Result<(), Refusal>>, outcomes: Vec<UpsertOutcome>) -> Result<(StatusCode, Json<UpsertResult>), ApiError> {
    let mut outcomes = outcomes.into_iter();
    let mut worst: Option<Code> = None;
    let (mut results, mut violations) = (Vec::with_capacity(items.len()), Vec::new());
    for (index, item) in items.into_iter().enumerate() {
        let base = format!("/documents/{index}");
        let (id, version, done) = match item {
            Err(refusal) => (refusal.id.clone(), None, Err(refusal)),
            Ok(()) => match outcomes.next() {
                None => (None, None, Err(lost(Code::Internal, "the server lost the result of this document".to_owned()))),
                Some(UpsertOutcome { id, status, version }) => match status {
                    UpsertStatus::Created => (id, version, Ok(DocumentStatus::Created)),
                    UpsertStatus::Updated => (id, version, Ok(DocumentStatus::Updated)),
                    UpsertStatus::Failed { code, detail } => (id, None, Err(lost(code, detail))),
                },
            },
        };
        let id = id.map(|id| id.as_str().to_owned());
        let version = version.map(|version| version.0);
        results.push(match done {
            Ok(status) => DocumentResult { id, status, version, error: None },
            Err(refusal) => {
                let code = refusal.code;
                worst = Some(worst.map_or(code, |worst| if weight(code) > weight(worst) { code } else { worst }));
                let (pointer, detail) = refusal.summary(&base);
                let error = Some(DocumentFailure { code: code.name().to_owned(), pointer, detail });
                violations.extend(refusal.problems.into_iter().map(|problem| Violation::from(problem).within(&base)));
                DocumentResult { id, status: DocumentStatus::Failed, version, error }
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

/// Why a document as a whole was not stored.
fn lost(code: Code, detail: String) -> Refusal {
    Refusal { id: None, code, problems: vec![DocumentProblem::at("", detail)] }
}

fn weight(code: Code) -> u8 {
    match code.blame() {
        Blame::Client => 0,
        Blame::Capacity => 1,
        Blame::Server => 2,
    }
}

impl From<Document> for StoredDocument {
    fn from(document: Document) -> Self {
        Self {
            id: document.id.as_str().to_owned(),
            title: document.title,
            text: document.text,
            language: document.language.map(|language| language.code().to_owned()),
            language_confidence: document.language_confidence,
            metadata: MetadataObject(document.metadata),
            passages: document.passages,
            indexed: document.indexed,
            created_at: rfc3339(document.created_at_ms),
            updated_at: rfc3339(document.updated_at_ms),
            expires_at: document.expires_at_ms.map(rfc3339),
            version: document.sequence.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: UpsertStatus) -> UpsertOutcome {
        UpsertOutcome { id: DocumentId::parse("a").ok(), status, version: None }
    }

    fn refusal() -> Result<(), Refusal> {
        Err(Refusal { id: None, code: Code::InvalidRequest, problems: vec![DocumentProblem::at("/text", "is blank")] })
    }

    fn full() -> UpsertOutcome {
        outcome(UpsertStatus::Failed { code: Code::Overloaded, detail: "the queue is full".to_owned() })
    }

    #[test]
    fn an_answer_is_a_plain_success_only_when_all_were_stored() {
        let created = || outcome(UpsertStatus::Created);
        let (status, Json(body)) = answer(vec![Ok(()), Ok(())], vec![created(), created()]).unwrap();
        assert_eq!((status, body.failed), (StatusCode::OK, 0));
        let (status, Json(body)) = answer(vec![refusal(), Ok(())], vec![created()]).unwrap();
        assert_eq!((status, body.failed), (StatusCode::MULTI_STATUS, 1));
        assert_eq!(
            body.results.iter().map(|result| result.status).collect::<Vec<_>>(),
            [DocumentStatus::Failed, DocumentStatus::Created]
        );
    }

    #[test]
    fn a_request_of_which_nothing_was_stored_failed() {
        let error = answer(vec![refusal(), refusal()], Vec::new()).unwrap_err();
        assert_eq!((error.code, error.errors.len()), (Code::InvalidRequest, 2));
        let error = answer(vec![refusal(), Ok(())], vec![full()]).unwrap_err();
        assert_eq!(error.code, Code::Overloaded);
    }
}
