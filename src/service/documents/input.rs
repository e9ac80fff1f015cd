//! A document as a caller sends it, in a request or as a line of an import, and what it is checked for.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::domain::{
    self, Code, Collection, DocumentId, Embedding, Language, LanguageTagError, Limits, MetadataObject, NewDocument,
    RefusedDocument,
};
use crate::service::json::{JsonError, parse_object, shorten};

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

/// Why a document is refused before it is stored, and its id if that is valid.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The id.
    pub id: Option<DocumentId>,
    /// Why; of several reasons the first.
    pub code: Code,
    /// The places that are wrong, at least one.
    pub problems: Vec<DocumentProblem>,
}

/// One wrong place in a document.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentProblem {
    /// JSON pointer into the document; empty for the whole document.
    pub pointer: String,
    /// The limit, what was expected and what was given.
    pub detail: String,
}

impl Refusal {
    /// The first place, and what is wrong there and elsewhere. Pointers begin with `base`.
    pub fn summary(&self, base: &str) -> (String, String) {
        let mut places = self.problems.iter().map(|problem| (format!("{base}{}", problem.pointer), problem.detail.as_str()));
        let (pointer, first) = places.next().unwrap_or_else(|| (base.to_owned(), ""));
        let detail = places.fold(first.to_owned(), |all, (pointer, detail)| format!("{all}; {pointer}: {detail}"));
        (pointer, detail)
    }
}

impl DocumentProblem {
    /// A wrong place.
    pub fn at(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: shorten(detail.into()) }
    }
}

/// Parses one document from JSON, in the form of an element of `documents`, and validates it: a line of an import.
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
    check(input, collection, limits).map_err(|refusal| {
        let (pointer, detail) = refusal.summary("");
        RefusedDocument { id: refusal.id, code: refusal.code, pointer, detail }
    })
}

/// What is wrong with a document.
#[derive(Default)]
struct Problems(Vec<(Code, DocumentProblem)>);

impl Problems {
    fn add(&mut self, code: Code, member: &str, detail: String) {
        self.0.push((code, DocumentProblem::at(member, detail)));
    }

    fn invalid(&mut self, member: &str, detail: impl Into<String>) {
        self.add(Code::InvalidRequest, member, detail.into());
    }

    /// Refuses what is longer than it may be.
    fn bound(&mut self, member: &str, got: usize, max: usize, rule: &str) {
        if got > max {
            self.invalid(member, format!("{}, got {got}", rule.replace("{max}", &max.to_string())));
        }
    }
}

/// Validates a document by itself and against its collection.
pub fn check(input: DocumentInput, collection: &Collection, limits: &Limits) -> Result<NewDocument, Refusal> {
    let DocumentInput { id, title, text, vector, language, metadata } = input;
    let mut problems = Problems::default();
    let id = id.as_deref().map(DocumentId::parse_new).transpose();
    let id = id.unwrap_or_else(|error| {
        problems.invalid("/id", error.to_string());
        None
    });
    if let Some(problem) = title.as_deref().and_then(|title| domain::check_title(title).err()) {
        problems.invalid("/title", problem);
    }
    match (&text, &collection.model) {
        (Some(text), _) if text.trim().is_empty() => problems.invalid("/text", "must contain something besides white space"),
        (None, Some(_)) => problems.invalid("/text", "must be given, because the collection embeds it, got none"),
        _ => {}
    }
    let text = text.unwrap_or_default();
    let vector = check_vector(vector, collection, &mut problems);
    problems.bound("/text", text.len(), limits.text_bytes_max, "must have at most {max} bytes (text_bytes_max)");
    let language = language.as_deref().map(Language::of_text_from_tag).transpose().unwrap_or_else(|error: LanguageTagError| {
        problems.add(error.code(), "/language", error.to_string());
        None
    });
    let metadata = metadata.unwrap_or_default().0;
    let (depth, bytes) = (domain::metadata::depth(&metadata), domain::metadata::bytes(&metadata));
    let rule = "must be at most {max} levels deep (metadata_depth_max)";
    problems.bound("/metadata", depth, limits.metadata_depth_max, rule);
    if domain::metadata::has_zero_in_key(&metadata) {
        problems.invalid("/metadata", ZERO_IN_KEY);
    }
    let rule = "must have at most {max} bytes as JSON (metadata_bytes_max)";
    problems.bound("/metadata", bytes, limits.metadata_bytes_max, rule);
    match problems.0.first() {
        None => Ok(NewDocument { id, title, text, vector, language: language.flatten(), metadata }),
        Some((code, _)) => {
            let code = *code;
            Err(Refusal { id, code, problems: problems.0.into_iter().map(|(_, problem)| problem).collect() })
        }
    }
}

/// The document's own vector, where the collection takes vectors.
fn check_vector(vector: Option<Vec<f32>>, collection: &Collection, problems: &mut Problems) -> Option<Embedding> {
    let fits = collection.check_vector(vector.as_ref().map(Vec::len));
    let checked = fits.and_then(|()| vector.map(|values| collection.own_vector(values)).transpose());
    checked.unwrap_or_else(|problem| {
        problems.invalid("/vector", problem);
        None
    })
}
