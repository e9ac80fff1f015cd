//! `/v1/classifiers`: `definitions` makes, lists and deletes them (`request` is what is sent, `info` what is answered),
//! `predictions`, `evaluations` (`results` is what they tell) and `applications` ask them; `labels` reads labeled texts and documents.

pub mod applications;
pub mod definitions;
pub mod evaluations;
pub mod info;
pub mod labels;
pub mod predictions;
pub mod request;
pub mod results;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;

use super::Api;
use super::error::ApiError;
use super::extract::{path_param, path_params};
use super::guard::check_reach;
use crate::domain::{Caller, Classifier, ClassifierName, Code};

/// Codes of every operation that asks a classifier.
const ASKING: &[Code] = &[
    Code::ClassifierNotFound,
    Code::ClassifierNotReady,
    Code::CollectionNotFound,
    Code::ModelMismatch,
    Code::NoModel,
    Code::Overloaded,
];

/// The path parameter `classifier`.
pub struct ClassifierPath(pub ClassifierName);

impl FromRequestParts<Api> for ClassifierPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, ApiError> {
        let params = path_params(parts, api).await?;
        Ok(Self(path_param(&params, "classifier", ClassifierName::parse)?))
    }
}

/// A classifier that the caller may see: of a collection that it reaches, or of texts alone.
async fn visible(api: &Api, caller: &Caller, name: &ClassifierName) -> Result<Classifier, ApiError> {
    let classifier = api.service.get_classifier(name).await?;
    check_visible(caller, &classifier)?;
    Ok(classifier)
}

/// Refuses a classifier that learns from a collection that the caller may not touch: its answers quote documents.
fn check_visible(caller: &Caller, classifier: &Classifier) -> Result<(), ApiError> {
    match &classifier.definition.source {
        Some(source) => check_reach(caller, &source.collection),
        None => Ok(()),
    }
}

/// Reads a probability of a request.
fn probability(pointer: &str, value: Option<f32>) -> Result<Option<f32>, ApiError> {
    match value {
        Some(got) if !(0.0..=1.0).contains(&got) => {
            Err(ApiError::at(Code::InvalidRequest, pointer, format!("must be a number from 0 to 1, got {got}")))
        }
        value => Ok(value),
    }
}
