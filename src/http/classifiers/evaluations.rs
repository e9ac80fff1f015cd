//! Evaluates a classifier on labeled data: `/v1/classifiers/{classifier}/evaluate` at once,
//! `/v1/classifiers/{classifier}/evaluations` as a job, whose result is at `/v1/jobs/{job}/evaluation`.

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use utoipa::ToSchema;

use super::labels::{self, LabeledDocumentsInput, LabeledTextInput};
use super::{ClassifierPath, check_threshold, visible_classifier};
use crate::domain::json::singles;
use crate::domain::{Caller, Evaluation, EvaluationSet};
use crate::http::api::Api;
use crate::http::error::{ApiError, invalid};
use crate::http::jobs::{AcceptedJob, VisibleJob};
use crate::http::middleware::auth::check_access;
use crate::http::request::extract::JsonBody;
use crate::service::json::{object, some_object, some_objects};

/// What to evaluate a classifier with: exactly one of `documents` and `examples`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EvaluateRequest {
    /// Labeled documents, at most 20000, of which at most 1000 may still be without embeddings. Use `/evaluations` for more.
    #[serde(default, deserialize_with = "some_object")]
    pub documents: Option<LabeledDocumentsInput>,
    /// Labeled texts, at most 10000. They are embedded first, and thousands of them take longer than a request may; store those
    /// as documents instead.
    #[serde(default, deserialize_with = "some_objects")]
    #[schema(max_items = 10000)]
    pub examples: Option<Vec<LabeledTextInput>>,
    /// Replaces the classifier's own threshold, 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    #[serde(default, deserialize_with = "singles")]
    pub threshold: Option<f32>,
}

/// What a job evaluates a classifier with.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartEvaluationRequest {
    /// Labeled documents, at most 1000000.
    #[serde(deserialize_with = "object")]
    pub documents: LabeledDocumentsInput,
    /// Replaces the classifier's own threshold, 0 to 1.
    #[schema(minimum = 0, maximum = 1)]
    #[serde(default, deserialize_with = "singles")]
    pub threshold: Option<f32>,
}

/// Evaluate a classifier
///
/// Predicts labels for labeled documents or texts and compares them with the given ones: overall, per label and per language,
/// with the confusion matrix, the gap between the training language and the others, and the calibration of the probabilities. A
/// `knn` never uses a document as its own neighbor. An `mlp` scores too high on its training examples, so hold some out with a
/// filter. Use `/evaluations` for a large collection.
#[utoipa::path(
    post, path = "/v1/classifiers/{classifier}/evaluate", tag = "classifiers",
    request_body(content = EvaluateRequest, description = "The labeled documents or texts."),
    responses((status = 200, description = "How well the classifier performs.", body = Evaluation)),
)]
pub async fn evaluate_classifier(
    State(api): State<Api>,
    caller: Caller,
    ClassifierPath(name): ClassifierPath,
    JsonBody(body): JsonBody<EvaluateRequest>,
) -> Result<Json<Evaluation>, ApiError> {
    let limits = api.service.limits();
    let threshold = check_threshold(body.threshold)?;
    let classifier = visible_classifier(&api, &caller, &name).await?;
    let set = match (body.documents, body.examples) {
        (Some(documents), None) => EvaluationSet::Documents(labels::parse_labeled_documents(documents, "/documents", limits)?),
        (None, Some(examples)) => {
            EvaluationSet::Texts(labels::parse_examples(examples, classifier.definition.multi_label, limits)?)
        }
        _ => return invalid("", "must have exactly one of documents and examples"),
    };
    if let EvaluationSet::Documents(documents) = &set {
        check_access(&caller, &documents.collection)?;
    }
    Ok(Json(api.service.evaluate(&name, set, threshold).await?))
}

/// Start an evaluation
///
/// Starts a job that does the same as `/evaluate` with all labeled documents of a collection. It evaluates the classifier as it
/// is when the job starts, even if it is trained again meanwhile, and starts over after a restart. Once it has succeeded,
/// `/v1/jobs/{job}/evaluation` has the result, as long as the job is kept. It fails if the classifier or a collection is deleted,
/// if a document's value is not a label, or if the classifier lacks a label.
#[utoipa::path(
    post, path = "/v1/classifiers/{classifier}/evaluations", tag = "classifiers",
    request_body(content = StartEvaluationRequest, description = "The labeled documents."),
    responses(AcceptedJob),
)]
pub async fn start_evaluation(
    State(api): State<Api>,
    caller: Caller,
    ClassifierPath(name): ClassifierPath,
    JsonBody(body): JsonBody<StartEvaluationRequest>,
) -> Result<AcceptedJob, ApiError> {
    let threshold = check_threshold(body.threshold)?;
    visible_classifier(&api, &caller, &name).await?;
    let documents = labels::parse_labeled_documents(body.documents, "/documents", api.service.limits())?;
    check_access(&caller, &documents.collection)?;
    Ok(AcceptedJob(api.service.start_evaluation(&name, documents, threshold).await?))
}

/// Get an evaluation
///
/// Returns the result of a job that evaluated a classifier.
#[utoipa::path(
    get, path = "/v1/jobs/{job}/evaluation", tag = "classifiers",
    responses((status = 200, description = "How well the classifier performs.", body = Evaluation)),
)]
pub async fn get_evaluation(State(api): State<Api>, VisibleJob(job): VisibleJob) -> Result<Json<Evaluation>, ApiError> {
    Ok(Json(api.service.evaluation_of_job(&job.id).await?))
}
