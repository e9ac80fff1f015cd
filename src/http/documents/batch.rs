//! The documents of an upsert, each parsed separately: one that is invalid does not affect the others.

use serde::Deserialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::domain::{Code, DocumentId};
use crate::http::error::{ApiError, Violation};
use crate::http::request::body_schemas::BodySchema;
use crate::http::request::extract::{RequestBody, parse_json, read_json, read_part};
use crate::service::documents::input::{DocumentInput, DocumentProblem, InvalidDocument};
use crate::service::json::objects;

/// Documents to store.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpsertDocumentsRequest {
    /// The documents: at least one, at most the server's limit (1000 unless configured otherwise).
    #[serde(deserialize_with = "objects")]
    #[schema(min_items = 1)]
    pub documents: Vec<DocumentInput>,
}

/// The documents of an `UpsertDocumentsRequest`.
pub struct DocumentBatch(pub Vec<Result<DocumentInput, InvalidDocument>>);

/// The same, with documents that are not parsed yet.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnreadBatch {
    documents: Vec<Box<RawValue>>,
}

/// The id of a document that cannot be parsed otherwise.
#[derive(Deserialize)]
struct Named {
    id: Option<String>,
}

impl RequestBody for DocumentBatch {
    fn read(json: &[u8], schema: BodySchema<'_>) -> Result<Self, ApiError> {
        let refused = match read_json::<UpsertDocumentsRequest>(json, schema) {
            Ok(request) => return Ok(Self(request.documents.into_iter().map(Ok).collect())),
            Err(error) if error.code == Code::InvalidRequest => error,
            Err(error) => return Err(error),
        };
        let batch: UnreadBatch = parse_json(json).map_err(|_| refused)?;
        let element = schema.component("DocumentInput");
        let read = |document: Box<RawValue>| read_element(document.get().as_bytes(), element);
        Ok(Self(batch.documents.into_iter().map(read).collect()))
    }
}

fn read_element(json: &[u8], schema: BodySchema<'_>) -> Result<DocumentInput, InvalidDocument> {
    read_part(json, schema).map_err(|error| {
        let id = parse_json(json).ok().and_then(|named: Named| DocumentId::parse_new(&named.id?).ok());
        let problem = |violation: Violation| DocumentProblem::at(violation.pointer.unwrap_or_default(), violation.detail);
        let problems = match error.errors.is_empty() {
            true => vec![DocumentProblem::at("", error.detail.replacen("the body", "the document", 1))],
            false => error.errors.into_iter().map(problem).collect(),
        };
        InvalidDocument { id, code: error.code, problems }
    })
}

impl From<DocumentProblem> for Violation {
    fn from(problem: DocumentProblem) -> Self {
        Self::at(problem.pointer, problem.detail)
    }
}

impl From<InvalidDocument> for ApiError {
    fn from(refusal: InvalidDocument) -> Self {
        Self::several(refusal.code, refusal.problems.into_iter().map(Violation::from).collect())
    }
}
