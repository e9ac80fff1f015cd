//! Conditional writes to one document: replacing it as a whole, or patching everything but its text.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{ETAG, HeaderName};
use serde::Deserialize;
use utoipa::ToSchema;

use super::changes::{expiry_change, merge_patch};
use super::{DocumentResult, UpsertParameters};
use crate::domain::{
    Code, Document, DocumentId, DocumentPatch, InvalidId, Language, LanguageTagError, MetadataObject, check_title,
};
use crate::http::api::Api;
use crate::http::error::{ApiError, invalid};
use crate::http::request::extract::{DocumentPath, JsonBody, Parameters};
use crate::http::request::preconditions::{RequiredPrecondition, etag};
use crate::http::request::values::{check_parsed, present, refused_tag};
use crate::service::documents::input::{DocumentInput, check};

/// How to get the language detected instead of setting it.
const DETECT_LANGUAGE: &str = "to detect the language, PUT the document without one";

/// Changes to a document; at least one member.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchDocumentRequest {
    /// A new title, as in a document; null removes it. The text is then split and embedded again.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 1000)]
    pub title: Option<Option<String>>,
    /// A merge patch of the metadata (RFC 7396): null removes a member, an object is merged with the existing one, everything
    /// else replaces it.
    pub metadata: Option<MetadataObject>,
    /// The correct language of the text, as a BCP 47 tag.
    pub language: Option<String>,
    /// When it expires: from then on it is not found, and it is removed. Null for never.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub expires_at: Option<Option<String>>,
    /// The same, in seconds from now.
    #[schema(maximum = 3155760000u64)]
    pub ttl_seconds: Option<u64>,
}

/// Put a document
///
/// Stores one document under the id in the path, and replaces a stored document with this id. With `if-match`, it replaces only
/// a version that the caller has seen; with `if-none-match: *`, it only creates.
#[utoipa::path(
    put, path = "/v1/collections/{collection}/documents/{id}", tag = "documents",
    params(
        ("if-match" = Option<String>, Header, description = "Replaces only a document with one of these entity tags, or with `*` any that exists."),
        ("if-none-match" = Option<String>, Header, description = "`*`: stores the document only if none has this id."),
        UpsertParameters,
    ),
    request_body(content = DocumentInput, description = "The document; its id, if it has one, is that of the path."),
    responses(
        (status = 200, description = "The document was replaced.", body = DocumentResult,
            headers(("etag" = String, description = "The entity tag of the new version."))),
        (status = 201, description = "The document was created.", body = DocumentResult,
            headers(("etag" = String, description = "The entity tag of the new version."))),
    ),
)]
pub async fn put_document(
    State(api): State<Api>,
    DocumentPath(collection, id): DocumentPath,
    RequiredPrecondition(precondition): RequiredPrecondition,
    parameters: Parameters<UpsertParameters>,
    JsonBody(body): JsonBody<DocumentInput>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<DocumentResult>), ApiError> {
    let wait = parameters.wait()?;
    let refuse = |error: InvalidId| ApiError::parameter(Code::InvalidRequest, "id", error.to_string());
    let id = DocumentId::parse_new(id.as_str()).map_err(refuse)?;
    if let Some(other) = body.id.as_deref().filter(|given| *given != id.as_str()) {
        return invalid("/id", format!("must be {:?}, the id of the path, or be left out, got {other:?}", id.as_str()));
    }
    let input = DocumentInput { id: Some(id.as_str().to_owned()), ..body };
    let collection = api.service.collection(&collection)?;
    let document = check(input, &collection.row(), api.service.limits(), api.service.now_ms())?;
    let stored = collection.put(document, wait, precondition).await??;
    let code = if stored.created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((code, [(ETAG, etag(stored.version))], Json(stored.into())))
}

/// Patch a document
///
/// Changes metadata by a merge patch, corrects the language, and sets or removes title and expiry. The text does not change;
/// only a new title requires embedding it again, which needs the collection's model. Filters see the change at once. A patch
/// that changes nothing keeps the version.
#[utoipa::path(
    patch, path = "/v1/collections/{collection}/documents/{id}", tag = "documents",
    params(
        ("if-match" = Option<String>, Header, description = "Changes the document only if it has one of these entity tags."),
        UpsertParameters,
    ),
    request_body(content = PatchDocumentRequest, description = "What to change."),
    responses((
        status = 200, description = "The changed document.", body = Document,
        headers(("etag" = String, description = "The document's entity tag.")),
    )),
)]
pub async fn patch_document(
    State(api): State<Api>,
    DocumentPath(collection, id): DocumentPath,
    RequiredPrecondition(precondition): RequiredPrecondition,
    parameters: Parameters<UpsertParameters>,
    JsonBody(body): JsonBody<PatchDocumentRequest>,
) -> Result<([(HeaderName, String); 1], Json<Document>), ApiError> {
    let wait = parameters.wait()?;
    let expires_at_ms = expiry_change(body.expires_at, body.ttl_seconds, api.service.now_ms())?;
    if body.title.is_none() && body.metadata.is_none() && body.language.is_none() && expires_at_ms.is_none() {
        return invalid("", "must have title, expires_at, ttl_seconds, metadata or language; PUT changes the text");
    }
    if let Some(Some(title)) = &body.title {
        check_parsed("/title", check_title(title))?;
    }
    let metadata = merge_patch(body.metadata)?;
    let language = body.language.as_deref().map(parse_language).transpose()?;
    let patch = DocumentPatch { title: body.title, language, expires_at_ms, ..api.service.limits().metadata_patch(metadata) };
    let document = api.service.collection(&collection)?.patch(&id, patch, wait, precondition).await?;
    Ok(([(ETAG, etag(document.sequence))], Json(document)))
}

/// Parses the new language of a document. A patch has no text to detect one in, so `und` is refused.
fn parse_language(tag: &str) -> Result<Language, ApiError> {
    Language::from_tag(tag).map_err(|error| match error {
        LanguageTagError::Undetermined { .. } => ApiError::at(error.code(), "/language", format!("{error}; {DETECT_LANGUAGE}")),
        _ => refused_tag(&error, "/language"),
    })
}
