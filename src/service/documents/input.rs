//! Documents as callers send them, in requests or as lines of imports, and their validation.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::json::singles;
use crate::domain::settings::DIMENSION;
use crate::domain::timestamps::parse_rfc3339;
use crate::domain::{
    self, Code, Collection, DocumentFailure, DocumentId, Embedding, Language, LanguageTagError, Limits, MetadataObject,
    NewDocument, UpsertedDocument,
};
use crate::service::json::{JsonError, parse_object, shorten, unknown_field_remedy};

/// Error message for metadata with the character U+0000 in a key.
pub const NUL_IN_KEY: &str = "must not have a key with the character U+0000";

/// The longest `ttl_seconds`: 100 years.
const TTL_SECONDS_MAX: u64 = 3_155_760_000;
/// Maximum number of values of a document besides those of its metadata: its members and the numbers of its vector.
const VALUES_BESIDES_METADATA_MAX: usize = 16 + *DIMENSION.end();

/// A document as the caller sends it.
// An export has documents in this form, too.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentInput {
    /// Your own id: any text of 1 to 512 bytes without control characters, but not `.` or `..`. A stored document with
    /// the same id is replaced. Without an id, the server generates a UUIDv7.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 512)]
    pub id: Option<String>,
    /// The title: one line without control characters, at most 1000 characters. It is embedded with every passage of the text and
    /// its words count in lexical search.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 1000)]
    pub title: Option<String>,
    /// The text, in any language: not blank, at most the server's limit (1 MiB unless configured otherwise). Required, except in
    /// a collection of vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1)]
    pub text: Option<String>,
    /// Your own vector, which stands for the whole document: required in a collection that was created with a
    /// `dimension`, with that many values; refused in any other.
    #[serde(default, deserialize_with = "singles", skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 1, max_items = 8192)]
    pub vector: Option<Vec<f32>>,
    /// The text's language, as a BCP 47 tag of a language that `GET /v1/models` lists. For `pt-BR`, `por` or `iw` the server
    /// stores the ISO 639-1 code of the language. Without a language, or with `und`, the server detects it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Anything else about the document, to filter by and to return.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MetadataObject>,
    /// When the document expires: nothing finds it from then on, and the server removes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
    /// The same, in seconds from now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 3155760000u64)]
    pub ttl_seconds: Option<u64>,
}

/// Why a document is refused, and its id if that is valid.
#[derive(Debug, Clone, PartialEq)]
pub struct InvalidDocument {
    pub id: Option<DocumentId>,
    /// The code of the first problem.
    pub code: Code,
    /// The problems, at least one.
    pub problems: Vec<DocumentProblem>,
}

/// The result of an upsert for one document. A refused document leaves nothing behind.
pub type UpsertOutcome = Result<UpsertedDocument, InvalidDocument>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DocumentProblem {
    /// JSON pointer into the document; empty for the whole document.
    pub pointer: String,
    /// The limit, what was expected and what was given.
    pub detail: String,
}

impl InvalidDocument {
    pub fn whole(id: Option<DocumentId>, code: Code, detail: String) -> Self {
        Self { id, code, problems: vec![DocumentProblem::at("", detail)] }
    }

    /// Reports the problems under the first one's pointer, in one message. Pointers begin with `base`.
    pub fn failure(&self, base: &str) -> DocumentFailure {
        let mut problems = self.problems.iter().map(|problem| (format!("{base}{}", problem.pointer), problem.detail.as_str()));
        let (pointer, first) = problems.next().unwrap_or_else(|| (base.to_owned(), ""));
        let detail = problems.fold(first.to_owned(), |all, (pointer, detail)| format!("{all}; {pointer}: {detail}"));
        DocumentFailure { code: self.code, pointer, detail }
    }
}

impl DocumentProblem {
    pub fn at(pointer: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { pointer: pointer.into(), detail: shorten(detail.into()) }
    }
}

/// Parses and validates one line of an import: the JSON of a document, in the form of an element of `documents`.
pub fn read_document(json: &[u8], collection: &Collection, limits: &Limits, now_ms: i64) -> Result<NewDocument, InvalidDocument> {
    // A number in metadata has two bytes as text and dozens when it is parsed.
    if values(json) > limits.metadata_bytes_max.saturating_add(VALUES_BESIDES_METADATA_MAX) {
        let bytes_max = limits.metadata_bytes_max;
        let detail = format!(
            "the line has too many values: its metadata must have at most {bytes_max} bytes as JSON (metadata_bytes_max)"
        );
        return Err(InvalidDocument::whole(None, Code::InvalidRequest, detail));
    }
    let input: DocumentInput = parse_object(json).map_err(|error| match error {
        JsonError::Malformed(problem) => {
            let remedy = if problem.contains("EOF while") {
                "; a document must be on one line, as `jq -c .` writes it"
            } else if problem.ends_with("expected value at line 1 column 1") {
                "; every line must be a document as a JSON object"
            } else {
                ""
            };
            let detail = format!("the line {problem}{remedy}").replace(" at line 1 column", " at column");
            InvalidDocument::whole(None, Code::MalformedJson, detail)
        }
        JsonError::Invalid { pointer, problem } if pointer.is_empty() && problem.starts_with("invalid type") => {
            let array = problem.starts_with("invalid type: array");
            let remedy = if array { "; `jq -c '.[]'` writes the elements of an array as lines" } else { "" };
            let detail = format!("the line must be one document as a JSON object: {problem}{remedy}");
            InvalidDocument::whole(None, Code::InvalidRequest, detail)
        }
        JsonError::Invalid { pointer, problem } => {
            let remedy = unknown_field_remedy(&problem);
            let problems = vec![DocumentProblem::at(pointer, problem + remedy)];
            InvalidDocument { id: None, code: Code::InvalidRequest, problems }
        }
    })?;
    check(input, collection, limits, now_ms)
}

