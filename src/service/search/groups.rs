//! Groups hits: keeps a limited number of documents with the same language or the same metadata value.

use std::collections::HashMap;

use serde_json::Value;

use super::hits::Candidate;
use crate::domain::metadata::plain_number;
use crate::domain::{GroupKey, Grouping, Metadata, MetadataPath, PassageId};
use crate::service::error::Error;
use crate::service::open_collection::OpenCollection;

/// Keeps the first `grouping.size` candidates of each group, in order, and sets the group of each. A document without a
/// language or value, or whose value is not a string, number or boolean, forms a separate group.
pub(super) fn collapse(
    collection: &OpenCollection,
    candidates: Vec<Candidate>,
    grouping: &Grouping,
) -> Result<Vec<Candidate>, Error> {
    let values: HashMap<PassageId, Value> = match &grouping.by {
        GroupKey::Language => {
            let language = |candidate: &Candidate| Some((candidate.passage, Value::from(candidate.language?.code())));
            candidates.iter().filter_map(language).collect()
        }
        GroupKey::Metadata(path) => {
            let passages: Vec<PassageId> = candidates.iter().map(|candidate| candidate.passage).collect();
            let rows = collection.store.heads_of(&passages)?;
            rows.into_iter().filter_map(|(passage, head)| Some((passage, scalar(&head.metadata, path)?))).collect()
        }
    };
    Ok(keep_first(candidates, &values, grouping.size))
}

fn keep_first(mut candidates: Vec<Candidate>, values: &HashMap<PassageId, Value>, size: usize) -> Vec<Candidate> {
    // Counts by the JSON of the value, so that the number 1 and the text "1" are different groups.
    let mut counts: HashMap<String, usize> = HashMap::new();
    candidates.retain_mut(|candidate| {
        let Some(value) = values.get(&candidate.passage) else { return true };
        let count = counts.entry(value.to_string()).or_default();
        *count += 1;
        candidate.group = Some(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        *count <= size
    });
    candidates
}

fn scalar(metadata: &Metadata, path: &MetadataPath) -> Option<Value> {
    let value = path.find(metadata)?;
    match value {
        Value::Number(number) => Some(Value::Number(plain_number(number))),
        Value::String(_) | Value::Bool(_) => Some(value.clone()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(metadata: &[Value], size: usize, expect: &[(u64, Option<&str>)]) {
        let path = MetadataPath::parse("topic.name").unwrap();
        let value = |(key, metadata): (u64, &Value)| Some((PassageId(key), scalar(metadata.as_object()?, &path)?));
        let values = (0..).zip(metadata).filter_map(value).collect();
        let candidates = (0..metadata.len() as u64).map(|key| Candidate::example(key, "", 0.5));
        let first = keep_first(candidates.collect(), &values, size);
        let first: Vec<_> = first.iter().map(|candidate| (candidate.passage.0, candidate.group.as_deref())).collect();
        assert_eq!(first, expect);
    }

    fn with_topic(name: Value) -> Value {
        json!({"topic": {"name": name}})
    }

    #[test]
    fn each_group_keeps_its_first_hits() {
        let metadata = [with_topic(json!("a")), with_topic(json!("a")), with_topic(json!("b")), with_topic(json!("a"))];
        check(&metadata, 1, &[(0, Some("a")), (2, Some("b"))]);
        check(&metadata, 2, &[(0, Some("a")), (1, Some("a")), (2, Some("b"))]);
    }

    #[test]
    fn values_are_compared_by_type_and_value() {
        check(
            &[with_topic(json!(1)), with_topic(json!("1")), with_topic(json!(1.0)), with_topic(json!(true))],
            1,
            &[(0, Some("1")), (1, Some("1")), (3, Some("true"))],
        );
    }

    #[test]
    fn documents_without_a_scalar_value_are_groups_of_their_own() {
        let metadata = [json!({}), json!({}), with_topic(json!(null)), with_topic(json!(["a"])), json!({"topic": "a"})];
        check(&metadata, 1, &[(0, None), (1, None), (2, None), (3, None), (4, None)]);
    }
}
