//! The labeled embeddings that a classifier learns from, read from a collection or taken from the request.

use std::collections::BTreeMap;

use super::PAGE_BYTES;
use super::embedded_text::EmbeddedText;
use super::error::ClassifierError;
use super::neighbor_source::labeled_filter;
use crate::classify::LabelNames;
use crate::domain::{
    ClassifierDefinition, ClassifierKind, DocumentId, Embedding, LabelExamples, LabeledDocuments, Language, LanguageExamples,
    Page, TrainingReport, labels_at,
};
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;
use crate::storage::Storage;
use crate::store::EmbeddedDocument;

/// Maximum number of labeled documents in a training.
pub(super) const DOCUMENTS_MAX: usize = 100_000;
pub(super) const LABELS_MAX: usize = 1_000;
pub(super) const LABEL_BYTES_MAX: usize = 256;
/// Maximum characters of an example's text in an error.
const NAME_CHARS_MAX: usize = 40;
const PAGE: usize = 500;

#[derive(Debug, Clone)]
pub(super) struct Example {
    /// The id, if the example is a stored document.
    pub(super) document: Option<DocumentId>,
    pub(super) labels: Vec<String>,
    pub(super) language: Option<Language>,
    pub(super) embedding: Embedding,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Examples {
    pub(super) rows: Vec<Example>,
    /// Number of labeled documents that were left out because they have no embedding.
    pub(super) left_out: usize,
}

impl Examples {
    /// Refuses examples that cannot be learned from.
    pub(super) fn check(&self, definition: &ClassifierDefinition) -> Result<(), ClassifierError> {
        let counts = sorted_counts(&self.rows);
        let left_out = match self.left_out {
            0 => String::new(),
            count => format!("; {count} labeled documents wait for their embedding"),
        };
        check_labels(definition, self.rows.len(), &counts.iter().map(|(label, _)| label.as_str()).collect::<Vec<_>>())
            .map_err(|problem| invalid_set(definition.source.as_ref(), &format!("{problem}{left_out}")))
    }

    /// Returns the label numbers of each example.
    pub(super) fn numbers(&self, names: &LabelNames) -> Vec<Vec<u32>> {
        self.rows.iter().map(|row| row.labels.iter().filter_map(|label| names.number(label)).collect()).collect()
    }

    pub(super) fn report(&self) -> TrainingReport {
        let mut languages: BTreeMap<Option<Language>, usize> = BTreeMap::new();
        self.rows.iter().for_each(|row| *languages.entry(row.language).or_default() += 1);
        let mut languages: Vec<_> = languages.into_iter().collect();
        languages.sort_by_key(|(_, examples)| std::cmp::Reverse(*examples));
        let language = |(language, examples)| LanguageExamples { language, examples };
        let label = |(label, examples)| LabelExamples { label, examples };
        let report = TrainingReport {
            examples: self.rows.len(),
            left_out: self.left_out,
            labels: sorted_counts(&self.rows).into_iter().map(label).collect(),
            languages: languages.into_iter().map(language).collect(),
            ..TrainingReport::default()
        };
        TrainingReport { trained_in: report.language_of_training(), ..report }
    }
}

/// Names an example of a request in an error.
pub(super) fn example_name(text: &str) -> String {
    format!("example {:?}", text.chars().take(NAME_CHARS_MAX).collect::<String>())
}

/// Returns each label with its number of examples, sorted by name.
pub(super) fn sorted_counts(rows: &[Example]) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    rows.iter().flat_map(|row| &row.labels).for_each(|label| *counts.entry(label).or_default() += 1);
    counts.into_iter().map(|(label, count)| (label.to_owned(), count)).collect()
}

