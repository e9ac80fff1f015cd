//! Lists and reads projections: their points, and the values that color them. `compute` computes them.

pub(crate) mod compute;
pub(crate) mod file;

use std::collections::HashMap;
use std::hash::Hash;

use serde_json::Value;

use crate::domain::{DocumentId, Language, MetadataPath, Projection, ProjectionCenter, ProjectionSummary};
use crate::service::error::Error;
use crate::service::handle::CollectionHandle;
use crate::service::limits::budget::AnswerBudget;
use crate::service::open_collection::OpenCollection;
use file::{EmbeddingsMark, ProjectionFile};

/// Maximum number of values of a field that get a color of their own. People cannot tell more colors apart.
const VALUES_MAX: usize = 19;
/// Length of the longest value that gets a color. Longer values are rarely shared by many documents.
const VALUE_BYTES_MAX: usize = 256;
const DOCUMENTS_PER_READ: usize = 1_024;
/// Bytes that the response has per point beyond those of the file: the positions of its language and of its value.
const POINT_BYTES: u64 = 8;

impl CollectionHandle {
    pub async fn list_projections(&self) -> Result<Vec<ProjectionSummary>, Error> {
        let collection = self.open();
        let projections = collection.read(|collection| {
            let mut found = Vec::new();
            for center in ProjectionCenter::ALL {
                let file = ProjectionFile::read(&collection.folder, center, &collection.identity)?;
                found.extend(file.map(|file| summary(file, center, collection)).transpose()?);
            }
            Ok(found)
        });
        projections.await
    }

    /// Reads a projection. If `field` names a metadata field, also returns the value of each document in that field.
    pub async fn get_projection(&self, center: ProjectionCenter, field: Option<MetadataPath>) -> Result<Projection, Error> {
        let budget = AnswerBudget::new(self.service.limits().answer_bytes_max);
        let collection = self.open();
        let read = collection.read(move |collection| {
            charge(&budget, file::bytes(&collection.folder, center))?;
            let Some(file) = ProjectionFile::read(&collection.folder, center, &collection.identity)? else {
                return Err(Error::ProjectionNotFound { collection: collection.row.name.clone(), center });
            };
            charge(&budget, file.ids.len() as u64 * POINT_BYTES)?;
            assemble_projection(collection, file, center, field.as_ref())
        });
        read.await
    }
}

fn charge(budget: &AnswerBudget, bytes: u64) -> Result<(), Error> {
    let advice = "compute the projection again with fewer documents (max_documents)";
    if budget.charge(bytes) { Ok(()) } else { Err(budget.too_large(advice)) }
}

/// Whether embeddings have changed since a projection was computed. Other changes do not count: metadata moves no point, and
/// languages move points only in a projection centered by language, which does not notice that they changed.
fn is_stale(file: &ProjectionFile, collection: &OpenCollection) -> Result<bool, Error> {
    match file.origin.embeddings {
        Some(mark) => Ok(mark != EmbeddingsMark::of(collection)?),
        None => Ok(file.origin.sequence != collection.store.sequence()?.0),
    }
}

fn summary(file: ProjectionFile, center: ProjectionCenter, collection: &OpenCollection) -> Result<ProjectionSummary, Error> {
    Ok(ProjectionSummary {
        center,
        stale: is_stale(&file, collection)?,
        documents: file.ids.len() as u64,
        sampled: file.origin.sampled,
        collection_documents: file.origin.collection_documents,
        created_at_ms: file.created_at_ms,
        model: file.origin.model,
    })
}

/// Adds to each point the current language and value of its document. Leaves out points of deleted documents.
fn assemble_projection(
    collection: &OpenCollection,
    file: ProjectionFile,
    center: ProjectionCenter,
    field: Option<&MetadataPath>,
) -> Result<Projection, Error> {
    let stale = is_stale(&file, collection)?;
    let (mut ids, mut x, mut y) = (Vec::with_capacity(file.ids.len()), Vec::new(), Vec::new());
    let (mut languages, mut values): (Vec<Option<Language>>, Vec<Option<String>>) = (Vec::new(), Vec::new());
    let mut points = file.ids.into_iter().zip(file.x.into_iter().zip(file.y));
    loop {
        let part: Vec<(String, (f32, f32))> = points.by_ref().take(DOCUMENTS_PER_READ).collect();
        if part.is_empty() {
            break;
        }
        let wanted = part.iter().map(|(id, _)| Ok(DocumentId::parse(id)?)).collect::<Result<Vec<_>, Error>>()?;
        let traits = collection.store.attributes_of(&wanted, field)?;
        for ((id, point), traits) in part.into_iter().zip(traits) {
            let Some(traits) = traits else { continue };
            ids.push(id);
            x.push(point.0);
            y.push(point.1);
            languages.push(traits.language);
            values.push(traits.value.as_ref().and_then(text));
        }
    }
    let (languages, language) = rank_values(languages, Language::COUNT);
    let valued = field.map(|_| rank_values(values, VALUES_MAX));
    let (values, value) = valued.unzip();
    Ok(Projection { center, created_at_ms: file.created_at_ms, stale, ids, x, y, languages, language, values, value })
}

/// Formats a value as text. A list is represented by its first value.
fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(truth) => truth.to_string(),
        Value::Array(values) => return values.first().filter(|first| !first.is_array()).and_then(text),
        Value::Null | Value::Object(_) => return None,
    };
    (text.len() <= VALUE_BYTES_MAX).then_some(text)
}

/// Returns the most frequent values, at most `max`, and for each point the position of its value among them, or -1 if its
/// value is not among them or it has none. Equally frequent values are sorted in ascending order.
fn rank_values<T: Clone + Eq + Hash + Ord>(values: Vec<Option<T>>, max: usize) -> (Vec<T>, Vec<i32>) {
    let mut counts: HashMap<&T, usize> = HashMap::new();
    values.iter().flatten().for_each(|value| *counts.entry(value).or_default() += 1);
    let mut frequent: Vec<(&T, usize)> = counts.into_iter().collect();
    frequent.sort_unstable_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(other.0)));
    frequent.truncate(max);
    let numbers: HashMap<&T, i32> = (0..).zip(&frequent).map(|(number, (value, _))| (*value, number)).collect();
    let indexes = values.iter().map(|value| value.as_ref().and_then(|value| numbers.get(value)).copied().unwrap_or(-1)).collect();
    (frequent.iter().map(|(value, _)| (*value).clone()).collect(), indexes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_frequent_values_get_a_position() {
        let values = ["b", "a", "c", "", "b", "a"].map(|value| (!value.is_empty()).then_some(value));
        assert_eq!(rank_values(values.to_vec(), 2), (vec!["a", "b"], vec![1, 0, -1, -1, 1, 0]));
        assert_eq!(rank_values::<u8>(vec![None], 3), (vec![], vec![-1]));
    }

    #[test]
    fn a_value_is_formatted_as_text() {
        let check = |value: Value, expect: Option<&str>| assert_eq!(text(&value).as_deref(), expect, "{value}");
        check(json!("sports"), Some("sports"));
        check(json!(2026), Some("2026"));
        check(json!(true), Some("true"));
        check(json!(["sports", "money"]), Some("sports"));
        for none in [json!(null), json!({"a": 1}), json!([]), json!([["a"]]), json!("x".repeat(257))] {
            check(none, None);
        }
    }
}
