//! `/v1/classifiers`: `definitions` creates, lists and deletes them (`request` and `info` are the request and the response),
//! `predictions`, `evaluations` and `applications` use them; `labels` parses labeled texts and documents.

pub mod applications;
pub mod definitions;
pub mod evaluations;
pub mod info;
pub mod labels;
pub mod predictions;
pub mod request;

use super::api::Api;
use super::error::ApiError;
use crate::domain::{Caller, Classifier, ClassifierName, Code, CollectionName};
use crate::http::request::extract::path_parameter;
use crate::http::request::values::check_number;

path_parameter!(ClassifierPath, "classifier", ClassifierName, ClassifierName::parse);

/// A classifier that the caller may see: one of a collection that it can access, or of texts alone. To other callers it seems
/// not to exist.
async fn visible_classifier(api: &Api, caller: &Caller, name: &ClassifierName) -> Result<Classifier, ApiError> {
    let classifier = api.service.get_classifier(name).await?;
    if is_visible(caller, &classifier) {
        return Ok(classifier);
    }
    Err(ApiError::new(Code::ClassifierNotFound, format!("there is no classifier {name}")))
}

/// Whether the caller may see a classifier. It may not if the classifier learns from a collection that the caller cannot
/// access, because predictions quote documents.
fn is_visible(caller: &Caller, classifier: &Classifier) -> bool {
    classifier.definition.source.as_ref().is_none_or(|source| caller.may_access(&source.collection))
}

/// Refuses a name to a restricted key unless it is that of one of its collections, alone or followed by a dot and more. All
/// callers share the names, so a name that is taken would reveal a classifier that the key may not see.
fn check_name(caller: &Caller, name: &ClassifierName) -> Result<(), ApiError> {
    let Some(collections) = caller.collections() else { return Ok(()) };
    let after = |collection: &CollectionName| {
        let rest = name.as_str().strip_prefix(collection.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if collections.iter().any(after) {
        return Ok(());
    }
    let detail = format!(
        "must be named after one of the key's collections, such as {}.topics, got {name}",
        collections.first().map_or("news", CollectionName::as_str)
    );
    Err(ApiError::at(Code::Forbidden, "/name", detail))
}

fn check_threshold(threshold: Option<f32>) -> Result<Option<f32>, ApiError> {
    threshold.map(|got| check_number("/threshold", got, 0.0..=1.0)).transpose()
}
