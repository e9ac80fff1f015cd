//! Reads queries, documents and relevance judgments in the formats of BEIR and TREC, and a plain format. Each of the three
//! parts is recognized by its file name, so formats can be mixed:
//!
//! - queries: `queries.jsonl` (BEIR: `_id`, `text`, and `language` in `metadata` if known), `queries.tsv` (id, language, text),
//!   `topics.tsv` (id, text);
//! - documents: `corpus.jsonl` (`_id`, `title`, `text`, `metadata`), `documents.tsv` (id, language, text), `corpus.tsv`
//!   (id, text);
//! - judgments: `qrels/SPLIT.tsv` (BEIR: query-id, corpus-id, score, below a header), `qrels.tsv` (the same without a header),
//!   `qrels.txt` (TREC: query id, 0, document id, grade, separated by white space).
//!
//! Tabs separate the fields of `.tsv` files; a language is a BCP 47 tag. A document is relevant if its grade is above 0, and
//! higher grades count more; unlisted documents are not relevant.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::error::EvaluationError;
use super::lines;
use super::relevance::{Item, TestCollection};
use crate::domain::Language;
use crate::domain::json::error_in_line;

const QUERIES: [&str; 3] = ["queries.jsonl", "queries.tsv", "topics.tsv"];
const DOCUMENTS: [&str; 3] = ["corpus.jsonl", "documents.tsv", "corpus.tsv"];
const JUDGMENTS: [&str; 3] = ["qrels", "qrels.tsv", "qrels.txt"];

/// Options for reading a folder.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Whether to read the documents too. Otherwise document ids in judgments are not checked.
    pub documents: bool,
    /// Whether judgments are required.
    pub judged: bool,
    /// Name of the file in `qrels/`, without `.tsv`.
    pub split: String,
}

/// The texts of one file, and the line of each id.
struct Items {
    name: &'static str,
    items: Vec<Item>,
    known: HashMap<String, usize>,
}

/// Reads the files in `folder`.
pub fn read(folder: &Path, reading: &ReadOptions) -> Result<TestCollection, EvaluationError> {
    let queries = require_file(folder, "queries", QUERIES)?;
    let queries = read_items(&folder.join(queries), queries)?;
    let documents = if reading.documents {
        let name = require_file(folder, "documents", DOCUMENTS)?;
        Some(read_items(&folder.join(name), name)?)
    } else {
        None
    };
    let mut gains: HashMap<String, HashMap<String, f64>> = HashMap::new();
    let judgments = match find_file(folder, JUDGMENTS)? {
        None if !reading.judged => Vec::new(),
        None => return Err(missing_file(folder, "judgments", JUDGMENTS)),
        Some(name) => read_judgments(&folder.join(name), name, reading)?,
    };
    for judgment in judgments {
        judgment.check_ids(&queries, documents.as_ref())?;
        let Judgment { query, document, grade, .. } = &judgment;
        let graded = gains.entry(query.clone()).or_default();
        if graded.insert(document.clone(), *grade).is_some() {
            return Err(judgment.invalid_field("document id", "each document once per query", document));
        }
    }
    // A document that was judged not relevant counts like one without a judgment.
    gains.values_mut().for_each(|graded| graded.retain(|_, grade| *grade > 0.0));
    gains.retain(|_, graded| !graded.is_empty());
    if reading.judged && gains.is_empty() {
        let problem = "expected a document with a grade above 0, got none".to_owned();
        return Err(EvaluationError::Content { path: folder.to_owned(), problem });
    }
    Ok(TestCollection { queries: queries.items, documents: documents.map_or_else(Vec::new, |documents| documents.items), gains })
}

