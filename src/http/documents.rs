//! `/v1/collections/{collection}/documents`: upsert, list, get, delete.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::Api;
use super::collections::rfc3339;
use super::cursor::{self, List};
use super::error::{ApiError, Violation};
use super::extract::{CollectionPath, DocumentPath, JsonBody, PageParameters, Parameters, objects};
use super::openapi::{OperationErrors, READ_ERRORS, WRITE_ERRORS};
use crate::domain::{self, Blame, Code, Document, DocumentId, Language, Limits, NewDocument, UpsertOutcome, UpsertStatus, Wait};

/// What each operation can answer besides success.
pub const ERRORS: &[OperationErrors] = &[
    ("upsert_documents", &[WRITE_ERRORS, &[Code::UnknownLanguage, Code::CollectionNotFound, Code::ModelMismatch]]),
    ("list_documents", &[READ_ERRORS, &[Code::InvalidCursor, Code::CollectionNotFound]]),
    ("get_document", &[READ_ERRORS, &[Code::CollectionNotFound, Code::DocumentNotFound]]),
    ("delete_document", &[READ_ERRORS, &[Code::CollectionNotFound, Code::DocumentNotFound, Code::Overloaded]]),
];

/// Documents to be stored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpsertDocumentsRequest {
    /// The documents: at least one, at most the server's limit (1000 unless configured otherwise).
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1)]
    pub documents: Vec<DocumentInput>,
}

/// A document as the caller sends it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentInput {
    /// The caller's own id: any text of 1 to 512 bytes without control characters. A stored document of the same id is
    /// replaced. Left out, the server makes a UUIDv7.
    #[serde(default)]
    #[schema(nullable = false, min_length = 1, max_length = 512)]
    pub id: Option<String>,
    /// The text, in any language: not blank, at most the server's limit (1 MiB unless configured otherwise).
    #[schema(min_length = 1)]
    pub text: String,
    /// ISO 639-1 code of the text's language, one that `GET /v1/models` lists. Left out, the server detects it.
    #[serde(default)]
    #[schema(nullable = false)]
    pub language: Option<String>,
    /// Whatever else is known of the document, to be filtered by and to be given back.
    #[serde(default)]
    #[schema(nullable = false)]
    pub metadata: Option<Metadata>,
}

/// A JSON object of the caller's own: at most 64 KiB as JSON and 8 levels deep, unless configured otherwise.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(value_type = std::collections::HashMap<String, Value>)]
pub struct Metadata(pub domain::Metadata);

/// What became of the documents of one request.
#[derive(Debug, Serialize, ToSchema)]
pub struct UpsertResult {
    /// One result per document, in the order of the request.
    pub results: Vec<DocumentResult>,
    /// How many documents were not stored.
    pub failed: u64,
}

/// What became of one document.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentResult {
    /// The id, given or made; omitted when the document was refused before it had a valid one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub id: Option<String>,
    /// Whether it was created, updated, or not stored at all.
    pub status: DocumentStatus,
    /// Why it was not stored; omitted when it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub error: Option<DocumentFailure>,
}

/// `created`: the id was new. `updated`: the document of this id was replaced. `failed`: nothing of it was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DocumentStatus {
    /// The id was new.
    Created,
    /// The document of this id was replaced.
    Updated,
    /// Nothing of it was stored.
    Failed,
}

/// Why one document was not stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentFailure {
    /// The kind of error, from the same closed list as that of whole requests.
    pub code: String,
    /// JSON pointer into the request body.
    pub pointer: String,
    /// The limit, what was expected and what came.
    pub detail: String,
}

/// A stored document.
#[derive(Debug, Serialize, ToSchema)]
pub struct StoredDocument {
    /// The id.
    pub id: String,
    /// The text as it was sent.
    pub text: String,
    /// ISO 639-1 code of the language, given or detected; omitted when none was recognized.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub language: Option<String>,
    /// How sure the detection of the language is, 0 to 1; omitted when the caller gave the language.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    pub language_confidence: Option<f32>,
    /// What the caller said of the document; empty when nothing.
    pub metadata: Metadata,
    /// How many passages the text was split into; each has an embedding of its own.
    #[schema(minimum = 1)]
    pub passages: usize,
    /// Whether all its passages are searchable.
    pub indexed: bool,
    /// When a document of this id was first stored.
    #[schema(format = DateTime)]
    pub created_at: String,
    /// When it was last stored.
    #[schema(format = DateTime)]
    pub updated_at: String,
    /// Grows with every change in the collection: the document's version.
    pub version: u64,
}

/// One page of documents.
#[derive(Debug, Serialize, ToSchema)]
pub struct DocumentList {
    /// Documents in the order of their ids.
    pub documents: Vec<StoredDocument>,
    /// Where the next page begins; omitted on the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub next_cursor: Option<String>,
}

/// When an upsert is answered: `stored`, once the documents are durable, or `indexed`, once they can be found, too.
#[derive(Debug, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum WaitFor {
    /// Once the documents are durable.
    Stored,
    /// Once they can be found, too.
    Indexed,
}

