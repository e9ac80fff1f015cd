//! `/v1/classifiers/{classifier}/apply`: writes labels into documents, as a job.

use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::labels::parse_target_path;
use super::{ClassifierPath, check_threshold, visible_classifier};
use crate::domain::json::singles;
use crate::domain::{Caller, CollectionName, DistinctJson, LabeledDocuments, MetadataPath};
use crate::http::api::Api;
use crate::http::error::{ApiError, invalid};
use crate::http::jobs::AcceptedJob;
use crate::http::middleware::auth::check_access;
use crate::http::request::extract::JsonBody;
use crate::http::request::filter::{self, FilterNode};
use crate::http::request::values::check_parsed;

/// Which documents get labels, and where.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyClassifierRequest {
    /// The collection, by its name or an alias.
    pub collection: String,
    /// Metadata path for the label: a string, or with `multi_label` an array of strings. Where the classifier abstains,
    /// an existing value is removed. A document in which the path leads through a value that is not an object is not changed.
    #[schema(examples("predicted.topic"))]
    pub field: String,
    /// Metadata path for the probability of the most likely label, also if that is below the threshold; not written by default.
    #[schema(examples("predicted.probability"))]
    pub probability_field: Option<String>,
    /// Only documents that match.
    #[schema(value_type = Option<FilterNode>)]
    pub filter: Option<DistinctJson>,
    /// Replaces the classifier's own threshold, 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    #[serde(default, deserialize_with = "singles")]
    pub threshold: Option<f32>,
}

/// Apply a classifier
///
/// Starts a job that writes the labels of a collection's documents into their metadata. Embeddings do not change. The job resumes
/// after a restart. Its details count `documents`, `labeled`, `abstained`, `changed` (skipped because their text changed
/// meanwhile) and `failed` (their metadata would have become too large, or a path leads through a value that is not an object).
/// If you cancel it, the labels written so far are kept. It cannot write to the field that the classifier learns from.
#[utoipa::path(
    post, path = "/v1/classifiers/{classifier}/apply", tag = "classifiers",
    request_body(content = ApplyClassifierRequest, description = "Which documents get labels, and where."),
    responses(AcceptedJob),
)]
pub async fn apply_classifier(
    State(api): State<Api>,
    caller: Caller,
    ClassifierPath(name): ClassifierPath,
    JsonBody(body): JsonBody<ApplyClassifierRequest>,
) -> Result<AcceptedJob, ApiError> {
    let collection = check_parsed("/collection", CollectionName::parse(&body.collection))?;
    check_access(&caller, &collection)?;
    let multi_label = visible_classifier(&api, &caller, &name).await?.definition.multi_label;
    let levels_max = api.service.limits().metadata_depth_max;
    let read = |pointer: &str, text: &str, is_array| check_parsed(pointer, parse_target_path(text, is_array, levels_max));
    let field = read("/field", &body.field, multi_label)?;
    let probability_field = body.probability_field.map(|text| read("/probability_field", &text, false)).transpose()?;
    let within = |one: &MetadataPath, other: &MetadataPath| one.keys().starts_with(other.keys());
    if let Some(other) = probability_field.as_ref().filter(|other| within(other, &field) || within(&field, other)) {
        return invalid("/probability_field", format!("must not overlap with field, got {other} and {field}"));
    }
    let limits = api.service.limits();
    let documents = LabeledDocuments { collection, field, filter: filter::parse(body.filter, limits)? };
    let threshold = check_threshold(body.threshold)?;
    Ok(AcceptedJob(api.service.apply_classifier(&name, documents, probability_field, threshold).await?))
}
