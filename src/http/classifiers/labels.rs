//! Labeled texts and labeled documents, as requests name them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::domain::{
    CollectionName, DescribedLabel, DistinctJson, Field, LabeledDocuments, LabeledText, Language, Limits, MetadataPath,
    normalized_label,
};
use crate::http::error::{ApiError, Checks, invalid};
use crate::http::request::filter::{self, FilterNode};
use crate::http::request::values::{check_count, check_each, check_items, check_parsed, check_text, refused_tag};
use crate::service::documents::input::NUL_IN_KEY;

pub const EXAMPLES_MAX: usize = 10_000;
/// Maximum labels of one text, and labels that one request may describe.
const LABELS_MAX: usize = 1_000;
/// Maximum descriptions of one label.
const DESCRIPTIONS_MAX: usize = 100;
const LABEL_BYTES_MAX: usize = 256;

/// Documents of a collection with labels in their metadata.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabeledDocumentsInput {
    /// The collection, by its name or an alias.
    pub collection: String,
    /// Metadata path of the labels, as in a filter: a string, a number or a boolean, and with `multi_label` also an array
    /// of these. Labels are read as strings, trimmed and in NFC; `5` and `5.0` are both `"5"`. Documents without a value there
    /// are skipped.
    #[schema(examples("topic"))]
    pub field: String,
    /// Only documents that match.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
}

/// A text with its labels.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabeledTextInput {
    /// The text: not blank, at most the server's limit for texts (1 MiB unless configured otherwise).
    #[schema(min_length = 1)]
    pub text: String,
    /// Its labels, of 1 to 256 bytes each: exactly one, or any number with `multi_label`. They are trimmed and converted to NFC.
    #[schema(max_items = 1000)]
    pub labels: Vec<String>,
    /// The language, as a BCP 47 tag; detected if left out, or if `und`.
    pub language: Option<String>,
}

/// A label and its descriptions.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelInput {
    /// The label, of 1 to 256 bytes. It is trimmed and converted to NFC.
    #[schema(min_length = 1, max_length = 256)]
    pub name: String,
    /// What it means, in any language: words, sentences, typical texts. Without descriptions, the name itself is used.
    #[schema(max_items = 100)]
    pub descriptions: Option<Vec<String>>,
}

/// Parses which documents to use; `pointer` is where the request has them.
pub fn parse_labeled_documents(
    input: LabeledDocumentsInput,
    pointer: &str,
    limits: &Limits,
) -> Result<LabeledDocuments, ApiError> {
    let collection = check_parsed(format!("{pointer}/collection"), CollectionName::parse(&input.collection))?;
    let field = check_parsed(format!("{pointer}/field"), parse_metadata_path(&input.field))?;
    let filter = filter::parse(input.filter, limits).map_err(|error| error.with_base_pointer(pointer))?;
    Ok(LabeledDocuments { collection, field, filter })
}

pub fn parse_metadata_path(text: &str) -> Result<MetadataPath, String> {
    match Field::parse(text)? {
        Field::Metadata(path) => Ok(path),
        own => Err(format!("must be a metadata path, got the document's own {own}; metadata of that name is metadata.{own}")),
    }
}

/// Parses a metadata path to write a value or an array of values to. A document with this metadata must be one that a caller
/// could have stored.
pub fn parse_target_path(text: &str, is_array: bool, levels_max: usize) -> Result<MetadataPath, String> {
    let path = parse_metadata_path(text)?;
    let levels = path.keys().len() + usize::from(is_array);
    if levels > levels_max {
        return Err(format!("must be at most {levels_max} levels deep (metadata_depth_max), got {levels}"));
    }
    match path.keys().iter().any(|key| key.contains('\0')) {
        true => Err(NUL_IN_KEY.to_owned()),
        false => Ok(path),
    }
}

/// The same documents in the form of a request.
pub fn to_labeled_documents_input(source: &LabeledDocuments) -> LabeledDocumentsInput {
    LabeledDocumentsInput {
        collection: source.collection.as_str().to_owned(),
        field: source.field.to_string(),
        filter: (source.filter != crate::domain::Filter::default()).then(|| DistinctJson(filter::print(&source.filter))),
    }
}

pub fn parse_examples(inputs: Vec<LabeledTextInput>, multi_label: bool, limits: &Limits) -> Result<Vec<LabeledText>, ApiError> {
    check_count("/examples", inputs.len(), EXAMPLES_MAX, "texts")?;
    check_items("/examples", inputs, |LabeledTextInput { text, labels, language }| {
        let mut labels: Vec<String> = labels.iter().map(|label| normalized_label(label)).collect();
        let mut checks = Checks::default();
        checks.add(check_text("/text", &text, limits));
        if !multi_label && labels.len() != 1 {
            let detail = format!("must have exactly one label, got {}; set multi_label for any number", labels.len());
            checks.add::<()>(invalid("/labels", detail));
        } else if labels.len() > LABELS_MAX {
            let detail = format!("must have at most {LABELS_MAX} labels, got {}", labels.len());
            checks.add::<()>(invalid("/labels", detail));
        } else {
            checks.add(check_each("/labels", &labels, |pointer, label| check_label(label, pointer)));
        }
        labels.sort_unstable();
        labels.dedup();
        let read = |tag: &str| Language::of_text_from_tag(tag).map_err(|error| refused_tag(&error, "/language"));
        let language = checks.add_or_default(language.as_deref().map_or(Ok(None), read));
        checks.end().map(|()| LabeledText { text, labels, language })
    })
}

pub fn parse_described_labels(inputs: Vec<LabelInput>, limits: &Limits) -> Result<Vec<DescribedLabel>, ApiError> {
    if inputs.len() > LABELS_MAX {
        return invalid("/labels", format!("must have at most {LABELS_MAX} labels, got {}", inputs.len()));
    }
    let mut seen = BTreeSet::new();
    let mut labels = Vec::with_capacity(inputs.len());
    for (index, LabelInput { name, descriptions }) in inputs.into_iter().enumerate() {
        let name = normalized_label(&name);
        check_label(&name, &format!("/labels/{index}/name"))?;
        if !seen.insert(name.clone()) {
            return invalid(format!("/labels/{index}/name"), format!("repeats the label {name:?}"));
        }
        let pointer = format!("/labels/{index}/descriptions");
        if let Some(all) = &descriptions {
            check_count(&pointer, all.len(), DESCRIPTIONS_MAX, "texts, or be left out")?;
        }
        let descriptions = descriptions.unwrap_or_default();
        for (number, description) in descriptions.iter().enumerate() {
            check_text(&format!("{pointer}/{number}"), description, limits)?;
        }
        labels.push(DescribedLabel { name, descriptions });
    }
    Ok(labels)
}

/// Checks a normalized label.
fn check_label(label: &str, pointer: &str) -> Result<(), ApiError> {
    if label.is_empty() || label.len() > LABEL_BYTES_MAX {
        return invalid(pointer, format!("must have 1 to {LABEL_BYTES_MAX} bytes and must not be blank, got {}", label.len()));
    }
    Ok(())
}