/// Checks that a classifier can learn from this many examples with these labels.
pub(super) fn check_labels(definition: &ClassifierDefinition, examples: usize, labels: &[&str]) -> Result<(), String> {
    let (needed, what) = if definition.multi_label { (1, "at least one label") } else { (2, "at least two labels") };
    if examples == 0 {
        return Err("there are no labeled examples to learn from".to_owned());
    }
    if labels.len() < needed {
        let first_label = labels.first().map(|label| format!(": {label:?}")).unwrap_or_default();
        return Err(format!("examples must have {what} together, got {}{first_label}", labels.len()));
    }
    if labels.len() > LABELS_MAX {
        return Err(format!("examples may have at most {LABELS_MAX} different labels, got {}", labels.len()));
    }
    match labels.iter().find(|label| label.len() > LABEL_BYTES_MAX) {
        Some(long) => Err(format!("a label may have at most {LABEL_BYTES_MAX} bytes, got {}", long.len())),
        None => Ok(()),
    }
}

/// Picks the examples among the texts of the request, leaving out descriptions.
pub(super) fn examples_from_texts(texts: &[EmbeddedText]) -> Examples {
    let rows = texts.iter().filter(|text| !text.description).map(|text| Example {
        document: None,
        labels: text.labels.clone(),
        language: text.language,
        embedding: text.embedding.clone(),
    });
    Examples { rows: rows.collect(), left_out: 0 }
}

/// Checks the labels of a collection before a training is accepted. Blocks.
pub(super) fn check_source(
    store: &dyn Storage,
    source: &LabeledDocuments,
    definition: &ClassifierDefinition,
) -> Result<(), Error> {
    let found = store.matching_values(&labeled_filter(source), &source.field, DOCUMENTS_MAX + 1)?;
    if definition.kind != ClassifierKind::Knn && found.len() > DOCUMENTS_MAX {
        let problem = format!("a training may use at most {DOCUMENTS_MAX} labeled documents; narrow the filter");
        return Err(invalid_set(Some(source), &problem).into());
    }
    let mut labels = std::collections::BTreeSet::new();
    for (id, value) in &found {
        let parsed = labels_at(&source.field, value.as_ref(), definition.multi_label);
        labels.extend(parsed.map_err(|problem| no_label(source, id, &problem))?.into_iter().flatten());
    }
    let names: Vec<&str> = labels.iter().map(String::as_str).collect();
    let checked = check_labels(definition, found.len(), &names);
    Ok(checked.map_err(|problem| invalid_set(Some(source), &problem))?)
}

/// Reads the labeled documents of a collection with their embeddings. Blocks.
pub(super) fn read_labeled_examples(
    collection: &OpenCollection,
    source: &LabeledDocuments,
    definition: &ClassifierDefinition,
    stop: impl Fn() -> bool,
) -> Result<Examples, Error> {
    let mut examples = Examples::default();
    let mut page = Page { limit: PAGE, after: None };
    loop {
        let (found, next) =
            collection.with_store(|store| store.embedded_documents(&labeled_filter(source), &page, PAGE_BYTES))?;
        for EmbeddedDocument { document, embedding } in found {
            let labels = labels_at(&source.field, source.field.find(&document.metadata), definition.multi_label);
            let labels = labels.map_err(|problem| no_label(source, &document.id, &problem))?;
            match (labels, embedding) {
                (None, _) => (),
                (Some(_), None) => examples.left_out += 1,
                (Some(labels), Some(embedding)) => {
                    let (document, language) = (Some(document.id), document.language);
                    examples.rows.push(Example { document, labels, language, embedding });
                }
            }
        }
        // A `knn` on a collection counts the votes of all its documents, so a sample of them is enough for calibration.
        if next.is_none() || examples.rows.len() >= DOCUMENTS_MAX || stop() {
            examples.rows.truncate(DOCUMENTS_MAX);
            return Ok(examples);
        }
        page.after = next;
    }
}

fn no_label(source: &LabeledDocuments, id: &DocumentId, problem: &str) -> ClassifierError {
    ClassifierError::TrainingSet { problem: format!("collection {}, document {id}: {problem}", source.collection) }
}

/// The error for examples that cannot be learned from. It names the field that they were read from, if they were.
fn invalid_set(source: Option<&LabeledDocuments>, problem: &str) -> ClassifierError {
    let problem = match source {
        Some(source) => format!("collection {}, field {}: {problem}", source.collection, source.field),
        None => problem.to_owned(),
    };
    ClassifierError::TrainingSet { problem }
}