/// When to answer.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct UpsertParameters {
    /// When to answer: `stored`, once the documents are durable, or `indexed`, once searches find them, too.
    #[param(value_type = Option<WaitFor>, default = "indexed")]
    pub wait: Option<String>,
}

/// Store documents
///
/// Stores one or many documents; one whose id exists already is replaced, so a request may be sent again after a timeout.
/// Each document succeeds or fails by itself, with one result per document in the order of the request. The answer is 200 when
/// all were stored, 207 when only some were, and an error, with every document's place in `errors`, when none was.
#[utoipa::path(
    post, path = "/v1/collections/{collection}/documents", tag = "documents",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news"), UpsertParameters),
    request_body(content = UpsertDocumentsRequest, description = "The documents."),
    responses(
        (status = 200, description = "All documents were stored.", body = UpsertResult),
        (status = 207, description = "Some documents were stored and some failed; `failed` says how many.", body = UpsertResult),
    ),
)]
pub async fn upsert_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    Parameters(parameters): Parameters<UpsertParameters>,
    JsonBody(body): JsonBody<UpsertDocumentsRequest>,
) -> Result<(StatusCode, Json<UpsertResult>), ApiError> {
    let wait = parse_wait(parameters.wait.as_deref())?;
    let (max, got) = (api.service.limits().batch_documents_max, body.documents.len());
    if !(1..=max).contains(&got) {
        let detail = format!("must hold 1 to {max} documents, got {got}");
        return Err(ApiError::at(Code::InvalidRequest, "/documents", detail));
    }
    let checked = body.documents.into_iter().map(|input| check(input, api.service.limits()));
    let (mut accepted, mut items) = (Vec::new(), Vec::with_capacity(got));
    for outcome in checked {
        items.push(outcome.map(|document| accepted.push(document)));
    }
    let outcomes = match accepted.len() {
        0 => Vec::new(),
        _ => api.service.upsert(&collection, accepted, wait).await?,
    };
    answer(items, outcomes)
}

/// List documents
///
/// Lists a collection's documents in the order of their ids, page by page.
#[utoipa::path(
    get, path = "/v1/collections/{collection}/documents", tag = "documents",
    params(("collection" = String, Path, description = "Name of the collection.", example = "news"), PageParameters),
    responses((status = 200, description = "One page of documents.", body = DocumentList)),
)]
pub async fn list_documents(
    State(api): State<Api>,
    CollectionPath(collection): CollectionPath,
    Parameters(parameters): Parameters<PageParameters>,
) -> Result<Json<DocumentList>, ApiError> {
    let list = List::Documents(&collection);
    let page = parameters.page(&api, &list, DocumentId::parse)?;
    let page = api.service.list_documents(&collection, page).await?;
    Ok(Json(DocumentList {
        documents: page.documents.into_iter().map(StoredDocument::from).collect(),
        next_cursor: page.next.map(|id| cursor::encode(&list, id.as_str())),
    }))
}

/// Get a document
///
/// Gives a document as it is stored, with its language and whether it is searchable.
#[utoipa::path(
    get, path = "/v1/collections/{collection}/documents/{id}", tag = "documents",
    params(
        ("collection" = String, Path, description = "Name of the collection.", example = "news"),
        ("id" = String, Path, description = "Id of the document, percent-encoded: a slash within it is `%2F`.", example = "fr-1"),
    ),
    responses((status = 200, description = "The document.", body = StoredDocument)),
)]
pub async fn get_document(
    State(api): State<Api>,
    DocumentPath(collection, id): DocumentPath,
) -> Result<Json<StoredDocument>, ApiError> {
    Ok(Json(api.service.get_document(&collection, &id).await?.into()))
}

