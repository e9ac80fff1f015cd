//! A document as a caller sends it, and its validation.

use serde::Deserialize;
use utoipa::ToSchema;

use super::extract::parse_json;
use crate::domain::{
    self, Code, Collection, DocumentId, Language, LanguageTagError, Limits, MetadataObject, NewDocument, RefusedDocument,
};

/// The message for metadata with the character U+0000 in a key.
pub const ZERO_IN_KEY: &str = "must not have a key with the character U+0000";

/// A document as the caller sends it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentInput {
    /// Your own id: any text of 1 to 512 bytes without control characters, but not `.` or `..`. A stored document with
    /// the same id is replaced. Without an id, the server generates a UUIDv7.
    #[serde(default)]
    #[schema(nullable = false, min_length = 1, max_length = 512)]
    pub id: Option<String>,
    /// The title: one line without control characters, at most 1000 characters. It is embedded with every passage of the text and
    /// its words count in lexical search.
    #[serde(default)]
    #[schema(nullable = false, min_length = 1, max_length = 1000)]
    pub title: Option<String>,
    /// The text, in any language: not blank, at most the server's limit (1 MiB unless configured otherwise). Required, except in
    /// a collection of vectors.
    #[serde(default)]
    #[schema(nullable = false, min_length = 1)]
    pub text: Option<String>,
    /// Your own vector, which stands for the whole document: required in a collection that was created with a
    /// `dimension`, with that many values; refused in any other.
    #[serde(default)]
    #[schema(nullable = false, min_items = 1, max_items = 8192)]
    pub vector: Option<Vec<f32>>,
    /// The text's language, as a BCP 47 tag of a language that `GET /v1/models` lists. For `pt-BR`, `por` or `iw` the server
    /// stores the ISO 639-1 code of the language. Without a language, or with `und`, the server detects it.
    #[serde(default)]
    #[schema(nullable = false)]
    pub language: Option<String>,
    /// Anything else about the document, to filter by and to return.
    #[serde(default)]
    #[schema(nullable = false)]
    pub metadata: Option<MetadataObject>,
}

/// Why a document is rejected before the service sees it, and its id if that is valid.
pub struct Refusal {
    /// The id.
    pub id: Option<DocumentId>,
    /// Why.
    pub code: Code,
    /// Pointer within the document.
    pub member: &'static str,
    /// The limit, what was expected and what was given.
    pub detail: String,
}

/// Parses one document from JSON, in the form of an element of `documents`, and validates it: a line of an import.
pub fn read_document(json: &[u8], collection: &Collection, limits: &Limits) -> Result<NewDocument, RefusedDocument> {
    let input: DocumentInput = parse_json(json).map_err(|error| {
        let place = error.errors.into_iter().next();
        let (pointer, detail) = match place {
            Some(place) => (place.pointer.unwrap_or_default(), place.detail),
            None => (String::new(), error.detail.replacen("the body", "the line", 1).replace(" at line 1 column", " at column")),
        };
        RefusedDocument { id: None, code: error.code, pointer, detail }
    })?;
    check(input, collection, limits).map_err(|refusal| {
        let Refusal { id, code, member, detail } = refusal;
        RefusedDocument { id, code, pointer: member.to_owned(), detail }
    })
}

/// Validates a document by itself and against its collection.
pub fn check(input: DocumentInput, collection: &Collection, limits: &Limits) -> Result<NewDocument, Refusal> {
    let id = input.id.as_deref().map(DocumentId::parse_new).transpose();
    let id = id.map_err(|error| Refusal { id: None, code: Code::InvalidRequest, member: "/id", detail: error.to_string() })?;
    let refuse = |code, member, detail| Refusal { id: id.clone(), code, member, detail };
    let invalid = |member, detail| Err(refuse(Code::InvalidRequest, member, detail));
    if let Some(problem) = input.title.as_deref().and_then(|title| domain::check_title(title).err()) {
        return invalid("/title", problem);
    }
    let text = match (input.text, &collection.model) {
        (Some(text), _) if text.trim().is_empty() => {
            return invalid("/text", "must contain something besides white space".to_owned());
        }
        (Some(text), _) => text,
        (None, None) => String::new(),
        (None, Some(_)) => return invalid("/text", "must be given, because the collection embeds it, got none".to_owned()),
    };
    let vector = match (input.vector, &collection.model) {
        (None, Some(_)) => None,
        (Some(values), None) => match collection.own_vector(values) {
            Ok(vector) => Some(vector),
            Err(problem) => return invalid("/vector", problem),
        },
        (None, None) => {
            let expected = collection.dimension;
            return invalid(
                "/vector",
                format!("must be given, because the collection has no model: expected {expected} values, got none"),
            );
        }
        (Some(values), Some(model)) => {
            let (model, got) = (&model.name, values.len());
            return invalid(
                "/vector",
                format!("must be left out, because the collection embeds texts with {model}, got {got} values"),
            );
        }
    };
    let (max, got) = (limits.text_bytes_max, text.len());
    if got > max {
        return invalid("/text", format!("must have at most {max} bytes (text_bytes_max), got {got}"));
    }
    let language = match input.language {
        None => None,
        Some(tag) => {
            let refused = |error: LanguageTagError| refuse(error.code(), "/language", error.to_string());
            Language::of_text_from_tag(&tag).map_err(refused)?
        }
    };
    let metadata = input.metadata.unwrap_or_default().0;
    let (max, got) = (limits.metadata_depth_max, domain::metadata::depth(&metadata));
    if got > max {
        return invalid("/metadata", format!("must be at most {max} levels deep (metadata_depth_max), got {got}"));
    }
    if domain::metadata::has_zero_in_key(&metadata) {
        return invalid("/metadata", ZERO_IN_KEY.to_owned());
    }
    let (max, got) = (limits.metadata_bytes_max, domain::metadata::bytes(&metadata));
    if got > max {
        return invalid("/metadata", format!("must have at most {max} bytes as JSON (metadata_bytes_max), got {got}"));
    }
    Ok(NewDocument { id, title: input.title, text, vector, language, metadata })
}
