//! A document as a caller sends it, in a request or as a line of an import, and what it is checked for.

use serde::Deserialize;
use utoipa::ToSchema;

use super::json::{JsonError, parse_object, shorten};
use crate::domain::{
    self, Code, Collection, DocumentId, Language, LanguageTagError, Limits, MetadataObject, NewDocument, RefusedDocument,
};

/// What is said of metadata with the character U+0000 in a key.
pub const ZERO_IN_KEY: &str = "must have no key with the character U+0000";

/// A document as the caller sends it.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentInput {
    /// The caller's own id: any text of 1 to 512 bytes without control characters, but not `.` or `..`. A stored document of
    /// the same id is replaced. Left out, the server makes a UUIDv7.
    #[serde(default)]
    #[schema(nullable = false, min_length = 1, max_length = 512)]
    pub id: Option<String>,
    /// The title: one line without control characters, at most 1000 characters. It is embedded with every passage of the text and
    /// its words count in a search by words.
    #[serde(default)]
    #[schema(nullable = false, min_length = 1, max_length = 1000)]
    pub title: Option<String>,
    /// The text, in any language: not blank, at most the server's limit (1 MiB unless configured otherwise). Required, unless
    /// the collection takes vectors: there it may be left out.
    #[serde(default)]
    #[schema(nullable = false, min_length = 1)]
    pub text: Option<String>,
    /// The caller's own vector, which stands for the whole document: required in a collection that was created with a
    /// `dimension`, and as long; refused in any other.
    #[serde(default)]
    #[schema(nullable = false, min_items = 1, max_items = 8192)]
    pub vector: Option<Vec<f32>>,
    /// The text's language, as a BCP 47 tag: one that `GET /v1/models` lists. Of `pt-BR`, `por` or `iw` the language is kept, by its
    /// ISO 639-1 code. Left out, or `und`, the server detects it.
    #[serde(default)]
    #[schema(nullable = false)]
    pub language: Option<String>,
    /// Whatever else is known of the document, to be filtered by and to be given back.
    #[serde(default)]
    #[schema(nullable = false)]
    pub metadata: Option<MetadataObject>,
}

/// Reads one document from JSON, as an element of `documents` has it, and checks it: a line of an import.
pub fn read_document(json: &[u8], collection: &Collection, limits: &Limits) -> Result<NewDocument, RefusedDocument> {
    let input: DocumentInput = parse_object(json).map_err(|error| match error {
        JsonError::Malformed(problem) => {
            let detail = shorten(format!("the line {problem}")).replace(" at line 1 column", " at column");
            RefusedDocument { id: None, code: Code::MalformedJson, pointer: String::new(), detail }
        }
        JsonError::Invalid { pointer, problem } => {
            RefusedDocument { id: None, code: Code::InvalidRequest, pointer, detail: shorten(problem) }
        }
    })?;
    check(input, collection, limits)
}

/// Checks a document by itself, and against what the collection asks of its documents.
pub fn check(input: DocumentInput, collection: &Collection, limits: &Limits) -> Result<NewDocument, RefusedDocument> {
    let id = input.id.as_deref().map(DocumentId::parse_new).transpose();
    let refused = |id, code, member: &str, detail| RefusedDocument { id, code, pointer: member.to_owned(), detail };
    let id = id.map_err(|error| refused(None, Code::InvalidRequest, "/id", error.to_string()))?;
    let refuse = |code, member, detail| refused(id.clone(), code, member, detail);
    let invalid = |member, detail| Err(refuse(Code::InvalidRequest, member, detail));
    if let Some(problem) = input.title.as_deref().and_then(|title| domain::check_title(title).err()) {
        return invalid("/title", problem);
    }
    let text = match (input.text, &collection.model) {
        (Some(text), _) if text.trim().is_empty() => {
            return invalid("/text", "must hold something besides white space".to_owned());
        }
        (Some(text), _) => text,
        (None, None) => String::new(),
        (None, Some(_)) => return invalid("/text", "must be given, for the collection embeds it, got none".to_owned()),
    };
    if let Err(problem) = collection.check_vector(input.vector.as_ref().map(Vec::len)) {
        return invalid("/vector", problem);
    }
    let vector = match input.vector.map(|values| collection.own_vector(values)).transpose() {
        Ok(vector) => vector,
        Err(problem) => return invalid("/vector", problem),
    };
    let (max, got) = (limits.text_bytes_max, text.len());
    if got > max {
        return invalid("/text", format!("must have at most {max} bytes (text_bytes_max), got {got}"));
    }
    let language = match input.language {
        None => None,
        Some(tag) => {
            let unknown = |error: LanguageTagError| refuse(error.code(), "/language", error.to_string());
            Language::of_text_from_tag(&tag).map_err(unknown)?
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