/// Returns an upper bound of the number of values in JSON: each follows a comma or begins an array or an object.
fn values(json: &[u8]) -> usize {
    let (mut in_string, mut escaped) = (false, false);
    let begins_value = |byte: &&u8| {
        match **byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            byte => return !in_string && matches!(byte, b',' | b'[' | b'{'),
        }
        false
    };
    json.iter().filter(begins_value).count()
}

#[derive(Default)]
struct Problems(Vec<(Code, DocumentProblem)>);

impl Problems {
    fn add(&mut self, code: Code, member: &str, detail: String) {
        self.0.push((code, DocumentProblem::at(member, detail)));
    }

    fn invalid(&mut self, member: &str, detail: impl Into<String>) {
        self.add(Code::InvalidRequest, member, detail.into());
    }

    /// Adds a problem if a value exceeds its limit.
    fn bound(&mut self, member: &str, got: usize, max: usize, rule: &str) {
        if got > max {
            self.invalid(member, format!("{}, got {got}", rule.replace("{max}", &max.to_string())));
        }
    }
}

/// Validates a document on its own and against its collection. `now_ms` is the time from which its `ttl_seconds` count, by
/// `Service::now_ms`.
pub fn check(
    input: DocumentInput,
    collection: &Collection,
    limits: &Limits,
    now_ms: i64,
) -> Result<NewDocument, InvalidDocument> {
    let DocumentInput { id, title, text, vector, language, metadata, expires_at, ttl_seconds } = input;
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
        (Some(text), _) if text.trim().is_empty() => problems.invalid("/text", "must not be blank"),
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
    if domain::metadata::has_nul_in_key(&metadata) {
        problems.invalid("/metadata", NUL_IN_KEY);
    }
    let rule = "must have at most {max} bytes as JSON (metadata_bytes_max)";
    problems.bound("/metadata", bytes, limits.metadata_bytes_max, rule);
    let expires_at_ms = expiry(expires_at.as_deref(), ttl_seconds, now_ms).unwrap_or_else(|problem| {
        problems.0.push((Code::InvalidRequest, problem));
        None
    });
    match problems.0.first() {
        None => Ok(NewDocument { id, title, text, vector, language: language.flatten(), metadata, expires_at_ms }),
        Some((code, _)) => {
            let code = *code;
            Err(InvalidDocument { id, code, problems: problems.0.into_iter().map(|(_, problem)| problem).collect() })
        }
    }
}

/// Returns when a document expires, by its members `expires_at` and `ttl_seconds`, in milliseconds since the Unix epoch. A time
/// in the past is valid: such a document has expired already.
pub fn expiry(expires_at: Option<&str>, ttl_seconds: Option<u64>, now_ms: i64) -> Result<Option<i64>, DocumentProblem> {
    let after = |seconds: u64| now_ms.saturating_add(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000));
    match (expires_at, ttl_seconds) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(DocumentProblem::at("/ttl_seconds", "must not be given with expires_at, got both")),
        (None, Some(seconds)) if seconds > TTL_SECONDS_MAX => {
            Err(DocumentProblem::at("/ttl_seconds", format!("must be at most {TTL_SECONDS_MAX}, got {seconds}")))
        }
        (None, Some(seconds)) => Ok(Some(after(seconds))),
        (Some(text), None) => match parse_rfc3339(text) {
            Ok(time_ms) if time_ms < 0 => {
                Err(DocumentProblem::at("/expires_at", format!("must be in 1970 or later, got {text:?}")))
            }
            Ok(time_ms) => Ok(Some(time_ms)),
            Err(problem) => Err(DocumentProblem::at("/expires_at", problem)),
        },
    }
}

/// Checks the document's vector against the collection. Returns the vector in a collection of callers' own vectors.
fn check_vector(vector: Option<Vec<f32>>, collection: &Collection, problems: &mut Problems) -> Option<Embedding> {
    let fits = collection.check_vector_dimension(vector.as_ref().map(Vec::len));
    let checked = fits.and_then(|()| vector.map(|values| collection.prepare_vector(values)).transpose());
    checked.unwrap_or_else(|problem| {
        problems.invalid("/vector", problem);
        None
    })
}