/// Delete a document
///
/// Deletes a document. Once this is answered, no search returns it.
#[utoipa::path(
    delete, path = "/v1/collections/{collection}/documents/{id}", tag = "documents",
    params(
        ("collection" = String, Path, description = "Name of the collection.", example = "news"),
        ("id" = String, Path, description = "Id of the document, percent-encoded: a slash within it is `%2F`.", example = "fr-1"),
    ),
    responses((status = 204, description = "The document is gone.")),
)]
pub async fn delete_document(State(api): State<Api>, DocumentPath(collection, id): DocumentPath) -> Result<StatusCode, ApiError> {
    api.service.delete_document(&collection, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Why a document is refused before the service sees it, and its id if that is valid.
struct Refusal {
    id: Option<DocumentId>,
    code: Code,
    member: &'static str,
    detail: String,
}

fn parse_wait(wait: Option<&str>) -> Result<Wait, ApiError> {
    match wait {
        None | Some("indexed") => Ok(Wait::Indexed),
        Some("stored") => Ok(Wait::Stored),
        Some(other) => {
            Err(ApiError::parameter(Code::InvalidRequest, "wait", format!("must be stored or indexed, got {other:?}")))
        }
    }
}

fn check(input: DocumentInput, limits: &Limits) -> Result<NewDocument, Refusal> {
    let id = input.id.as_deref().map(DocumentId::parse).transpose();
    let id = id.map_err(|error| Refusal { id: None, code: Code::InvalidRequest, member: "/id", detail: error.to_string() })?;
    let refuse = |code, member, detail| Refusal { id: id.clone(), code, member, detail };
    let invalid = |member, detail| Err(refuse(Code::InvalidRequest, member, detail));
    if input.text.trim().is_empty() {
        return invalid("/text", "must hold something besides white space".to_owned());
    }
    let (max, got) = (limits.text_bytes_max, input.text.len());
    if got > max {
        return invalid("/text", format!("must have at most {max} bytes, got {got}"));
    }
    let language = match input.language {
        None => None,
        Some(code) => {
            Some(Language::parse(&code).ok_or_else(|| refuse(Code::UnknownLanguage, "/language", unknown_language(&code)))?)
        }
    };
    let metadata = input.metadata.unwrap_or_default().0;
    let (max, got) = (limits.metadata_depth_max, depth(metadata.values()));
    if got > max {
        return invalid("/metadata", format!("must be at most {max} levels deep, got {got}"));
    }
    let (max, got) = (limits.metadata_bytes_max, serde_json::to_vec(&metadata).map_or(usize::MAX, |json| json.len()));
    if got > max {
        return invalid("/metadata", format!("must have at most {max} bytes as JSON, got {got}"));
    }
    Ok(NewDocument { id, text: input.text, language, metadata })
}

/// Says what a language must be.
pub fn unknown_language(got: &str) -> String {
    format!("must be one of the {} ISO 639-1 codes that GET /v1/models lists, in lower case, got {got:?}", Language::COUNT)
}

/// Levels of an object or array with these members, itself counted.
fn depth<'a>(members: impl Iterator<Item = &'a Value>) -> usize {
    let below = members.map(|value| match value {
        Value::Object(object) => depth(object.values()),
        Value::Array(array) => depth(array.iter()),
        _ => 0,
    });
    1 + below.max().unwrap_or(0)
}

/// Puts the refused and the stored together in the order of the request.
///
/// When nothing at all was stored the request failed, and the answer is an error: a client that looks only at the status must
/// not take it for a success. Its code is the one that a repetition can mend least: a failure of the server before a full
/// queue, that before a mistake of the client.
fn answer(items: Vec<Result<(), Refusal>>, outcomes: Vec<UpsertOutcome>) -> Result<(StatusCode, Json<UpsertResult>), ApiError> {
    let mut outcomes = outcomes.into_iter();
    let mut worst: Option<Code> = None;
    let mut results = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        let (id, failure) = match item {
            Err(refusal) => (refusal.id, Err((refusal.code, refusal.member, refusal.detail))),
            Ok(()) => match outcomes.next() {
                None => (None, Err((Code::Internal, "", "the server lost the result of this document".to_owned()))),
                Some(UpsertOutcome { id, status }) => match status {
                    UpsertStatus::Created => (id, Ok(DocumentStatus::Created)),
                    UpsertStatus::Updated => (id, Ok(DocumentStatus::Updated)),
                    UpsertStatus::Failed { code, detail } => (id, Err((code, "", detail))),
                },
            },
        };
        let id = id.map(|id| id.as_str().to_owned());
        results.push(match failure {
            Ok(status) => DocumentResult { id, status, error: None },
            Err((code, member, detail)) => {
                worst = Some(worst.map_or(code, |worst| if weight(code) > weight(worst) { code } else { worst }));
                let pointer = format!("/documents/{index}{member}");
                let error = Some(DocumentFailure { code: code.name().to_owned(), pointer, detail });
                DocumentResult { id, status: DocumentStatus::Failed, error }
            }
        });
    }
    let failed = results.iter().filter(|result| result.error.is_some()).count();
    match worst {
        None => Ok((StatusCode::OK, Json(UpsertResult { results, failed: 0 }))),
        Some(code) if failed == results.len() => {
            let errors = results.into_iter().filter_map(|result| result.error);
            Err(ApiError::several(code, errors.map(|error| Violation::at(error.pointer, error.detail)).collect()))
        }
        Some(_) => Ok((StatusCode::MULTI_STATUS, Json(UpsertResult { results, failed: failed as u64 }))),
    }
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
            text: document.text,
            language: document.language.map(|language| language.code().to_owned()),
            language_confidence: document.language_confidence,
            metadata: Metadata(document.metadata),
            passages: document.passages,
            indexed: document.indexed,
            created_at: rfc3339(document.created_at_ms),
            updated_at: rfc3339(document.updated_at_ms),
            version: document.sequence.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(status: UpsertStatus) -> UpsertOutcome {
        UpsertOutcome { id: DocumentId::parse("a").ok(), status }
    }

    fn refusal() -> Result<(), Refusal> {
        Err(Refusal { id: None, code: Code::InvalidRequest, member: "/text", detail: "is blank".to_owned() })
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

    #[test]
    fn depth_counts_objects_and_arrays() {
        let levels = |value: Value| depth(value.as_object().unwrap().values());
        assert_eq!(levels(serde_json::json!({})), 1);
        assert_eq!(levels(serde_json::json!({"a": 1})), 1);
        assert_eq!(levels(serde_json::json!({"a": [{"b": 1}], "c": {}})), 3);
    }
}