/// Returns the first of `names` that exists in `folder`.
fn find_file(folder: &Path, names: [&'static str; 3]) -> Result<Option<&'static str>, EvaluationError> {
    let mut found = names.into_iter().filter(|name| folder.join(name).exists());
    match (found.next(), found.next()) {
        (Some(first), Some(second)) => {
            let problem = format!("expected one of {}, got {first} and {second}", names.join(", "));
            Err(EvaluationError::Content { path: folder.to_owned(), problem })
        }
        (first, _) => Ok(first),
    }
}

fn require_file(folder: &Path, what: &str, names: [&'static str; 3]) -> Result<&'static str, EvaluationError> {
    find_file(folder, names)?.ok_or_else(|| missing_file(folder, what, names))
}

fn missing_file(folder: &Path, what: &str, names: [&str; 3]) -> EvaluationError {
    let problem = format!("expected {what} in one of {}, got none", names.join(", "));
    EvaluationError::Content { path: folder.to_owned(), problem }
}

fn read_items(path: &Path, name: &'static str) -> Result<Items, EvaluationError> {
    let items = match name {
        "corpus.jsonl" => json_lines(path)?,
        "queries.jsonl" => {
            let queries = json_lines(path)?;
            if let Some(index) = queries.iter().position(|query| query.text.is_empty()) {
                return Err(lines::field_error(path, index + 1, "text", "a string that is not blank", "nothing"));
            }
            queries
        }
        "queries.tsv" | "documents.tsv" => {
            let rows = lines::rows(path, ["id", "language", "text"])?.into_iter().enumerate();
            let item = |(index, [id, code, text]): (usize, [String; 3])| {
                Ok(Item { id, title: None, language: Some(language(path, index + 1, &code)?), text })
            };
            rows.map(item).collect::<Result<Vec<_>, EvaluationError>>()?
        }
        _ => {
            let rows = lines::rows(path, ["id", "text"])?;
            rows.into_iter().map(|[id, text]| Item { id, title: None, language: None, text }).collect()
        }
    };
    let mut known = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        if let Some(earlier) = known.insert(item.id.clone(), index + 1) {
            let got = format!("{}, the same as line {earlier}", item.id);
            return Err(lines::field_error(path, index + 1, "id", "a unique id", &got));
        }
    }
    Ok(Items { name, items, known })
}

fn language(path: &Path, line: usize, tag: &str) -> Result<Language, EvaluationError> {
    Language::from_tag(tag)
        .map_err(|_| lines::field_error(path, line, "language", "the tag of a known language, such as fr or pt-BR", tag))
}

/// Reads texts from one JSON object per line.
fn json_lines(path: &Path) -> Result<Vec<Item>, EvaluationError> {
    let text = std::fs::read_to_string(path).map_err(|source| EvaluationError::file(path, source))?;
    let items: Vec<Item> =
        text.lines().enumerate().map(|(index, line)| json_item(path, index + 1, line)).collect::<Result<_, EvaluationError>>()?;
    if items.is_empty() {
        return Err(lines::field_error(path, 1, "line", "a JSON object", "the end of the file"));
    }
    Ok(items)
}

fn json_item(path: &Path, line: usize, text: &str) -> Result<Item, EvaluationError> {
    let wrong = |field, expected: &str, got: &str| lines::field_error(path, line, field, expected, got);
    let object: Map<String, Value> =
        serde_json::from_str(text).map_err(|error| wrong("line", "a JSON object", &error_in_line(&error)))?;
    let string = |field: &'static str| match object.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(value)) if value.trim().is_empty() => Ok(None),
        Some(Value::String(value)) => Ok(Some(value.clone())),
        Some(other) => Err(wrong(field, "a string", &other.to_string())),
    };
    let id = string("_id")?.ok_or_else(|| wrong("_id", "a string that is not blank", "nothing"))?;
    // Some of BEIR's documents have only a title, and some not even that.
    let (title, text) = match (string("title")?, string("text")?) {
        (title, Some(text)) => (title, text),
        (title, None) => (None, title.unwrap_or_default()),
    };
    let code = object.get("metadata").and_then(|metadata| metadata.get("language")).or(object.get("language"));
    let language = match code {
        None | Some(Value::Null) => None,
        Some(Value::String(code)) => Some(language(path, line, code)?),
        Some(other) => return Err(wrong("language", "a string", &other.to_string())),
    };
    Ok(Item { id, title, language, text })
}

/// One line of judgments.
struct Judgment {
    path: PathBuf,
    line: usize,
    query: String,
    document: String,
    grade: f64,
}

impl Judgment {
    fn invalid_field(&self, field: &'static str, expected: &str, got: &str) -> EvaluationError {
        lines::field_error(&self.path, self.line, field, expected, got)
    }

    fn check_ids(&self, queries: &Items, documents: Option<&Items>) -> Result<(), EvaluationError> {
        if !queries.known.contains_key(&self.query) {
            return Err(self.invalid_field("query id", &format!("an id of {}", queries.name), &self.query));
        }
        match documents {
            Some(documents) if !documents.known.contains_key(&self.document) => {
                Err(self.invalid_field("document id", &format!("an id of {}", documents.name), &self.document))
            }
            _ => Ok(()),
        }
    }
}

fn read_judgments(path: &Path, name: &str, reading: &ReadOptions) -> Result<Vec<Judgment>, EvaluationError> {
    match name {
        "qrels" => {
            let path = path.join(format!("{}.tsv", reading.split));
            let mut rows = lines::rows(&path, ["query-id", "corpus-id", "score"])?;
            let named = rows.first().is_some_and(|row| row[2].trim().parse::<f64>().is_err());
            let skipped = usize::from(named);
            let rows = rows.drain(skipped..).enumerate();
            rows.map(|(index, row)| judgment(&path, index + 1 + skipped, "score", row, 0.0)).collect()
        }
        "qrels.tsv" => {
            let rows = lines::rows(path, ["query id", "document id", "gain"])?.into_iter().enumerate();
            rows.map(|(index, row)| judgment(path, index + 1, "gain", row, 0.0)).collect()
        }
        _ => {
            let text = std::fs::read_to_string(path).map_err(|source| EvaluationError::file(path, source))?;
            let of_line = |(index, line): (usize, &str)| {
                let fields = ["query id", "0", "document id", "grade"];
                let [query, _, document, grade] = lines::words(path, index + 1, line, fields)?;
                // TREC marks spam with grades below 0.
                judgment(path, index + 1, "grade", [query, document, grade].map(str::to_owned), f64::MIN)
            };
            text.lines().enumerate().map(of_line).collect()
        }
    }
}

fn judgment(
    path: &Path,
    line: usize,
    field: &'static str,
    [query, document, grade]: [String; 3],
    grade_min: f64,
) -> Result<Judgment, EvaluationError> {
    let value = grade.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= grade_min);
    let expected = if grade_min < 0.0 { "a number" } else { "a number of at least 0" };
    let value = value.ok_or_else(|| lines::field_error(path, line, field, expected, &grade))?;
    Ok(Judgment { path: path.to_owned(), line, query, document, grade: value })
}

#[cfg(test)]
#[path = "judged_tests.rs"]
mod tests;
