//! Making, listing, reading and deleting classifiers.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{HeaderName, LOCATION};

use super::info::{ClassifierInfo, ClassifierList};
use super::request::{CreateClassifierRequest, check};
use super::{ClassifierPath, check_name, is_visible, visible};
use crate::domain::{ClassifierName, Code};
use crate::http::api::Api;
use crate::http::cursor::{self, List};
use crate::http::error::ApiError;
use crate::http::extract::{KeyedBody, PageParameters, Parameters};
use crate::http::guard::{Sender, check_reach};
use crate::http::jobs::{Accepted, JobInfo, NoParameters, accepted};
use crate::http::operation_errors::{OperationErrors, READ_ERRORS, WRITE_ERRORS};

/// What each operation can answer besides success.
pub const ERRORS: &[OperationErrors] = &[
    (
        "create_classifier",
        &[
            WRITE_ERRORS,
            &[Code::UnknownLanguage, Code::InvalidFilter, Code::UnknownLabel, Code::InvalidTrainingSet],
            &[Code::CollectionNotFound, Code::ModelMismatch, Code::NoModel, Code::ClassifierExists, Code::TooManyClassifiers],
            &[Code::IdempotencyConflict],
        ],
    ),
    (
        "train_classifier",
        &[
            READ_ERRORS,
            &[Code::ClassifierNotFound, Code::ClassifierNotReady, Code::CollectionNotFound, Code::ModelMismatch, Code::NoModel],
            &[Code::InvalidTrainingSet, Code::Overloaded],
        ],
    ),
    ("list_classifiers", &[READ_ERRORS, &[Code::InvalidCursor]]),
    ("get_classifier", &[READ_ERRORS, &[Code::ClassifierNotFound]]),
    ("delete_classifier", &[READ_ERRORS, &[Code::ClassifierNotFound]]),
];

/// Create a classifier
///
/// Makes a classifier and accepts the job that trains it: it is `training` in the answer, and `ready` when the job has succeeded.
/// It learns from labeled documents of a collection (`source`) or labeled texts (`examples`), in some languages, and answers in
/// all of them; a `prototype` needs nothing but `labels`. What cannot be learned from is refused before anything is made.
#[utoipa::path(
    post, path = "/v1/classifiers", tag = "classifiers",
    params(
        ("idempotency-key" = Option<String>, Header, description = "A name of your choice for this request, 1 to 255 printable \
            ASCII characters: sent again within 24 hours, the request answers with the current classifier and does nothing."),
    ),
    request_body(content = CreateClassifierRequest, description = "The kind of classifier and what it learns from."),
    responses((
        status = 201, description = "The classifier was created; a job trains it.", body = ClassifierInfo,
        headers(("location" = String, description = "Path of the new classifier.")),
    )),
)]
pub async fn create_classifier(
    State(api): State<Api>,
    Sender(caller): Sender,
    KeyedBody(body, key): KeyedBody<CreateClassifierRequest>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<ClassifierInfo>), ApiError> {
    let new = check(body, api.service.limits())?;
    if let Some(source) = &new.definition.source {
        check_reach(&caller, &source.collection)?;
    }
    check_name(&caller, &new.name)?;
    let name = new.name.clone();
    let classifier = match api.service.create_classifier_once(new, key).await.map_err(ApiError::from) {
        Err(error) if error.code == Code::ClassifierExists => {
            let taken = api.service.get_classifier(&name).await;
            let hidden = taken.is_ok_and(|classifier| !is_visible(&caller, &classifier));
            // That it is there is not to be told.
            Err(if hidden { ApiError::at(Code::Forbidden, "/name", "the key may not use this name") } else { error })
        }
        created => created,
    }?;
    let location = format!("/v1/classifiers/{}", classifier.name);
    Ok((StatusCode::CREATED, [(LOCATION, location)], Json(classifier.into())))
}

/// List classifiers
///
/// Lists classifiers in the order of their names, page by page. With a restricted key a page leaves out those that learn from
/// other collections.
#[utoipa::path(
    get, path = "/v1/classifiers", tag = "classifiers", params(PageParameters),
    responses((status = 200, description = "One page of classifiers.", body = ClassifierList)),
)]
pub async fn list_classifiers(
    State(api): State<Api>,
    Sender(caller): Sender,
    Parameters(parameters): Parameters<PageParameters>,
) -> Result<Json<ClassifierList>, ApiError> {
    let page = parameters.page(&api, &List::Classifiers, ClassifierName::parse)?;
    let (found, next) = api.service.list_classifiers(page).await?;
    let seen = found.into_iter().filter(|classifier| is_visible(&caller, classifier));
    Ok(Json(ClassifierList {
        classifiers: seen.map(ClassifierInfo::from).collect(),
        next_cursor: next.map(|name| cursor::encode(&List::Classifiers, name.as_str())),
    }))
}

/// Get a classifier
///
/// Gives what a classifier is, whether it is ready, and what its training found.
#[utoipa::path(
    get, path = "/v1/classifiers/{classifier}", tag = "classifiers",
    params(("classifier" = String, Path, description = "Name of the classifier.", example = "topics")),
    responses((status = 200, description = "The classifier.", body = ClassifierInfo)),
)]
pub async fn get_classifier(
    State(api): State<Api>,
    Sender(caller): Sender,
    ClassifierPath(name): ClassifierPath,
    _: Parameters<NoParameters>,
) -> Result<Json<ClassifierInfo>, ApiError> {
    Ok(Json(visible(&api, &caller, &name).await?.into()))
}

/// Train a classifier again
///
/// Accepts a job that trains a classifier again: on the labels that its collection has now, or on the texts that it was made with,
/// and for the model that is loaded now. Until the job has succeeded the classifier answers as before, and if it fails or is
/// canceled also after; then `version` and `trained_at` say that it was trained anew. After a restart of the server the job begins
/// again. Labels that nothing can be learned from are refused before.
#[utoipa::path(
    post, path = "/v1/classifiers/{classifier}/train", tag = "classifiers",
    params(("classifier" = String, Path, description = "Name of the classifier.", example = "topics")),
    responses((
        status = 202, description = "The job was accepted.", body = JobInfo,
        headers(("location" = String, description = "Path of the job.")),
    )),
)]
pub async fn train_classifier(
    State(api): State<Api>,
    Sender(caller): Sender,
    ClassifierPath(name): ClassifierPath,
    _: Parameters<NoParameters>,
) -> Result<Accepted, ApiError> {
    visible(&api, &caller, &name).await?;
    Ok(accepted(api.service.retrain_classifier(&name).await?))
}

/// Delete a classifier
///
/// Deletes a classifier; documents that it was learned from stay, and so do labels that it wrote. A training that goes on is
/// canceled. A job that writes its labels, or judges it, fails at its next step with `classifier_not_found`.
#[utoipa::path(
    delete, path = "/v1/classifiers/{classifier}", tag = "classifiers",
    params(("classifier" = String, Path, description = "Name of the classifier.", example = "topics")),
    responses((status = 204, description = "The classifier was deleted.")),
)]
pub async fn delete_classifier(
    State(api): State<Api>,
    Sender(caller): Sender,
    ClassifierPath(name): ClassifierPath,
    _: Parameters<NoParameters>,
) -> Result<StatusCode, ApiError> {
    visible(&api, &caller, &name).await?;
    api.service.delete_classifier(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}
